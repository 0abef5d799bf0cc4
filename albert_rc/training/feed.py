"""Batch loading ahead of time in worker processes, so that the device does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from functools import lru_cache
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Generic

import torch
from torch.utils.data import DataLoader, Dataset

from albert_rc.io.messages import first_line
from albert_rc.stores.batches import share
from albert_rc.training.objective import BatchT, Objective

PATIENCE = 5.0
"""Seconds to wait for the end of a worker whose connection is closed."""


def micro_batches(
    objective: Objective[BatchT], items: list[int], epoch: int, rank: int, world: int, pieces: int
) -> list[BatchT]:
    """A process's share of a global batch, split into micro-batches."""
    return [objective.batch(part, epoch) for part in share(items, rank, world, pieces)]


class Feed(Generic[BatchT]):
    """Iterator over the micro-batches of each step.

    Batches are a pure function of the seed and the step, so any worker may make them.

    Args:
        objective: makes the batches.
        first: the first step.
        last: the step after the last one.
        rank: this process's rank.
        world: number of processes that share each batch.
        pieces: micro-batches of a step.
        workers: number of worker processes.
        pinned: put batches into pinned memory.
    """

    def __init__(
        self,
        objective: Objective[BatchT],
        *,
        first: int,
        last: int,
        rank: int,
        world: int,
        pieces: int,
        workers: int,
        pinned: bool,
    ) -> None:
        loader = DataLoader(
            _Steps(objective, rank, world, pieces),
            batch_size=None,
            sampler=range(first, last),
            num_workers=workers,
            collate_fn=_as_they_are,
            pin_memory=pinned,
            # The workers' seeds come from this generator: with torch's own, each start of a feed,
            # and so each resume, would change the dropout masks from then on.
            generator=torch.Generator(),
            # Forked, so that the corpus is not read twice; workers never touch the device.
            multiprocessing_context="fork",
            worker_init_fn=_leave_signals_to_main,
            prefetch_factor=4,
        )
        self._batches: Iterator[list[BatchT]] = iter(loader)

    def __next__(self) -> list[BatchT]:
        try:
            return next(self._batches)
        except (OSError, EOFError):
            # Perhaps of a worker that is about to end; its exit code, which comes last, tells.
            ending = wait([worker.sentinel for worker in self._workers], timeout=PATIENCE)
            for worker in self._workers:
                if worker.sentinel in ending:
                    worker.join(PATIENCE)
            raise

    def why_lost(self, error: BaseException | None) -> str | None:
        """Why an error of the training loop is due to the end of a worker, or None.

        torch's signal handler raises such an error at any place of the loop; and what a worker was
        sending is cut off.
        """
        codes = [worker.exitcode for worker in self._workers if worker.exitcode]
        while error is not None and codes:
            ended = isinstance(error, RuntimeError) and "DataLoader worker" in str(error)
            cut_off = isinstance(error, (OSError, EOFError))
            if ended or (cut_off and not isinstance(error, BrokenPipeError)):
                if -signal.SIGKILL in codes:
                    return "was killed, probably because the system ran out of memory"
                return f"ended unexpectedly ({first_line(error)}, exit code {codes[0]})"
            error = error.__cause__ or error.__context__
        return None

    def close(self, lost: bool) -> None:
        """End the workers.

        Their iterator does the same when it is deleted; but an exception holds on to it, and then
        the program would wait for them at its end.

        Args:
            lost: whether a worker was lost, so that the others should not be waited for.
        """
        if lost:
            if threading.current_thread() is threading.main_thread():
                # Else torch's handler would raise again whenever another worker ends.
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for worker in self._workers:
                worker.kill()
        if shut_down := getattr(self._batches, "_shutdown_workers", None):
            shut_down()

    @property
    def _workers(self) -> list[BaseProcess]:
        return getattr(self._batches, "_workers", [])


class _Steps(Dataset[list[BatchT]]):
    def __init__(self, objective: Objective[BatchT], rank: int, world: int, pieces: int) -> None:
        self._objective = objective
        self._share = (rank, world, pieces)
        self._epoch = lru_cache(maxsize=1)(objective.order.epoch)

    def __getitem__(self, step: int) -> list[BatchT]:
        epoch, number = divmod(step, self._objective.order.batches_per_epoch)
        return micro_batches(self._objective, self._epoch(epoch)[number], epoch, *self._share)


def _leave_signals_to_main(worker: int) -> None:
    """Ignore SIGTERM, which launchers send to all processes: the main one saves, and ends these."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _as_they_are(batches: list[BatchT]) -> list[BatchT]:
    return batches
