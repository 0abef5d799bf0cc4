"""Answer losses beyond plain cross-entropy: label smoothing, distillation, R-Drop."""

# Q questions, K options of a question

from __future__ import annotations

import torch
from torch import Tensor


def _log_shares(logits_QK: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (0 where a question has no such option), and the mask of options."""
    present_QK = logits_QK.isfinite()
    return logits_QK.log_softmax(-1).masked_fill(~present_QK, 0), present_QK


def smoothed_loss(
    logits_QK: Tensor, answer_Q: Tensor, share: float, weight_Q: Tensor | None = None
) -> Tensor:
    """Cross-entropy with smoothed targets (Szegedy et al. 2016, section 7), summed, in nats.

    Args:
        logits_QK: -inf where a question has fewer than K options.
        answer_Q: indices of the right options; -1 where none is known (loss 0).
        share: share of the target spread evenly over all options of the question; 0 for none.
        weight_Q: weight of each question; 1 if None.
    """
    log_QK, present_QK = _log_shares(logits_QK)
    known_Q = answer_Q >= 0
    right_Q = log_QK.gather(1, answer_Q.clamp(min=0)[:, None])[:, 0]
    loss_Q = -right_Q
    if share:
        mean_Q = log_QK.sum(-1) / present_QK.sum(-1)
        loss_Q = -(1 - share) * right_Q - share * mean_Q
    if weight_Q is not None:
        loss_Q = loss_Q * weight_Q
    return (loss_Q * known_Q).sum()


def taught_loss(
    logits_QK: Tensor, answer_Q: Tensor, chance_QK: Tensor, weight: float, share: float
) -> Tensor:
    """Cross-entropy with a teacher's probabilities (Hinton et al. 2015), summed, in nats.

    Args:
        logits_QK: -inf where a question has fewer than K options.
        answer_Q: indices of the right options; -1 where none is known: only the teacher counts.
        chance_QK: the teacher's probabilities; NaN where there are none: only the answer counts.
        weight: weight of the teacher's probabilities; the right answers have the rest.
        share: share of the answers' target spread over all options, see `smoothed_loss`.
    """
    log_QK, present_QK = _log_shares(logits_QK)
    asked_Q = ~(chance_QK.isnan() & present_QK).any(-1)
    soft_Q = -(torch.where(present_QK & asked_Q[:, None], chance_QK, 0.0) * log_QK).sum(-1)
    weight_Q = torch.where(answer_Q >= 0, weight, 1.0) * asked_Q
    answers = smoothed_loss(logits_QK, answer_Q, share, 1 - weight_Q)
    return answers + (weight_Q * soft_Q).sum()


def disagreement(first_QK: Tensor, second_QK: Tensor, answer_Q: Tensor) -> Tensor:
    """The mean of both Kullback-Leibler divergences of two passes, summed over questions, in nats.

    Args:
        first_QK: logits, -inf where there is no option.
        second_QK: logits of the other pass.
        answer_Q: -1 where no right option is known: such questions are left out.
    """
    one_QK, present_QK = _log_shares(first_QK)
    other_QK, _ = _log_shares(second_QK)
    # KL(p|q) + KL(q|p) is the sum of (p - q)(ln p - ln q).
    share_QK = (one_QK.exp() - other_QK.exp()) * present_QK
    each_Q = (share_QK * (one_QK - other_QK)).sum(-1) / 2
    return (each_Q * (answer_Q >= 0)).sum()
