"""How good scored options are on a store whose answers are known: what decides over weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from albert_rc.data.encode import VALUE_STEPS
from albert_rc.data.shards import Store
from albert_rc.scores import METRICS


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Figures of a store's questions whose answer is known."""

    score: float
    """The mean of the task's metrics; higher is better."""
    metrics: dict[str, float]
    loss: float
    """Cross-entropy in nats; of numbers, the squared error."""
    questions: int


def quality(store: Store, scored_QK: Tensor) -> Quality:
    """Measure what `predict.score` gives by the store's own metrics.

    Args:
        store: with some known answers.
        scored_QK: log-probabilities of the options, or the numbers.
    """
    answer_Q = store.tensors["answer"].long()
    known_Q = answer_Q >= 0
    scored_QK, answer_Q = scored_QK[known_Q].double(), answer_Q[known_Q]
    if store.is_numeric:
        gold_Q, given_Q = answer_Q / VALUE_STEPS, scored_QK[:, 0]
        loss = float((given_Q - gold_Q).square().mean())
    else:
        gold_Q, given_Q = answer_Q, scored_QK.argmax(-1)
        loss = float(-scored_QK.gather(1, answer_Q[:, None]).mean())
    found = {name: METRICS[name](given_Q.numpy(), gold_Q.numpy()) for name in store.metrics}
    return Quality(
        score=float(torch.tensor(list(found.values())).nan_to_num(0.0).mean()),
        metrics=found,
        loss=loss,
        questions=int(known_Q.sum()),
    )
