"""Attention biases by the distance of two tokens, as in MPNet (Song et al. 2020) and T5."""

# S query tokens, T key tokens, L longest sequence, N heads, X pairs of a sequence and a head

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.model.layout import LENGTHS, Layout, TokenRun, rounded_up

FARTHEST = 128
"""Distance from which all tokens share a bucket, before and after."""


def bucket(distance: Tensor, buckets: int) -> Tensor:
    """The bucket of each distance (Raffel et al. 2020, section 2.1).

    Half of the buckets are for keys after the query. In each half, one half of the buckets hold a
    single distance each; the others grow logarithmically up to `FARTHEST`.

    Args:
        distance: place of the key minus place of the query, any shape.
        buckets: number of buckets.
    """
    half = buckets // 2
    exact = half // 2
    far = distance.abs()
    growth = (far.clamp(min=1).float() / exact).log() / math.log(FARTHEST / exact)
    grown = exact + (growth * (half - exact)).long()
    within = torch.where(far < exact, far, grown.clamp(max=half - 1))
    return within + half * (distance > 0)


def bias_table(weight_KN: Tensor, longest: int) -> Tensor:
    """Biases of all pairs of places in a sequence, [N, L, L].

    Args:
        weight_KN: a bias per bucket and head.
        longest: tokens of the longest sequence; rounded up to what attention's products take.
    """
    place_L = torch.arange(rounded_up(longest, LENGTHS), device=weight_KN.device)
    distance_LL = place_L[None, :] - place_L[:, None]
    # Scores have keys side by side; with heads side by side, adding the table would take 20 times
    # as long.
    # Indexing would sum its gradient from several threads, in an order that varies.
    bias_LLN = F.embedding(bucket(distance_LL, len(weight_KN)), weight_KN)
    return bias_LLN.permute(2, 0, 1).contiguous()


@dataclass(frozen=True)
class Bias:
    """The biases of one layer's attention scores."""

    table_NLL: Tensor
    place_S: Tensor | None = None
    """Place of each query in its sequence; None if all tokens are queries."""
    _filled: dict[tuple[int, int, torch.dtype], Tensor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What `filled` made: all layers use the same."""

    def add(self, score_XST: Tensor, run: TokenRun, table_NLL: Tensor) -> None:
        """Add the biases to the scores of a run, in place."""
        apart_BNST = score_XST.unflatten(0, (run.count, -1))
        queries, keys = score_XST.shape[1:]
        if self.place_S is None:
            apart_BNST += table_NLL[:, :queries, :keys]
            return
        for score_NST, rows in zip(apart_BNST, run.queries.slices, strict=True):
            place_S = self.place_S[rows]
            score_NST[:, : len(place_S)] += table_NLL[:, place_S, :keys]

    def collect(self, gradient_XST: Tensor, run: TokenRun, sum_NLL: Tensor) -> None:
        """Add the gradient of a run's scores to the table's gradient."""
        apart_BNST = gradient_XST.unflatten(0, (run.count, -1))
        queries, keys = gradient_XST.shape[1:]
        if self.place_S is None:
            sum_NLL[:, :queries, :keys] += apart_BNST.sum(0, dtype=sum_NLL.dtype)
            return
        for gradient_NST, rows in zip(apart_BNST, run.queries.slices, strict=True):
            place_S = self.place_S[rows]
            sum_NLL[:, :, :keys].index_add_(
                1, place_S, gradient_NST[:, : len(place_S)].to(sum_NLL.dtype)
            )

    def filled(self, rows: slice, queries: int, keys: int, full: int, dtype: torch.dtype) -> Tensor:
        """The biases of sequences with the same number of keys, [1, N, `queries`, `full`].

        Args:
            rows: the rows of their queries; of one sequence if places are given.
            queries: queries of each sequence.
            keys: keys of each sequence.
            full: number of keys, filled up with keys that are hidden.
            dtype: type of the result.
        """
        made = self._filled.get((queries, keys, dtype)) if self.place_S is None else None
        if made is None:
            place_S = slice(queries) if self.place_S is None else self.place_S[rows]
            made = self.table_NLL[:, place_S, :full].detach().to(dtype, copy=True)[None]
            made[..., keys:] = float("-inf")
            if self.place_S is None:
                self._filled[queries, keys, dtype] = made
        return made

    def padded(self, layout: Layout, dtype: torch.dtype) -> Tensor:
        """The biases of padded sequences, [1 or B, N, longest S, longest T]."""
        queries, keys = max(layout.queries), max(layout.keys)
        table_NLL = self.table_NLL.to(dtype)[:, :, :keys]
        if self.place_S is None:
            return table_NLL[None, :, :queries]
        parts = torch.split(self.place_S, list(layout.queries))
        place_BS = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True)
        return table_NLL[:, place_BS].transpose(0, 1)
