"""`albert-rc average`: the mean of several checkpoints' weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example


def average(
    models: Annotated[list[str], typer.Argument(help="Folders of weights; one run with --last.")],
    out: Annotated[Path, typer.Option(help="A new folder for the mean.")],
    last: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Average the newest N states of one run, as `train --set keep=N` leaves them.",
        ),
    ] = None,
) -> None:
    """One model out of several checkpoints of a run, often a little better than each.

    Runs of different seeds have no useful mean; put their answers together with `ensemble`.
    """
    from albert_rc.checkpoints.hub import resolve_source
    from albert_rc.errors import UsageError
    from albert_rc.training.runs.mean_weights import of_folders, of_states, write_mean

    like = resolve_source(models[0])
    if last is None:
        sources = of_folders(models)
    elif len(models) == 1:
        sources = of_states(like, last)
    else:
        raise UsageError("--last takes the states of one run; give one folder")
    count = write_mean(sources, like, out)
    typer.echo(f"{out}: the mean of {len(sources)} checkpoints, {count} tensors")


average.__doc__ = f"{average.__doc__}\n\n" + example(
    "albert-rc average models/run1 --last 3 --out models/run1-mean"
)
