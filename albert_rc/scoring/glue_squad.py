"""Metrics of SQuAD and GLUE, with confidence intervals.

SQuAD's are those of the two official scripts, with their differences and quirks, in percent.
GLUE's are shares from -1 or 0 to 1. They reduce the last axis, so that thousands of resamples are
scored at once: [..., N] items to [...] scores; `float()` converts the score of a single list.
"""

from __future__ import annotations

import re
import string
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from albert_rc.errors import DataError
from albert_rc.scoring.accuracy import CONFIDENCE, FEWEST, bootstrap

RESAMPLES = 1000

Scores = NDArray[np.float64]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class Match(NamedTuple):
    """Agreement of an answer with the best of the right ones, 0 to 1."""

    exact: float
    f1: float


def normalize_answer(text: str) -> str:
    """Lower case without ASCII punctuation and articles, with white space collapsed.

    In this order: "a.m." first becomes "am", and curly quotes stay.
    """
    without_signs = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", without_signs).split())


def _words_f1(answer: str, gold: str) -> float:
    ours, theirs = normalize_answer(answer).split(), normalize_answer(gold).split()
    shared = (Counter(ours) & Counter(theirs)).total()
    # The harmonic mean of shared / ours and shared / theirs.
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def _exact(answer: str, gold: str) -> float:
    return float(normalize_answer(answer) == normalize_answer(gold))


def squad1_match(answer: str, golds: Sequence[str]) -> Match:
    """The score of one answer in SQuAD 1.1 (Rajpurkar et al. 2016, section 6.1).

    Two texts without words match exactly, but their F1 is 0.

    Raises:
        ValueError: there is no right answer.
    """
    return Match(max(_exact(answer, g) for g in golds), max(_words_f1(answer, g) for g in golds))


def squad2_match(answer: str, golds: Sequence[str]) -> Match:
    """The score of one answer in SQuAD 2.0 (Rajpurkar et al. 2018).

    Args:
        answer: the answer, empty for no answer.
        golds: the right ones; those without words are ignored, and if none is left the
            question has no answer.
    """
    golds = [gold for gold in golds if normalize_answer(gold)]
    if golds:
        return squad1_match(answer, golds)
    silent = _exact(answer, "")
    return Match(silent, silent)


def _percent(values: Iterable[float]) -> float:
    return 100 * float(mean(list(values)))


