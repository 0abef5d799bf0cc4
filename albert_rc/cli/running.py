"""Common parts of the training commands: the run's folder, its start and its end."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from albert_rc.cli.console import say
from albert_rc.io.messages import counted

if TYPE_CHECKING:
    from albert_rc.checkpoints.load import Loaded
    from albert_rc.runtime.devices import Processes
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.memory.planner import Levers
    from albert_rc.training.tally import TrainResult


def levers_of(given: dict[str, Any]) -> Levers:
    """The user's choices about memory, removed from the options."""
    from albert_rc.training.memory.planner import Levers

    names = ("accumulation", "recompute", "optimizer_states")
    return Levers(*(given.pop(name, None) for name in names))


def alone_in(out: Path, group: Processes) -> AbstractContextManager[None]:
    """Lock the run's folder for this run, until the block ends."""
    from albert_rc.io.atomic import only_run

    return only_run(out) if group.is_main else nullcontext()


def batch_workers(workers: int | None, group: Processes) -> int:
    """Number of processes that make batches; by default up to 8 of the share of cores for a GPU."""
    from albert_rc.runtime.pool import cores

    if workers is None:
        of_rank = cores() // group.world
        return 0 if group.device.type == "cpu" else max(0, min(8, of_rank - 1))
    return workers


def announce(
    loaded: Loaded[Any],
    settings: TrainConfig,
    group: Processes,
    plan: list[str],
    train: str,
    dev: str | None,
) -> None:
    """Print the model, the settings and the data before training.

    Args:
        loaded: the model.
        settings: the recipe.
        group: the processes.
        plan: the memory plan as sentences.
        train: the training store.
        dev: selects the weights to keep; or None.
    """
    count = sum(p.numel() for p in loaded.model.parameters())
    for line in loaded.report.lines():
        say(line)
    ranks = f"{group.world} process{'es' * (group.world > 1)}"
    say(f"{count:,} parameters, {settings.precision}, {group.device}, {ranks}")
    for line in plan:
        say(line)
    say(f"train: {train}")
    say(f"dev: {dev or 'none; the last weights are kept'}")


def conclude(out: Path, result: TrainResult, best: str) -> None:
    """Print a run's folder, progress and best score, and draw its curves."""
    from albert_rc.report.curves import draw_curves, read_curves, spark_lines

    steps = counted(result.total_steps if result.paused else result.steps, "step")
    done = f"{result.steps:,} of {steps}" if result.paused else steps
    typer.echo(f"{out}: {done} in {result.seconds:.0f} s{best}")
    if result.restarts:
        typer.echo(
            f"{counted(result.restarts, 'restart')} after a collapse, see {out / 'log.txt'}; "
            f"the final learning rate was 1/{2**result.restarts} of --learning-rate"
        )
    if result.paused:
        typer.echo("paused; run the same command with --resume to continue")
    curves = read_curves(out)
    for line in spark_lines(curves):
        say(line)
    if drawn := draw_curves(out, curves):
        say(f"curves: {drawn[0]}")
