"""LSH attention: a query attends to the keys with nearby hashes.

Two forms. The *shared* one is Reformer's (Kitaev et al. 2020, sections 2 and 3): one projection
serves as queries and as keys, a token attends to its own bucket, in its own chunk and the one
before. In *ours* queries and keys keep their pretrained projections and are hashed in the same way,
so that a pretrained encoder works unchanged; a chunk attends to its neighbours on both sides, since
an encoder is bidirectional.

Each round sorts the tokens by their hash and cuts them into chunks. A token's rounds form one
softmax over the keys found by any of them: a pair found by several counts in the first.
"""

# X pairs of a sequence and a head, L tokens of a sequence (padded to whole chunks), H head size,
# A size of the hashed vectors, R rounds, C chunks, M tokens of a chunk, W keys that it attends to

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.model.config import LshConfig
from albert_rc.model.dropout import NOTHING, Dropout
from albert_rc.model.hashing import BLOCK, HashPlan, Sorting, make_plan, wide
from albert_rc.runtime.seeds import mix

HIDDEN = -1e9
"""Logit of a masked pair."""
LAST_RESORT = -1e5
"""Logit of a token and itself in the shared form, which matters only if it has no other key."""


class _Hashed(torch.autograd.Function):
    """Softmax over the keys found by the rounds; logits are recomputed in the backward pass.

    Returns the attention output and the log of the softmax's denominator, both differentiable.
    """

    @staticmethod
    def forward(
        ctx: Any, q_XLH: Tensor, k_XLH: Tensor, v_XLH: Tensor, plan: HashPlan, scale: float,
        dropout: float, seed: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        out_XLH = torch.empty_like(q_XLH, dtype=wide(q_XLH))
        norm_XL = out_XLH.new_empty(q_XLH.shape[:2])
        for rows in _blocks(plan):
            part, q, k, v = plan.block(rows), q_XLH[rows], k_XLH[rows], v_XLH[rows]
            mixed = torch.zeros_like(q, dtype=out_XLH.dtype)
            norm = mixed.new_full(mixed.shape[:2], -torch.inf)
            for number in range(len(part.rounds)):
                found = _Round(part, number)
                weight_XCMW, norm_XCM = found.attention(q, k, scale)
                if dropout:
                    weight_XCMW *= found.kept(weight_XCMW, dropout, seed, rows.start)
                here = found.by_token(weight_XCMW.to(v.dtype) @ found.windows(v))
                norm_here = found.by_token(norm_XCM[..., None])[..., 0]
                both = torch.logaddexp(norm, norm_here)
                mixed *= (norm - both).exp_()[..., None]
                mixed += here * (norm_here - both).exp_()[..., None]
                norm = both
            out_XLH[rows], norm_XL[rows] = mixed, norm
        ctx.save_for_backward(q_XLH, k_XLH, v_XLH, out_XLH, norm_XL)
        ctx.plan, ctx.scale, ctx.dropout, ctx.seed = plan, scale, dropout, seed
        return out_XLH, norm_XL

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        do_XLH, dnorm_XL = upstream
        q_XLH, k_XLH, v_XLH, out_XLH, norm_XL = ctx.saved_tensors
        plan: HashPlan = ctx.plan
        dq_XLH = torch.zeros_like(q_XLH, dtype=wide(q_XLH))
        dk_XLH, dv_XLH = torch.zeros_like(dq_XLH), torch.zeros_like(dq_XLH)
        common_XL = (do_XLH * out_XLH).sum(-1) - dnorm_XL
        for rows in _blocks(plan):
            part, q, k, v = plan.block(rows), q_XLH[rows], k_XLH[rows], v_XLH[rows]
            for number in range(len(part.rounds)):
                found = _Round(part, number)
                weight_XCMW, norm_XCM = found.attention(q, k, ctx.scale)
                norm_XCM1 = found.by_place(norm_XL[rows][..., None])
                weight_XCMW *= (norm_XCM[..., None] - norm_XCM1).exp_()
                do_XCMH = found.by_place(do_XLH[rows].to(v.dtype))
                dweight_XCMW = (do_XCMH @ found.windows(v).mT).to(do_XLH.dtype)
                dropped_XCMW = weight_XCMW
                if ctx.dropout:
                    kept_XCMW = found.kept(weight_XCMW, ctx.dropout, ctx.seed, rows.start)
                    dropped_XCMW = weight_XCMW * kept_XCMW
                    dweight_XCMW *= kept_XCMW
                dv_XCWH = dropped_XCMW.to(v.dtype).mT @ do_XCMH
                dweight_XCMW -= found.by_place(common_XL[rows][..., None])
                dlogit_XCMW = dweight_XCMW.mul_(weight_XCMW).mul_(ctx.scale).to(q.dtype)
                dq_XLH[rows] += found.by_token(dlogit_XCMW @ found.windows(k))
                dk_XLH[rows] += found.of_windows(dlogit_XCMW.mT @ found.by_place(q))
                dv_XLH[rows] += found.of_windows(dv_XCWH)
        grads = (
            g.to(x.dtype)
            for g, x in zip((dq_XLH, dk_XLH, dv_XLH), (q_XLH, k_XLH, v_XLH), strict=True)
        )
        return (*grads, None, None, None, None)


def _blocks(plan: HashPlan) -> Iterator[slice]:
    """Blocks of rows of X whose logits fit into memory together."""
    count, length = plan.valid_XL.shape
    logits = length * plan.width * plan.chunk
    rows = max(1, BLOCK[plan.valid_XL.device.type] // logits)
    for start in range(0, count, rows):
        yield slice(start, min(count, start + rows))


class _Round:
    """One round of a block, with the mapping between tokens and sorted positions."""

    def __init__(self, plan: HashPlan, number: int) -> None:
        self.plan, self.number, self.sorting = plan, number, plan.rounds[number]

    def attention(self, q_XLH: Tensor, k_XLH: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        """The weights within this round, [X, C, M, W], and the log of their denominator.

        On CPUs, `exp` and `logsumexp` take 10 times as long for the logits of masked pairs as for
        others; `softmax` does not.
        """
        logit_XCMW = self._logits(q_XLH, k_XLH, scale)
        top_XCM = logit_XCMW.amax(-1)
        weight_XCMW = logit_XCMW.softmax(-1)
        return weight_XCMW, top_XCM - weight_XCMW.amax(-1).log_()

    def _logits(self, q_XLH: Tensor, k_XLH: Tensor, scale: float) -> Tensor:
        logit_XCMW = (self.by_place(q_XLH) @ self.windows(k_XLH).mT).to(wide(q_XLH))
        if scale != 1:
            logit_XCMW *= scale
        seen_XCMW = self._of_keys(self.plan.valid_XL)
        for earlier in self.plan.rounds[: self.number]:
            seen_XCMW = seen_XCMW & ~self._shown(earlier)
        alike_XCMW = self._alike(self.sorting)
        if alike_XCMW is not None:
            seen_XCMW = seen_XCMW & alike_XCMW
        logit_XCMW.masked_fill_(~seen_XCMW, HIDDEN)
        if self.plan.shared:
            token_XL = torch.arange(q_XLH.shape[1], device=q_XLH.device).expand(q_XLH.shape[:2])
            itself_XCMW = self._of_queries(token_XL) == self._of_keys(token_XL)
            logit_XCMW.masked_fill_(itself_XCMW & seen_XCMW, LAST_RESORT)
        return logit_XCMW

    def _shown(self, sorting: Sorting) -> Tensor:
        """Mask of this round's pairs that another round finds too."""
        plan, chunks = self.plan, self.plan.chunks
        # The smallest type that holds their numbers: this mask is large.
        kind = torch.int16 if chunks + plan.width < 2**15 else torch.int32
        key_XL = (sorting.key_place_XL // plan.chunk + plan.before).to(kind)
        query_XL = (sorting.query_place_XL // plan.chunk).to(kind)
        apart_XCMW = self._of_keys(key_XL) - self._of_queries(query_XL)
        # The difference modulo the number of chunks is below the width: five comparisons cost a
        # third of a modulo.
        shown_XCMW = (apart_XCMW >= 0) & (apart_XCMW < plan.width)
        shown_XCMW |= (apart_XCMW >= chunks) | (apart_XCMW < plan.width - chunks)
        alike_XCMW = self._alike(sorting)
        return shown_XCMW if alike_XCMW is None else shown_XCMW & alike_XCMW

    def _alike(self, sorting: Sorting) -> Tensor | None:
        if sorting.query_bucket_XL is None or sorting.key_bucket_XL is None:
            return None
        return self._of_queries(sorting.query_bucket_XL) == self._of_keys(sorting.key_bucket_XL)

    def _of_keys(self, value_XL: Tensor) -> Tensor:
        """A value of each key that a chunk attends to, [X, C, 1, W]."""
        return self._around(value_XL.gather(1, self.sorting.key_at_XL))[:, :, None, :]

    def _of_queries(self, value_XL: Tensor) -> Tensor:
        """A value of each query of a chunk, [X, C, M, 1]."""
        return self._in_chunks(value_XL.gather(1, self.sorting.query_at_XL))[..., None]

    def _in_chunks(self, x: Tensor) -> Tensor:
        cut: Tensor = x.unflatten(1, (self.plan.chunks, self.plan.chunk))
        return cut

    def _around(self, x: Tensor) -> Tensor:
        """From sorted positions to the windows of the chunks."""
        x, before = self._in_chunks(x), self.plan.before
        parts = [x.roll(before - j, 1) if before != j else x for j in range(self.plan.width)]
        return torch.cat(parts, 2)

    def windows(self, x_XLH: Tensor) -> Tensor:
        """The window of each chunk, [X, C, W, H]."""
        return self._around(_taken(x_XLH, self.sorting.key_at_XL))

    def by_place(self, x_XLH: Tensor) -> Tensor:
        """Sorted as the queries are, [X, C, M, H]."""
        return self._in_chunks(_taken(x_XLH, self.sorting.query_at_XL))

    def by_token(self, x_XCMH: Tensor) -> Tensor:
        """Values of the queries, back in the order of the tokens, [X, L, H]."""
        return _taken(x_XCMH.flatten(1, 2), self.sorting.query_place_XL)

    def of_windows(self, x_XCWH: Tensor) -> Tensor:
        """Sum for each key over all the chunks that attend to it, [X, L, H]."""
        before, parts = self.plan.before, x_XCWH.split(self.plan.chunk, 2)
        total_XCMH = sum(part.roll(j - before, 1) for j, part in enumerate(parts))
        assert isinstance(total_XCMH, Tensor)
        return _taken(total_XCMH.flatten(1, 2), self.sorting.key_place_XL)

    def kept(self, weight_XCMW: Tensor, dropout: float, seed: int, row: int) -> Tensor:
        """Dropout mask of the weights, the same at each call."""
        generator = torch.Generator(weight_XCMW.device)
        generator.manual_seed(mix(seed, self.number, self.plan.valid_XL.shape[1], row))
        drawn_XCMW = torch.rand(weight_XCMW.shape, generator=generator, device=weight_XCMW.device)
        return (drawn_XCMW >= dropout).to(drawn_XCMW.dtype) / (1 - dropout)


def _taken(x_XLH: Tensor, index_XV: Tensor) -> Tensor:
    """Rows by index. Copies whole rows, which `gather` does element by element."""
    first_X1 = torch.arange(len(x_XLH), device=x_XLH.device)[:, None] * x_XLH.shape[1]
    rows = x_XLH.flatten(0, 1).index_select(0, (index_XV + first_X1).flatten())
    return rows.view(*index_XV.shape, x_XLH.shape[-1])


def _rows(x_TNH: Tensor, spans: list[slice], length: int) -> Tensor:
    """Some sequences padded to one length, by head: [X, L, H]."""
    parts = [
        F.pad(x_TNH[span], (0, 0, 0, 0, 0, length - (span.stop - span.start))) for span in spans
    ]
    return torch.stack(parts).transpose(1, 2).flatten(0, 1)


def _masks(flag_T: Tensor | None, spans: list[slice], length: int, heads: int) -> Tensor:
    """[X, L]: flags of some sequences' tokens (all True without flags), False for padding."""
    rows = []
    for span in spans:
        size = span.stop - span.start
        flag = torch.ones(size, dtype=torch.bool) if flag_T is None else flag_T[span]
        rows.append(F.pad(flag, (0, length - size)))
    return torch.stack(rows).repeat_interleave(heads, 0)


def _with_landmarks(
    q_XLH: Tensor, k_XLH: Tensor, v_XLH: Tensor, valid_XL: Tensor, landmark_XL: Tensor,
    hashed: tuple[Tensor, Tensor], scale: float,
) -> Tensor:  # fmt: skip
    """Combine the hashed result with attention to and from the landmarks."""
    mixed_XLH, norm_XL = hashed
    most = int(landmark_XL.sum(1).max())
    # The landmarks of each row, padded with other tokens to the maximum over rows.
    at_XG = landmark_XL.byte().argsort(dim=-1, descending=True, stable=True)[:, :most]
    is_XG = landmark_XL.gather(1, at_XG)
    k_XGH, v_XGH = _taken(k_XLH, at_XG), _taken(v_XLH, at_XG)
    logit_XLG = ((q_XLH @ k_XGH.mT).to(norm_XL.dtype) * scale).masked_fill(
        ~is_XG[:, None, :], HIDDEN
    )
    norm_of_them_XL = logit_XLG.logsumexp(-1)
    both_XL = torch.logaddexp(norm_XL, norm_of_them_XL)
    weight_XLG = (logit_XLG - both_XL[..., None]).exp()
    mixed_XLH = mixed_XLH * (norm_XL - both_XL).exp()[..., None]
    mixed_XLH = mixed_XLH + (weight_XLG.to(v_XGH.dtype) @ v_XGH).to(norm_XL.dtype)
    logit_XGL = ((_taken(q_XLH, at_XG) @ k_XLH.mT).to(norm_XL.dtype) * scale).masked_fill(
        ~valid_XL[:, None, :], HIDDEN
    )
    own_XGH = (logit_XGL.softmax(-1).to(v_XLH.dtype) @ v_XLH).to(norm_XL.dtype)
    own_XGH = torch.where(is_XG[..., None], own_XGH, _taken(mixed_XLH, at_XG))
    return mixed_XLH.scatter(1, at_XG[..., None].expand_as(own_XGH), own_XGH)


def lsh_attention(
    q_TNH: Tensor,
    kv_T2NH: Tensor,
    lengths: tuple[int, ...],
    settings: LshConfig,
    layer: int = 0,
    dropout: Dropout = NOTHING,
    landmark_T: Tensor | None = None,
) -> Tensor:
    """LSH attention within each sequence.

    A sequence's result does not depend on the others of the batch: those with the same number of
    chunks are computed together.

    Args:
        q_TNH: queries of all tokens.
        kv_T2NH: keys and values; the shared form uses the queries, scaled to norm 1, as keys.
        lengths: tokens of each sequence.
        settings: settings of LSH attention.
        layer: index of this application in the stack; each has its own hashes.
        dropout: dropout of the attention weights.
        landmark_T: tokens that attend to all and are attended by all (not in the shared form).

    Returns:
        Attention output, [T, N, H].
    """
    heads, size = q_TNH.shape[1:]
    k_TNH, v_TNH = kv_T2NH.unbind(1)
    scale = size**-0.5
    if settings.shared:
        # Reformer's own code divides by the root of H once, when normalising the keys.
        k_TNH, scale = F.normalize(q_TNH.to(wide(q_TNH)), dim=-1).to(q_TNH.dtype), 1.0
    groups: dict[int, list[slice]] = {}
    start = 0
    for length in lengths:
        chunks = -(-length // settings.chunk)
        groups.setdefault(chunks * settings.chunk, []).append(slice(start, start + length))
        start += length
    seed = dropout.seed() if dropout.rate else 0
    parts: dict[int, Tensor] = {}
    for length, spans in groups.items():
        q, k, v = (_rows(x, spans, length) for x in (q_TNH, k_TNH, v_TNH))
        valid = _masks(None, spans, length, heads).to(q.device)
        landmark = torch.zeros_like(valid)
        if landmark_T is not None and not settings.shared:
            landmark = _masks(landmark_T, spans, length, heads)
        plan = make_plan(q, k, valid & ~landmark, settings, layer, heads)
        found: tuple[Tensor, Tensor] = _Hashed.apply(  # type: ignore[no-untyped-call]
            q, k, v, plan, scale, dropout.rate, seed
        )
        mixed = found[0]
        if bool(landmark.any()):
            mixed = _with_landmarks(q, k, v, valid, landmark, found, scale)
        rows = mixed.to(q_TNH.dtype).unflatten(0, (len(spans), heads)).transpose(1, 2)
        for span, row in zip(spans, rows.unbind(0), strict=True):
            parts[span.start] = row[: span.stop - span.start]
    return torch.cat([parts[begin] for begin in sorted(parts)])
