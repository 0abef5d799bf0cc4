"""Writing of papers: named after the printed paper, and checked by our own reader first."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.io.atomic import write_files
from albert_rc.io.files import natural_key
from albert_rc.io.json import as_json, to_json
from albert_rc.io.messages import counted
from albert_rc.papers.parse import Problems, parse_cloze, parse_race
from albert_rc.printed.papers import FOLDERS, Import, Paper, Trouble, spans

_PARSE = {"cloze": (parse_cloze, ".json"), "choice": (parse_race, ".txt")}


def safe_stem(path: Path) -> str:
    """A file's name without suffix, as a name that is valid on every system."""
    stem = re.sub(r"[^\w.-]+", "_", path.stem).strip("._-")
    return stem[:80] or "paper"


def require_own_names(paths: Sequence[Path]) -> None:
    """Refuse printed papers whose papers would have the same file names.

    Raises:
        UsageError: names two of them.
    """
    taken: dict[str, Path] = {}
    for path in paths:
        other = taken.setdefault(safe_stem(path).lower(), path)
        if other != path:
            raise UsageError(
                f"{path} and {other}: their papers would have the same names; "
                "rename one, or import them into two folders"
            )


def name_papers(imports: Sequence[Import]) -> None:
    """Name each paper after its file and its position in it."""
    for found in imports:
        stem = safe_stem(Path(found.source))
        for number, paper in enumerate(found.papers, 1):
            paper.name = f"{stem}-{number}{_PARSE[paper.kind][1]}"


def check_readable(paper: Paper) -> None:
    """Read a paper as `doctor` and `preprocess` do, and add their problems to it."""
    parse, _ = _PARSE[paper.kind]
    report = Problems(paper.name)
    passage = parse(as_json(paper.content()), paper.name, None, report)
    for problem in report.problems:
        if problem.severity == "error":
            reason = f"{spans(paper.numbers)}: {problem.message}"
            paper.troubles.append(Trouble((), paper.place, reason, "correct the paper there"))
        else:
            paper.notes.append(problem.message)
    if passage is not None and len(passage.questions) != len(paper.numbers):
        reason = (
            f"{spans(paper.numbers)}: was read back as "
            f"{counted(len(passage.questions), 'question')}"
        )
        paper.troubles.append(Trouble((), paper.place, reason, "correct the paper there"))


REPLACED = ".replaced"
"""Suffix of files replaced by a new import; no command reads them as papers."""


def write_papers(
    papers: Sequence[Paper], out: Path, split: str | None
) -> tuple[list[Path], list[Path]]:
    """Write papers below a folder, all of them or none: `OUT/cloze/SPLIT/`, `OUT/race/SPLIT/`.

    An existing file with different content, perhaps corrected by hand, is kept under another name.

    Returns:
        The papers' files, and the files with replaced content.
    """
    targets = {}
    for paper in papers:
        folder = out / FOLDERS[paper.kind] / (split or "")
        targets[folder / paper.name] = to_json(paper.content())
    replaced = {}
    for path, content in targets.items():
        if path.is_file() and (before := path.read_bytes()) != content:
            replaced[_free(path.with_name(path.name + REPLACED))] = before
    write_files(replaced | targets)
    return list(targets), list(replaced)


def _free(path: Path) -> Path:
    """The path, or the first with a number that does not exist: NAME.replaced-2 and so on."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(other for other in chain([path], numbered) if not os.path.lexists(other))


def earlier_papers(
    imports: Sequence[Import], out: Path, split: str | None, written: Sequence[Path]
) -> list[Path]:
    """Files from an earlier import of the same printed papers that this import did not write.

    They are not deleted, but commands that read the folder will read them too.

    Args:
        imports: the imports of this run.
        out: as for `write_papers`.
        split: as for `write_papers`.
        written: result of `write_papers`.
    """
    # A key's file has no papers, and none is named after it.
    stems = {safe_stem(Path(found.source)) for found in imports if found.papers}
    name = re.compile(r"(.+)-[0-9]+\.(?:json|txt)")
    folders = [out / folder / (split or "") for folder in FOLDERS.values()]
    there = {path for folder in folders if folder.is_dir() for path in folder.iterdir()}
    return [
        path
        for path in sorted(there - set(written), key=lambda path: natural_key(str(path)))
        if (match := name.fullmatch(path.name)) and match[1] in stems
    ]
