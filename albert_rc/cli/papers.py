"""Options for papers that are read as they are, and for the training papers beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from albert_rc.cli.console import say

if TYPE_CHECKING:
    from albert_rc.data.schema import PaperSet, Passage

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Of the papers: cloze, race, dream, squad or a task of GLUE; seen by default.",
    ),
]
TrainingPapers = Annotated[
    Path | None,
    typer.Option(help="Training papers, for the no-reading baseline; beside GOLD by default."),
]


def training_passages(train: Path | None, gold: Path, papers: PaperSet) -> Sequence[Passage] | None:
    """The training papers of `--train`, or those that stand beside the gold ones, if any."""
    from albert_rc.data.readers import read_split, training_beside

    train = train or training_beside(gold)
    if train is None:
        return None
    passages = read_split(train, format_name=papers.format).passages
    say(f"training papers: {train} ({len(passages):,} usable)")
    return passages
