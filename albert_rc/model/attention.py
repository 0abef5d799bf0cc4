"""Attention backends by name, for concatenated sequences without padding."""

# S query tokens, T key tokens, of all sequences concatenated;
# B sequences, L tokens of the longest, N heads, H head size, X pairs of a sequence and a head

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.model.config import LshConfig
from albert_rc.model.dropout import NOTHING, Dropout, masked
from albert_rc.model.layout import Layout, TokenRun, rounded_up
from albert_rc.model.lsh import lsh_attention
from albert_rc.model.relative import Bias
from albert_rc.runtime.devices import has_matrix_units

FUSED_LENGTHS = 16
"""Numbers of keys are rounded up to a multiple of this for torch's fused kernel on AMX: others take
up to twice as long."""
SCORES_TOGETHER = 2**18
"""Number of attention scores, over all heads, that fit a core's cache (1 MiB in fp32)."""


class _DenseOnProcessor(torch.autograd.Function):
    """Attention by two matrix products per sequence, or per run of short ones.

    For exam-length sequences the scores fit the cache, and on CPUs two plain products with a
    softmax between them are twice as fast as torch's fused kernel in the forward pass, and three
    times with the gradient (`docs/speed.md`). Batches hold sequences of similar length next to each
    other, so that short ones are computed together, which saves call overhead.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q_SNH: Tensor,
        kv_T2NH: Tensor,
        table_NLL: Tensor | None,
        layout: Layout,
        dropout: Dropout,
        keep: bool,
        bias: Bias | None,
    ) -> Tensor:
        # Rows after the last sequence are padding.
        out_SNH = torch.empty_like(q_SNH)
        out_SNH[sum(layout.queries) :] = 0
        runs = layout.runs(SCORES_TOGETHER // q_SNH.shape[1])
        weights, masks = [], []
        k_TNH, v_TNH = kv_T2NH.unbind(1)
        scored = _Scores(bias, q_SNH.dtype)
        # With matrix units torch's fused kernel takes about half the time of two products and a
        # softmax; see experiments/attention_kernels.py. Only for prediction: a backward pass, and
        # layers that are computed again, need the numbers of the same kernel.
        units = torch.is_inference_mode_enabled() and has_matrix_units(q_SNH.dtype)
        fused = units and not dropout.rate and bias is None
        for number, run in enumerate(runs):
            if fused:
                _fused(q_SNH, kv_T2NH, run, out_SNH)
                continue
            q_XSH = run.queries.matrices(q_SNH) * q_SNH.shape[-1] ** -0.5
            weight_XST = scored.weights(q_XSH, run.keys.matrices(k_TNH), run)
            if keep:
                weights.append(weight_XST)
            if dropout.rate:
                masks.append(dropout.at(number).mask(weight_XST.shape))
                weight_XST = masked(weight_XST, masks[-1])
            mixed_XSH = torch.bmm(weight_XST, run.keys.matrices(v_TNH))
            run.queries.write(out_SNH, mixed_XSH.mul_(dropout.scale) if dropout.rate else mixed_XSH)
        ctx.save_for_backward(q_SNH, kv_T2NH, *masks, *weights)
        ctx.layout, ctx.runs, ctx.dropout, ctx.bias = layout, runs, dropout, bias
        return out_SNH

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient_SNH,) = output
        q_SNH, kv_T2NH, *saved = ctx.saved_tensors
        dropped = len(ctx.runs) if ctx.dropout.rate else 0
        masks, weights = saved[:dropped], saved[dropped:]
        if masks:
            # Scaling here touches fewer numbers than scaling the weights.
            gradient_SNH = gradient_SNH * ctx.dropout.scale
        scale = q_SNH.shape[-1] ** -0.5
        dq_SNH, dkv_T2NH = torch.empty_like(q_SNH), torch.empty_like(kv_T2NH)
        dq_SNH[sum(ctx.layout.queries) :] = 0
        dkv_T2NH[sum(ctx.layout.keys) :] = 0
        k_TNH, v_TNH = kv_T2NH.unbind(1)
        dk_TNH, dv_TNH = dkv_T2NH.unbind(1)
        scored = _Scores(ctx.bias, q_SNH.dtype)
        dtable_NLL = None
        if ctx.bias is not None and ctx.needs_input_grad[2]:
            dtable_NLL = torch.zeros_like(ctx.bias.table_NLL)
        for i, run in enumerate(ctx.runs):
            q_XSH = run.queries.matrices(q_SNH) * scale
            k_XTH = run.keys.matrices(k_TNH)
            weight_XST = weights[i] if weights else scored.weights(q_XSH, k_XTH, run)
            dropped_XST = weight_XST
            if masks:
                dropped_XST = masked(weight_XST, masks[i])
            do_XSH = run.queries.matrices(gradient_SNH)
            dw_XST = torch.bmm(do_XSH, run.keys.matrices(v_TNH).mT)
            if masks:
                dw_XST = masked(dw_XST, masks[i])
            ds_XST = torch._softmax_backward_data(dw_XST, weight_XST, -1, weight_XST.dtype)
            if dtable_NLL is not None:
                ctx.bias.collect(ds_XST, run, dtable_NLL)
            run.queries.write(dq_SNH, torch.bmm(ds_XST, k_XTH) * scale)
            run.keys.write(dk_TNH, torch.bmm(ds_XST.mT, q_XSH))
            run.keys.write(dv_TNH, torch.bmm(dropped_XST.mT, do_XSH))
        return dq_SNH, dkv_T2NH, dtable_NLL, None, None, None, None


def _fused(q_SNH: Tensor, kv_T2NH: Tensor, run: TokenRun, out_SNH: Tensor) -> None:
    """Write the attention output of a run by torch's fused kernel.

    What a sequence gets does not depend on its neighbours, so those of different lengths are
    computed one by one.
    """
    rows, count = [(run.queries.all, run.keys.all)], run.count
    if len(set(run.queries.lengths)) > 1 or len(set(run.keys.lengths)) > 1:
        rows, count = list(zip(run.queries.slices, run.keys.slices, strict=True)), 1
    for asked, answering in rows:
        q_BNLH = q_SNH[asked].unflatten(0, (count, -1)).transpose(1, 2)
        kv_2BNLH = kv_T2NH[answering].unflatten(0, (count, -1)).permute(2, 0, 3, 1, 4)
        length = kv_2BNLH.shape[3]
        full, score_111L = rounded_up(length, FUSED_LENGTHS), None
        if full > length:
            filled_2BNLH = kv_2BNLH.new_zeros(*kv_2BNLH.shape[:3], full, kv_2BNLH.shape[4])
            filled_2BNLH[:, :, :, :length] = kv_2BNLH
            kv_2BNLH, score_111L = filled_2BNLH, _hidden_after(length, full, q_SNH.dtype)
        k_BNLH, v_BNLH = kv_2BNLH
        mixed_BNLH = F.scaled_dot_product_attention(q_BNLH, k_BNLH, v_BNLH, attn_mask=score_111L)
        out_SNH[asked] = mixed_BNLH.transpose(1, 2).flatten(0, 1)


@lru_cache(maxsize=128)
def _hidden_after(length: int, full: int, dtype: torch.dtype) -> Tensor:
    """Scores to add, [1, 1, 1, full]: none for the first `length` keys, minus infinity after."""
    score_L = torch.zeros(full, dtype=dtype)
    score_L[length:] = float("-inf")
    return score_L[None, None, None]


class _Scores:
    """Attention weights of runs, with biases if there are any."""

    def __init__(self, bias: Bias | None, dtype: torch.dtype) -> None:
        self.bias = bias
        self.table_NLL = None if bias is None else bias.table_NLL.detach().to(dtype)

    def weights(self, q_XSH: Tensor, k_XTH: Tensor, run: TokenRun) -> Tensor:
        """Attention weights, [X, S, T]; 0 for keys beyond a sequence's end."""
        score_XST = torch.bmm(q_XSH, k_XTH.mT)
        if self.bias is not None:
            assert self.table_NLL is not None
            self.bias.add(score_XST, run, self.table_NLL)
        run.keys.hide(score_XST)
        return score_XST.softmax(-1)


