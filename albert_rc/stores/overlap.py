"""Dev papers whose text is also in a training paper, found in the stores themselves."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from albert_rc.papers.grams import GramIndex, Grams, hashed_grams
from albert_rc.papers.overlap import SHARE
from albert_rc.papers.schema import Kind
from albert_rc.stores.store import Store

N_GRAMS: dict[Kind, int] = {"cloze": 5, "choice": 8, "span": 8}
"""Tokens of an n-gram: about five words, but blanks would break most of those."""
LARGEST = 2 * 10**7
"""Maximum number of training tokens to look through, for the time and the memory."""


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
    index = GramIndex(list(_grams(train).values()))
    found = []
    for paper, grams in _grams(dev).items():
        shared = index.shared(grams)
        if shared is not None and shared.max() > SHARE * len(grams):
            found.append(dev.meta["ids"][paper])
    return found


def _grams(store: Store) -> dict[int, Grams]:
    """The distinct n-grams without a blank of each paper, by its index."""
    tensors, length = store.tensors, N_GRAMS[store.kind]
    token = tensors["token"].numpy().astype(np.int64)
    edge = tensors["token_offset"].tolist()
    papers, blank = list(range(len(edge) - 1)), -1
    if store.kind == "cloze":
        papers = tensors["window_passage"].tolist()
        with_blank = int((tensors["blank_offset"].diff() > 0).int().argmax())
        blank = int(token[edge[with_blank] + int(tensors["blank_position"][0])])
    found = {}
    for paper, windows in groupby(range(len(papers)), papers.__getitem__):
        grams = []
        for window in windows:
            text = token[edge[window] : edge[window + 1]]
            gram = hashed_grams(text, length)
            whole = np.ones(len(gram), bool)
            for shift in range(length):
                whole &= text[shift : shift + len(gram)] != blank
            grams.append(gram[whole])
        found[paper] = np.unique(np.concatenate(grams))
    return found
