"""Dense attention on CPUs: two matrix products per sequence, or per run of short ones."""

# S query tokens, T key tokens, of all sequences concatenated;
# B sequences, L tokens of the longest, N heads, H head size, X pairs of a sequence and a head

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.model.dropout import Dropout, cleared, masked, widened
from albert_rc.model.layout import Layout, TokenRun, rounded_up
from albert_rc.model.relative import Bias
from albert_rc.runtime.devices import has_matrix_units

FUSED_LENGTHS = 16
"""Numbers of keys are rounded up to a multiple of this for torch's fused kernel on AMX: others take
up to twice as long."""
SCORES_TOGETHER = 2**18
"""Number of attention scores, over all heads, that fit a core's cache (1 MiB in fp32)."""
SCORES_TOGETHER_AMX = 2**22
"""The same with matrix units. Products are so fast there that each operation's fixed cost of 50 to
100 microseconds matters more than the cache."""
SPARE_AMX = 0.1
"""Maximum share of the scores computed together that is padding, as sequences differ in length."""


def scores_together(dtype: torch.dtype) -> int:
    """Number of scores, over all heads, up to which sequences are computed together."""
    return SCORES_TOGETHER_AMX if has_matrix_units(dtype) else SCORES_TOGETHER


class _Dense(torch.autograd.Function):
    """Attention by matrix products per run of sequences.

    For exam-length sequences the scores fit the cache, and on CPUs two plain products with a
    softmax between them are twice as fast as torch's fused kernel in the forward pass, and three
    times with the gradient (`docs/speed-details.md`). Batches hold sequences of similar length next
    to each other, so that short ones are computed together, which saves call overhead.
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
        units = has_matrix_units(q_SNH.dtype)
        most = scores_together(q_SNH.dtype) // q_SNH.shape[1]
        runs = layout.runs(most, spare=SPARE_AMX if units else 0.0)
        weights, dropped = [], []  # of each run; `dropped` after dropout, or masks if none are kept
        scored = _Scores(bias, q_SNH.dtype, q_SNH.shape[-1])
        # With matrix units torch's fused kernel takes about half the time of two products and a
        # softmax; see experiments/training/attention_kernels.py. Only for prediction: a backward
        # pass, and layers that are computed again, need the numbers of the same kernel.
        fused = units and torch.is_inference_mode_enabled() and not dropout.rate
        for number, run in enumerate(runs):
            if fused:
                _fused(q_SNH, kv_T2NH, run, out_SNH, bias)
                continue
            k_XTH, v_XTH = run.keys.stacks(kv_T2NH)
            weight_XST = scored.weights(run.queries.matrices(q_SNH, scored.scale), k_XTH, run)
            if keep:
                weights.append(weight_XST)
            if dropout.rate:
                mask_XST = dropout.at(number).mask(weight_XST.shape)
                weight_XST = masked(weight_XST, mask_XST)
                dropped.append(weight_XST if keep else mask_XST)
            run.queries.write(out_SNH, torch.bmm(weight_XST, v_XTH), dropout.scale)
        ctx.save_for_backward(q_SNH, kv_T2NH, *dropped, *weights)
        ctx.layout, ctx.runs, ctx.dropout, ctx.bias = layout, runs, dropout, bias
        return out_SNH

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient_SNH,) = output
        q_SNH, kv_T2NH, *saved = ctx.saved_tensors
        count = len(ctx.runs) if ctx.dropout.rate else 0
        dropped, weights = saved[:count], saved[count:]
        dq_SNH, dkv_T2NH = torch.empty_like(q_SNH), torch.empty_like(kv_T2NH)
        dq_SNH[sum(ctx.layout.queries) :] = 0
        dkv_T2NH[sum(ctx.layout.keys) :] = 0
        dk_TNH, dv_TNH = dkv_T2NH.unbind(1)
        scored = _Scores(ctx.bias, q_SNH.dtype, q_SNH.shape[-1])
        dtable_NLL = None
        if ctx.bias is not None and ctx.needs_input_grad[2]:
            dtable_NLL = torch.zeros_like(ctx.bias.table_NLL)
        for i, run in enumerate(ctx.runs):
            q_XSH = run.queries.matrices(q_SNH, scored.scale)
            k_XTH, v_XTH = run.keys.stacks(kv_T2NH)
            weight_XST = weights[i] if weights else scored.weights(q_XSH, k_XTH, run)
            # Scaling here touches fewer numbers than scaling the weights.
            do_XSH = run.queries.matrices(gradient_SNH, ctx.dropout.scale, clear=True)
            dw_XST, dropped_XST = torch.bmm(do_XSH, v_XTH.mT), weight_XST
            if dropped and weights:
                dropped_XST = dropped[i]
                # It also clears where a weight is 0 by underflow, by which softmax's backward pass
                # multiplies anyway.
                torch.ops.aten.threshold_backward(dw_XST, dropped_XST, 0, grad_input=dw_XST)
            elif dropped:
                wide_XST = widened(dropped[i], weight_XST.dtype)
                cleared(dw_XST, wide_XST, out=dw_XST)
                dropped_XST = cleared(weight_XST, wide_XST, out=wide_XST)
            run.keys.write(dv_TNH, torch.bmm(dropped_XST.mT, do_XSH))
            ds_XST = torch._softmax_backward_data(
                dw_XST, weight_XST, -1, weight_XST.dtype, grad_input=dw_XST
            )
            if dtable_NLL is not None:
                ctx.bias.collect(ds_XST, run, dtable_NLL)
            run.queries.write(dq_SNH, torch.bmm(ds_XST, k_XTH), scored.scale)
            run.keys.write(dk_TNH, torch.bmm(ds_XST.mT, q_XSH))
        return dq_SNH, dkv_T2NH, dtable_NLL, None, None, None, None


def _fused(
    q_SNH: Tensor, kv_T2NH: Tensor, run: TokenRun, out_SNH: Tensor, bias: Bias | None
) -> None:
    """Write the attention output of a run by torch's fused kernel.

    What a sequence gets does not depend on its neighbours, so those of different lengths, or with
    biases of different places, are computed one by one.
    """
    rows, count = [(run.queries.all, run.keys.all)], run.count
    alike = len(set(run.queries.lengths)) == len(set(run.keys.lengths)) == 1
    if not alike or (bias is not None and bias.place_S is not None):
        rows, count = list(zip(run.queries.slices, run.keys.slices, strict=True)), 1
    for asked, answering in rows:
        q_BNLH = q_SNH[asked].unflatten(0, (count, -1)).transpose(1, 2)
        kv_2BNLH = kv_T2NH[answering].unflatten(0, (count, -1)).permute(2, 0, 3, 1, 4)
        length = kv_2BNLH.shape[3]
        full, score_1NSL = rounded_up(length, FUSED_LENGTHS), None
        if bias is not None:
            score_1NSL = bias.filled(asked, q_BNLH.shape[2], length, full, q_SNH.dtype)
        if full > length:
            filled_2BNLH = kv_2BNLH.new_zeros(*kv_2BNLH.shape[:3], full, kv_2BNLH.shape[4])
            filled_2BNLH[:, :, :, :length] = kv_2BNLH
            kv_2BNLH = filled_2BNLH
            if bias is None:
                score_1NSL = _hidden_after(length, full, q_SNH.dtype)
        k_BNLH, v_BNLH = kv_2BNLH
        mixed_BNLH = F.scaled_dot_product_attention(q_BNLH, k_BNLH, v_BNLH, attn_mask=score_1NSL)
        out_SNH[asked] = mixed_BNLH.transpose(1, 2).flatten(0, 1)


@lru_cache(maxsize=128)
def _hidden_after(length: int, full: int, dtype: torch.dtype) -> Tensor:
    """Scores to add, [1, 1, 1, full]: none for the first `length` keys, minus infinity after."""
    score_L = torch.zeros(full, dtype=dtype)
    score_L[length:] = float("-inf")
    return score_L[None, None, None]


class _Scores:
    """Attention weights of runs, with biases if there are any."""

    def __init__(self, bias: Bias | None, dtype: torch.dtype, head_size: int) -> None:
        self.bias = bias
        self.scale: float = head_size**-0.5
        self.table_NLL = None if bias is None else bias.table_NLL.detach().to(dtype)

    def weights(self, q_XSH: Tensor, k_XTH: Tensor, run: TokenRun) -> Tensor:
        """Attention weights, [X, S, T]; 0 for keys beyond a sequence's end."""
        score_XST = torch.bmm(q_XSH, k_XTH.mT)
        if self.bias is not None:
            assert self.table_NLL is not None
            self.bias.add(score_XST, run, self.table_NLL)
        run.keys.hide(score_XST)
        return torch.softmax(score_XST, -1, out=score_XST)


def attention_on_cpu(
    q_SNH: Tensor,
    kv_T2NH: Tensor,
    layout: Layout,
    dropout: Dropout,
    keep: bool,
    bias: Bias | None,
) -> Tensor:
    """`attention.dense_attention` on a CPU: [S, N, H]."""
    if dropout.rate and dropout.key is None:
        dropout = Dropout(dropout.rate, (dropout.seed(),))
    mixed_SNH: Tensor = _Dense.apply(  # type: ignore[no-untyped-call]
        q_SNH,
        kv_T2NH,
        None if bias is None else bias.table_NLL,
        layout,
        dropout,
        keep and torch.is_grad_enabled(),
        bias,
    )
    return mixed_SNH
