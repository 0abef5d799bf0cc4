"""What is done about a collapse; going back to the last state that was good, or to the start."""

from __future__ import annotations

import shutil
from dataclasses import replace

from albert_rc.errors import CheckpointError, UsageError
from albert_rc.runtime.seeds import mix
from albert_rc.training.checkpoint import Checkpoints, Progress
from albert_rc.training.config import TrainConfig
from albert_rc.training.health.guard import ALWAYS, NOTE, Symptom

START = ".start"
"""The folder, in the run's, of the state that the run began with. A name that no run is given."""


class WayBack:
    """Where a run can go back to.

    Args:
        checkpoints: of the run.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._saved = checkpoints
        self._start = replace(checkpoints, folder=checkpoints.folder / START)

    def keep_start(self) -> None:
        """Keep the state that the run begins with, if it may be gone back to."""
        self.forget_start()
        if self._saved.settings.on_collapse == "restart":
            self._start.save(Progress(), [])

    def forget_start(self) -> None:
        """Remove it: the run is over, or another one begins."""
        processes = self._saved.processes
        if processes.is_main:
            shutil.rmtree(self._start.folder, ignore_errors=True)
        processes.wait()

    def go(self, attempt: int, began: int) -> Progress:
        """Put weights, moments and scale back; how far the run had come there.

        A saved state will do if it was good when it was saved, before the collapse began. One
        of an earlier attempt will not: going back to it has not helped.

        Args:
            attempt: the one that collapsed.
            began: the first step of the collapse.

        Raises:
            UsageError: there is nothing to go back to.
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
            f"--on-collapse restart: no good state in {self._saved.folder} to go back to, and its "
            "start was not kept; begin anew, without --resume"
        )


def respond(symptom: Symptom, settings: TrainConfig, attempt: int) -> tuple[str, str]:
    """What to do about a symptom (a key of `COLLAPSE`), and what to say about it.

    Args:
        symptom: what was found.
        settings: the recipe, with what the user wants done.
        attempt: how often the run has gone back already.
    """
    sentence = f"step {symptom.step}: {symptom.sentence}"
    adversarial = f", lower --set fgm={settings.fgm:g}" if settings.fgm else ""
    advice = f"lower --learning-rate {settings.learning_rate:g}{adversarial} or raise --warmup"
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
