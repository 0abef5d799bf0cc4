"""Hashes of the n-grams of words or tokens in a text, to find the same n-gram in other texts."""

from __future__ import annotations

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
