"""Attention backends, by name. Sequences stand one after the other, without padding."""

# S tokens that ask (queries), T tokens that are asked (keys), of all sequences in a row;
# B sequences, L tokens of the longest, N heads, H head size

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.config import LshConfig
from albert_rc.model.lsh import lsh_attention


@dataclass(frozen=True)
class Layout:
    """Where the sequences of a batch lie: their lengths in the rows of queries and of keys.

    The last layer asks only at the tokens that the head will read, so there the two differ.
    """

    queries: tuple[int, ...]
    keys: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[slice, slice]]:
        """Rows of queries and of keys of each sequence."""
        found, asked, answering = [], 0, 0
        for query, key in zip(self.queries, self.keys, strict=True):
            found.append((slice(asked, asked + query), slice(answering, answering + key)))
            asked, answering = asked + query, answering + key
        return found


class _DenseOnProcessor(torch.autograd.Function):
    """Attention by two matrix products per sequence.

    At exam length a sequence's scores fit the cache, and on CPUs two plain products with a
    softmax between them beat torch's fused kernel two to one forward, three to one with its
    gradient (`docs/experiments.md`).
    """

    @staticmethod
    def forward(ctx: Any, q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float) -> Tensor:
        out_SNH = torch.empty_like(q_SNH)
        weights, masks = [], []
        for query, key in layout.spans:
            q_NSH = (q_SNH[query] * q_SNH.shape[-1] ** -0.5).transpose(0, 1)
            k_NTH, v_NTH = kv_T2NH[key].permute(1, 2, 0, 3)
            weight_NST = torch.bmm(q_NSH, k_NTH.transpose(1, 2)).softmax(-1)
            weights.append(weight_NST)
            if dropout:
                weight_NST, mask_NST = torch.native_dropout(weight_NST, dropout, True)
                masks.append(mask_NST)
            out_SNH[query] = torch.bmm(weight_NST, v_NTH).transpose(0, 1)
        ctx.save_for_backward(q_SNH, kv_T2NH, *weights, *masks)
        ctx.layout, ctx.dropout = layout, dropout
        return out_SNH

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient_SNH,) = output
        q_SNH, kv_T2NH, *saved = ctx.saved_tensors
        spans = ctx.layout.spans
        weights, masks = saved[: len(spans)], saved[len(spans) :]
        kept = 1 / (1 - ctx.dropout)
        scale = q_SNH.shape[-1] ** -0.5
        dq_SNH, dkv_T2NH = torch.empty_like(q_SNH), torch.empty_like(kv_T2NH)
        for i, (query, key) in enumerate(spans):
            weight_NST = dropped_NST = weights[i]
            if masks:
                dropped_NST = weight_NST * masks[i] * kept
            k_NTH, v_NTH = kv_T2NH[key].permute(1, 2, 0, 3)
            do_NSH = gradient_SNH[query].transpose(0, 1)
            dw_NST = torch.bmm(do_NSH, v_NTH.transpose(1, 2))
            if masks:
                dw_NST = dw_NST * masks[i] * kept
            ds_NST = torch._softmax_backward_data(dw_NST, weight_NST, -1, weight_NST.dtype)
            dq_SNH[query] = (torch.bmm(ds_NST, k_NTH) * scale).transpose(0, 1)
            q_NSH = (q_SNH[query] * scale).transpose(0, 1)
            dkv_T2NH[key, 0] = torch.bmm(ds_NST.transpose(1, 2), q_NSH).transpose(0, 1)
            dkv_T2NH[key, 1] = torch.bmm(dropped_NST.transpose(1, 2), do_NSH).transpose(0, 1)
        return dq_SNH, dkv_T2NH, None, None


