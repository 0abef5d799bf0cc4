"""Batches made ahead of time by worker processes, so that a fast device need not wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Generic

import torch
from torch.utils.data import DataLoader, Dataset

from albert_rc.stores.batches import share
from albert_rc.training.objective import Kind, Objective


def micro_batches(
    objective: Objective[Kind], items: list[int], epoch: int, rank: int, world: int, pieces: int
) -> list[Kind]:
    """A process's share of a global batch, in pieces."""
    return [objective.batch(part, epoch) for part in share(items, rank, world, pieces)]


class Feed(Generic[Kind]):
    """The micro-batches of one step after the other.

    Batches are a pure function of the seed and the step, so it does not matter who makes them.

    Args:
        objective: what makes batches.
        first: the step to begin with.
        last: the step to end before.
        rank: of this process.
        world: processes that share each batch.
        pieces: micro-batches of a step.
        workers: processes that work ahead.
        pinned: put batches where a GPU copies from without waiting.
    """

    def __init__(
        self,
        objective: Objective[Kind],
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
            # Its workers' seeds are drawn from here: drawn from torch's own generator, each start
            # of a feed, so each resume, would change what is dropped out from then on.
            generator=torch.Generator(),
            # Forked, so that nobody reads the corpus twice; workers never touch the device.
            multiprocessing_context="fork",
            prefetch_factor=4,
        )
        self._batches: Iterator[list[Kind]] = iter(loader)

    def __next__(self) -> list[Kind]:
        return next(self._batches)


class _Steps(Dataset[list[Kind]]):
    def __init__(self, objective: Objective[Kind], rank: int, world: int, pieces: int) -> None:
        self._objective = objective
        self._share = (rank, world, pieces)
        self._epoch = lru_cache(maxsize=1)(objective.order.epoch)

    def __getitem__(self, step: int) -> list[Kind]:
        epoch, number = divmod(step, self._objective.order.batches_per_epoch)
        return micro_batches(self._objective, self._epoch(epoch)[number], epoch, *self._share)


def _as_they_are(batches: list[Kind]) -> list[Kind]:
    return batches
