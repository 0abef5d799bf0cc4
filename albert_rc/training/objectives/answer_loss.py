"""Cross-entropy of the answers, combined with a teacher's probabilities."""

# Q questions, K options of a question

from __future__ import annotations

import torch
from torch import Tensor


def taught_loss(logits_QK: Tensor, answer_Q: Tensor, chance_QK: Tensor, weight: float) -> Tensor:
    """Cross-entropy with a teacher's probabilities (Hinton et al. 2015), summed, in nats.

    Args:
        logits_QK: -inf if a question has fewer than K options.
        answer_Q: indices of the right options; -1 if none is known: only the teacher counts.
        chance_QK: the teacher's probabilities; NaN if there are none: only the answer counts.
        weight: weight of the teacher's probabilities; the right answers have the rest.
    """
    present_QK = logits_QK.isfinite()
    log_QK = logits_QK.log_softmax(-1).masked_fill(~present_QK, 0)
    asked_Q = ~(chance_QK.isnan() & present_QK).any(-1)
    soft_Q = -(torch.where(present_QK & asked_Q[:, None], chance_QK, 0.0) * log_QK).sum(-1)
    right_Q = log_QK.gather(1, answer_Q.clamp(min=0)[:, None])[:, 0]
    weight_Q = torch.where(answer_Q >= 0, weight, 1.0) * asked_Q
    return (weight_Q * soft_Q - (1 - weight_Q) * right_Q * (answer_Q >= 0)).sum()
