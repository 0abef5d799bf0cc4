"""Options for raw papers, and for the training papers next to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from albert_rc.cli.console import say

if TYPE_CHECKING:
    from albert_rc.papers.schema import PaperSet, Passage

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of the papers: cloze, race, dream, squad, or a task of GLUE (cola, sst-2, "
        "mrpc, sts-b, qqp, mnli, qnli, rte, wnli) (default: recognised).",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse papers that need a guess, such as blanks glued to a word, in place of reading "
        "them with a warning.",
    ),
]
TrainingPapers = Annotated[
    Path | None,
    typer.Option(
        help="Training papers, for the baseline without reading (default: the train split next to "
        "GOLD)."
    ),
]


def say_unread(raw: Path) -> None:
    """Report what is next to the splits of a collection and not read."""
    from albert_rc.papers.formats import collections_in, unread_beside

    for place in collections_in(raw):
        say(f"note: {place} has splits of its own and was not read; run the command on it, too")
    unread = unread_beside(raw)
    for place, why in unread[:3]:
        say(
            f"warning: {place} was not read, because {why}; run the command on it alone, or move it"
        )
    if len(unread) > 3:
        say(f"warning: nor were {len(unread) - 3:,} more files or folders in {raw}")


def training_passages(train: Path | None, gold: Path, papers: PaperSet) -> Sequence[Passage] | None:
    """The training papers of `--train`, or those next to the gold ones, if any."""
    from albert_rc.papers.formats import read_split, training_beside

    train = train or training_beside(gold)
    if train is None:
        return None
    passages = read_split(train, format_name=papers.format).passages
    say(f"training papers: {train} ({len(passages):,} usable)")
    return passages
