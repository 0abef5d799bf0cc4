"""The work that is timed: a list of batches of real or made-up passages."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from albert_rc.data.batches import BatchOrder, batches_by_length
from albert_rc.data.shards import Store, load_store

BLANKS = 20  # of a made-up passage


@dataclass(frozen=True, kw_only=True)
class Job:
    """One measurement: who does what, on which passages. Travels to a process as JSON."""

    who: str
    """ours, transformers or transformers-best."""
    work: str
    """train or predict."""
    size: str = "base"
    precision: str = "fp32"
    batch_size: int = 2
    steps: int = 8
    """Batches of `batch_size` passages that are timed."""
    data: str | None = None
    """A cloze store; without one, passages of `length` random tokens."""
    length: int = 352
    device: str | None = None
    recompute: str | None = None
    join: int = 1
    optimizer_states: str | None = None
    memory: str | None = None
    """What the planner may use in training."""
    keep_freed: bool = True
    """Ours, on a CPU: `heap.keep_freed_memory`, as the commands do."""
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def made_up_store(count: int, length: int, seed: int) -> Store:
    """Passages of random ids with evenly spread blanks of four one-piece options."""
    generator = torch.Generator().manual_seed(seed)
    blanks = min(BLANKS, length - 2)
    places = torch.linspace(1, length - 2, blanks).round().int()
    options = 4 * blanks * count
    tensors = {
        "token": torch.randint(5, 30000, (count * length,), generator=generator).short(),
        "token_offset": torch.arange(count + 1, dtype=torch.int32) * length,
        "window_passage": torch.arange(count, dtype=torch.int32),
        "blank_position": places.repeat(count),
        "blank_offset": torch.arange(count + 1, dtype=torch.int32) * blanks,
        "answer": torch.randint(0, 4, (blanks * count,), generator=generator).short(),
        "piece": torch.randint(5, 30000, (options,), generator=generator).short(),
        "piece_offset": torch.arange(options + 1, dtype=torch.int32),
        "option_offset": torch.arange(blanks * count + 1, dtype=torch.int32) * 4,
    }
    ids = [str(i) for i in range(count)]
    return Store(tensors, {"kind": "cloze", "ids": ids, "vocab_size": 30000})


def passages(job: Job) -> tuple[Store, list[int]]:
    """The store, and the passages of it that the job is about: the same for everybody."""
    count = job.steps * job.batch_size
    if job.data is None:
        return made_up_store(count, job.length, job.seed), list(range(count))
    store = load_store(Path(job.data))
    order = BatchOrder(lengths=store.lengths, batch_size=job.batch_size, seed=job.seed)
    chosen = [item for batch in order.epoch(0)[: job.steps] for item in batch]
    return store, chosen


def batches(job: Job, store: Store, chosen: list[int], token_budget: int) -> list[list[int]]:
    """The passages in batches, as whoever does the job would form them.

    We and transformers at its best put passages of like length together; in prediction, as many
    as fit a token budget. Plain transformers takes them as they come.
    """
    if job.who == "transformers":
        mixed = random.Random(job.seed).sample(chosen, len(chosen))
        return [mixed[i : i + job.batch_size] for i in range(0, len(mixed), job.batch_size)]
    if job.work == "train":
        return [chosen[i : i + job.batch_size] for i in range(0, len(chosen), job.batch_size)]
    by_length = batches_by_length(store.lengths[chosen], token_budget, len(chosen))
    return [[chosen[i] for i in batch] for batch in by_length]
