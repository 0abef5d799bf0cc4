"""`albert-rc import`: printed exam papers to JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from albert_rc.cli.console import example, out, print_json, say
from albert_rc.cli.outputs import require_folder
from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import counted, first_of, one_line, visible

if TYPE_CHECKING:
    from albert_rc.printed.papers import Import, Paper

SHOWN = 12


@example("albert-rc import exam.docx exam.pdf --key answers.txt --out papers --split dev")
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Printed papers: .txt, .docx, .pdf, or pictures (.jpg, .png and others). A folder "
            "of pictures is one paper; each picture is a page."
        ),
    ],
    out_: Annotated[
        Path,
        typer.Option("--out", help="Folder to write the papers to, as OUT/cloze and OUT/race."),
    ],
    key: Annotated[
        Path | None, typer.Option(help="File with the answer key, if it is not in the papers.")
    ] = None,
    split: Annotated[
        Literal["train", "dev", "test"] | None,
        typer.Option(
            help="Split that the papers belong to: train, dev or test. It becomes a subfolder of "
            "OUT/cloze and OUT/race."
        ),
    ] = None,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            help="What to do with passages that have a problem, such as a question number whose "
            "place is unclear: stop, or skip them."
        ),
    ] = "stop",
    glosses: Annotated[
        Literal["drop", "keep"],
        typer.Option(
            help="What to do with translations in brackets after a word, as in "
            "appointment（约会）: drop or keep them."
        ),
    ] = "drop",
    unsure: Annotated[
        Literal["stop", "keep"],
        typer.Option(
            help="What to do with words of a picture that may have been misread: stop (see "
            "--on-error), or keep them with a note."
        ),
    ] = "stop",
    text: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the recognised text to, one file per paper, so that you can "
            "correct and import it."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Convert printed papers to JSON: passages with blanks, questions and answer keys.

    Reports what was recognised, and every question number whose place is unclear; nothing is
    guessed. The exit code is 3 if there is such a number, unless `--on-error skip` leaves its
    passage out.
    """
    from albert_rc.printed.build.write import earlier_papers, write_papers
    from albert_rc.printed.run import import_papers

    for flag, folder in (("--out", out_), ("--text", text)):
        if folder is not None:
            require_folder(flag, folder)
    imports = import_papers(files, key, glosses == "keep", unsure == "keep")
    if text is not None:
        _write_texts(imports, text)
    papers = [paper for found in imports for paper in found.papers]
    whole = [paper for paper in papers if paper.whole]
    troubles = [trouble for found in imports for trouble in found.all_troubles()]
    stopped = bool(troubles) and on_error == "stop"
    written, replaced = ([], []) if stopped else write_papers(whole, out_, split)
    earlier = [] if stopped else earlier_papers(imports, out_, split, written)
    if json:
        print_json(_as_json(imports, written, earlier))
    else:
        for found in imports:
            _show(found)
        for path in written:
            typer.echo(f"wrote {path}")
    if stopped:
        raise DataError(
            f"{counted(len(troubles), 'problem')}, listed above; no paper was written. Fix them, "
            "or leave out the passages concerned with --on-error skip"
        )
    if papers and not whole:
        raise DataError(
            f"no complete passage among {len(papers):,}: {counted(len(troubles), 'problem')}, "
            "listed above; fix them"
        )
    if not whole:
        raise DataError("no passage with options found; docs/import.md shows the supported layouts")
    _warn([found for found in imports if found.source != str(key)], replaced, earlier)
    if split is None:
        _warn_of_splits({path.parent for path in written})
    if troubles:
        left = len(papers) - len(whole)
        problems = counted(len(troubles), "problem")
        left_out = f"{counted(left, 'passage')} left out because of " if left else ""
        say(f"{left_out}{problems}, listed above")


