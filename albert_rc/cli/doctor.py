"""`albert-rc doctor`: the problems of raw papers, file by file and blank by blank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from albert_rc.cli import settings
from albert_rc.cli.console import example, out, print_json, table
from albert_rc.cli.papers import Format, Strict, say_unread
from albert_rc.errors import DataError
from albert_rc.io.messages import first_of, shortened
from albert_rc.model.config import LONGEST

if TYPE_CHECKING:
    from albert_rc.stores.doctor import SplitCheck

SHOWN = 10


@example("albert-rc doctor papers --model albert/albert-xxlarge-v2")
def doctor(
    context: typer.Context,
    raw: Annotated[
        Path,
        typer.Argument(
            help="Raw papers: a folder with train, dev and test, one of these splits, or a file."
        ),
    ] = Path("data/raw_data"),
    model: Annotated[
        str | None,
        typer.Option(
            help="Model whose vocabulary counts the tokens: a folder, a hub id, or a model of the "
            "package."
        ),
    ] = None,
    format_: Format = None,
    max_length: Annotated[
        int,
        typer.Option(min=1, max=LONGEST, help="Length of the model's window in tokens."),
    ] = 512,
    strict: Strict = False,
    json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
) -> None:
    """Check raw papers: report problems, statistics of lengths and options, and overlap of splits.

    Nothing is written. The exit code is 3 if any paper cannot be used.
    """
    from albert_rc.checkpoints.hub import resolve_source
    from albert_rc.papers.formats import problems_found, read_collection
    from albert_rc.stores.doctor import check_collection
    from albert_rc.stores.encode import check_max_length
    from albert_rc.text.tokenizer import load_tokenizer

    if model is None:
        settings.need(context, "--model, whose vocabulary counts the tokens", "max_length")
    check_max_length(max_length)
    splits = read_collection(raw, format_, strict)
    say_unread(raw)
    tokenizer = None if model is None else load_tokenizer(resolve_source(model))
    checks = check_collection(splits, tokenizer, max_length)
    if json:
        print_json({check.name: check.as_json() for check in checks})
    else:
        for check in checks:
            _show(check, max_length)
        if tokenizer is None:
            out.print("Give --model for lengths in tokens and options with unknown characters.")
    errors = sum(len(check.errors) for check in checks)
    if errors:
        rejected = sum(check.rejected for check in checks)
        way_out = "fix them, or preprocess with --on-error skip" if rejected else "fix them"
        raise DataError(f"{problems_found(errors, rejected)}, listed above; {way_out}")


def _show(check: SplitCheck, max_length: int) -> None:
    from albert_rc.stores.encode_spans import LONGEST_QUESTION

    total = max(1, check.questions)
    rows = [
        ("usable papers", f"{check.papers:,}"),
        ("papers with an error", f"{check.rejected:,}"),
        ("warnings", f"{len(check.warnings):,}"),
        ("questions", f"{check.questions:,}"),
    ]
    if check.options_per_question:
        rows.append(("options per question", _counts(check.options_per_question)))
    given = ", ".join(f"{k} {v / total:.1%}" for k, v in check.answers.items())
    rows.append(("right answers", given))
    if check.scores is not None:
        scores = check.scores
        spread = f"{scores.least:g} to {scores.most:g}, mean {scores.mean:.2f}"
        rows.append(("scores", spread))
    if check.options_per_question:
        share = _share(check.options_of_several_words, check.options)
        rows.append(("options of several words", share))
    if check.tokens is not None:
        tokens = check.tokens
        spread = ", ".join(f"{k} {v}" for k, v in tokens.percentiles.items())
        rows += [
            ("tokens, percentiles", spread),
            (f"longer than {max_length} tokens", _listed(tokens.longer_than_window)),
        ]
        if tokens.questions_cut:
            rows.append(
                (f"questions cut at {LONGEST_QUESTION} tokens", f"{tokens.questions_cut:,}")
            )
        if tokens.options_of_several_pieces:
            share = _share(tokens.options_of_several_pieces, check.options)
            rows.append(("options of several pieces", share))
        if check.options_per_question:
            rows.append(("options with unknown characters", _listed(tokens.unspellable)))
    for name, shared in check.overlaps.items():
        where = "twice in this split" if name == check.name else f"also in {name}"
        ranked = sorted(shared, key=lambda o: -o.share)
        pairs = [f"{o.passage} ~ {o.other} ({o.share:.0%})" for o in ranked]
        rows.append((f"{where} (> 30% of 5-grams)", _listed(pairs)))
    table(f"{check.name} ({check.format})", ("", "found"), rows)
    for line in check.errors:
        out.print(f"  error: {line}", markup=False)
    warnings = [f"warning: {line}" for line in check.warnings]
    for line in first_of(warnings, SHOWN, "more warnings (--json lists all)"):
        out.print(f"  {line}", markup=False)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{k} ({v:,})" for k, v in counts.items())


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(1, whole):.1%})"


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    shown = "; ".join(map(shortened, names[:3]))
    return f"{len(names)}: {shown}{'; ...' if len(names) > 3 else ''}"
