"""Accuracy with confidence intervals, and significance of differences between systems.

Answers within a paper are correlated, so papers, not blanks, are resampled.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2000
PERMUTATIONS = 9999
CONFIDENCE = 0.95
BATCH = 2_000_000
"""Number of items resampled at once; 16 MB per column."""
FEWEST = 10
"""Minimum number of papers whose values may all be equal: fewer may be equal by chance."""
ASSUMED = 0.1
"""Correlation between the answers to a paper where they do not show it: the highest of those that
`effective_size` was simulated with. The package's models have 0.02 on ELE."""
ROUNDING = 1e-12
"""Maximum standard error of equal values: sums of thirds, for example, differ by rounding."""
FEW = 40
"""Minimum number of papers for a bootstrap interval, which is too narrow for few: simulated with 20
blanks each, its coverage is 59% for two papers, 87% for six, 89% for ten, 92% for twenty, 94% for
forty."""


@dataclass(frozen=True)
class Accuracy:
    """A share of right answers with its 95% interval."""

    correct: int
    total: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """Right answers per question."""
        return self.correct / self.total if self.total else float("nan")

    def as_json(self) -> dict[str, float | int | None]:
        """The value for `--json`; an interval that cannot be computed is null."""
        return {
            "accuracy": _finite(self.value),
            "low": _finite(self.low),
            "high": _finite(self.high),
            "correct": self.correct,
            "total": self.total,
        }

    def __str__(self) -> str:
        if not self.total:
            return "-"
        if np.isnan(self.low):
            return f"{self.value:.2%}"
        return f"{self.value:.2%} [{self.low:.2%}, {self.high:.2%}]"


def _finite(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 6)


def accuracy(right: Sequence[bool], papers: Sequence[Hashable], seed: int = 0) -> Accuracy:
    """Accuracy with a percentile bootstrap interval over papers (Efron 1979).

    For fewer than `FEW` papers it is Wilson's interval (1927) with the effective number of
    questions: see `effective_size`. If all answers are right, or none, the papers show no spread;
    then a correlation of `ASSUMED` between the answers to a paper is assumed (Kish 1965).

    `papers` names the paper of each question.

    Returns:
        The interval is NaN for fewer than two papers.
    """
    correct, units = int(sum(right)), len(set(papers))
    if units > 1 and correct in (0, len(right)):
        size = len(right) / (1 + ASSUMED * (len(right) / units - 1))
        low, high = wilson(size * correct / len(right), size)
    elif 1 < units < FEW:
        size = effective_size(right, papers)
        low, high = wilson(size * correct / len(right), size)
    else:
        low, high = interval_over_papers(right, papers, seed)
    return Accuracy(correct, len(right), low, high)


def effective_size(
    right: Sequence[bool], papers: Sequence[Hashable], confidence: float = CONFIDENCE
) -> float:
    """Number of independent questions that would tell as much as these, which come in papers.

    It is the number of questions, divided by how many times larger the variance between papers
    makes the accuracy's variance (at least 1), and by the square of t / z, because few papers do
    not tell this variance exactly (Korn and Graubard 1998, with Clopper and Pearson's interval).
    It is at least the number of papers. Simulated with 20 questions in each of 3 to 39 papers, and
    correlations of 0 to 0.1 within a paper, Wilson's interval with this size covers 94% to 100%.

    Args:
        right: neither all right nor all wrong.
        papers: the paper of each question; at least two different ones.
        confidence: confidence level of the interval.
    """
    index, right_Q = numbered(papers), np.asarray(right, dtype=np.float64)
    share, total, units = right_Q.mean(), len(right_Q), int(index.max()) + 1
    ratio = _variance(index, right_Q) / (share * (1 - share) / total)
    wider = _student(units, confidence) / NormalDist().inv_cdf((1 + confidence) / 2)
    return float(max(units, total / max(1.0, ratio) / wider**2))


def wilson(successes: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's interval of a share (1927, equation 4), which has a width even at 0 and 1.

    Args:
        successes: number of successes, possibly fractional.
        trials: number of trials, at least one, possibly fractional.
        confidence: confidence level.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, spread = successes / trials, z * z / trials
    middle = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / trials + spread / trials / 4)
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return (low if successes else 0.0), (high if successes < trials else 1.0)


