"""Hashes of the n-grams of words or tokens in a text, to find the same n-gram in other texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Grams = NDArray[np.uint64]


def hashed_grams(numbers: NDArray[np.int64], length: int) -> Grams:
    """A hash of each n-gram of numbers, in order; different n-grams may have the same hash.

    Args:
        numbers: of the text's words or tokens.
        length: n, the length of an n-gram.
    """
    count = max(0, len(numbers) - length + 1)
    hashed = np.zeros(count, np.uint64)
    for place in range(length):  # a polynomial; overflow wraps around, as it should
        part = numbers[place : place + count].astype(np.uint64)
        hashed = hashed * np.uint64(0x9E3779B97F4A7C15) + part
    return hashed


class GramIndex:
    """The n-grams of texts, to count those that another text has in common with each of them.

    Args:
        grams: the distinct hashes of each text.
    """

    def __init__(self, grams: Sequence[Grams]) -> None:
        owners = [np.full(len(g), i, dtype=np.int32) for i, g in enumerate(grams)]
        self.sizes = np.array([len(g) for g in grams])
        flat = np.concatenate(grams) if grams else np.zeros(0, dtype=np.uint64)
        order = np.argsort(flat, kind="stable")
        self._sorted: Grams = flat[order]
        self._owner = np.concatenate(owners)[order] if owners else np.zeros(0, dtype=np.int32)

    def shared(self, grams: Grams) -> NDArray[np.intp] | None:
        """Number of a text's distinct n-grams in each indexed text; None if there are none."""
        if not len(grams) or not len(self._sorted):
            return None
        left = np.searchsorted(self._sorted, grams, "left")
        right = np.searchsorted(self._sorted, grams, "right")
        owners = [self._owner[a:b] for a, b in zip(left, right, strict=True) if b > a]
        if not owners:
            return None
        return np.bincount(np.concatenate(owners), minlength=len(self.sizes))
