"""Quality of probabilities: calibration error, risk and coverage, temperature scaling."""

# Q questions, K options (the maximum over questions; 0 if a question has fewer)

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from albert_rc.errors import DataError
from albert_rc.scoring.accuracy import numbered

Chances = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Fitted = TypeVar("Fitted")

LEAST = 1e-300
"""Lower bound of probabilities, so that they have a logarithm."""
COLDEST, HOTTEST = 0.02, 50.0


def limit_warning(temperature: float) -> str | None:
    """A warning about a fitted temperature that is the lowest or highest possible, if it is."""
    if temperature > HOTTEST * 0.99:
        return (
            "warning: this is the upper limit for temperatures: on these papers the probabilities "
            "say almost nothing about which answers are right; give more papers, or train the "
            "model further"
        )
    if temperature < COLDEST * 1.01:
        return (
            "warning: this is the lower limit for temperatures: almost every answer to these "
            "papers is right, so they are too few or too easy for calibration; give more papers"
        )
    return None


BINS = 15
COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)


def above_zero(chances: Chances) -> Chances:
    """Probabilities clipped to `LEAST`, so that they have a logarithm."""
    return np.maximum(chances, LEAST)


def logarithms(chances_QK: Chances, present_QK: Flags) -> Chances:
    """Log-probabilities; -inf beyond a question's last option."""
    logs = np.log(above_zero(chances_QK))
    return np.where(present_QK, logs, -np.inf)


def normalized(logs_QK: Chances) -> Chances:
    """Softmax over the options."""
    shares = np.exp(logs_QK - logs_QK.max(-1, keepdims=True))
    total: Chances = shares / shares.sum(-1, keepdims=True)
    return total


def temper(chances_QK: Chances, present_QK: Flags, temperature: float) -> Chances:
    """Probabilities as if their logits had been divided by a temperature (Guo et al. 2017, 4.2).

    Args:
        chances_QK: each row sums to 1.
        present_QK: mask of the existing options.
        temperature: above 1 flattens them; the order of a question's options stays.
    """
    if temperature == 1:
        return chances_QK
    return normalized(logarithms(chances_QK, present_QK) / temperature)


def fit_temperature(chances_QK: Chances, present_QK: Flags, gold_Q: Indices) -> float:
    """The temperature that maximises the likelihood of the right options, for all questions.

    Args:
        chances_QK: each row sums to 1.
        present_QK: mask of the existing options.
        gold_Q: indices of the right options.

    Returns:
        A value from COLDEST to HOTTEST: where all answers are right the optimum is unbounded.
    """
    from scipy.optimize import minimize_scalar

    logs_QK = logarithms(chances_QK, present_QK)
    right_Q = np.take_along_axis(logs_QK, gold_Q[:, None], 1)[:, 0]
    top_Q = logs_QK.max(-1)
    below_QK = logs_QK - top_Q[:, None]

    def loss(log_temperature: float) -> float:
        scale = np.exp(-log_temperature)
        return float((np.log(np.exp(below_QK * scale).sum(-1)) - (right_Q - top_Q) * scale).mean())

    # Convex in 1 / T (a log-sum-exp of a linear function), so there is one minimum.
    bounds = np.log(COLDEST), np.log(HOTTEST)
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


@dataclass(frozen=True)
class Bin:
    """Answers whose probability is in (low, high]."""

    low: float
    high: float
    questions: int
    confidence: float
    accuracy: float


def bin_places(confidence_Q: Chances, bins: int = BINS) -> Indices:
    """[Q] index of the equal-width bin of each probability, from 0."""
    # Rounding must not decide: 0.6 belongs to the bin that ends at 0.6.
    found: Indices = np.ceil(np.round(confidence_Q * bins, 9)).astype(np.int64) - 1
    return np.clip(found, 0, bins - 1)


def reliability(confidence_Q: Chances, right_Q: Flags, bins: int = BINS) -> list[Bin]:
    """The reliability table, without empty bins."""
    place_Q = bin_places(confidence_Q, bins)
    table = []
    for place in np.unique(place_Q).tolist():
        here = place_Q == place
        table.append(
            Bin(
                low=place / bins,
                high=(place + 1) / bins,
                questions=int(here.sum()),
                confidence=float(confidence_Q[here].mean()),
                accuracy=float(right_Q[here].mean()),
            )
        )
    return table


