"""Where independent tasks run: worker processes of this machine, or a Ray cluster.

Only `Engine` is used elsewhere. Ray places the tasks, starts lost workers again and repeats what
they were doing; results come in the order of the tasks either way, so what is made of them is the
same, byte for byte.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from albert_rc.errors import AlbertRcError, OutOfMemoryError, UsageError
from albert_rc.fields import Setting, check
from albert_rc.io.messages import first_line
from albert_rc.runtime.pool import Work, cores, map_in_order

Task = TypeVar("Task")
Result = TypeVar("Result")
AHEAD = 3
"""Tasks in flight for each worker of a cluster."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where tasks run."""

    name: Annotated[str, Setting("", choices=("local", "ray"), flag="--engine")] = "local"
    address: str | None = None
    """Of the Ray cluster; None for RAY_ADDRESS's, or a new one on this machine."""

    def __post_init__(self) -> None:
        check(self)
        if self.address is not None and self.name != "ray":
            raise UsageError("--address is for --engine ray")

    def map_in_order(
        self,
        prepare: Callable[[], Work[Task, Result]],
        tasks: Iterable[Task],
        workers: int | None,
        needs: dict[str, float] | None = None,
    ) -> Generator[tuple[Task, Result], None, None]:
        """Run tasks in workers; results come in the order of the tasks.

        Args:
            prepare: returns, once in each worker, the function that runs the tasks. Everything
                passed must be picklable.
            tasks: may be infinite; read a little ahead of the workers.
            workers: number of workers; by default as many as there are cores, or as a cluster has
                room for.
            needs: cores (`CPU`) and `GPU` of a worker on a cluster; a core by default.

        Raises:
            AlbertRcError: raised by a worker, or workers are lost again and again.
            UsageError: Ray is not installed, or the cluster cannot be reached.
        """
        if self.name == "local":
            return map_in_order(prepare, tasks, workers or cores())
        return _on_ray(self.address, prepare, tasks, workers, needs or {"CPU": 1.0})


def _on_ray(
    address: str | None,
    prepare: Callable[[], Work[Task, Result]],
    tasks: Iterable[Task],
    workers: int | None,
    needs: dict[str, float],
) -> Generator[tuple[Task, Result], None, None]:
    ray = _connected(address)
    from ray.exceptions import RayActorError, RayError, RayTaskError
    from ray.util import ActorPool

    worker = ray.remote(
        num_cpus=needs.get("CPU", 1.0),
        num_gpus=needs.get("GPU", 0.0),
        max_restarts=-1,  # a worker or a machine that is lost costs its task in hand only
        max_task_retries=-1,
    )(_Worker)
    count = workers or _room(ray, needs)
    start = ray.put(prepare)
    actors = [worker.remote(start) for _ in range(count)]
    pool, sent = ActorPool(actors), deque[Task]()
    try:
        for task in tasks:
            pool.submit(lambda actor, given: actor.run.remote(given), task)
            sent.append(task)
            if len(sent) >= AHEAD * count:
                yield sent.popleft(), _opened(pool.get_next())
        while sent:
            yield sent.popleft(), _opened(pool.get_next())
    except RayTaskError as error:
        raise AlbertRcError(f"in a worker of the cluster: {error.cause!r}") from None
    except RayActorError as error:
        raise AlbertRcError(f"workers of the cluster are lost: {_last_line(error)}") from None
    except RayError as error:
        raise AlbertRcError(f"the Ray cluster fails: {first_line(error)}") from None
    finally:
        for actor in actors:
            ray.kill(actor)


class _Worker:
    """An actor: prepares itself once, then runs tasks. Known errors are results."""

    def __init__(self, prepare: Callable[[], Work[Any, Any]]) -> None:
        gc.disable()  # thousands of small lists, none of them part of a cycle
        self._work: Work[Any, Any] | None = None
        self._prepare = prepare

    def run(self, task: Any) -> Any:
        """Run a task."""
        try:
            self._work = self._work or self._prepare()
            return None, self._work(task)
        except AlbertRcError as error:
            return error, None
        except MemoryError:
            said = "memory ran out in a worker of the cluster; give it fewer --workers"
            return OutOfMemoryError(said), None


def _opened(answer: tuple[AlbertRcError | None, Result]) -> Result:
    error, result = answer
    if error is not None:
        raise error
    return result


def _connected(address: str | None) -> Any:
    """Ray, connected to a cluster: the one named, RAY_ADDRESS's, or a new one on this machine.

    Raises:
        UsageError: it is not installed, or cannot be reached.
    """
    try:
        import ray
    except ImportError:
        raise UsageError('--engine ray needs Ray; pip install "albert-rc[ray]"') from None
    if not ray.is_initialized():
        try:
            ray.init(
                address=address, log_to_driver=False, include_dashboard=False, logging_level="ERROR"
            )
        except (ConnectionError, ValueError, TimeoutError) as error:
            raise UsageError(
                f"--address {address}: no Ray cluster there ({first_line(error)}); start one with "
                "`ray start --head`"
            ) from None
    return ray


def _room(ray: Any, needs: dict[str, float]) -> int:
    """Number of workers that the cluster has room for."""
    there = ray.cluster_resources()
    return max(1, min(int(there.get(kind, 0) / amount) for kind, amount in needs.items() if amount))


def _last_line(error: BaseException) -> str:
    """Where a worker failed, the end of its traceback says why."""
    return str(error).strip().rpartition("\n")[2][:200]
