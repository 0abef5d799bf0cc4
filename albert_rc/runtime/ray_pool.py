"""A pool of workers on a Ray cluster; lost workers are replaced, and their tasks repeated."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, Self

from albert_rc.errors import AlbertRcError, OutOfMemoryError, UsageError
from albert_rc.io.messages import first_line
from albert_rc.runtime.pool import ResultT, TaskT, Work

AHEAD = 2
"""Tasks in flight for each worker."""
STARTS_IN = 300
"""Seconds to wait for a worker to become ready while no task is running."""
MOST_LOSSES = 10
"""How often a task may lose its worker."""
Needs = dict[str, float]
"""Resources of a worker or a node: cores (`CPU`) and GPUs (`GPU`)."""


class RayPool(Generic[TaskT, ResultT]):
    """Workers that are prepared once and then run tasks; use it as a context manager.

    If a worker or its machine is lost, other workers repeat its tasks.

    Args:
        address: of the cluster; if None, RAY_ADDRESS or else a new cluster on this machine.
        prepare: called once in each worker; returns the function that runs the tasks. Everything
            passed must be picklable.
        workers: number of workers; by default as many as the cluster has room for.
        needs: called with the resources of Ray's nodes; returns those that a worker takes.

    Raises:
        UsageError: Ray is not installed, or the cluster cannot be reached.
    """

    def __init__(
        self,
        address: str | None,
        prepare: Callable[[], Work[TaskT, ResultT]],
        workers: int | None,
        needs: Callable[[list[Needs]], Needs],
    ) -> None:
        ray = self._ray = _connected(address)
        self._lost = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self._needs = needs(nodes)
        # Lost workers are replaced here, not by Ray: Ray would hold back the tasks of a worker that
        # it cannot restart, for example because the worker's machine is gone.
        self._actor = ray.remote(
            num_cpus=self._needs.get("CPU", 1.0), num_gpus=self._needs.get("GPU", 0.0)
        )(_Worker)
        self._prepare = prepare
        self._starting: dict[Any, Any] = {}
        """Workers that are not ready yet, by the reference that resolves once they are."""
        self._ready: list[Any] = []
        self._size = workers or _room(nodes, self._needs)
        for _ in range(self._size):
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in [*self._ready, *self._starting.values()]:
            self._ray.kill(actor)

    def _start(self) -> None:
        # Passed directly, not through the object store, which may lose it together with a machine.
        actor = self._actor.remote(self._prepare)
        self._starting[actor.start.remote()] = actor

    def map_in_order(self, tasks: Iterable[TaskT]) -> Generator[tuple[TaskT, ResultT], None, None]:
        """Run tasks; results come in the order of the tasks, which are read a little ahead.

        Raises:
            AlbertRcError: a worker raised it or failed, workers were lost again and again, or none
                could be started.
        """
        from ray.exceptions import RayError, RayTaskError

        try:
            yield from _Run(self, tasks).results()
        except RayTaskError as error:
            raise AlbertRcError(
                f"error in a worker of the cluster: {error.cause!r}; check whether it also occurs "
                "with --engine local"
            ) from None
        except RayError as error:
            raise AlbertRcError(
                f"the Ray cluster failed: {first_line(error)}; check `ray status`, and run the "
                "command again"
            ) from None


class _Run(Generic[TaskT, ResultT]):
    """One run of tasks through a pool; tasks are identified by their numbers."""

    def __init__(self, pool: RayPool[TaskT, ResultT], tasks: Iterable[TaskT]) -> None:
        self.pool, self.tasks = pool, enumerate(tasks)
        self.given: dict[int, TaskT] = {}
        """Tasks that were read but whose results were not yielded yet."""
        self.ended = False
        """Whether there are no more tasks to read."""
        self.again: list[int] = []
        """Tasks to repeat because their worker was lost."""
        self.losses = Counter[int]()
        self.flying: dict[Any, tuple[int, Any]] = {}
        """Task and worker of each awaited result, by the result's reference."""
        self.done: dict[int, ResultT] = {}

    def results(self) -> Generator[tuple[TaskT, ResultT], None, None]:
        """The tasks with their results, in order."""
        number = 0
        while True:
            self._send()
            while number in self.done:
                yield self.given.pop(number), self.done.pop(number)
                number += 1
                self._send()
            if self.ended and not self.given:
                return
            self._wait()

    def _send(self) -> None:
        loads = Counter(actor for _, actor in self.flying.values())
        for actor in self.pool._ready:
            while loads[actor] < AHEAD and (number := self._next()) is not None:
                loads[actor] += 1
                self.flying[actor.run.remote(self.given[number])] = number, actor

    def _next(self) -> int | None:
        """The number of the next task to run; None if none is left or too many are unfinished."""
        if self.again:
            return self.again.pop()
        if len(self.given) >= 2 * AHEAD * self.pool._size:
            return None
        for number, task in self.tasks:
            self.given[number] = task
            return number
        self.ended = True
        return None

    def _wait(self) -> None:
        """Wait for a result, or for a worker that becomes ready."""
        pool = self.pool
        limit = None if self.flying else STARTS_IN
        ready, _ = pool._ray.wait([*self.flying, *pool._starting], timeout=limit)
        if not ready:
            wanted = ", ".join(f"{amount:g} {kind}" for kind, amount in pool._needs.items())
            raise AlbertRcError(
                f"the cluster started no worker in {STARTS_IN} seconds; each needs {wanted}, and "
                "`ray status` shows what is free"
            )
        for reference in ready:
            if reference in pool._starting:
                self._welcome(reference)
            elif reference in self.flying:  # absent if its worker was just found lost
                self._take(reference)

    def _welcome(self, reference: Any) -> None:
        actor = self.pool._starting.pop(reference)
        try:
            _opened(self.pool._ray.get(reference))
        except self.pool._lost as error:
            self._replace(-1, error)
        else:
            self.pool._ready.append(actor)

    def _take(self, reference: Any) -> None:
        number, actor = self.flying[reference]
        try:
            result = _opened(self.pool._ray.get(reference))
        except self.pool._lost as error:
            self.pool._ready.remove(actor)
            self.pool._ray.kill(actor)  # it may still run although its result is lost
            lost = [one for one, (_, other) in self.flying.items() if other == actor]
            self.again += sorted((self.flying.pop(one)[0] for one in lost), reverse=True)
            self._replace(number, error)
        else:
            del self.flying[reference]
            self.done[number] = result

    def _replace(self, number: int, error: Exception) -> None:
        """Replace a lost worker; `number` is that of its task, or -1 if it had none yet."""
        self.losses[number] += 1
        if self.losses[number] > MOST_LOSSES:
            # The last line of a traceback gives the reason.
            why = str(error).strip().rpartition("\n")[2][:200]
            raise AlbertRcError(
                f"workers of the cluster keep failing: {why}; if memory runs out, give fewer "
                "--workers"
            )
        self.pool._start()


