"""Trainings that follow each other, in slices that stop and go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albert_rc.io.atomic import atomic_path
from albert_rc.training.checkpoint import states
from experiments.shared.command import command


@dataclass(frozen=True)
class Phase:
    """One command that trains, from the weights of the phase before."""

    name: str
    command: str
    data: str
    options: dict[str, object]


def go_on(phases: Sequence[Phase], start: Path, inputs: Path, runs: Path, minutes: float) -> bool:
    """Go on with the first phase that is not done, and with the next, while there is time.

    Args:
        phases: in order.
        start: the model that the first one begins with.
        inputs: folder of the phases' data.
        runs: folder of the phases' runs; `NAME.done` there says that a phase is done.
        minutes: how long.

    Returns:
        Whether all are done.
    """
    ends = time.monotonic() + 60 * minutes
    for phase in phases:
        run, mark = runs / phase.name, runs / f"{phase.name}.done"
        if not mark.is_file():
            left = (ends - time.monotonic()) / 60
            if left < 0.3 or "paused" in _run(inputs / phase.data, phase, start, run, left):
                return False
            with atomic_path(mark) as temporary:
                temporary.write_text("done\n")
        start = run
    return True


def resumed(run: Path) -> list[str]:
    """The option that goes on with a run that was stopped; none if it has saved no state yet."""
    return ["--resume"] if states(run) else []


def _run(data: Path, phase: Phase, start: Path, run: Path, minutes: float) -> str:
    options = [part for option in phase.options.items() for part in option]
    return command(
        phase.command, "--data", data, "--model", start, "--out", run, *options,
        "--minutes", minutes, *resumed(run),
    )  # fmt: skip
