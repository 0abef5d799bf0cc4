"""The benchmark workload: a shape, and batches of real or synthetic passages or sequences."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path

from torch import Tensor

from albert_rc.answering.score import ITEMS_BUDGET
from albert_rc.bench.job import Job
from albert_rc.bench.made_up import SPECIAL, drawn_lengths, made_up_corpus, made_up_store
from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.corpus.shards import Corpus
from albert_rc.errors import UsageError
from albert_rc.io.sizes import parse_size
from albert_rc.model.config import EncoderConfig, size_config
from albert_rc.stores.batches import BatchOrder, batches_by_length
from albert_rc.stores.shards import open_store
from albert_rc.stores.store import Store
from albert_rc.training.memory.planner import Levers

PASSAGE, SEQUENCE = 512, 256
"""Tokens of the longest synthetic passage, and of a synthetic pretraining sequence."""
EPOCH = 500
"""Number of batches of synthetic items; further batches repeat these items in another order."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A job's shape and items, the same for all implementations."""

    config: EncoderConfig
    source: Store | Corpus
    length_N: Tensor
    """Tokens of each item, special ones included."""
    batches: list[list[int]]
    """Items of each step, of similar length."""

    @property
    def chosen(self) -> list[int]:
        """The items of all steps."""
        return list(chain.from_iterable(self.batches))


def shape(job: Job) -> EncoderConfig:
    """The encoder's shape, without a store to give the vocabulary's size.

    Raises:
        UsageError: unknown size or model, or invalid dropout.
        CheckpointError: an unusable config.json.
    """
    config = size_config(job.size, option="--size")
    if job.model is not None:
        config, _ = read_config(resolve_source(job.model))
    if job.dropout is not None:
        config = replace(config, dropout=job.dropout, attention_dropout=job.dropout)
    return config


def _opened(job: Job, config: EncoderConfig) -> tuple[EncoderConfig, Store]:
    """The job's store, and the shape with its vocabulary.

    Raises:
        UsageError: a store of another kind, or not made for this shape.
        DataError: no store.
    """
    store = open_store(Path(job.data or ""))
    if store.kind != "cloze":
        raise UsageError(f"--data {job.data}: a store of cloze papers is needed, not {store.kind}")
    pieces, longest = store.meta["vocab_size"], int(store.lengths.max())
    if job.model is None:
        config = replace(config, vocab_size=pieces)
    elif pieces > config.vocab_size:
        raise UsageError(
            f"--data {job.data}: made with a vocabulary of {pieces:,} pieces, and --model "
            f"{job.model} has {config.vocab_size:,}; make the store with that model's vocabulary"
        )
    if longest > config.max_length:
        raise UsageError(
            f"--data {job.data}: has passages of {longest} tokens, but the model takes "
            f"{config.max_length}; make the store with --max-length {config.max_length}"
        )
    return config, store


def check(job: Job) -> EncoderConfig:
    """The job's shape, after checking that the job is possible.

    Raises:
        UsageError: it is not; names the flag.
        CheckpointError: an unusable config.json.
        DataError: no store.
    """
    Levers(None, job.recompute, job.optimizer_states)
    if job.memory is not None:
        parse_size("--memory", job.memory)
    config = shape(job)
    if job.data is not None:
        config, _ = _opened(job, config)
    if config.vocab_size <= 2 * SPECIAL:
        raise UsageError(f"a vocabulary of {config.vocab_size} pieces is too small to be measured")
    most = min(PASSAGE, config.max_length)
    if job.length is not None and not 8 <= job.length <= most:
        raise UsageError(f"--length {job.length} must be from 8 to {most}")
    return config


def workload(job: Job, folder: Path) -> Workload:
    """The job's shape and items, the same for all; made-up sequences are written into `folder`."""
    config = shape(job)
    source: Store | Corpus
    if job.data is not None:
        config, source = _opened(job, config)
        length_N = source.lengths
    else:
        number = job.batch_size * min(job.steps, EPOCH)
        longest = min(config.max_length, SEQUENCE if job.work == "pretrain" else PASSAGE)
        length_N = drawn_lengths(job.work, number, job.length, longest, job.seed)
        if job.work == "pretrain":
            source = made_up_corpus(folder, length_N, config.vocab_size, job.seed)
        else:
            source = made_up_store(length_N, config.vocab_size, job.seed)
    order = BatchOrder(lengths=length_N, batch_size=job.batch_size, seed=job.seed)
    return Workload(
        config=config,
        source=source,
        length_N=length_N,
        batches=list(islice(_endless(order), job.steps)),
    )


def _endless(order: BatchOrder) -> Iterator[list[int]]:
    return chain.from_iterable(order.epoch(epoch) for epoch in count())


def batches(job: Job, work: Workload, token_budget: int) -> list[list[int]]:
    """The items in batches, as the job's implementation forms them.

    Ours and optimised transformers group items of similar length; in prediction, as many as fit a
    token budget. Plain transformers takes them in their order.
    """
    chosen = work.chosen
    if job.who == "transformers":
        mixed = random.Random(job.seed).sample(chosen, len(chosen))
        return [mixed[i : i + job.batch_size] for i in range(0, len(mixed), job.batch_size)]
    if job.learns:
        return work.batches
    by_length = batches_by_length(work.length_N[chosen], token_budget, ITEMS_BUDGET)
    return [[chosen[i] for i in batch] for batch in by_length]