class _Worker:
    """An actor that prepares itself once, then runs tasks; known errors are returned as results."""

    def __init__(self, prepare: Callable[[], Work[Any, Any]]) -> None:
        gc.disable()  # tasks create thousands of small lists, none part of a cycle
        self._prepare = prepare

    def start(self) -> Any:
        """Prepare the worker."""

        def prepare() -> None:
            self._work = self._prepare()

        return _kept(prepare)

    def run(self, task: Any) -> Any:
        """Run a task."""
        return _kept(lambda: self._work(task))


def _kept(work: Callable[[], Any]) -> tuple[AlbertRcError | None, Any]:
    try:
        return None, work()
    except AlbertRcError as error:
        return error, None
    except MemoryError:
        said = "memory ran out in a worker of the cluster; give fewer --workers"
        return OutOfMemoryError(said), None


def _opened(answer: tuple[AlbertRcError | None, ResultT]) -> ResultT:
    error, result = answer
    if error is not None:
        raise error
    return result


def _connected(address: str | None) -> Any:
    """Ray, connected to the cluster at `address` or RAY_ADDRESS, or a new one on this machine.

    Raises:
        UsageError: Ray is not installed, or the cluster cannot be reached.
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
        except (ConnectionError, ValueError, TimeoutError, RuntimeError) as error:
            raise UsageError(_unreachable(address, first_line(error))) from None
    return ray


def _unreachable(address: str | None, why: str) -> str:
    given = os.environ.get("RAY_ADDRESS")
    if address is None and not given:
        return f"--engine ray: no cluster could be started on this machine ({why})"
    where = f"--address {address}" if address is not None else f"RAY_ADDRESS={given}"
    return f"{where}: no usable Ray cluster there ({why}); start one with `ray start --head`"


def _room(nodes: list[Needs], needs: Needs) -> int:
    """Number of workers that the nodes have room for."""
    return max(1, sum(
        min(int(node.get(kind, 0) / amount) for kind, amount in needs.items() if amount)
        for node in nodes
    ))  # fmt: skip
