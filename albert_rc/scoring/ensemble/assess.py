"""Cross-validated evaluation of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albert_rc.scoring.accuracy import Accuracy, Gain, accuracy, gain
from albert_rc.scoring.confidence import Chances, folds_of, measure
from albert_rc.scoring.ensemble.mix import (
    WEIGH,
    Fit,
    Pool,
    best_single,
    cross_validate,
    fit,
    fit_best,
)


@dataclass(frozen=True)
class SystemMetrics:
    """Metrics of a system."""

    name: str
    accuracy: Accuracy
    nll: float
    ece: float

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
        return {
            "name": self.name,
            **self.accuracy.as_json(),
            "nll": round(self.nll, 6),
            "ece": round(self.ece, 6),
        }


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Results of an ensemble on dev papers, and its gain over single models."""

    folds: int
    singles: list[SystemMetrics]
    """Metrics of the single models, without any fitting."""
    best: int
    """Index of the single model with the best accuracy on all of dev."""
    methods: dict[str, SystemMetrics]
    """Cross-validated metrics; `single` is the model that is best in the other folds."""
    chosen: str
    gain: Gain
    """Cross-validated gain of the chosen method over the best single model."""
    gain_in_folds: Gain
    """Gain over the single model chosen in the other folds, as the method's weights were."""

    def as_json(self) -> dict[str, Any]:
        """The value for `--json` and for the saved fit."""
        return {
            "folds": self.folds,
            "singles": [row.as_json() for row in self.singles],
            "methods": {name: row.as_json() for name, row in self.methods.items()},
            "method": self.chosen,
            "best_single": self.singles[self.best].name,
            "gain_over_best_single": self.gain.as_json(),
            "gain_over_single_chosen_in_folds": self.gain_in_folds.as_json(),
        }


def _row(name: str, chances_QK: Chances, pool: Pool) -> tuple[SystemMetrics, list[bool]]:
    right: NDArray[np.bool_] = chances_QK.argmax(-1) == pool.gold_Q
    found = measure(chances_QK, pool.gold_Q)
    share = accuracy(right.tolist(), pool.papers)
    return SystemMetrics(name, share, found.nll, found.ece), right.tolist()


def assess(
    pool: Pool, names: Sequence[str], method: str, folds: int, seed: int
) -> tuple[Fit, Assessment]:
    """Fit a method on all papers, and evaluate all methods by cross-validation.

    Args:
        pool: questions; those without a right answer are skipped.
        names: names of the models.
        method: one of WEIGH, or `best`.
        folds: number of folds of papers.
        seed: random seed for the folds.
    """
    pool = pool.part(np.flatnonzero(pool.gold_Q >= 0))
    singles = [_row(name, c, pool) for name, c in zip(names, pool.chances_MQK, strict=True)]
    fitters: dict[str, Callable[[Pool], Fit]] = {
        name: partial(fit, name) for name in ("single", *WEIGH)
    }
    if method == "best":
        # Nested: in each fold the method, too, is chosen on the other folds alone.
        fitters["best"] = partial(fit_best, folds=folds, seed=seed + 1)
    rows, right = {}, {}
    for name, fitter in fitters.items():
        found = cross_validate(pool, fitter, folds, seed)
        rows[name], right[name] = _row(name, found, pool)
    best = int(best_single(pool).argmax())
    return fitters[method](pool), Assessment(
        folds=int(folds_of(pool.papers, folds, seed).max()) + 1,
        singles=[row for row, _ in singles],
        best=best,
        methods=rows,
        chosen=method,
        gain=gain(right[method], singles[best][1], pool.papers),
        gain_in_folds=gain(right[method], right["single"], pool.papers),
    )
