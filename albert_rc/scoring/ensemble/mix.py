"""Methods of combining models' scores: means, fitted weights, greedy selection."""

# M models, Q questions, K options (the maximum over questions)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from albert_rc.errors import DataError
from albert_rc.papers.schema import PaperSet
from albert_rc.scoring.align import right_options
from albert_rc.scoring.confidence import (
    Chances,
    Flags,
    Indices,
    above_zero,
    fit_temperature,
    folds_of,
    held_out,
    logarithms,
    normalized,
    temper,
)
from albert_rc.scoring.each_once import assigned, with_likeliest
from albert_rc.scoring.score_file import ScoreFile

ROUNDS = 30
"""Rounds of greedy selection: more would give finer weights than dev papers can distinguish."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Several models' probabilities for the same questions."""

    chances_MQK: Chances
    present_QK: Flags
    gold_Q: Indices
    """Indices of the right options; -1 if unknown."""
    papers: list[str]
    """The paper of each question."""
    once_Q: Flags
    """Whether the options of the question's paper are each used at most once."""

    def part(self, questions: Indices) -> Pool:
        """The pool of some of the questions."""
        return Pool(
            chances_MQK=self.chances_MQK[:, questions],
            present_QK=self.present_QK[questions],
            gold_Q=self.gold_Q[questions],
            papers=[self.papers[i] for i in questions],
            once_Q=self.once_Q[questions],
        )

    @property
    def right_chances(self) -> Chances:
        """[M, Q] each model's probability of the right options."""
        index = np.broadcast_to(self.gold_Q[:, None], (len(self.chances_MQK), len(self.gold_Q), 1))
        found: Chances = np.take_along_axis(self.chances_MQK, index, 2)[..., 0]
        return above_zero(found)


def make_pool(files: Sequence[ScoreFile], papers: PaperSet | None = None) -> Pool:
    """The scores of several files aligned by `put_together`.

    Args:
        files: files with options, not numbers.
        papers: papers with the right answers.

    Raises:
        DataError: the files are for other papers.
    """
    first = files[0]
    width = first.chances_QK.shape[1]
    gold_Q = np.full(len(first.keys), -1)
    if papers is not None:
        for file in files:  # each one, since their labels may differ
            gold_Q = right_options(file, papers)
    return Pool(
        chances_MQK=np.stack([file.chances_QK for file in files]),
        present_QK=np.arange(width) < first.num_options_Q[:, None],
        gold_Q=gold_Q,
        papers=first.papers,
        once_Q=np.any([file.each_once for file in files], axis=0),
    )


def with_each_once(pool: Pool, chances_QK: Chances) -> Chances:
    """Combined probabilities whose likeliest options differ where each is used at most once.

    The models' own ones take account of that already; their mixture does so nearly.
    """
    banks: dict[str, list[int]] = {}
    for question in np.flatnonzero(pool.once_Q).tolist():
        banks.setdefault(pool.papers[question], []).append(question)
    result_QK = chances_QK.copy()
    for question_B in banks.values():
        options = int(pool.present_QK[question_B[0]].sum())
        shown_BK = chances_QK[question_B, :options]
        result_QK[question_B, :options] = with_likeliest(shown_BK, assigned(shown_BK))
    return result_QK


@dataclass(frozen=True)
class Fit:
    """A fitted combination of models."""

    method: str
    weights: tuple[float, ...]
    """Weights of the models, with sum 1."""
    temperature: float = 1.0
    """Of questions with options of their own; see `answering.score.final_scores`."""

    def __call__(self, pool: Pool) -> Chances:
        """[Q, K] combined probabilities; the temperature does not change the answers."""
        mixed_QK = MIX[self.method](pool, np.array(self.weights))
        tempered_QK = temper(mixed_QK, pool.present_QK, self.temperature)
        tempered_QK[pool.once_Q] = mixed_QK[pool.once_Q]
        return with_each_once(pool, tempered_QK)


def _mean(pool: Pool, weights_M: Chances) -> Chances:
    mixed: Chances = np.tensordot(weights_M, pool.chances_MQK, 1)
    return mixed


def _logit_mean(pool: Pool, weights_M: Chances) -> Chances:
    """Geometric mean of probabilities: a constant added to a question's logits has no effect."""
    logs_MQK = logarithms(pool.chances_MQK, pool.present_QK)
    return normalized(_mean(replace(pool, chances_MQK=logs_MQK), weights_M))


def _rank_mean(pool: Pool, weights_M: Chances) -> Chances:
    """Mean ranks as shares (Borda count); the mean of probabilities breaks ties."""
    from scipy.stats import rankdata

    present_QK = pool.present_QK
    ranks_MQK = rankdata(np.where(present_QK, pool.chances_MQK, -1.0), axis=-1)
    absent_Q1 = (~present_QK).sum(-1, keepdims=True)
    points_MQK = np.where(present_QK, ranks_MQK - absent_Q1, 0.0)
    points_QK = np.tensordot(weights_M, points_MQK, 1)
    # Mean ranks of M models differ by at least 1 / (2 M), so this only breaks ties.
    points_QK = np.round(points_QK, 9) + _mean(pool, weights_M) / (4 * len(weights_M))
    shares: Chances = points_QK / points_QK.sum(-1, keepdims=True)
    return shares


