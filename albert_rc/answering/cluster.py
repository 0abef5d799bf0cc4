"""Prediction on a Ray cluster, whose workers each hold the model and answer batch after batch.

This process reads the store and assembles batches, the workers return the model's results for
them, and all later steps are the same as on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from albert_rc.answering.temperature import weights_id
from albert_rc.checkpoints.load import Opening, load_model
from albert_rc.errors import CheckpointError
from albert_rc.model.encoder import evaluating
from albert_rc.runtime.devices import Processes
from albert_rc.runtime.pool import ResultT, TaskT
from albert_rc.runtime.ray_pool import RayPool

Call = tuple[Callable[[Any, Any], Any], Any]
"""A function of a model and a batch, and the batch."""


@dataclass(frozen=True, kw_only=True)
class WorkerModel:
    """The information that a worker needs to open the model."""

    source: str
    """Value of `--model`; must mean the same weights on every machine."""
    task: str
    how: Opening
    ffn_chunk: int | None
    weights: str | None
    """Identifier of the weights."""
    gpus: bool = True
    """Whether to use a GPU, if the worker has one."""

    def __call__(self) -> Callable[[Call], Any]:
        """Open the model, once in each worker.

        Raises:
            AlbertRcError: the weights are missing or different on the worker's machine.
        """
        loaded = load_model(self.source, self.task, **self.how)
        folder = Path(loaded.tokenizer.folder)
        if weights_id(folder) != self.weights:
            raise CheckpointError(
                f"{folder}: a machine of the cluster has different weights in this folder than "
                "the machine where you started the command; copy the folder to every machine"
            )
        model = loaded.model.to("cuda" if self.gpus and torch.cuda.is_available() else "cpu")
        encoder = model.encoder
        encoder.compute = replace(
            encoder.compute, precision=self.how["precision"], ffn_chunk=self.ffn_chunk
        )
        encoder.freeze()

        def run(call: Call) -> Any:
            work, batch = call
            with evaluating(model, encoder):
                return work(model, batch)

        return run


@dataclass(frozen=True, kw_only=True)
class Cluster(Processes):
    """The workers of a cluster, used instead of this process's model."""

    pool: RayPool[Call, Any]

    def each(
        self, work: Callable[[Any, TaskT], ResultT], model: Any, tasks: Iterable[TaskT]
    ) -> Iterator[tuple[TaskT, ResultT]]:
        """As `Processes.each`, with the workers' models."""
        for (_, task), result in self.pool.map_in_order((work, task) for task in tasks):
            yield task, result
