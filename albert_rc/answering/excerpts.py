"""Reading questions again with an excerpt of their passage.

A long passage has much that a question does not ask about. Here each question is read a second time
in a window of `EXCERPT` tokens, with the part of the passage that shares most with it, and the two
readings are averaged; unless the whole passage fits in that window, or its options leave no room
for one. docs/experiments-models.md gives the gain.
"""

# Q questions, K options of one

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from albert_rc.answering.score import mean_of_readings, score
from albert_rc.model.heads import ReadingModel
from albert_rc.runtime.devices import Processes
from albert_rc.stores.excerpt import excerpt_start
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

EXCERPT = 96
"""The usual window of an excerpt, in tokens."""
SHORTEST = 16
"""Tokens of the shortest excerpt: with longer options than leave room for it, none is read."""


def with_excerpts(
    store: Store, tokenizer: Tokenizer, window: int = EXCERPT
) -> tuple[Store, Tensor]:
    """A store of the same questions with an excerpt of each longer passage.

    Args:
        store: multiple choice.
        tokenizer: the tokenizer that it was made with.
        window: tokens of excerpt, question and option, with the special tokens.

    Returns:
        The store, and the indices of the questions whose passages are longer than their excerpts.
    """
    tensors = store.tensors
    token, edges = tensors["token"], tensors["token_offset"].tolist()
    piece, piece_edges = tensors["piece"].tolist(), tensors["piece_offset"].tolist()
    option_edges = tensors["option_offset"].tolist()
    start_Q, kept_Q = tensors["start"].clone(), tensors["kept"].clone()
    shorter = []
    for question, passage in enumerate(tensors["question_passage"].tolist()):
        options = range(option_edges[question], option_edges[question + 1])
        tails = [piece[piece_edges[o] : piece_edges[o + 1]] for o in options]
        room = window - store.meta["num_specials"] - max(map(len, tails))
        if SHORTEST <= room < int(kept_Q[question]):
            text = token[edges[passage] : edges[passage + 1]].numpy()
            start_Q[question] = excerpt_start(text, tails, room, tokenizer)
            kept_Q[question] = room
            shorter.append(question)
    changed = {"start": start_Q, "kept": kept_Q}
    return Store(tensors | changed, store.meta), torch.tensor(shorter, dtype=torch.int64)


def averaged(
    model: ReadingModel,
    tokenizer: Tokenizer,
    excerpts: Store,
    again_Q: Tensor,
    scored_QK: Tensor,
    processes: Processes,
    *,
    token_budget: int,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """The mean of the log-probabilities of two readings, normalised.

    Args:
        model: a model for multiple choice on the processes' device.
        tokenizer: the model's.
        excerpts: result of `with_excerpts`.
        again_Q: the questions to read again; the others keep their scores.
        scored_QK: result of `score` for the store with whole passages.
        processes: the ranks that share the work.
        token_budget: tokens of a batch.
        progress: called with the number of questions read, batch by batch.

    Returns:
        [Q, K] log-probabilities of the options, the same on every rank.
    """
    if not len(again_Q):
        return scored_QK.clone()
    second_QK = score(
        model, tokenizer, excerpts, processes, token_budget=token_budget, progress=progress,
        items=again_Q,
    )  # fmt: skip
    return mean_of_readings(scored_QK, second_QK, again_Q)