MIX: dict[str, Callable[[Pool, Chances], Chances]] = {
    "probabilities": _mean,
    "logits": _logit_mean,
    "ranks": _rank_mean,
    "weights": _mean,
    "greedy": _mean,
    "single": _mean,
}


def _alike(pool: Pool) -> Chances:
    return np.full(len(pool.chances_MQK), 1 / len(pool.chances_MQK))


def likeliest_weights(pool: Pool) -> Chances:
    """[M] weights on the simplex that maximise the mixture's likelihood of the right options."""
    from scipy.optimize import minimize

    right_MQ = pool.right_chances

    def loss(free_M: Chances) -> tuple[float, Chances]:
        weights_M = normalized(free_M)
        mixture_Q = weights_M @ right_MQ
        slope_M = -(right_MQ / mixture_Q).mean(1)
        return float(-np.log(mixture_Q).mean()), weights_M * (slope_M - weights_M @ slope_M)

    start = np.zeros(len(right_MQ))
    found: Chances = minimize(loss, start, jac=True, method="L-BFGS-B", tol=1e-10).x
    return normalized(found)


def greedy_weights(pool: Pool, rounds: int = ROUNDS) -> Chances:
    """[M] weights by forward selection with replacement (Caruana et al. 2004, section 2).

    Each round adds the model that makes the mean most accurate, with ties broken by likelihood;
    the best round counts, the earliest of equals.
    """
    counts_M = np.zeros(len(pool.chances_MQK))
    total_QK = np.zeros(pool.chances_MQK.shape[1:])
    total_Q = np.zeros(len(pool.gold_Q))
    best, best_M = (-1.0, -np.inf), counts_M
    right_MQ = pool.right_chances
    for size in range(1, rounds + 1):
        found = [
            (
                float(((total_QK + chances_QK).argmax(-1) == pool.gold_Q).mean()),
                float(np.log((total_Q + right_Q) / size).mean()),
            )
            for chances_QK, right_Q in zip(pool.chances_MQK, right_MQ, strict=True)
        ]
        added = max(range(len(found)), key=found.__getitem__)
        counts_M[added] += 1
        total_QK += pool.chances_MQK[added]
        total_Q += right_MQ[added]
        if found[added] > best:
            best, best_M = found[added], counts_M / size
    return best_M


def best_single(pool: Pool) -> Chances:
    """[M] all weight on the most accurate model, with ties broken by likelihood."""
    right_M = (pool.chances_MQK.argmax(-1) == pool.gold_Q).mean(-1)
    likely_M = np.log(pool.right_chances).mean(-1)
    best = max(range(len(right_M)), key=lambda m: (right_M[m], likely_M[m]))
    weights_M: Chances = np.eye(len(right_M))[best]
    return weights_M


WEIGH: dict[str, Callable[[Pool], Chances]] = {
    "probabilities": _alike,
    "logits": _alike,
    "ranks": _alike,
    "weights": likeliest_weights,
    "greedy": greedy_weights,
}
"""Methods by name, as functions that return weights."""


def fitted_methods() -> set[str]:
    """Names of the methods that need right answers."""
    return {"best", *(name for name, weigh in WEIGH.items() if weigh is not _alike)}


def fit_weights(method: str, pool: Pool) -> Fit:
    """Fit a method on questions with right answers, without a temperature."""
    weights_M = best_single(pool) if method == "single" else WEIGH[method](pool)
    return Fit(method, tuple(float(weight) for weight in weights_M))


def fit(method: str, pool: Pool) -> Fit:
    """Fit a method, and the temperature of its result, on questions with right answers."""
    plain = fit_weights(method, pool)
    own_Q = ~pool.once_Q
    if not own_Q.any():
        return plain
    temperature = fit_temperature(plain(pool)[own_Q], pool.present_QK[own_Q], pool.gold_Q[own_Q])
    return Fit(method, plain.weights, temperature)


def cross_validate(
    pool: Pool, fitter: Callable[[Pool], Callable[[Pool], Chances]], folds: int, seed: int
) -> Chances:
    """[Q, K] cross-validated probabilities, each fitted on other papers' questions alone.

    Args:
        pool: questions with right answers.
        fitter: fits to a pool and returns a function that gives probabilities for another.
        folds: number of folds of papers.
        seed: random seed for the folds.
    """
    return held_out(
        folds_of(pool.papers, folds, seed),
        lambda others: fitter(pool.part(others)),
        lambda fitted, here: fitted(pool.part(here)),
    )


def fit_best(pool: Pool, folds: int, seed: int) -> Fit:
    """Fit the method that is most accurate in cross-validation on these papers.

    Temperatures change no answer, so folds omit them; methods without fitting need no folds.

    Raises:
        DataError: a single paper, which cannot be divided.
    """
    if len(set(pool.papers)) < 2:
        raise DataError(
            "--method best compares the methods by cross-validation, and only one paper is left "
            "for that; give more papers, a larger --folds, or another --method"
        )
    fitted = fitted_methods()

    def share_right(name: str) -> float:
        fitter = partial(fit_weights, name)
        folded = name in fitted
        chances = cross_validate(pool, fitter, folds, seed) if folded else fitter(pool)(pool)
        return float((chances.argmax(-1) == pool.gold_Q).mean())

    right = {name: share_right(name) for name in WEIGH}
    return fit(max(right, key=right.__getitem__), pool)
