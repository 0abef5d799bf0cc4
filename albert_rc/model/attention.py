"""Attention backends by name, for concatenated sequences without padding."""

# S query tokens, T key tokens, of all sequences concatenated;
# B sequences, L tokens of the longest, N heads, H head size, X pairs of a sequence and a head

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from albert_rc.model.attention_cpu import attention_on_cpu
from albert_rc.model.attention_gpu import attention_on_gpu
from albert_rc.model.config import LshConfig
from albert_rc.model.dropout import NOTHING, Dropout
from albert_rc.model.layout import Layout
from albert_rc.model.lsh import lsh_attention
from albert_rc.model.relative import Bias


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
        return attention_on_cpu(q_SNH, kv_T2NH, layout, dropout, keep, bias)
    return attention_on_gpu(q_SNH, kv_T2NH, layout, dropout.rate, bias)


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