def interval_over_papers(
    values: Sequence[float],
    papers: Sequence[Hashable],
    seed: int = 0,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float]:
    """The 95% interval of a mean over questions.

    By bootstrap over papers; for fewer than `FEW` papers by Student's t, with the variance between
    papers of a ratio of sums (Cochran 1977, equation 6.13). Simulated differences of two systems
    in 3 to 39 papers are covered by it in 94% to 95% of the runs.

    Args:
        values: the value of each question.
        papers: names the paper of each question.
        seed: random seed of the bootstrap.
        within: the lowest and the highest possible mean.

    Returns:
        Both ends; NaN for a single paper, or for fewer papers than `FEWEST` that do not differ.
    """
    index, value_Q = numbered(papers), np.asarray(values, dtype=np.float64)
    units = len(set(papers))
    if units < 2:
        return float("nan"), float("nan")
    if units >= FEW:
        sums = np.bincount(index, value_Q)
        return bootstrap(lambda s, n: s.sum(-1) / n.sum(-1), (sums, np.bincount(index)), seed)
    error = math.sqrt(_variance(index, value_Q))
    if error < ROUNDING and units < FEWEST:
        return float("nan"), float("nan")
    half = _student(units, CONFIDENCE) * error
    mean = float(value_Q.mean())
    return max(mean - half, within[0]), min(mean + half, within[1])


def mean_interval(values: Sequence[float], papers: Sequence[Hashable]) -> tuple[float, float]:
    """The 95% interval of a mean of values from 0 to 1, such as F1 for each question.

    If all are 0 or 1 it is `accuracy`'s, which has a width even if all are right.
    """
    if {0, 1}.issuperset(values):
        share = accuracy([value == 1 for value in values], papers)
        return share.low, share.high
    return interval_over_papers(values, papers, within=(0, 1))


def _student(units: int, confidence: float) -> float:
    """Half the width of Student's two-sided interval, in standard errors."""
    from scipy.special import stdtrit  # scipy.stats takes half a second longer to import

    return float(stdtrit(units - 1, (1 + confidence) / 2))


def _variance(index: NDArray[np.int64], value_Q: NDArray[np.float64]) -> float:
    """Variance of a mean over questions, from its spread between papers."""
    count_P = np.bincount(index)
    excess_P = np.bincount(index, value_Q) - value_Q.mean() * count_P
    units = len(count_P)
    return float(units / (units - 1) * np.square(excess_P).sum() / len(value_Q) ** 2)


