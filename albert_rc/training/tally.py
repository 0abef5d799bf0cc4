"""What is counted and reported while a run goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class StepReport:
    """What the progress bar shows after a step."""

    step: int
    total_steps: int
    epoch: float
    figures: dict[str, float]
    """`loss` and `accuracy` among them."""
    unit: str
    """What an item is: passages, sequences."""
    items_per_second: float
    best_score: float | None


@dataclass
class TrainResult:
    """How a run ended."""

    steps: int
    total_steps: int
    best_score: float | None
    best_step: int
    stopped_early: bool
    """No gain for as long as the recipe has patience."""
    paused: bool
    """Its time was up; the state is saved."""
    seconds: float
    restarts: int = 0
    """How often it went back after a collapse, each time with half the learning rate."""
    stop_asked: bool = False
    """Ctrl-C or SIGTERM came when nothing was left to do but to end the run."""


@dataclass
class Tally:
    """Running sums of the last steps, kept on the device until they are looked at."""

    parts: list[Tensor] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    items: int = 0

    def add(self, sums: Tensor, items: int) -> None:
        """Add what a step summed up."""
        self.parts.append(sums)
        self.items += items

    @property
    def steps(self) -> int:
        """Number of steps in it."""
        return len(self.parts)

    def totals(self) -> list[float]:
        """The sums so far, on the host."""
        return [float(x) for x in torch.stack(self.parts).double().sum(0).cpu()]
