"""Dev papers whose text is also in a training paper, found in the stores themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from albert_rc.papers.grams import Grams, hashed_grams
from albert_rc.papers.overlap import SHARE
from albert_rc.papers.schema import Kind
from albert_rc.stores.store import Store

N_GRAMS: dict[Kind, int] = {"cloze": 5, "choice": 8, "span": 8}
"""Tokens of an n-gram: about five words, but blanks would break most of those."""
LARGEST = 5 * 10**7
"""Maximum number of training tokens to look through, about 5 seconds' work."""
BLOCK = 2**20  # tokens
Indices = NDArray[np.int64]


class _Owned(NamedTuple):
    """Some n-grams, and the paper that each is in."""

    gram: Grams
    paper: Indices


def in_both(train: Store, dev: Store) -> list[str]:
    """The dev papers that have over 30% of their n-grams of tokens in common with a training paper.

    `doctor` compares the raw papers, in which blanks can be filled. Here n-grams with a blank count
    for nothing, so that a paper with the same text and other blanks is still found.

    Args:
        train: cloze, choice or span papers; for others, and for more than `LARGEST` tokens, nothing
            is compared.
        dev: papers of the same kind.

    Returns:
        Their ids, in the store's order.
    """
    if dev.kind not in N_GRAMS or len(train.tensors["token"]) > LARGEST:
        return []
    gram, paper = map(np.concatenate, zip(*_grams(dev), strict=True))
    pairs = np.unique(np.stack([gram, paper.astype(np.uint64)]), axis=1)
    known, owner = pairs[0], pairs[1].astype(np.int64)
    most = np.zeros(len(dev.meta["ids"]), np.int64)
    for block in _grams(train):
        left, right = (np.searchsorted(known, block.gram, side) for side in ("left", "right"))
        count = right - left
        # A row for each n-gram of a training paper and each dev paper that has it too.
        place = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
        place += np.repeat(left, count)
        other = np.repeat(block.paper, count)
        once = np.unique(np.stack([place, other]), axis=1)
        shared, number = np.unique(np.stack([owner[once[0]], once[1]]), axis=1, return_counts=True)
        np.maximum.at(most, shared[0], number)
    sizes = np.bincount(owner, minlength=len(most))
    found = np.flatnonzero(most > SHARE * sizes)
    return [dev.meta["ids"][index] for index in found.tolist()]


def _grams(store: Store) -> Iterator[_Owned]:
    """The n-grams without a blank of some papers at a time; no paper is divided."""
    tensors, length = store.tensors, N_GRAMS[store.kind]
    edge = tensors["token_offset"].numpy().astype(np.int64)
    papers = np.arange(len(edge) - 1)
    blank = -1
    if store.kind == "cloze":
        papers = tensors["window_passage"].numpy().astype(np.int64)
        with_blank = int((tensors["blank_offset"].diff() > 0).int().argmax())
        blank = int(tensors["token"][edge[with_blank] + int(tensors["blank_position"][0])])
    ends = np.flatnonzero(np.diff(papers, append=-1)) + 1  # windows after the last of a paper
    first = 0
    while first < len(papers):
        fits = ends[(ends > first) & (edge[ends] - edge[first] <= BLOCK)]
        last = int(fits[-1] if len(fits) else ends[ends > first][0])
        token = tensors["token"][edge[first] : edge[last]].numpy().astype(np.int64)
        window = np.repeat(np.arange(first, last), np.diff(edge[first : last + 1]))
        gram = hashed_grams(token, length)
        count = len(gram)
        whole = window[:count] == window[length - 1 :]
        for shift in range(length):
            whole &= token[shift : shift + count] != blank
        yield _Owned(gram[whole], papers[window[:count][whole]])
        first = last
