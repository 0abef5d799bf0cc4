"""Papers with one list of options for all blanks, and each option used at most once.

Such a passage (a word bank, banked cloze; or sentences to put into gaps) is answered as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from albert_rc.papers.schema import FEWEST_BLANKS, FEWEST_OPTIONS
from albert_rc.scoring.confidence import Chances, Indices
from albert_rc.scoring.each_once import assigned, each_once, with_likeliest
from albert_rc.stores.store import Store


def banks(store: Store) -> Iterator[Tensor]:
    """The blanks of each passage whose blanks all have the same options, [B] indices of questions.

    Only those with at least `FEWEST_BLANKS` blanks, `FEWEST_OPTIONS` options that the tokenizer
    tells apart, and no fewer options than blanks.
    """
    if store.kind != "cloze" or not (store.num_options >= FEWEST_OPTIONS).any():
        return
    options = store.tensors["option_offset"].long()
    _, count_P = store.passage_of_question.unique_consecutive(return_counts=True)
    ends = count_P.cumsum(0).tolist()
    lengths = store.num_options.tolist()
    for first, end in zip([0, *ends], ends, strict=False):
        if lengths[first] < FEWEST_OPTIONS or not FEWEST_BLANKS <= end - first <= lengths[first]:
            continue
        blank_B = torch.arange(first, end)
        lists = {_pieces(store, options[blank], options[blank + 1]) for blank in blank_B}
        if len(lists) == 1 and len(set(lists.pop())) >= FEWEST_OPTIONS:
            yield blank_B


def _pieces(store: Store, first: Tensor, last: Tensor) -> tuple[tuple[int, ...], ...]:
    """The tokens of each of some options."""
    edges = store.tensors["piece_offset"][first : last + 1].tolist()
    pieces = store.tensors["piece"][edges[0] : edges[-1]].tolist()
    return tuple(tuple(pieces[a - edges[0] : b - edges[0]]) for a, b in pairwise(edges))


@dataclass(frozen=True)
class Bank:
    """A passage answered as a whole."""

    blank_B: Tensor
    """Indices of its questions."""
    chance_BK: Chances
    """Probabilities of the options, each used at most once."""


def solve(
    store: Store,
    scored_QK: Tensor,
    reuse: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Bank]:
    """Every bank of a store with the probabilities of its options; none with `reuse`.

    Args:
        store: the store that was answered.
        scored_QK: natural log-probabilities; -inf beyond a question's last option.
        reuse: whether an option may answer several blanks of a bank.
        progress: called with the number of blanks of each bank, after it.
    """
    found = []
    for blank_B in () if reuse else banks(store):
        found.append(Bank(blank_B, each_once(_chances(store, scored_QK, blank_B))))
        if progress is not None:
            progress(len(blank_B))
    return found


def best_options(store: Store, scored_QK: Tensor, reuse: bool = False) -> Indices:
    """The answer to every question, [Q]; see `solve` for the arguments."""
    return best_with(scored_QK, solve(store, scored_QK, reuse))


def best_with(scored_QK: Tensor, solved: Iterable[Bank]) -> Indices:
    """The answer to every question, [Q], with the banks that `solve` found."""
    # numpy's argmax takes the first of equals on every machine.
    best_Q: Indices = scored_QK.numpy().argmax(-1)
    for bank in solved:
        best_Q[bank.blank_B.numpy()] = assigned(bank.chance_BK)
    return best_Q


def in_banks(store: Store, reuse: bool = False) -> Tensor:
    """Whether each question is a blank of a bank, [Q], bool; none is with `reuse`."""
    found_Q = torch.zeros(store.num_questions, dtype=torch.bool)
    for blank_B in () if reuse else banks(store):
        found_Q[blank_B] = True
    return found_Q


def shown_scores(scored_QK: Tensor, solved: Iterable[Bank], best_Q: Indices) -> Tensor:
    """Log-probabilities that take account of banks, with the answer as the likeliest option.

    Args:
        scored_QK: natural log-probabilities; -inf beyond a question's last option.
        solved: result of `solve` for them.
        best_Q: result of `best_with` for them.

    Returns:
        The log-probabilities, [Q, K].
    """
    result_QK = scored_QK.clone()
    for bank in solved:
        shown_BK = with_likeliest(bank.chance_BK, best_Q[bank.blank_B.numpy()])
        result_QK[bank.blank_B, : shown_BK.shape[1]] = torch.from_numpy(np.log(shown_BK)).to(
            result_QK.dtype
        )
    return result_QK


def _chances(store: Store, scored_QK: Tensor, blank_B: Tensor) -> Chances:
    count = int(store.num_options[blank_B[0]])
    return np.asarray(scored_QK[blank_B, :count].double().softmax(-1).numpy())
