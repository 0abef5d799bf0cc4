"""Hashing for LSH attention: which keys a query attends to.

Each round sorts the tokens by a hash and cuts them into chunks; a chunk attends to its own keys
and those of its neighbours.
"""

# X pairs of a sequence and a head, L tokens of a sequence (filled up to whole chunks), H head
# size, A size of the hashed vectors, U buckets

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.model.config import LshConfig
from albert_rc.runtime.seeds import mix

BLOCK = {"cpu": 2**21, "cuda": 2**26}
"""Number of logits, or distances to buckets, in memory at a time."""


def wide(x: Tensor) -> torch.dtype:
    """Precision of accumulation."""
    return torch.promote_types(x.dtype, torch.float32)


@dataclass(frozen=True)
class Sorting:
    """One round: the permutation that sorts the tokens by their hashes."""

    query_at_XL: Tensor
    """The query at each sorted position."""
    key_at_XL: Tensor
    query_place_XL: Tensor
    """The sorted position of each query."""
    key_place_XL: Tensor
    query_bucket_XL: Tensor | None = None
    """Bucket of each query, where it must not attend to keys of other buckets."""
    key_bucket_XL: Tensor | None = None

    def block(self, rows: slice) -> Sorting:
        """The same for some of the rows."""
        cut: dict[str, Any] = {
            name: value if value is None else value[rows] for name, value in vars(self).items()
        }
        return Sorting(**cut)


@dataclass(frozen=True)
class HashPlan:
    """Which keys each query may attend to."""

    rounds: list[Sorting]
    chunk: int
    """M: tokens of a chunk."""
    before: int
    """Number of chunks before its own that a chunk attends to."""
    width: int
    """Total number of chunks that a chunk attends to."""
    shared: bool
    valid_XL: Tensor
    """Mask of the tokens that are keys."""

    @property
    def chunks(self) -> int:
        """C: number of chunks."""
        return self.valid_XL.shape[1] // self.chunk

    def block(self, rows: slice) -> HashPlan:
        """The same for some of the rows."""
        rounds = [sorting.block(rows) for sorting in self.rounds]
        return replace(self, rounds=rounds, valid_XL=self.valid_XL[rows])


@lru_cache(maxsize=256)
def _drawn(seed: int, layer: int, number: int, rows: int, columns: int) -> Tensor:
    """Normal random numbers of a round; a larger table begins with the rows of a smaller one."""
    generator = torch.Generator().manual_seed(mix(seed, layer, number))
    return torch.randn(rows, columns, generator=generator)


