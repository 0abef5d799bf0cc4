"""The state that a run resumes from: one file, replaced whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.config import TrainConfig
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.files import atomic_path
from albert_rc.train.parallel import DataParallel

STATE = "resume.pt"

# What must not change between a run and its continuation, with the option that sets it.
_FIXED = (
    "epochs", "batch_size", "learning_rate", "warmup", "weight_decay", "clip", "max_steps",
    "precision", "mask_rate", "mask_weight", "optimizer", "optimizer_states", "seed",
)  # fmt: skip


@dataclass
class Progress:
    """How far a run has come. The data order follows from `step` alone."""

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    evaluations_without_gain: int = 0
    attempt: int = 0
    """How often the run has gone back after a collapse."""
    guard: dict[str, Any] = field(default_factory=dict)
    """See `Guard.state`."""


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def save_state(
    folder: Path,
    parallel: DataParallel,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    progress: Progress,
    settings: TrainConfig,
    data: dict[str, Any],
) -> None:
    """Write everything that a run needs to go on, on the main process.

    Args:
        folder: the run's.
        parallel: the model with the weights of this step, and who works along.
        optimizer: with its moments.
        scaler: of fp16 losses.
        progress: how far the run has come.
        settings: that `load_state` will compare.
        data: fingerprints of what is trained on.
    """
    processes = parallel.processes
    # Every rank draws its own random numbers, so every rank's state is kept.
    states: list[Any] = [_random_states(processes.device)]
    if processes.world > 1:
        states = [None] * processes.world
        torch.distributed.all_gather_object(states, _random_states(processes.device))
    # Whole tensors, so that any number of processes can go on, however they share them.
    model = parallel.whole(parallel.model.state_dict())
    moments = parallel.whole(optimizer.state_dict())
    if processes.is_main:
        content = {
            "model": model,
            "optimizer": moments,
            "scaler": scaler.state_dict(),
            "progress": asdict(progress),
            "settings": asdict(settings),
            "data": data,
            "random": states,
        }
        with atomic_path(folder / STATE) as temporary:
            torch.save(content, temporary)
    processes.wait()


def load_state(
    folder: Path,
    parallel: DataParallel,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    settings: TrainConfig,
    data: dict[str, Any],
) -> Progress:
    """Put a run back where `save_state` left it.

    Raises:
        UsageError: nothing to resume, or other settings or data than the run was begun with.
        CheckpointError: the file is torn.
    """
    path = folder / STATE
    if not path.is_file():
        raise UsageError(f"--resume: there is no {path}; start without --resume")
    try:
        # Mapped: a process that holds a part of the state does not read all of it.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=parallel.divides)
    except Exception as error:  # torch raises many types for a torn file
        reason = str(error).partition("\n")[0][:120]
        raise CheckpointError(
            f"{path}: torn or foreign ({reason}); start without --resume"
        ) from None
    for name in _FIXED:
        now = getattr(settings, name)
        before = content["settings"].get(name, now)  # of a version without it
        if before != now:
            flag = "--" + name.replace("_", "-")
            raise UsageError(f"--resume: the run was begun with {flag} {before}, not {now}")
    for name, before in content["data"].items():
        now = data[name]
        if isinstance(before, dict) and isinstance(now, dict):
            now = {key: value for key, value in now.items() if key in before}
        if before != now:
            raise UsageError(f"--resume: the run was begun with another {name}: {before}")
    try:
        parallel.model.load_state_dict(parallel.part(content["model"]))
    except RuntimeError:
        raise UsageError("--resume: the run was begun with a model of another shape") from None
    optimizer.load_state_dict(parallel.part(content["optimizer"]))
    scaler.load_state_dict(content["scaler"])
    states, processes = content["random"], parallel.processes
    if len(states) == processes.world:
        mine = states[processes.rank]
        torch.set_rng_state(mine["cpu"])
        if processes.device.type == "cuda" and "cuda" in mine:
            torch.cuda.set_rng_state(mine["cuda"], processes.device)
    return Progress(**content["progress"])