def calibration_error(table: Sequence[Bin]) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3) of a reliability table."""
    total = sum(row.questions for row in table)
    return sum(row.questions * abs(row.confidence - row.accuracy) for row in table) / total


def selective_errors(confidence_Q: Chances, right_Q: Flags) -> Chances:
    """[Q] share of wrong answers among the n most confident, for n from 1 to all.

    Equally confident answers have no order, so each counts as their mean.
    """
    level_Q = np.unique(-confidence_Q, return_inverse=True)[1]
    mean_error = np.bincount(level_Q, ~right_Q) / np.bincount(level_Q)
    errors_Q = mean_error[np.sort(level_Q)]
    result: Chances = np.cumsum(errors_Q) / np.arange(1, len(errors_Q) + 1)
    return result


@dataclass(frozen=True)
class Confidence:
    """Metrics of a system's probabilities."""

    questions: int
    accuracy: float
    ece: float
    """Expected calibration error of the answers given."""
    brier: float
    """Sum of squares over a question's options, mean over questions (Brier 1950): 0 to 2."""
    nll: float
    """Negative log-likelihood of the right options, in nats."""
    aurc: float
    """Area under the risk-coverage curve: mean of `selective_errors`."""
    coverage: dict[float, float]
    """Accuracy of the most confident answers, by their share of all."""
    bins: list[Bin]

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
        return {
            **{name: round(getattr(self, name), 6) for name in FIGURES},
            "questions": self.questions,
            "coverage": {f"{share:g}": round(value, 6) for share, value in self.coverage.items()},
            "bins": [vars(row) for row in self.bins],
        }


FIGURES = ("accuracy", "ece", "brier", "nll", "aurc")


def measure(chances_QK: Chances, gold_Q: Indices, bins: int = BINS) -> Confidence:
    """Compute the metrics of probabilities.

    Args:
        chances_QK: each row sums to 1.
        gold_Q: indices of the right options.
        bins: number of bins of the calibration error.
    """
    rows = np.arange(len(gold_Q))
    answers_Q, confidence_Q = chances_QK.argmax(-1), chances_QK.max(-1)
    right_Q = answers_Q == gold_Q
    table = reliability(confidence_Q, right_Q, bins)
    errors = selective_errors(confidence_Q, right_Q)
    wanted_QK = np.zeros_like(chances_QK)
    wanted_QK[rows, gold_Q] = 1
    covered = {share: max(1, round(share * len(gold_Q))) for share in COVERAGES}
    return Confidence(
        questions=len(gold_Q),
        accuracy=float(right_Q.mean()),
        ece=calibration_error(table),
        brier=float(((chances_QK - wanted_QK) ** 2).sum(-1).mean()),
        nll=float(-np.log(above_zero(chances_QK[rows, gold_Q])).mean()),
        aurc=float(errors.mean()),
        coverage={share: 1 - float(errors[count - 1]) for share, count in covered.items()},
        bins=table,
    )


def folds_of(papers: Sequence[Hashable], folds: int, seed: int = 0) -> Indices:
    """[Q] fold of each question; a paper's questions share theirs.

    Raises:
        DataError: a single paper.
    """
    count = len(set(papers))
    if count < 2:
        raise DataError(
            "only one paper has right answers, and fitting needs at least two; give more papers"
        )
    order = np.random.default_rng(seed).permutation(count)
    found: Indices = (order % min(folds, count))[numbered(papers)]
    return found


def held_out(
    fold_Q: Indices, fit: Callable[[Indices], Fitted], apply: Callable[[Fitted, Indices], Chances]
) -> Chances:
    """[Q, K] cross-validated probabilities, each fitted without the question's fold.

    Args:
        fold_Q: result of `folds_of`.
        fit: fits to the questions with these indices.
        apply: the fit's probabilities for the questions with these indices.
    """
    parts = []
    for fold in np.unique(fold_Q):
        inside = np.flatnonzero(fold_Q == fold)
        parts.append((inside, apply(fit(np.flatnonzero(fold_Q != fold)), inside)))
    width = parts[0][1].shape[1]
    result = np.zeros((len(fold_Q), width))
    for inside, chances in parts:
        result[inside] = chances
    return result


def held_out_tempered(
    chances_QK: Chances, present_QK: Flags, gold_Q: Indices, fold_Q: Indices
) -> Chances:
    """Probabilities with temperatures fitted without the question's fold."""
    return held_out(
        fold_Q,
        lambda some: fit_temperature(chances_QK[some], present_QK[some], gold_Q[some]),
        lambda found, some: temper(chances_QK[some], present_QK[some], found),
    )
