"""Evaluation on a store with known answers: the figures that select the best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from albert_rc.answering.banks import best_options
from albert_rc.answering.spans import Found, golds
from albert_rc.scoring import glue_squad as scores
from albert_rc.stores.encode import VALUE_STEPS
from albert_rc.stores.store import Store


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Scores over a store's questions whose answer is known."""

    score: float
    """The mean of the task's metrics; higher is better."""
    metrics: dict[str, float]
    loss: float
    """Cross-entropy in nats; the squared error for regression."""
    questions: int


def quality(store: Store, scored_QK: Tensor, reuse: bool = False) -> Quality:
    """Evaluate the result of `score` with the store's own metrics.

    The answers are those of `predict`; the loss is that of the model's own probabilities, also in
    papers whose options are each used once.

    Args:
        store: with some known answers.
        scored_QK: log-probabilities of the options, or the predicted numbers.
        reuse: whether an option may answer several blanks; see `score_lines`.
    """
    answer_Q = store.tensors["answer"].long()
    known_Q = answer_Q >= 0
    best_Q = torch.from_numpy(best_options(store, scored_QK, reuse))[known_Q]
    scored_QK, answer_Q = scored_QK[known_Q].double(), answer_Q[known_Q]
    if store.is_numeric:
        gold_Q, given_Q = answer_Q / VALUE_STEPS, scored_QK[:, 0]
        loss = float((given_Q - gold_Q).square().mean())
    else:
        gold_Q, given_Q = answer_Q, best_Q
        loss = float(-scored_QK.gather(1, answer_Q[:, None]).mean())
    found = {name: float(scores.METRICS[name](gold_Q, given_Q)) for name in store.metrics}
    return Quality(
        # The correlation of constant predictions is undefined; 0, so that they are not the best.
        score=float(np.nan_to_num(list(found.values())).mean()),
        metrics=found,
        loss=loss,
        questions=int(known_Q.sum()),
    )


@dataclass(frozen=True, kw_only=True)
class SpanQuality:
    """SQuAD's exact match and F1, as shares from 0 to 1."""

    exact: float
    f1: float
    questions: int
    null_threshold: float | None = None
    """Threshold with the best F1, if some questions have no answer; used for the figures."""

    def figures(self) -> dict[str, float]:
        """For metrics.jsonl."""
        return {name: value for name, value in vars(self).items() if value is not None}


def _best_threshold(
    answers: Mapping[str, str], right: Mapping[str, Sequence[str]], odds: Mapping[str, float]
) -> float:
    """The threshold with the best F1.

    Where the official search finds nothing better than no answer to any question, it says 0, which
    suits probabilities; differences of scores may all be below 0.
    """
    totals = scores.squad2_totals(answers, right, odds)
    threshold = totals["best_f1_thresh"]
    none = math.nextafter(min((odds[key] for key in right), default=threshold), -math.inf)

    def f1(at: float) -> float:
        return scores.squad2_totals(answers, right, odds, at)["f1"]

    return none if f1(threshold) < totals["best_f1"] <= f1(none) else threshold


def span_quality(
    store: Store, found: list[Found], tuned: bool, threshold: float | None = None
) -> SpanQuality:
    """Exact matches and F1 as the official scripts count them.

    Args:
        store: the questions.
        found: result of `find_spans` for it.
        tuned: some questions have no answer (SQuAD 2.0), so there is a threshold for none.
        threshold: that threshold; None to search for the best.
    """
    right = {
        question.key: texts
        for question, texts in zip(found, golds(store), strict=True)
        if texts is not None
    }
    answers = {question.key: question.answer(None) for question in found}
    if tuned:
        odds = {question.key: question.null_odds for question in found}
        if threshold is None:
            threshold = _best_threshold(answers, right, odds)
        totals = scores.squad2_totals(answers, right, odds, threshold)
    elif all(right.values()):
        totals = scores.squad1_totals(answers, right)
    else:  # no answer is ever left out, as the model was trained on SQuAD 1.1
        totals = scores.squad2_totals(answers, right)
    exact = totals["exact"] if "exact" in totals else totals["exact_match"]
    return SpanQuality(
        exact=exact / 100,
        f1=totals["f1"] / 100,
        questions=len(right),
        null_threshold=threshold if tuned else None,
    )
