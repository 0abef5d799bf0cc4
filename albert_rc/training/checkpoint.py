"""Training states for --resume: the newest few of a run, each a single file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from albert_rc.errors import CheckpointError, UsageError
from albert_rc.fields import flag_of
from albert_rc.io.atomic import atomic_path
from albert_rc.io.messages import first_line
from albert_rc.io.pt import check_archive
from albert_rc.runtime.devices import Processes
from albert_rc.training.config import TrainConfig
from albert_rc.training.identity import FIXED, GONE, OF_TEACHER, as_far_as_known, difference
from albert_rc.training.memory.planner import Levers

_PARTS = {
    **dict.fromkeys(("model", "optimizer", "scaler", "progress"), dict),
    **dict.fromkeys(("settings", "data"), dict),
    **dict.fromkeys(("tally", "random"), list),
}
"""Keys of a state file, and the types of their values."""


@dataclass
class Progress:
    """Progress of a run. The data order follows from `step` alone."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    evaluations_without_gain: int = 0
    attempt: int = 0
    """Number of restarts after a collapse."""
    attempt_best: float | None = None
    """Best score since the last restart, against which patience counts."""
    guard: dict[str, Any] = field(default_factory=dict)
    """See `Guard.state`."""
    cut: dict[str, Any] = field(default_factory=dict)
    """See `Stepper.cut`."""


def states(folder: Path) -> list[Path]:
    """The state files in a run's folder, newest first."""
    named = (x for x in folder.glob("resume-*.pt") if re.fullmatch(r"resume-\d+\.pt", x.name))
    return sorted((path for path in named if path.is_file()), key=step_of, reverse=True)


def step_of(path: Path) -> int:
    """The step of a state file."""
    return int(path.stem.partition("-")[2])


def state_path(folder: Path, step: int) -> Path:
    """Path of a step's state file."""
    return folder / f"resume-{step:08}.pt"


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def require_state(folder: Path, processes: Processes, resume: bool) -> None:
    """Refuse to resume a run that saved no state, before any work is done.

    Raises:
        UsageError: the folder has no state.
    """
    if resume and not processes.from_main(bool(states(folder)) if processes.is_main else None):
        raise _no_state(folder)


def _no_state(folder: Path) -> UsageError:
    return UsageError(f"--resume: no saved state in {folder}; start without --resume")


