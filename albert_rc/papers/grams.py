"""Hashes of the runs of n words or tokens in a text, to find the same run in other texts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Grams = NDArray[np.uint64]


def hashed_grams(numbers: NDArray[np.int64], length: int) -> Grams:
    """A hash for each run of `length` numbers, in order; equal hashes may be of unequal runs.

    Args:
        numbers: of the text's words or tokens.
        length: of a run.
    """
    count = max(0, len(numbers) - length + 1)
    hashed = np.zeros(count, np.uint64)
    for place in range(length):  # a polynomial; overflow wraps around, as it should
        part = numbers[place : place + count].astype(np.uint64)
        hashed = hashed * np.uint64(0x9E3779B97F4A7C15) + part
    return hashed
