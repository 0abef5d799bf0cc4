"""Common parts of the training commands: the run's folder, its start and its end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from albert_rc.cli.console import TrainBar, say
from albert_rc.errors import Interrupted
from albert_rc.io.messages import counted

if TYPE_CHECKING:
    from albert_rc.runtime.devices import Processes
    from albert_rc.training.memory.planner import Levers
    from albert_rc.training.runs.prepared import PreparedRun
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


def run(
    prepared: PreparedRun,
    out: Path,
    resume: bool,
    seconds: float | None,
    files: Mapping[str, bytes] | None = None,
) -> TrainResult:
    """Run a training in a folder, with messages before and its progress on the console.

    `files` are written into the folder of a new run.
    """
    is_main = prepared.group.is_main
    if is_main:
        _announce(prepared)
    trainer = prepared.trainer(out, files)
    with TrainBar(is_main) as shown:
        return trainer.run(resume, seconds, on_step=shown.step, on_event=say)


def _announce(prepared: PreparedRun) -> None:
    """Print the model, the settings and the data before training."""
    count = sum(p.numel() for p in prepared.loaded.model.parameters())
    for line in prepared.loaded.report.lines():
        say(line)
    group = prepared.group
    ranks = f"{group.world} process{'es' * (group.world > 1)}"
    say(f"{count:,} parameters, {prepared.settings.precision}, {group.device}, {ranks}")
    for line in prepared.plan:
        say(line)
    train, dev = prepared.data
    say(f"train: {train}")
    say(f"dev: {dev or 'none; the last weights are kept'}")


def time_left(seconds: float | None, begun: float) -> float | None:
    """What preparation left of a time limit, if there is one.

    Args:
        seconds: the limit.
        begun: when preparation began, by `time.perf_counter`.
    """
    return None if seconds is None else seconds - (time.perf_counter() - begun)


def conclude(out: Path, result: TrainResult, best: str, given: Path | None = None) -> None:
    """Print a run's folder, progress and best score, and draw its curves.

    Ctrl-C while they are drawn is noted in the result: the run itself is complete.

    Args:
        out: the run's folder.
        result: its outcome.
        best: its best score, as the end of a sentence.
        given: the user's --out, if this is one of several runs in it.
    """
    from albert_rc.report.curves import draw_curves, read_curves, spark_lines

    steps = counted(result.total_steps if result.paused else result.steps, "step")
    done = f"{result.steps:,} of {steps}" if result.paused else steps
    now = result.steps - result.first_step
    if result.first_step:
        done += f", {now:,} of them now" if now else ", all of them already done"
    took = f" in {result.seconds:.0f} s" if now else ""
    typer.echo(f"{out}: {done}{took}{best}")
    if result.restarts:
        typer.echo(
            f"{counted(result.restarts, 'restart')} after a collapse, see {out / 'log.txt'}; "
            f"the final learning rate was 1/{2**result.restarts} of --learning-rate"
        )
    if result.paused:
        typer.echo(f"paused; give --out {given or out} --resume to continue")
    curves = read_curves(out)
    for line in spark_lines(curves):
        say(line)
    try:
        if drawn := draw_curves(out, curves):
            say(f"curves: {drawn[0]}")
    except (KeyboardInterrupt, Interrupted):  # the run itself is complete
        result.stop_asked = True
        say("stopped while the curves were drawn; all else is saved")
