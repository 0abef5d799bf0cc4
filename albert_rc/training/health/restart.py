"""The response to a collapse: restarting from the last good state, or from the start."""

from __future__ import annotations

import shutil
from dataclasses import replace

from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.messages import counted
from albert_rc.runtime.seeds import mix
from albert_rc.training.checkpoint import Checkpoints, Progress
from albert_rc.training.config import TrainConfig
from albert_rc.training.health.guard import ALWAYS, NOTE, Symptom

START = ".start"
"""Subfolder for the state at the start of the run; no run gets this name."""


class WayBack:
    """The states that a run can be restarted from."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._saved = checkpoints
        self._start = replace(checkpoints, folder=checkpoints.folder / START, damaged=[])

    def keep_start(self) -> None:
        """Save the initial state, if the run may be restarted from it."""
        self.forget_start()
        if self._saved.settings.on_collapse == "restart":
            self._start.save(Progress(), [])

    def forget_start(self) -> None:
        """Remove the initial state: the run is over, or another one starts."""
        processes = self._saved.processes
        if processes.is_main:
            shutil.rmtree(self._start.folder, ignore_errors=True)
        processes.wait()

    def go(self, attempt: int, began: int) -> Progress:
        """Restore weights, moments and loss scale; returns the progress of the restored state.

        A saved state is accepted if it was healthy when saved, before the collapse began, and
        not from an earlier attempt: restarting from that has not helped.

        Raises:
            UsageError: there is no state to restart from.
        """

        def good(then: Progress) -> bool:
            healthy = then.attempt == attempt and then.guard.get("healthy", False)
            return bool(healthy) and then.step <= began

        for place, accept in ((self._saved, good), (self._start, None)):
            try:
                return place.load(lambda line: None, accept)[0]
            except (CheckpointError, UsageError):
                continue
        raise UsageError(
            f"--on-collapse restart: no good state in {self._saved.folder} to restart from, and "
            "the initial state was not saved; start again without --resume"
        )


def respond(symptom: Symptom, settings: TrainConfig, attempt: int) -> tuple[str, str]:
    """The action for a symptom (a key of `COLLAPSE`), and the message about it.

    Args:
        symptom: the symptom found.
        settings: the recipe, with the user's choice of action.
        attempt: number of restarts so far.
    """
    sentence = f"step {symptom.step}: {symptom.sentence}"
    advice = f"lower --learning-rate {settings.learning_rate:g} or raise --warmup"
    if symptom.name in ("skipped", "recovered"):
        return "warn", sentence
    if symptom.weight == NOTE or (settings.on_collapse == "warn" and symptom.weight != ALWAYS):
        return "warn", f"{sentence}; if this persists, {advice}"
    if settings.on_collapse == "restart" and attempt < settings.max_restarts:
        return "restart", sentence
    helpless = f"{counted(attempt, 'restart')} did not help"
    if settings.on_collapse == "restart" and symptom.weight != ALWAYS:
        # It may only be a slow start; then continuing is worth more than stopping.
        return (
            "warn",
            f"{sentence}; {helpless}, so the run continues; {advice}",
        )
    tried = f"; {helpless}" if attempt else ""
    return "stop", f"{sentence}: the run has diverged{tried}; {advice}"


def order_seed(seed: int, attempt: int) -> int:
    """The seed of an attempt's data order; the first attempt uses the run's seed."""
    return mix(seed, attempt) if attempt else seed