def angular(q_XLH: Tensor, k_XLH: Tensor, valid_XL: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors whose angles order a query's keys as its inner products do.

    The softmax is unchanged if one vector is subtracted from all keys, and the order of the keys
    if the query is scaled. So keys are centred, divided by the largest norm, and extended to norm 1
    in one more dimension, in which queries, of norm 1, are 0 (Neyshabur and Srebro 2015).

    Args:
        q_XLH: queries.
        k_XLH: keys.
        valid_XL: which tokens are keys.

    Returns:
        Queries and keys in H + 1 dimensions.
    """
    keep_XL1 = valid_XL[..., None]
    total_X1H = (k_XLH * keep_XL1).sum(1, keepdim=True)
    k_XLH = (k_XLH - total_X1H / keep_XL1.sum(1, keepdim=True).clamp(min=1)) * keep_XL1
    longest_X11 = k_XLH.norm(dim=-1, keepdim=True).amax(1, keepdim=True)
    k_XLH = k_XLH / longest_X11.clamp(min=1e-6)
    rest_XL1 = (1 - k_XLH.square().sum(-1, keepdim=True)).clamp(min=0).sqrt()
    return F.pad(F.normalize(q_XLH, dim=-1), (0, 1)), torch.cat([k_XLH, rest_XL1], -1)


def _rotated(x_XLA: Tensor, rotation_AU: Tensor) -> Tensor:
    """Inner products with the vertices +r_1 ... -r_1 ...: the nearest is the bucket."""
    turned_XLU = x_XLA @ rotation_AU
    return torch.cat([turned_XLU, -turned_XLU], -1)


def make_plan(
    q_XLH: Tensor, k_XLH: Tensor, valid_XL: Tensor, settings: LshConfig, layer: int, heads: int
) -> HashPlan:
    """Hash and sort.

    Args:
        q_XLH: queries; L is a multiple of the chunk.
        k_XLH: keys.
        valid_XL: which tokens are keys. The others, as queries too, are sorted to the end.
        settings: settings of LSH attention.
        layer: index of the layer; each has its own random numbers.
        heads: number of heads, each with its own random numbers; X runs over the heads of one
            sequence, then the next.
    """
    length = q_XLH.shape[1]
    chunks = length // settings.chunk
    reach = (1, 0) if settings.shared else (1, 1)
    width = min(chunks, sum(reach) + 1)
    # If a chunk attends to everything, one round is enough.
    wanted = settings.rounds if settings.shared or width < chunks else 1
    with torch.no_grad():
        q_XLA, k_XLA = q_XLH.to(wide(q_XLH)), k_XLH.to(wide(k_XLH))
        if not settings.shared:
            q_XLA, k_XLA = angular(q_XLA, k_XLA, valid_XL)
        rounds: list[Sorting] = []
        if settings.local and not settings.shared:
            place_XL = torch.arange(length, device=q_XLH.device).expand(valid_XL.shape)
            rounds.append(_sorted(place_XL, place_XL, valid_XL))
        for number in range(len(rounds), wanted):
            if settings.hash == "projections" and not settings.shared:
                rounds.append(_by_projection(q_XLA, k_XLA, valid_XL, settings, layer, number))
            else:
                rounds += _by_rotation(q_XLA, k_XLA, valid_XL, settings, layer, number, heads)
    return HashPlan(
        rounds, settings.chunk, min(reach[0], width - 1), width, settings.shared, valid_XL
    )


def _by_projection(
    q_XLA: Tensor, k_XLA: Tensor, valid_XL: Tensor, settings: LshConfig, layer: int, number: int
) -> Sorting:
    """Sorting by projection on a line, queries and keys separately (Daras et al. 2020).

    Lines point where the queries vary: each is a random sum of them.
    """
    length = q_XLA.shape[1]
    weight_L1 = _drawn(settings.seed, layer, number, length, 1).to(q_XLA)
    line_XA1 = ((q_XLA * valid_XL[..., None]).transpose(1, 2)) @ weight_L1
    # Centred, because queries may have a common component.
    mean_XA1 = (q_XLA * valid_XL[..., None]).sum(1)[..., None] / (
        valid_XL.sum(1)[:, None, None].clamp(min=1)
    )
    line_XA1 = line_XA1 - mean_XA1 * (valid_XL.to(q_XLA) @ weight_L1)[..., None]
    return _sorted((q_XLA @ line_XA1)[..., 0], (k_XLA @ line_XA1)[..., 0], valid_XL)


def _by_rotation(
    q_XLA: Tensor,
    k_XLA: Tensor,
    valid_XL: Tensor,
    settings: LshConfig,
    layer: int,
    number: int,
    heads: int,
) -> list[Sorting]:
    """Sorting by bucket, and by position within buckets (Reformer, section 2)."""
    length, size = q_XLA.shape[1:]
    half = max(1, (settings.buckets or 2 * (length // settings.chunk)) // 2)
    count = 2 * half
    table_NUA = _drawn(settings.seed, layer, number, half, heads * size).view(half, heads, size)
    rotation_NAU = table_NUA.permute(1, 2, 0).to(q_XLA)
    place_L = torch.arange(length, device=q_XLA.device)
    rows = max(1, BLOCK[q_XLA.device.type] // (length * count))
    found: list[list[Tensor]] = []
    for start in range(0, len(q_XLA), rows):
        block = slice(start, min(len(q_XLA), start + rows))
        rotation_XAU = rotation_NAU[torch.arange(block.start, block.stop) % heads]
        nearest = _rotated(q_XLA[block], rotation_XAU).topk(min(settings.probes, count), -1)
        found.append(list(nearest.indices.unbind(-1)))
        if not settings.shared:
            found[-1].append(_rotated(k_XLA[block], rotation_XAU).argmax(-1))
    queries = [torch.cat(parts) for parts in zip(*found, strict=True)]
    # In the shared form a token has the same hash as a key and as a query.
    key_XL = queries[0] if settings.shared else queries.pop()
    by_key_XL = key_XL * length + place_L
    made = []
    for query_XL in queries:
        by_query_XL = by_key_XL if query_XL is key_XL else query_XL * length + place_L
        sorting = _sorted(by_query_XL, by_key_XL, valid_XL)
        if settings.shared:
            sorting = replace(sorting, query_bucket_XL=query_XL, key_bucket_XL=key_XL)
        made.append(sorting)
    return made


def _sorted(query_XL: Tensor, key_XL: Tensor, valid_XL: Tensor) -> Sorting:
    """Queries and keys sorted by value; tokens that are not keys come last."""
    query_at_XL, query_place_XL = _placed(query_XL, valid_XL)
    key_at_XL, key_place_XL = query_at_XL, query_place_XL
    if key_XL is not query_XL:
        key_at_XL, key_place_XL = _placed(key_XL, valid_XL)
    return Sorting(query_at_XL, key_at_XL, query_place_XL, key_place_XL)


def _placed(value_XL: Tensor, valid_XL: Tensor) -> tuple[Tensor, Tensor]:
    """The token at each sorted position, and the position of each token."""
    last = torch.inf if value_XL.is_floating_point() else torch.iinfo(value_XL.dtype).max
    at_XL = value_XL.masked_fill(~valid_XL, last).argsort(dim=-1, stable=True)
    place_XL = torch.arange(value_XL.shape[1], device=value_XL.device).expand_as(at_XL)
    return at_XL, torch.empty_like(at_XL).scatter_(-1, at_XL, place_XL)