def permutation_p(values: Sequence[float], papers: Sequence[Hashable], seed: int = 0) -> float:
    """Two-sided p of a mean of differences: which system is which is permuted within each paper.

    Exact for up to 13 papers with a difference, else from `PERMUTATIONS` draws (at least 2e-4).

    Args:
        values: difference of each question.
        papers: names the paper of each question; its questions change sign together.
        seed: random seed of the draws.
    """
    from scipy.stats import permutation_test

    sums = np.bincount(numbered(papers), np.asarray(values, np.float64))
    sums = sums[sums != 0]  # the same either way
    if len(sums) < 2:  # both signs of a single one are equally far from zero
        return 1.0
    found = permutation_test(
        (sums,),
        lambda drawn, axis: drawn.sum(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=max(1, BATCH // len(sums)),
        rng=np.random.default_rng(seed),
    )
    return float(found.pvalue)


def numbered(units: Sequence[Hashable]) -> NDArray[np.int64]:
    """A number for each unit, the same for equal ones, counted in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return np.asarray([numbers.setdefault(unit, len(numbers)) for unit in units], np.int64)


def bootstrap(
    statistic: Callable[..., NDArray[np.float64]],
    columns: Sequence[ArrayLike],
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """Percentile bootstrap interval (Efron 1979); NaN where a resample has no score.

    Args:
        statistic: maps the columns, [..., N] each, to [...] scores.
        columns: [N] each, two items or more; an item's values are drawn together.
        seed: random seed of the resampling.
        resamples: number of resamples.
        confidence: confidence level.

    Raises:
        ValueError: columns of different lengths.
    """
    from scipy.stats import DegenerateDataWarning
    from scipy.stats import bootstrap as resample

    def score(*drawn: Any, axis: int) -> NDArray[np.float64]:
        return statistic(*drawn)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)  # the result is NaN then
        interval = resample(
            columns,
            score,
            paired=True,
            vectorized=True,
            n_resamples=resamples,
            confidence_level=confidence,
            method="percentile",
            rng=np.random.default_rng(seed),
            batch=max(1, BATCH // np.size(columns[0])),
        ).confidence_interval
    return float(interval.low), float(interval.high)


@dataclass(frozen=True, kw_only=True)
class Discordance:
    """Questions that only one of two systems answers correctly."""

    only_first: int
    """Number of questions that only the first answers correctly."""
    only_second: int

    @cached_property
    def p_value(self) -> float:
        """McNemar's exact test, two-sided."""
        from scipy.stats import binomtest

        differing = self.only_first + self.only_second
        return float(binomtest(self.only_first, differing).pvalue) if differing else 1.0

    def as_json(self) -> dict[str, float | int | None]:
        """The value for `--json`."""
        return {
            "only_first_right": self.only_first,
            "only_second_right": self.only_second,
            "mcnemar_p": self.p_value,
        }


@dataclass(frozen=True, kw_only=True)
class Gain(Discordance):
    """Difference in accuracy of two systems on the same questions, with its interval."""

    value: float
    """Difference of the accuracies, as a share."""
    low: float
    high: float
    permutation_p: float
    """Two-sided p of a permutation test over papers; McNemar's takes each question as
    independent, so it is too small where questions of a paper are right or wrong together."""

    def __str__(self) -> str:
        said = f"{100 * self.value:+.2f} points"
        if not np.isnan(self.low):
            said += f" [{100 * self.low:+.2f}, {100 * self.high:+.2f}]"
        return (
            f"{said}; right only here: {self.only_first}, only there: {self.only_second} "
            f"(p = {self.permutation_p:.2g}, permutation test over papers)"
        )

    def as_json(self) -> dict[str, float | int | None]:
        return {**self.gain_as_json(), **super().as_json()}

    def gain_as_json(self) -> dict[str, float | int | None]:
        """`as_json` without the numbers of questions, for a record that has them."""
        ends = {"gain": self.value, "low": self.low, "high": self.high}
        found: dict[str, float | int | None] = {name: _finite(end) for name, end in ends.items()}
        return {**found, "permutation_p": self.permutation_p}


def gain(
    first: Sequence[bool], second: Sequence[bool], papers: Sequence[Hashable], seed: int = 0
) -> Gain:
    """Accuracy of `first` minus `second`, with an interval and a test over papers.

    `papers` names the paper of each question; see `interval_over_papers` for the interval. If the
    systems do not differ in any of n papers, its ends are the share of papers in which they may
    differ: at most 1 - 0.025^(1/n) (Clopper and Pearson 1934, for none of n).
    """
    ours, theirs = np.asarray(first, np.float64), np.asarray(second, np.float64)
    low, high = interval_over_papers((ours - theirs).tolist(), papers, seed, within=(-1, 1))
    if low == high == 0:
        high = 1 - ((1 - CONFIDENCE) / 2) ** (1 / len(set(papers)))
        low = -high
    return Gain(
        value=float((ours - theirs).mean()) if len(ours) else float("nan"),
        low=low,
        high=high,
        permutation_p=permutation_p((ours - theirs).tolist(), papers, seed),
        only_first=int((ours > theirs).sum()),
        only_second=int((theirs > ours).sum()),
    )


def by_group(
    right: Sequence[bool], papers: Sequence[Hashable], groups: Sequence[str | None]
) -> dict[str, Accuracy]:
    """Accuracy of each group of questions, in order of first appearance; None is left out."""
    return {
        name: accuracy([right[i] for i in places], [papers[i] for i in places])
        for name, places in members_of(groups).items()
    }


def gain_by_group(
    first: Sequence[bool],
    second: Sequence[bool],
    papers: Sequence[Hashable],
    groups: Sequence[str | None],
) -> dict[str, Gain]:
    """Difference in accuracy of two systems in each group of questions; None is left out."""
    return {
        name: gain([first[i] for i in at], [second[i] for i in at], [papers[i] for i in at])
        for name, at in members_of(groups).items()
    }


def members_of(groups: Sequence[str | None]) -> dict[str, list[int]]:
    """Indices of each group's members, in order of first appearance; None is no group."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(groups):
        if name is not None:
            found.setdefault(name, []).append(place)
    return found


@dataclass(frozen=True, kw_only=True)
class Comparison(Discordance):
    """Two systems on the same questions."""

    agreement: float
    """Share of questions with the same answer of both."""

    def as_json(self) -> dict[str, float | int | None]:
        return {"agreement": round(self.agreement, 6), **super().as_json()}


def compare(first: Sequence[str], second: Sequence[str], gold: Sequence[str | None]) -> Comparison:
    """Agreement of two answer lists, and McNemar's exact test if gold is known."""
    alike = [a == b for a, b in zip(first, second, strict=True)]
    known = [(a, b, g) for a, b, g in zip(first, second, gold, strict=True) if g is not None]
    return compare_right(alike, [a == g for a, _, g in known], [b == g for _, b, g in known])


def compare_right(
    alike: Sequence[bool], first: Sequence[bool], second: Sequence[bool]
) -> Comparison:
    """`compare` for answers already judged right or wrong.

    Args:
        alike: whether both answers to a question are the same.
        first: whether the first is right, for the questions where that is known.
        second: whether the second is right, for the same questions.
    """
    pairs = list(zip(first, second, strict=True))
    return Comparison(
        agreement=sum(alike) / max(1, len(alike)),
        only_first=sum(a and not b for a, b in pairs),
        only_second=sum(b and not a for a, b in pairs),
    )
