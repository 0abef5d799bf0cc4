"""Batch loading ahead of time in worker processes, so that the device does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Generic

import torch
from torch.utils.data import DataLoader, Dataset

from albert_rc.errors import UsageError
from albert_rc.stores.batches import share
from albert_rc.training.objective import BatchT, Objective

_LOST = (
    "a process that prepares batches was killed, probably because the system ran out of memory; "
    "run the same command with --resume to continue from the last saved state, with fewer such "
    "processes (--set workers=1, or 0 for none) if it happens again"
)


@contextmanager
def lost_workers_explained() -> Iterator[None]:
    """Explain the end of a worker to the user; torch's signal handler raises it at any place.

    Raises:
        UsageError: a worker was killed.
    """
    try:
        yield
    except Exception as error:
        seen: BaseException | None = error
        while seen is not None and "DataLoader worker" not in str(seen):
            # What it was sending is cut off before its end is known.
            if isinstance(seen, (ConnectionError, EOFError)):
                break
            seen = seen.__cause__ or seen.__context__
        if seen is None:
            raise
        # Else torch's handler would raise again whenever another worker ends.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        raise UsageError(_LOST) from None


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
        return next(self._batches)


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
