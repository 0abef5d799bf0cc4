"""A pool of worker processes without state between tasks.

They are spawned, since a process with threads cannot be forked safely, in the same way on every
system. A worker has at most one task; it ends when its connection closes, so that none outlives
this process, however that ends.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, NoReturn, TypeVar

from albert_rc.errors import AlbertRcError, OutOfMemoryError, UsageError

TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")
Work = Callable[[TaskT], ResultT]


def cores() -> int:
    """Number of cores that this process may use."""
    return len(cores_at_hand()) or os.cpu_count() or 1


def cores_at_hand() -> set[int]:
    """The cores that this process may use; empty if the system does not report them."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def worker_count(workers: int | None) -> int:
    """The number of workers for `--workers`; by default the number of cores.

    Raises:
        UsageError: fewer than one.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"--workers {workers} must be at least 1")
    return cores() if workers is None else workers


def map_in_order(
    prepare: Callable[[], Work[TaskT, ResultT]], tasks: Iterable[TaskT], workers: int
) -> Generator[tuple[TaskT, ResultT], None, None]:
    """Run tasks in worker processes; results come in the order of the tasks.

    Only a few tasks per worker are in flight at a time. The workers end with the generator; close
    it if it is left early.

    Args:
        prepare: returns, in each worker, the function that runs the tasks. Everything passed must
            be picklable.
        tasks: may be infinite; read a little ahead of the workers.
        workers: number of processes.

    Raises:
        OutOfMemoryError: the system killed a worker.
        AlbertRcError: raised by a worker, or a worker ended unexpectedly.
    """
    pool: _Pool[TaskT, ResultT] = _Pool(prepare, workers)
    try:
        yield from pool.run(iter(tasks))
    finally:
        pool.stop()


class _Pool(Generic[TaskT, ResultT]):
    def __init__(self, prepare: Callable[[], Work[TaskT, ResultT]], workers: int) -> None:
        self._processes: dict[Connection, BaseProcess] = {}
        self._idle: list[Connection] = []
        context = multiprocessing.get_context("spawn")
        try:
            for _ in range(workers):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, prepare), daemon=True)
                self._processes[ours] = process
                _start(process)
                # Only the worker holds the pipe open now: it breaks when the worker dies.
                theirs.close()
                self._idle.append(ours)
        except BaseException:
            self.stop()
            raise

    def run(self, tasks: Iterator[TaskT]) -> Iterator[tuple[TaskT, ResultT]]:
        ahead: list[TaskT] = []
        sent: dict[int, TaskT] = {}
        done: dict[int, ResultT] = {}
        busy: set[Connection] = set()
        next_sent = next_yielded = 0
        bound = 4 * len(self._processes)
        while True:
            while self._idle and next_sent < next_yielded + bound:
                ahead = ahead or list(islice(tasks, 1))
                if not ahead:
                    break
                connection = self._idle.pop()
                sent[next_sent] = ahead.pop()
                busy.add(connection)
                self._send(connection, (next_sent, sent[next_sent]))
                next_sent += 1
            while next_yielded in done:
                yield sent.pop(next_yielded), done.pop(next_yielded)
                next_yielded += 1
            # Read the next task while the workers are busy.
            ahead = ahead or list(islice(tasks, 1))
            if not busy and not ahead:
                return
            ready = wait(list(busy)) if busy else []
            for connection in [c for c in busy if c in ready]:
                number, result = self._receive(connection)
                done[number] = result
                busy.discard(connection)
                self._idle.append(connection)

    def _send(self, connection: Connection, message: tuple[int, TaskT]) -> None:
        try:
            connection.send(message)
        except OSError:
            self._lost(connection)

    def _receive(self, connection: Connection) -> tuple[int, ResultT]:
        try:
            number, result, error = connection.recv()
        except (EOFError, OSError):
            self._lost(connection)
        if error is not None:
            raise error
        return number, result

    def _lost(self, connection: Connection) -> NoReturn:
        process = self._processes[connection]
        process.join(10)
        code = process.exitcode
        if code == -getattr(signal, "SIGKILL", 9):
            raise OutOfMemoryError(
                "a worker process was killed, most likely because memory ran out; "
                "try fewer --workers"
            )
        raise AlbertRcError(f"a worker process ended unexpectedly (code {code}); try --workers 1")

    def stop(self) -> None:
        for connection in self._processes:
            connection.close()
        for process in self._processes.values():
            if process.pid is not None:
                process.terminate()
                process.join()


def _start(process: BaseProcess) -> None:
    """Start a worker that ignores Ctrl-C from the start: this process handles it."""
    if threading.current_thread() is not threading.main_thread():
        process.start()
        return
    # Blocked, not ignored: a Ctrl-C that comes meanwhile is handled a moment later.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, prepare: Callable[[], Work[TaskT, ResultT]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Thousands of small lists are created and none is part of a cycle: garbage collection would
    # take a fifth of the time.
    gc.disable()
    work: Work[TaskT, ResultT] | None = None
    while True:
        try:
            number, task = connection.recv()
        except (EOFError, OSError):  # OSError: the parent died in the middle of a message
            return
        result: ResultT | None = None
        error: Exception | None = None
        try:
            work = work or prepare()
            result = work(task)
        except (AlbertRcError, MemoryError, OSError) as known:
            error = known
        except Exception:
            # Not every exception can be pickled, but its text can.
            error = RuntimeError(f"in a worker process:\n{traceback.format_exc()}")
        try:
            connection.send((number, result, error))
        except OSError:
            return
