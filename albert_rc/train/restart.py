"""What is done about a collapse; going back to the last state that was good, or to the start."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from albert_rc.config import TrainConfig
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.seeds import mix
from albert_rc.train.checkpoint import Progress, load_state, save_state
from albert_rc.train.guard import ALWAYS, NOTE, Symptom
from albert_rc.train.parallel import DataParallel

START = "start"
"""The folder, in the run's, of the state that the run began with."""


class WayBack:
    """Where a run can go back to.

    Args:
        folder: the run's.
        parallel: the model, and who works along.
        optimizer: of its weights.
        scaler: of fp16 losses.
        settings: the recipe.
    """

    def __init__(
        self,
        folder: Path,
        parallel: DataParallel,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        settings: TrainConfig,
    ) -> None:
        self._folder = folder
        self._state = (parallel, optimizer, scaler)
        self._processes = parallel.processes
        self._settings = settings

    def keep_start(self, data: dict[str, Any]) -> None:
        """Keep the state that the run begins with, if it may be gone back to.

        Args:
            data: fingerprints of what is trained on.
        """
        self.forget_start()
        if self._settings.on_collapse == "restart":
            save_state(self._folder / START, *self._state, Progress(), self._settings, data)

    def forget_start(self) -> None:
        """Remove it: the run is over, or another one begins."""
        if self._processes.is_main:
            shutil.rmtree(self._folder / START, ignore_errors=True)
        self._processes.wait()

    def go(self, attempt: int, began: int, data: dict[str, Any]) -> Progress:
        """Put weights, moments and scale back; how far the run had come there.

        The saved state will do if it was good when it was saved, before the collapse began. One
        of an earlier attempt will not: going back to it has not helped.

        Args:
            attempt: the one that collapsed.
            began: the first step of the collapse.
            data: fingerprints of what is trained on.

        Raises:
            UsageError: there is nothing to go back to.
        """
        for folder in (self._folder, self._folder / START):
            try:
                progress = load_state(folder, *self._state, self._settings, data)
            except (CheckpointError, UsageError):
                continue
            good = progress.attempt == attempt and progress.guard.get("healthy", False)
            if folder.name == START or (good and progress.step <= began):
                return progress
        raise UsageError(
            f"--on-collapse restart: no good state in {self._folder} to go back to, and its start "
            "was not kept; begin anew, without --resume"
        )


def respond(symptom: Symptom, settings: TrainConfig, attempt: int) -> tuple[str, str]:
    """What to do about a symptom (a key of `COLLAPSE`), and what to say about it.

    Args:
        symptom: what was found.
        settings: the recipe, with what the user wants done.
        attempt: how often the run has gone back already.
    """
    sentence = f"step {symptom.step}: {symptom.sentence}"
    advice = f"lower --learning-rate {settings.learning_rate:g} or raise --warmup"
    if symptom.name in ("skipped", "recovered"):
        return "warn", sentence
    if symptom.weight == NOTE or (settings.on_collapse == "warn" and symptom.weight != ALWAYS):
        return "warn", f"{sentence}; if it stays so, {advice}"
    if settings.on_collapse == "restart" and attempt < settings.max_restarts:
        return "restart", sentence
    if settings.on_collapse == "restart" and symptom.weight != ALWAYS:
        # It may only start slowly, and then what it learns is worth more than its end.
        return "warn", f"{sentence}; {attempt} restart(s) did not help, so it goes on; {advice}"
    tried = f"; {attempt} restart(s) did not help" if attempt else ""
    return "stop", f"{sentence}: the run has diverged{tried}; {advice}"


def order_seed(seed: int, attempt: int) -> int:
    """The seed of an attempt's data order; the first has the run's own."""
    return mix(seed, attempt) if attempt else seed