def _warn(imports: list[Import], replaced: list[Path], earlier: list[Path]) -> None:
    """Warn of passages that may be missing, and of outdated files."""
    for found in imports:
        if not found.papers:
            say(f"warning: {found.source}: no passage with options in it")
    for path in replaced:
        say(
            f"warning: {path.with_suffix('')} existed with different content, which is now in "
            f"{path}; if that is another exam, give each exam its own --out"
        )
    if earlier:
        say(
            f"warning: {', '.join(map(str, earlier))}: left from an earlier import of a "
            "file of this name; delete them if they are outdated, since `predict` would answer "
            "them, too"
        )


def _warn_of_splits(folders: set[Path]) -> None:
    """Warn if papers were written next to splits, where `preprocess` does not read them."""
    from albert_rc.papers.splits import splits_in

    for folder in sorted(folders):
        if inside := splits_in(folder).keys():
            say(
                f"warning: {folder} has the split {' and '.join(sorted(inside))}, and now papers "
                "outside of it, which `preprocess` does not read; import them again with --split"
            )


def _write_texts(imports: list[Import], folder: Path) -> None:
    from albert_rc.io.atomic import write_bytes

    paths = [folder / f"{Path(found.source).stem}.txt" for found in imports if found.text]
    if len({path.name.lower() for path in paths}) < len(paths):
        raise UsageError("--text: two papers have the same name; import them one by one")
    for path in paths:
        if path.exists():
            raise UsageError(f"{path} already exists; give another folder with --text")
    for found, path in zip([f for f in imports if f.text], paths, strict=True):
        write_bytes(path, ("\n".join(found.text) + "\n").encode())
        say(f"the text of {found.source} is in {path}")


def _print(line: str) -> None:
    """Print a line about a paper literally: no markup in brackets, and no escape sequences."""
    out.print(visible(line), markup=False)


def _show(found: Import) -> None:
    out.print(one_line(found.source), style="bold", markup=False)
    for note in found.notes + found.doubt_notes:
        _print(f"  note: {note}")
    for paper in found.papers:
        _show_paper(paper)
    for trouble in found.troubles:
        _print(f"  problem: {trouble}")
    if found.left_out:
        _print("  not part of any passage:")
    lines = [f"{line.place} ({line.why}): {_short(line.text)}" for line in found.left_out]
    for line in first_of(lines, SHOWN, "more (--json lists all)"):
        _print(f"    {line}")


def _show_paper(paper: Paper) -> None:
    from albert_rc.printed.papers import spans

    kind = "blanks" if paper.kind == "cloze" else "questions"
    sizes = sorted({len(options) for options in paper.options})
    options = " or ".join(map(str, sizes)) or "no"
    key = "key found" if paper.answers is not None else "no key"
    state = "" if paper.whole else "INCOMPLETE, "
    _print(
        f"  {paper.name}: {state}{kind} {spans(paper.numbers) or 'none'}, {options} options each, "
        f"{key}; begins: {_short(paper.article)}"
    )
    for note in dict.fromkeys(paper.notes):
        _print(f"    note: {note}")
    for trouble in paper.troubles:
        _print(f"    problem: {trouble}")


def _short(text: str) -> str:
    from albert_rc.printed.lines import shortened

    return shortened(text, 60)


def _as_json(imports: list[Import], written: list[Path], earlier: list[Path]) -> dict[str, Any]:
    return {
        "files": [
            {
                "file": found.source,
                "notes": found.notes + found.doubt_notes,
                "papers": [{"name": p.name, **p.summary()} for p in found.papers],
                "unplaced": [
                    {
                        "numbers": list(t.numbers),
                        "place": t.place,
                        "problem": t.reason,
                        "way_out": t.way_out,
                    }
                    for t in found.all_troubles()
                ],
                "left_out": [
                    {"place": e.place, "text": e.text, "why": e.why} for e in found.left_out
                ],
            }
            for found in imports
        ],
        "written": [str(path) for path in written],
        "earlier": [str(path) for path in earlier],
    }
