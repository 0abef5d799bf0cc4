"""Attention backends, by name."""

# B sequences, L tokens, N heads, H head size

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def dense_attention(
    q_BNLH: Tensor, k_BNLH: Tensor, v_BNLH: Tensor, keep_B11L: Tensor | None, dropout: float
) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, section 3.2.1) by torch's fused kernels.

    Args:
        q_BNLH: queries.
        k_BNLH: keys.
        v_BNLH: values.
        keep_B11L: True at the keys that may be attended to; None where nothing is padded, which
            lets the kernel skip the mask.
        dropout: probability of dropping an attention weight.

    Returns:
        Values mixed by attention, [B, N, L, H].
    """
    return F.scaled_dot_product_attention(
        q_BNLH, k_BNLH, v_BNLH, attn_mask=keep_B11L, dropout_p=dropout
    )


Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]

ATTENTION: dict[str, Attention] = {"dense": dense_attention}
