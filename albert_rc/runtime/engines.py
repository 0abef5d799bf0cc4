"""Engines that run independent tasks: worker processes of this machine, or a Ray cluster.

Both return results in the order of the tasks, so the output is the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Annotated

from albert_rc.errors import UsageError
from albert_rc.fields import Setting, check
from albert_rc.runtime.pool import ResultT, TaskT, Work, cores, map_in_order
from albert_rc.runtime.ray_pool import Needs, RayPool

MODEL_CORES = 4
"""Cores of a worker that runs a model without a GPU; fewer if a machine has fewer."""


@dataclass(frozen=True, kw_only=True)
class TaskEngine:
    """The choice of where tasks run."""

    name: Annotated[str, Setting("", choices=("local", "ray"), flag="--engine")] = "local"
    address: str | None = None
    """Address of the Ray cluster; if None, RAY_ADDRESS or else a new cluster on this machine."""
    gpus: bool = True
    """Whether a cluster's workers run models on GPUs, if there are any."""

    def __post_init__(self) -> None:
        check(self)
        if self.address is not None and self.name != "ray":
            raise UsageError("--address needs --engine ray")

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this machine, without a cluster."""
        return self.name == "local"

    def map_in_order(
        self,
        prepare: Callable[[], Work[TaskT, ResultT]],
        tasks: Iterable[TaskT],
        workers: int | None,
    ) -> Generator[tuple[TaskT, ResultT], None, None]:
        """Run tasks that take a core each; results come in the order of the tasks.

        Args:
            prepare: called once in each worker; returns the function that runs the tasks.
                Everything passed must be picklable.
            tasks: may be infinite; they are read a little ahead of the workers.
            workers: number of workers; by default as many as there are cores.

        Raises:
            AlbertRcError: a worker raised it, or workers were lost again and again.
            UsageError: Ray is not installed, or the cluster cannot be reached.
        """
        if self.is_local:
            yield from map_in_order(prepare, tasks, workers or cores())
            return
        with RayPool(self.address, prepare, workers, lambda nodes: {"CPU": 1.0}) as pool:
            yield from pool.map_in_order(tasks)

    def model_pool(self, prepare: Callable[[], Work[TaskT, ResultT]]) -> RayPool[TaskT, ResultT]:
        """Workers of a cluster that run one model each: on a GPU if there are any, else on cores.

        Raises:
            UsageError: Ray is not installed, or the cluster cannot be reached.
        """
        return RayPool(self.address, prepare, None, self._model_needs)

    def _model_needs(self, nodes: list[Needs]) -> Needs:
        if self.gpus and any(node.get("GPU", 0) >= 1 for node in nodes):
            return {"CPU": 1.0, "GPU": 1.0}
        least = min((node["CPU"] for node in nodes if node.get("CPU", 0) >= 1), default=1.0)
        return {"CPU": min(float(MODEL_CORES), least)}
