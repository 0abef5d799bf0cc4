"""Options for raw papers, and for the training papers next to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from albert_rc.cli.console import say

if TYPE_CHECKING:
    from albert_rc.papers.schema import PaperSet, Passage, Problem

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of the papers: cloze, race, dream, squad, or a task of GLUE (cola, sst-2, "
        "mrpc, sts-b, qqp, mnli, qnli, rte, wnli) (default: detected).",
    ),
]
OptionFormat = Annotated[
    str | None,
    typer.Option(
        "--format", help="Format of the papers: cloze, race or dream (default: detected)."
    ),
]
"""`Format` of commands for papers with options."""
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse papers that can only be read by guessing, for example with blanks attached to "
        "a word, instead of warning about them.",
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        help="File with the right answers, in the format of answer.json, for papers that do not "
        "contain them."
    ),
]
TrainingPapers = Annotated[
    Path | None,
    typer.Option(
        help="Training papers, for the baseline that does not read the passages, and for the "
        "accuracy without passages that are also in training (default: the train split next to "
        "GOLD)."
    ),
]


def say_unread(raw: Path) -> None:
    """Report papers next to the splits of a collection that are not read."""
    from albert_rc.io.messages import counted
    from albert_rc.papers.formats import unread_beside
    from albert_rc.papers.splits import collections_in

    for place in collections_in(raw):
        say(f"note: {place} has its own splits and was not read; run the command on it separately")
    unread = unread_beside(raw)
    for place, why in unread[:3]:
        say(
            f"warning: {place} was not read, because {why}; run the command on it separately, or "
            "move it"
        )
    if len(unread) > 3:
        more = counted(len(unread) - 3, "more file or folder", "more files or folders")
        say(f"warning: not read either: {more} in {raw}")


def say_problems(problems: Iterable[Problem]) -> None:
    """Report what was left out of papers, or read by guessing; not errors."""
    from albert_rc.io.messages import first_of
    from albert_rc.papers.formats import SHOWN

    lines = [f"warning: {each}" for each in problems if each.severity == "warning"]
    for line in first_of(lines, SHOWN, "more warnings; `albert-rc doctor --json` lists all"):
        say(line)


def read_graded(gold: Path, key: Path | None, format_: str | None) -> PaperSet:
    """The papers of GOLD, with the right answers of `--key` if it is given; reports warnings.

    Raises:
        DataError: papers have errors, or the key does not fit them.
    """
    from albert_rc.papers.formats import read_good
    from albert_rc.scoring.evaluate import with_key

    papers = read_good(gold, format_)
    say_problems(papers.problems)
    return papers if key is None else with_key(papers, key)


def training_passages(train: Path | None, gold: Path, papers: PaperSet) -> Sequence[Passage] | None:
    """The training papers of `--train`, or those next to the gold papers, if any.

    Raises:
        UsageError: the gold papers are among them, or they among these; or several splits.
        DataError: none of them can be read.
    """
    from albert_rc.errors import DataError, UsageError
    from albert_rc.io.messages import listed
    from albert_rc.papers.formats import read_split, require_one_split
    from albert_rc.papers.splits import training_beside

    if train is not None:
        require_one_split(train)
        mine, graded = train.resolve(), gold.resolve()
        if mine == graded:
            raise UsageError(
                f"--train {train}: these are the graded papers; give the training papers"
            )
        if mine in graded.parents or graded in mine.parents:
            raise UsageError(
                f"--train {train} and the graded papers {gold} hold some of the same papers; give "
                "the training papers alone"
            )
    found = train or training_beside(gold)
    if found is None:
        return None
    split = read_split(found, format_name=papers.format)
    passages = split.passages
    if train is not None and not passages:
        reasons = listed(list(map(str, split.errors)), 3)
        raise DataError(
            f"--train {train}: none of its papers can be read as {papers.format} papers:{reasons}"
        )
    say(f"training papers: {found} ({len(passages):,} usable)")
    if passages and not any(passage.is_answered for passage in passages):
        say(
            f"note: {found} has no right answers, so the accuracy without reading is not known; "
            "only shared passages are looked for"
        )
    return passages
