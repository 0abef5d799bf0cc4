"""How a run is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from albert_rc.errors import UsageError

COLLAPSE = {
    "warn": "say so, and go on",
    "stop": "end the run; its last good state and best weights stay",
    "restart": "go back, with half the learning rate and another data order",
}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a run is trained. The defaults are the recipe of the ASC20-21 report."""

    epochs: int = 4
    batch_size: int = 2
    """Items of one optimiser step, over all processes and micro-batches."""
    accumulation: int = 1
    """Micro-batches that each process cuts its share of a batch into."""
    learning_rate: float = 1e-5
    warmup: float = 0.1
    """Share of the steps."""
    weight_decay: float = 0.01
    clip: float = 1.0
    """Largest norm of the gradient; 0 for none."""
    max_steps: int | None = None
    """Optimiser steps in all; `epochs` decides where it is None."""
    eval_steps: int | None = None
    """Evaluate every N steps; after each epoch where it is None."""
    save_steps: int | None = None
    """Save the state to resume from every N steps; after each epoch where it is None."""
    keep: int = 2
    """States that stay: the newest, and older ones for the case that it is damaged."""
    patience: int | None = None
    """Stop after N evaluations in a row without a better one."""
    precision: str = "fp32"
    recompute: str = "nothing"
    """See `Compute.recompute`."""
    ffn_chunk: int | None = None
    """See `Compute.ffn_chunk`."""
    optimizer: str = "adamw"
    """A key of `train.optim.OPTIMIZERS`."""
    optimizer_states: str = "fp32"
    """How the optimiser's moments are kept: a key of `train.planner.STATES`."""
    mask_rate: float = 0.0
    """Share of the other words that are hidden, and asked for, as well."""
    mask_weight: float = 1.0
    """Weight of their loss, added to the questions'."""
    label_smoothing: float = 0.0
    """Share of the target that is spread over all options of a question."""
    r_drop: float = 0.0
    """Weight of the disagreement between two passes with different dropout; 0 for one pass."""
    fgm: float = 0.0
    """How far word embeddings are moved for a second, adversarial pass; 0 for none."""
    teacher_weight: float = 0.5
    """Weight of a teacher's probabilities, if there is one; the right answers have the rest."""
    ema: float = 0.0
    """Decay of the average of the weights, which is then what is measured and kept; 0 for none."""
    on_collapse: str = "warn"
    """What to do about a collapse that `train.guard` finds: a key of `COLLAPSE`."""
    max_restarts: int = 2
    """How often at most to go back."""
    seed: int = 0

    def __post_init__(self) -> None:
        positive = {
            "--epochs": self.epochs,
            "--batch-size": self.batch_size,
            "--accumulation": self.accumulation,
            "--max-steps": self.max_steps,
            "--eval-steps": self.eval_steps,
            "--save-steps": self.save_steps,
            "--keep": self.keep,
            "--patience": self.patience,
            "--max-restarts": self.max_restarts,
            "--ffn-chunk": self.ffn_chunk,
        }
        for flag, value in positive.items():
            if value is not None and value < 1:
                raise UsageError(f"{flag} {value} must be at least 1")
        numbers = {
            "--learning-rate": self.learning_rate,
            "--weight-decay": self.weight_decay,
            "--clip": self.clip,
            "--mask-weight": self.mask_weight,
            "--r-drop": self.r_drop,
            "--fgm": self.fgm,
        }
        for flag, number in numbers.items():
            if not (math.isfinite(number) and number >= 0):
                raise UsageError(f"{flag} {number} must be a number from 0 on")
        if self.mask_weight != 1 and not self.mask_rate:
            raise UsageError(f"--mask-weight {self.mask_weight} needs --mask-rate")
        if not self.learning_rate > 0:
            raise UsageError(f"--learning-rate {self.learning_rate} must be above 0")
        if self.on_collapse not in COLLAPSE:
            raise UsageError(f"--on-collapse {self.on_collapse}: choose from {', '.join(COLLAPSE)}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed {self.seed} must be from 0 to 2^63 - 1")
        self._require_shares()

    def _require_shares(self) -> None:
        """Refuse numbers that are not a share of something."""
        shares = {
            "--warmup": self.warmup,
            "--mask-rate": self.mask_rate,
            "--label-smoothing": self.label_smoothing,
            "--ema": self.ema,
        }
        for flag, share in shares.items():
            if not 0 <= share < 1:
                raise UsageError(f"{flag} {share} must be at least 0 and below 1")
        weight = self.teacher_weight
        if not 0 < weight <= 1:
            raise UsageError(f"--teacher-weight {weight} must be above 0 and at most 1")
