"""A run that is ready to start, of either kind of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_rc.answering.temperature import weights_id
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.load import Loaded, Opening
from albert_rc.errors import UsageError
from albert_rc.model.encoder import Encoder
from albert_rc.runtime.devices import Processes
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objective import Objective


def origin_of(model: str, how: Opening) -> str | None:
    """Identifier of the weights that a run starts from; None for random ones.

    Args:
        model: folder or hub id.
        how: how it is opened.

    Raises:
        UsageError: unknown model.
    """
    return None if how.get("scratch") else weights_id(resolve_source(model))


def hold_layers(encoder: Encoder, settings: TrainConfig, how: Opening) -> None:
    """Leave the first layers of a model as they are, if the settings say so.

    Args:
        encoder: the model's.
        settings: the recipe.
        how: how the model was opened.

    Raises:
        UsageError: its weights are random, or see `Encoder.hold`.
    """
    if settings.frozen_layers and how.get("scratch"):
        raise UsageError(
            f"--set frozen_layers={settings.frozen_layers} with --scratch: these layers would stay "
            "random; leave one of the two out"
        )
    encoder.hold(settings.frozen_layers)


@dataclass(frozen=True, kw_only=True)
class PreparedRun:
    """A model, its objective, and how the step is computed."""

    loaded: Loaded[Any]
    objective: Objective[Any]
    settings: TrainConfig
    """The settings, adapted to the available memory."""
    plan: list[str]
    """The memory plan as sentences."""
    data: tuple[str, str | None]
    """The training data and, if there are any, the dev data, as sentences."""
    group: Processes
    workers: int
    about: Mapping[str, Any]
    """Files to write into the run's folder; see `write_each`."""

    def trainer(self, out: Path, more: Mapping[str, Any] | None = None) -> Trainer[Any]:
        """The trainer that runs it in a folder, and writes `about` there, and more files."""
        about = {**self.about, **(more or {})}
        return Trainer(self.objective, self.settings, out, self.group, self.workers, about)