def _padded(x_TNH: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Padded sequences, [B, N, L, H]; a view if all have the same length."""
    longest = max(lengths)
    if min(lengths) == longest:
        x_BLNH: Tensor = x_TNH.unflatten(0, (len(lengths), longest))
        return x_BLNH.transpose(1, 2)
    # pad_sequence's backward pass would copy the whole gradient once for each sequence.
    place_T = _places(lengths, x_TNH.device)
    filled_TNH = x_TNH.new_zeros(len(lengths) * longest, *x_TNH.shape[1:])
    filled_TNH = filled_TNH.index_copy(0, place_T, x_TNH)
    x_BLNH = filled_TNH.unflatten(0, (len(lengths), longest))
    return x_BLNH.transpose(1, 2)


@lru_cache(maxsize=4)  # all layers use the same
def _places(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Where each token is among padded sequences, as one row after the other."""
    longest = max(lengths)
    places = [torch.arange(length) + longest * row for row, length in enumerate(lengths)]
    return torch.cat(places).to(device, non_blocking=True)


def _dense_on_gpu(
    q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float, bias: Bias | None = None
) -> Tensor:
    """Attention by torch's fused kernels, which take padded sequences."""
    q_BNLH = _padded(q_SNH, layout.queries)
    k_BNLH, v_BNLH = (_padded(x_TNH, layout.keys) for x_TNH in kv_T2NH.unbind(1))
    keep_B11L = None
    if len(set(layout.keys)) > 1:
        length_B = torch.tensor(layout.keys).to(q_SNH.device, non_blocking=True)
        place_L = torch.arange(max(layout.keys), device=q_SNH.device)
        keep_B11L = (place_L < length_B[:, None])[:, None, None, :]
    mask = keep_B11L
    if bias is not None:
        mask = bias.padded(layout, q_SNH.dtype)
        if keep_B11L is not None:
            mask = mask.masked_fill(~keep_B11L, float("-inf"))
    out_BNLH = F.scaled_dot_product_attention(
        q_BNLH, k_BNLH, v_BNLH, attn_mask=mask, dropout_p=dropout
    )
    out_BLNH = out_BNLH.transpose(1, 2)
    if len(set(layout.queries)) == 1:
        return out_BLNH.flatten(0, 1)
    rows = zip(out_BLNH.unbind(0), layout.queries, strict=True)
    return torch.cat([row_LNH[:length] for row_LNH, length in rows])


def dense_attention(
    q_SNH: Tensor,
    kv_T2NH: Tensor,
    layout: Layout,
    dropout: Dropout = NOTHING,
    keep: bool = True,
    bias: Bias | None = None,
) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1) within each sequence.

    Args:
        q_SNH: queries.
        kv_T2NH: keys and values.
        layout: positions of the sequences.
        dropout: dropout of the attention weights.
        keep: whether the attention weights are kept for the backward pass, or recomputed. GPUs
            always recompute them.
        bias: added to the scores before the softmax.

    Returns:
        Attention output, [S, N, H].
    """
    if q_SNH.device.type == "cpu":
        if dropout.rate and dropout.key is None:
            dropout = Dropout(dropout.rate, (dropout.seed(),))
        mixed_SNH: Tensor = _DenseOnProcessor.apply(  # type: ignore[no-untyped-call]
            q_SNH,
            kv_T2NH,
            None if bias is None else bias.table_NLL,
            layout,
            dropout,
            keep and torch.is_grad_enabled(),
            bias,
        )
        return mixed_SNH
    return _dense_on_gpu(q_SNH, kv_T2NH, layout, dropout.rate, bias)


@dataclass(frozen=True)
class Terms:
    """Further arguments of the backends."""

    settings: LshConfig
    """Settings of LSH attention."""
    layer: int
    """Index of this application in the stack."""
    landmark_T: Tensor | None = None
    """Mask of the tokens that attend to all and are attended by all."""
    keep: bool = True
    """See `dense_attention`."""
    bias: Bias | None = None
    """See `dense_attention`."""


def _dense(
    q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: Dropout, terms: Terms
) -> Tensor:
    return dense_attention(q_SNH, kv_T2NH, layout, dropout, terms.keep, terms.bias)


def _lsh(q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: Dropout, terms: Terms) -> Tensor:
    settings, lengths = terms.settings, layout.keys
    most = settings.sees_all
    if max(lengths) <= most:
        return _dense(q_SNH, kv_T2NH, layout, dropout, terms)
    if min(lengths) > most:
        return lsh_attention(
            q_SNH, kv_T2NH, lengths, settings, terms.layer, dropout, terms.landmark_T
        )
    # Short sequences gain nothing from sorting: dense attention takes a fifth of the time.
    length_B = torch.tensor(lengths)
    short_T = (length_B <= most).repeat_interleave(length_B)
    rows, parts = [], []
    for part, short in enumerate((True, False)):
        # Decided from plain ints, to avoid device synchronisation.
        at_T = (short_T == short).nonzero()[:, 0].to(q_SNH.device)
        some = tuple(length for length in lengths if (length <= most) == short)
        landmark_T = None if terms.landmark_T is None else terms.landmark_T[at_T]
        alone = replace(terms, landmark_T=landmark_T)
        given = (Layout(some, some), dropout.at(part), alone)
        parts.append(_lsh(q_SNH[at_T], kv_T2NH[at_T], *given))
        rows.append(at_T)
    return torch.cat(parts)[torch.cat(rows).argsort()]


Attention = Callable[[Tensor, Tensor, Layout, Dropout, Terms], Tensor]

ATTENTION: dict[str, Attention] = {"dense": _dense, "lsh": _lsh}
"""Backends by name."""
ASKED_ANYWHERE = ("dense",)
"""Backends that can compute only some queries; the others sort all tokens."""
