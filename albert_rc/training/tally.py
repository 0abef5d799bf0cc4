"""Running sums of a training run, and its reports."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class StepReport:
    """The values that the progress bar shows after a step."""

    step: int
    total_steps: int
    epoch: float
    figures: dict[str, float]
    """See `Objective.report`."""
    unit: str
    """Name of the items of a batch."""
    items_per_second: float
    best_score: float | None


@dataclass
class TrainResult:
    """Outcome of a run."""

    steps: int
    total_steps: int
    best_score: float | None
    best_step: int
    stopped_early: bool
    """Whether the score did not improve for `patience` evaluations."""
    paused: bool
    """Whether the time limit was reached; the state is saved."""
    seconds: float
    first_step: int = 0
    """The step that a resumed run went on from."""
    restarts: int = 0
    """Number of restarts after a collapse, each with half the learning rate."""
    stop_asked: bool = False
    """Whether Ctrl-C or SIGTERM came when the run was ending anyway."""


@dataclass
class Tally:
    """Running sums of the last steps, kept on the device until they are read."""

    parts: list[Tensor] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    items: int = 0

    def add(self, sums: Tensor, items: int) -> None:
        """Add the sums of a step."""
        self.parts.append(sums)
        self.items += items

    def totals(self) -> list[float]:
        """The sums so far, on the host; without steps that were skipped, unless all were."""
        part_SX = torch.stack(self.parts).double().cpu()
        finite_SX = part_SX[part_SX.isfinite().all(1)]
        return [float(x) for x in (finite_SX if len(finite_SX) else part_SX).sum(0)]