def _padded(x_TNH: Tensor, lengths: Sequence[int]) -> Tensor:
    """Sequences side by side, [B, N, L, H]: a view where all are of one length."""
    longest = max(lengths)
    if all(length == longest for length in lengths):
        x_BLNH: Tensor = x_TNH.unflatten(0, (len(lengths), longest))
    else:
        parts = list(torch.split(x_TNH, list(lengths)))
        x_BLNH = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    return x_BLNH.transpose(1, 2)


def _dense_on_gpu(q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float) -> Tensor:
    """Attention by torch's fused kernels, which take padded sequences."""
    q_BNLH = _padded(q_SNH, layout.queries)
    k_BNLH, v_BNLH = (_padded(x_TNH, layout.keys) for x_TNH in kv_T2NH.unbind(1))
    keep_B11L = None
    if len(set(layout.keys)) > 1:
        length_B = torch.tensor(layout.keys).to(q_SNH.device, non_blocking=True)
        place_L = torch.arange(max(layout.keys), device=q_SNH.device)
        keep_B11L = (place_L < length_B[:, None])[:, None, None, :]
    out_BNLH = F.scaled_dot_product_attention(
        q_BNLH, k_BNLH, v_BNLH, attn_mask=keep_B11L, dropout_p=dropout
    )
    out_BLNH = out_BNLH.transpose(1, 2)
    if len(set(layout.queries)) == 1:
        return out_BLNH.flatten(0, 1)
    rows = zip(out_BLNH.unbind(0), layout.queries, strict=True)
    return torch.cat([row_LNH[:length] for row_LNH, length in rows])


def dense_attention(q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1) within each sequence.

    Args:
        q_SNH: queries.
        kv_T2NH: keys and values.
        layout: where the sequences lie.
        dropout: probability of dropping an attention weight.

    Returns:
        Values mixed by attention, [S, N, H].
    """
    if q_SNH.device.type == "cpu":
        mixed_SNH: Tensor = _DenseOnProcessor.apply(  # type: ignore[no-untyped-call]
            q_SNH, kv_T2NH, layout, dropout
        )
        return mixed_SNH
    return _dense_on_gpu(q_SNH, kv_T2NH, layout, dropout)


@dataclass(frozen=True)
class Hashing:
    """What hashing backends want to know besides."""

    settings: LshConfig
    layer: int
    """Which application of a layer this is."""
    landmark_T: Tensor | None = None
    """Tokens that see all and are seen by all."""


def _dense(q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float, _: Hashing) -> Tensor:
    return dense_attention(q_SNH, kv_T2NH, layout, dropout)


def _lsh(q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float, how: Hashing) -> Tensor:
    settings, lengths = how.settings, layout.keys
    most = settings.sees_all
    if max(lengths) <= most:
        return dense_attention(q_SNH, kv_T2NH, layout, dropout)
    if min(lengths) > most:
        return lsh_attention(q_SNH, kv_T2NH, lengths, settings, how.layer, dropout, how.landmark_T)
    # Short sequences have nothing to gain from sorting: the same result takes a fifth of the time.
    length_B = torch.tensor(lengths)
    short_T = (length_B <= most).repeat_interleave(length_B)
    rows, parts = [], []
    for short in (True, False):
        # Told from plain numbers, so that the device is never asked.
        at_T = (short_T == short).nonzero()[:, 0].to(q_SNH.device)
        some = tuple(length for length in lengths if (length <= most) == short)
        landmark_T = None if how.landmark_T is None else how.landmark_T[at_T]
        alone = Hashing(settings, how.layer, landmark_T)
        parts.append(_lsh(q_SNH[at_T], kv_T2NH[at_T], Layout(some, some), dropout, alone))
        rows.append(at_T)
    return torch.cat(parts)[torch.cat(rows).argsort()]


Attention = Callable[[Tensor, Tensor, Layout, float, Hashing], Tensor]

ATTENTION: dict[str, Attention] = {"dense": _dense, "lsh": _lsh}
"""Backends by name."""
ASKED_ANYWHERE = ("dense",)
"""Those that can be asked at some tokens only; the others sort all of them."""
