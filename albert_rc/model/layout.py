"""The layout of a batch's sequences, and their heads as matrices for attention products."""

# T tokens of all sequences, B sequences, L tokens of the longest, N heads, H head size,
# X pairs of a sequence and a head, S and T rows of queries and of keys

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby

from torch import Tensor

LENGTHS = 16
"""Lengths of sequences are rounded up to a multiple of this for attention's products."""
READS = 64
"""The number of rows that the head reads is rounded up to a multiple of this: it varies more."""
OCTAVE = 16
"""Number of distinct row counts between one power of two and the next."""


def rounded_up(count: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-count // step) * step


def round_rows(count: int, least: int = LENGTHS) -> int:
    """Number of rows of a batch, rounded up by a sixteenth at most, or to a multiple of `least`.

    On CPUs oneDNN compiles each product for its shape, in some milliseconds, and keeps half a
    megabyte for it. Token counts of batches vary widely; rounded up, they take few values.
    """
    return rounded_up(count, max(least, (1 << max(0, count - 1).bit_length()) // (2 * OCTAVE)))


@dataclass(frozen=True)
class Rows:
    """Consecutive sequences of similar lengths."""

    start: int
    lengths: tuple[int, ...]
    length: int
    """Padded length."""

    @cached_property
    def slices(self) -> list[slice]:
        """The rows of each sequence."""
        found, start = [], self.start
        for length in self.lengths:
            found.append(slice(start, start + length))
            start += length
        return found

    @property
    def all(self) -> slice:
        """The rows of all sequences."""
        return slice(self.start, self.start + sum(self.lengths))

    @cached_property
    def is_full(self) -> bool:
        """Whether no padding is needed."""
        return all(length == self.length for length in self.lengths)

    def matrices(self, x_TNH: Tensor) -> Tensor:
        """A matrix for each sequence and head, [X, L, H]; rows beyond a sequence's end are 0."""
        count = len(self.lengths)
        if self.is_full:
            if count == 1:
                return x_TNH[self.all].transpose(0, 1)
            apart_BLNH: Tensor = x_TNH[self.all].unflatten(0, (count, self.length))
            return apart_BLNH.transpose(1, 2).flatten(0, 1)
        filled_BNLH = x_TNH.new_empty(count, x_TNH.shape[1], self.length, x_TNH.shape[2])
        for matrix_NLH, rows in zip(filled_BNLH, self.slices, strict=True):
            length = rows.stop - rows.start
            matrix_NLH[:, :length] = x_TNH[rows].transpose(0, 1)
            matrix_NLH[:, length:] = 0
        return filled_BNLH.flatten(0, 1)

    def write(self, x_TNH: Tensor, value_XLH: Tensor) -> None:
        """Write matrices back into their rows."""
        apart_BLNH = value_XLH.unflatten(0, (len(self.lengths), -1)).transpose(1, 2)
        if self.is_full:
            x_TNH[self.all].unflatten(0, apart_BLNH.shape[:2]).copy_(apart_BLNH)
            return
        for matrix_LNH, rows in zip(apart_BLNH, self.slices, strict=True):
            x_TNH[rows] = matrix_LNH[: rows.stop - rows.start]

    def hide(self, score_XST: Tensor) -> None:
        """Mask the keys beyond a sequence's end."""
        if not self.is_full:
            for score_NST, length in zip(
                score_XST.unflatten(0, (len(self.lengths), -1)), self.lengths, strict=True
            ):
                score_NST[..., length:] = float("-inf")


@dataclass(frozen=True)
class TokenRun:
    """Consecutive sequences of similar lengths, for queries and keys."""

    queries: Rows
    keys: Rows

    @property
    def count(self) -> int:
        """Number of sequences."""
        return len(self.keys.lengths)


@dataclass(frozen=True)
class Layout:
    """The sequences of a batch: their lengths in the rows of queries and of keys.

    The last layer computes only the tokens that the head reads, so there the two differ.
    """

    queries: tuple[int, ...]
    keys: tuple[int, ...]

    def runs(self, most: int, multiple: int = LENGTHS) -> list[TokenRun]:
        """All sequences in order, in runs of at most `most` pairs of a query and a key.

        A longer sequence is a separate run.

        Args:
            most: maximum number of pairs.
            multiple: lengths are rounded up to a multiple of this.
        """
        return _runs(self, most, multiple)


@lru_cache(maxsize=4)  # all layers use the same
def _runs(layout: Layout, most: int, multiple: int) -> list[TokenRun]:
    found, asked, answering = [], 0, 0
    pairs = zip(layout.queries, layout.keys, strict=True)

    def like(pair: tuple[int, int]) -> tuple[int, int]:
        return rounded_up(pair[0], multiple), rounded_up(pair[1], multiple)

    for (query, key), alike in groupby(pairs, like):
        lengths, size = list(alike), max(1, most // max(1, query * key))
        for first in range(0, len(lengths), size):
            some = lengths[first : first + size]
            queries = Rows(asked, tuple(length for length, _ in some), query)
            keys = Rows(answering, tuple(length for _, length in some), key)
            found.append(TokenRun(queries, keys))
            asked, answering = queries.all.stop, keys.all.stop
    return found