def squad1_totals(
    answers: Mapping[str, str], golds: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """SQuAD 1.1's `exact_match` and `f1` in percent, under the official names.

    Args:
        answers: by the question's id; a question without one counts 0.
        golds: every question's right answers by its id.
    """
    none = Match(0.0, 0.0)
    found = [squad1_match(answers[i], g) if i in answers else none for i, g in golds.items()]
    return {"exact_match": _percent(m.exact for m in found), "f1": _percent(m.f1 for m in found)}


def squad2_totals(
    answers: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """SQuAD 2.0's scores in percent, under the official names.

    Args:
        answers: by the question's id.
        golds: every question's right answers by its id; empty if it has none.
        null_odds: score of no answer by the question's id: any monotone measure, such as a
            probability or a difference of scores.
        threshold: a question whose odds are above it counts as not answered.

    Returns:
        `exact`, `f1` and `total`; the same for the questions with an answer (`HasAns_`) and
        without (`NoAns_`), where there are any; with odds also the best scores over all
        thresholds, and the threshold (`best_exact`, `best_exact_thresh`, `best_f1`,
        `best_f1_thresh`).

    Raises:
        DataError: a question has no answer, or no odds.
    """
    for what, given in (("answer", answers), ("null odds", null_odds)):
        missing = [i for i in golds if given is not None and i not in given]
        if missing:
            raise DataError(f"question {missing[0]}: no {what} ({len(missing)} of {len(golds)})")
    raw = {i: squad2_match(answers[i], g) for i, g in golds.items()}
    scored = dict(raw)
    for i in golds:
        if null_odds is not None and null_odds[i] > threshold:
            right = float(not golds[i])
            scored[i] = Match(right, right)
    result: dict[str, float] = {}
    for prefix, members in (
        ("", list(golds)),
        ("HasAns_", [i for i in golds if golds[i]]),
        ("NoAns_", [i for i in golds if not golds[i]]),
    ):
        if members or not prefix:
            result[f"{prefix}exact"] = _percent(scored[i].exact for i in members)
            result[f"{prefix}f1"] = _percent(scored[i].f1 for i in members)
            result[f"{prefix}total"] = len(members)
    if null_odds is not None:
        for name in ("exact", "f1"):
            values = {i: float(getattr(match, name)) for i, match in raw.items()}
            best, at = best_threshold(values, answers, golds, null_odds)
            result[f"best_{name}"], result[f"best_{name}_thresh"] = best, at
    return result


def best_threshold(
    scores: Mapping[str, float],
    answers: Mapping[str, str],
    golds: Mapping[str, Sequence[str]],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """The best score in percent over all thresholds on the odds, and that threshold.

    Searches like the official script: it starts with no question answered, with threshold 0,
    then answers them in order of their odds. Equal odds count as separate thresholds, in the
    order of `null_odds`; so the score may be one that no threshold gives.

    Args:
        scores: score of each question as answered, 0 to 1.
        answers: answers by the question's id.
        golds: right answers by the question's id; empty if it has none.
        null_odds: odds of no answer by the question's id.
    """
    if not scores:
        return float("nan"), 0.0
    current = best = float(sum(not gold for gold in golds.values()))
    threshold = 0.0
    for i in sorted(null_odds, key=lambda i: null_odds[i]):
        if i not in scores:
            continue
        # Answering a question without an answer loses the point for no answer.
        current += scores[i] if golds[i] else -float(bool(answers[i]))
        if current > best:
            best, threshold = current, null_odds[i]
    return 100 * best / len(scores), threshold


def _divide(numerator: ArrayLike, denominator: ArrayLike, otherwise: float) -> Scores:
    top, bottom = np.broadcast_arrays(
        np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    )
    ratio: Scores = np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom != 0)
    return ratio


def mean(values: ArrayLike) -> Scores:
    """The mean, NaN for no items."""
    array = np.asarray(values, np.float64)
    return _divide(array.sum(-1), array.shape[-1], np.nan)


def accuracy(gold: ArrayLike, predicted: ArrayLike) -> Scores:
    """Share of items whose label is right."""
    return mean(np.asarray(gold) == np.asarray(predicted))


def f1(gold: ArrayLike, predicted: ArrayLike, positive: Any = 1) -> Scores:
    """F1 of one class; 0 if it neither occurs nor is predicted."""
    true, said = np.asarray(gold) == positive, np.asarray(predicted) == positive
    return _divide(2 * (true & said).sum(-1), true.sum(-1) + said.sum(-1), 0.0)


def matthews(gold: ArrayLike, predicted: ArrayLike) -> Scores:
    """Matthews correlation of two or more classes (Gorodkin 2004); 0 if a side is constant."""
    true, said = np.asarray(gold), np.asarray(predicted)
    labels = np.union1d(true, said)
    of_true = np.array([(true == label).sum(-1) for label in labels], np.float64)
    of_said = np.array([(said == label).sum(-1) for label in labels], np.float64)
    items = float(true.shape[-1])
    together = items * (true == said).sum(-1) - (of_true * of_said).sum(0)
    spreads = [items**2 - (counts**2).sum(0) for counts in (of_true, of_said)]
    return _divide(together, np.sqrt(spreads[0]) * np.sqrt(spreads[1]), 0.0)


def pearson(gold: ArrayLike, predicted: ArrayLike) -> Scores:
    """Pearson's correlation; NaN if a side is constant, or for fewer than two items."""
    from scipy.stats import ConstantInputWarning, NearConstantInputWarning, pearsonr

    shape = np.shape(gold)
    if shape[-1] < 2:
        return np.full(shape[:-1], np.nan)
    with warnings.catch_warnings():
        for known in (ConstantInputWarning, NearConstantInputWarning):
            warnings.simplefilter("ignore", known)
        found: Scores = pearsonr(gold, predicted, axis=-1).statistic
    return found


def spearman(gold: ArrayLike, predicted: ArrayLike) -> Scores:
    """Spearman's correlation: Pearson's of the ranks, with mean ranks for ties."""
    from scipy.stats import rankdata

    return pearson(rankdata(gold, axis=-1), rankdata(predicted, axis=-1))


def interval(
    metric: Callable[..., Scores],
    *columns: Sequence[Any],
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval over items (Efron 1979).

    Args:
        metric: maps the columns, [..., N] each, to [...] scores.
        columns: [N] each; gold and prediction of an item are drawn together.
        resamples: number of resamples.
        confidence: confidence level.
        seed: random seed of the resampling.

    Returns:
        Both ends; NaN for fewer than `FEWEST` items, if a resample has no score, or if all have
        equal scores. (An accuracy has an interval then, too: `scoring.accuracy.accuracy`.)

    Raises:
        ValueError: columns of different lengths.
    """
    size = len(columns[0])
    if any(len(column) != size for column in columns):
        raise ValueError("the columns must have the same length")
    if size >= FEWEST:
        low, high = bootstrap(metric, columns, seed, resamples, confidence)
        if low < high:
            return low, high
    return float("nan"), float("nan")


METRICS: dict[str, Callable[..., Scores]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
}
"""GLUE's metrics by name: functions of gold and prediction."""
