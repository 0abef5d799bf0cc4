"""Dense attention on GPUs, by torch's fused kernels."""

# S query tokens, T key tokens, of all sequences concatenated;
# B sequences, L tokens of the longest, N heads, H head size

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.model.layout import Layout
from albert_rc.model.relative import Bias

FLASH = (8, 0)
"""Lowest compute capability that has flash attention: Ampere's."""
LARGEST_HEAD = 256
"""Largest head size that its kernels support."""


def attention_on_gpu(
    q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float, bias: Bias | None = None
) -> Tensor:
    """See `attention.dense_attention`; masks of dropout come from torch's generator."""
    if not dropout and bias is None and _has_flash(q_SNH):
        return _flash(q_SNH, kv_T2NH, layout)
    return _padded_attention(q_SNH, kv_T2NH, layout, dropout, bias)


def _has_flash(q_SNH: Tensor) -> bool:
    """Whether flash attention supports this device, type and head size."""
    size, halved = q_SNH.shape[-1], q_SNH.dtype in (torch.bfloat16, torch.float16)
    fits = q_SNH.is_cuda and halved and size <= LARGEST_HEAD and size % 8 == 0
    return fits and _capability(q_SNH.device) >= FLASH


@lru_cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


def _flash(q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout) -> Tensor:
    """Sequences of any lengths without padding (Dao 2023); without dropout and biases."""
    from torch.nn.attention.varlen import varlen_attn  # not needed on CPUs

    query_B, key_B = (_ends(lengths, q_SNH.device) for lengths in (layout.queries, layout.keys))
    k_TNH, v_TNH = kv_T2NH.unbind(1)
    longest_query, longest_key = max(layout.queries), max(layout.keys)
    found = varlen_attn(q_SNH, k_TNH, v_TNH, query_B, key_B, longest_query, longest_key)
    assert isinstance(found, Tensor)
    return found


# What is cached is used in training, too: it must not be made as an inference tensor.
@lru_cache(maxsize=4)  # all layers use the same
@torch.inference_mode(False)
def _ends(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Cumulative lengths: the start of each sequence, and the end of the last, [B + 1]."""
    end_B = torch.tensor((0, *lengths)).cumsum(0, dtype=torch.int32)
    return end_B.to(device, non_blocking=True)


def _padded_attention(
    q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: float, bias: Bias | None
) -> Tensor:
    """Padded sequences, with dropout of the attention's weights and biases of its scores."""
    q_BNLH = _padded(q_SNH, layout.queries)
    k_BNLH, v_BNLH = (_padded(x_TNH, layout.keys) for x_TNH in kv_T2NH.unbind(1))
    mask = keep_B11L = _kept(layout.keys, q_SNH.device)
    if bias is not None:
        mask = bias.padded(layout, q_SNH.dtype)
        if keep_B11L is not None:
            mask = mask.masked_fill(~keep_B11L, float("-inf"))
    out_BNLH = F.scaled_dot_product_attention(
        q_BNLH, k_BNLH, v_BNLH, attn_mask=mask, dropout_p=dropout
    )
    out_FNH = out_BNLH.transpose(1, 2).flatten(0, 1)
    if len(set(layout.queries)) == 1:
        return out_FNH
    rows_SNH: Tensor = _RowsOnce.apply(out_FNH, _places(layout.queries, q_SNH.device))  # type: ignore[no-untyped-call]
    return rows_SNH


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


class _RowsOnce(torch.autograd.Function):
    """Selection of rows, each at most once, so that gradients are copied instead of added."""

    @staticmethod
    def forward(ctx: Any, x_FNH: Tensor, place_S: Tensor) -> Tensor:
        ctx.save_for_backward(place_S)
        ctx.shape = x_FNH.shape
        return x_FNH.index_select(0, place_S)

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (place_S,) = ctx.saved_tensors
        return output[0].new_zeros(ctx.shape).index_copy_(0, place_S, output[0]), None


@lru_cache(maxsize=4)
@torch.inference_mode(False)
def _places(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Where each token is among padded sequences, as one row after the other."""
    longest = max(lengths)
    places = [torch.arange(length) + longest * row for row, length in enumerate(lengths)]
    return torch.cat(places).to(device, non_blocking=True)


@lru_cache(maxsize=4)
@torch.inference_mode(False)
def _kept(lengths: tuple[int, ...], device: torch.device) -> Tensor | None:
    """Mask of the keys of padded sequences that are tokens, [B, 1, 1, L]; None if all are."""
    if min(lengths) == max(lengths):
        return None
    keep_BL = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return keep_BL[:, None, None, :].to(device, non_blocking=True)
