"""The layout of a batch's sequences, and their heads as matrices for attention products."""

# T tokens of all sequences, B sequences, L tokens of the longest, N heads, H head size,
# X pairs of a sequence and a head, S and T rows of queries and of keys

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
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

    @cached_property
    def _row_of_place(self) -> Tensor:
        """For sequences of several lengths: the row of each place in the matrices, [B * L].

        Places after a sequence's end hold its first row; of an empty one, any row.
        """
        place_L, last = torch.arange(self.length), self.all.stop - 1
        parts = [
            torch.where(place_L < rows.stop - rows.start, place_L, 0) + rows.start
            for rows in self.slices
        ]
        return torch.cat(parts).clamp_(max=last)

    @cached_property
    def _place_after(self) -> Tensor:
        """The places after the sequences' ends, as indices into the places of the matrices."""
        place_L = torch.arange(self.length)
        return torch.cat(
            [place_L[length:] + number * self.length for number, length in enumerate(self.lengths)]
        )

    def stacks(self, x_TPNH: Tensor, scale: float = 1.0, clear: bool = False) -> Tensor:
        """The matrices of each sequence and head, for P vectors of a token: [P, X, L, H].

        Contiguous, because `torch.bmm` would otherwise copy them for each product.

        Args:
            x_TPNH: vectors.
            scale: factor of the result.
            clear: whether rows after a sequence's end are 0. Otherwise they repeat a row of it,
                which matters neither to queries, whose result is not read, nor to hidden keys.
        """
        shape = (len(self.lengths), self.length)
        if self.is_full:
            rows_FPNH = x_TPNH[self.all]
        else:
            rows_FPNH = x_TPNH.index_select(0, self._row_of_place)
            if clear:
                rows_FPNH.index_fill_(0, self._place_after, 0)
        apart_PBNLH = rows_FPNH.unflatten(0, shape).permute(2, 0, 3, 1, 4)
        made_PBNLH = torch.empty(apart_PBNLH.shape, dtype=x_TPNH.dtype, device=x_TPNH.device)
        if scale == 1:
            made_PBNLH.copy_(apart_PBNLH)
        else:
            torch.mul(apart_PBNLH, scale, out=made_PBNLH)
        return made_PBNLH.flatten(1, 2)

    def matrices(self, x_TNH: Tensor, scale: float = 1.0, clear: bool = False) -> Tensor:
        """A matrix for each sequence and head, [X, L, H]; see `stacks`."""
        return self.stacks(x_TNH[:, None], scale, clear)[0]

    def write(self, x_TNH: Tensor, value_XLH: Tensor, scale: float = 1.0) -> None:
        """Write matrices, times `scale`, back into their rows."""
        apart_BLNH = value_XLH.unflatten(0, (len(self.lengths), -1)).transpose(1, 2)
        if self.is_full:
            torch.mul(apart_BLNH, scale, out=x_TNH[self.all].unflatten(0, apart_BLNH.shape[:2]))
            return
        for matrix_LNH, rows in zip(apart_BLNH, self.slices, strict=True):
            torch.mul(matrix_LNH[: rows.stop - rows.start], scale, out=x_TNH[rows])

    def hide(self, score_XST: Tensor) -> None:
        """Mask the keys beyond a sequence's end."""
        if not self.is_full:
            for score_NST, length in zip(
                score_XST.unflatten(0, (len(self.lengths), -1)), self.lengths, strict=True
            ):
                if length < self.length:
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

    def runs(self, most: int, multiple: int = LENGTHS, spare: float = 0.0) -> list[TokenRun]:
        """All sequences in order, in runs of at most `most` pairs of a query and a key.

        A longer sequence is a separate run.

        Args:
            most: maximum number of pairs.
            multiple: lengths are rounded up to a multiple of this.
            spare: maximum share of a run's pairs that is padding because its sequences differ in
                length; 0 for runs of equal rounded lengths.
        """
        return _runs(self, most, multiple, spare)


@lru_cache(maxsize=4)  # all layers use the same
def _runs(layout: Layout, most: int, multiple: int, spare: float) -> list[TokenRun]:
    found: list[TokenRun] = []
    pairs = list(zip(layout.queries, layout.keys, strict=True))
    first = asked = answering = 0
    while first < len(pairs):
        last, longest, own = first, (0, 0), 0
        while last < len(pairs):
            query, key = (rounded_up(length, multiple) for length in pairs[last])
            wider = max(longest[0], query), max(longest[1], key)
            area = (last - first + 1) * max(1, wider[0]) * wider[1]
            more = own + max(1, query) * key
            if last > first and (area > most or area - more > spare * area):
                break
            last, longest, own = last + 1, wider, more
        some = pairs[first:last]
        queries = Rows(asked, tuple(query for query, _ in some), longest[0])
        keys = Rows(answering, tuple(key for _, key in some), longest[1])
        found.append(TokenRun(queries, keys))
        first, asked, answering = last, queries.all.stop, keys.all.stop
    return found