@dataclass(frozen=True)
class Checkpoints:
    """Writes and reads the states of a run."""

    folder: Path
    """The run's folder."""
    model: nn.Module
    processes: Processes
    """The ranks that share the work."""
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    settings: TrainConfig
    """Settings that must match on resuming."""
    identity: Callable[[], dict[str, Any]]
    """Fingerprint of the data, which must match too; computed on demand."""
    damaged: list[Path] = field(default_factory=list)
    """States that `load` skipped; the next save deletes them, so that they do not count as kept."""

    def save(self, progress: Progress, tally: list[Tensor]) -> None:
        """Write everything needed to resume, on the main process.

        Older states are deleted only once the new one is on disk. `tally` has the sums of the steps
        that are not yet in the metrics.

        Raises:
            OSError: for example a full disk; the earlier states remain.
        """
        processes = self.processes
        # Each rank has its own random generator, so each rank's state is saved.
        random = processes.gather([_random_states(processes.device)])
        if processes.is_main:
            content = {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "progress": asdict(progress),
                "tally": [part.cpu() for part in tally],
                "settings": asdict(self.settings),
                "data": self.identity(),
                "random": random,
            }
            with atomic_path(state_path(self.folder, progress.step)) as temporary:
                torch.save(content, temporary)
            for other in states(self.folder):
                from_before_a_restart = step_of(other) > progress.step
                damaged = other in self.damaged and step_of(other) != progress.step
                if from_before_a_restart or damaged:
                    other.unlink()
            self.damaged.clear()
            for old in self._outdated(progress.guard.get("since", progress.step)):
                old.unlink()
        processes.wait()

    def _outdated(self, since: int) -> list[Path]:
        """The states to delete: all but the newest, and those that a restart may need.

        Args:
            since: the first step that the guard remembers. A collapse that it finds from now on
                began there or later, so the newest state of before is kept; and the oldest state
                after it, which will be the newest of before by the time that the guard has
                forgotten more.
        """
        newest_first = states(self.folder)
        kept = newest_first[: self.settings.keep]
        if self.settings.on_collapse == "restart":
            before = [path for path in newest_first if step_of(path) <= since]
            after = [path for path in newest_first if step_of(path) > since]
            kept += [*before[:1], *after[-1:]]
        return [path for path in newest_first if path not in kept]

    def load(
        self, say: Callable[[str], None], good: Callable[[Progress], bool] | None = None
    ) -> tuple[Progress, list[Tensor]]:
        """Restore the run from its newest intact state.

        Args:
            say: called with a message for each truncated or damaged state that is skipped.
            good: whether a state is acceptable; by default every state is.

        Returns:
            The run's progress, and the sums of the steps not yet in the metrics.

        Raises:
            UsageError: nothing to resume, or the run was started with other settings or data.
            CheckpointError: all states are truncated or damaged.
        """
        processes = self.processes
        path = processes.from_main(self._newest_whole(say, good) if processes.is_main else None)
        if path is None:
            raise _no_state(self.folder)
        if isinstance(path, str):
            raise CheckpointError(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
        _require_same(content, self.settings, self.identity())
        try:
            self.model.load_state_dict(content["model"])
        except RuntimeError:
            raise UsageError(
                "--resume: the run was started with a model of a different shape; use its original "
                "--model and options, or another --out"
            ) from None
        self.optimizer.load_state_dict(content["optimizer"])
        self.scaler.load_state_dict(content["scaler"])
        random = content["random"]
        if len(random) == processes.world:
            mine = random[processes.rank]
            torch.set_rng_state(mine["cpu"])
            if processes.device.type == "cuda" and "cuda" in mine:
                torch.cuda.set_rng_state(mine["cuda"], processes.device)
        tally = [part.to(processes.device) for part in content["tally"]]
        return Progress(**content["progress"]), tally

    def _newest_whole(
        self, say: Callable[[str], None], good: Callable[[Progress], bool] | None
    ) -> Path | str | None:
        """The newest intact state; an error message if all are damaged; None without any."""
        found = states(self.folder)
        for path in found:
            try:
                check_archive(path)
                progress = _progress_in(path)
            except (OSError, ValueError) as error:
                say(f"{path} is skipped: {error}")
                self.damaged.append(path)
                continue
            if good is None or good(progress):
                return path
        if found and good is None:
            return (
                f"all states in {self.folder} are truncated, damaged or invalid; start without "
                "--resume"
            )
        return None


def _progress_in(path: Path) -> Progress:
    """The progress stored in a state.

    Raises:
        ValueError: it is not a state of this version.
    """
    try:
        return Progress(**_content(path)["progress"])
    except TypeError:
        raise ValueError("written by another version of albert-rc") from None


def _content(path: Path) -> dict[str, Any]:
    """The content of a state, with its tensors memory-mapped.

    Raises:
        ValueError: it is not a state of a run.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # torch raises many types for a foreign file
        raise ValueError(f"not a state of a run ({first_line(error)})") from None
    if not isinstance(content, dict) or any(
        not isinstance(content.get(name), kind) for name, kind in _PARTS.items()
    ):
        raise ValueError("not a state of a run")
    return content


def planned_before(folder: Path, processes: Processes) -> Levers | None:
    """The memory plan saved by the run in a folder, for resuming; None if there is none.

    With a different number of processes, each has a different share of the batch, so a new plan is
    made, with the same precision of the optimiser's moments.
    """
    found = None
    if processes.is_main:
        for path in states(folder):
            try:
                content = _content(path)
            except (OSError, ValueError):
                continue  # `load` will report it
            settings = content["settings"]
            if "optimizer_states" in settings:
                same = len(content["random"]) == processes.world
                try:
                    found = Levers(
                        settings.get("accumulation") if same else None,
                        settings.get("recompute") if same else None,
                        settings.get("optimizer_states"),
                    )
                except UsageError:
                    raise UsageError(
                        f"--resume: {path} was written by an older version, with optimizer states "
                        f"{settings.get('optimizer_states')}, which are no longer supported; start "
                        "a new run with another --out, from these weights if needed"
                    ) from None
            break
    return cast("Levers | None", processes.from_main(found))


def _require_same(content: dict[str, Any], settings: TrainConfig, data: dict[str, Any]) -> None:
    """Refuse to resume with other settings or data."""
    known = [name for name in FIXED if name in content["settings"]]
    known += [name for name in GONE if content["settings"].get(name)]
    before: dict[str, Any] = {flag_of(name): content["settings"][name] for name in known}
    now: dict[str, Any] = {flag_of(name): getattr(settings, name) for name in FIXED}
    # The key "--teacher" exists only in runs with a teacher; its value is a hash.
    for key in {**content["data"], "--teacher": None}:
        name = OF_TEACHER if key == "--teacher" else key
        before[name] = content["data"].get(key)
        now[name] = as_far_as_known(before[name], data.get(key))
    if what := difference(before, now):
        raise UsageError(
            f"--resume: the run was started {what}; use its original options, or another --out"
        )
