"""Temperature calibration: fitting on papers with known answers, and evaluation of the effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from albert_rc.errors import DataError
from albert_rc.io.messages import counted
from albert_rc.papers.schema import PaperSet
from albert_rc.scoring.align import in_order_of, right_options
from albert_rc.scoring.confidence import (
    BINS,
    Confidence,
    fit_temperature,
    folds_of,
    held_out_tempered,
    measure,
    temper,
)
from albert_rc.scoring.score_file import ScoreFile


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A fitted temperature, and its effect on a model's probabilities."""

    temperature: float
    """Temperature for the model's own logits, fitted on all papers."""
    scores_temperature: float
    """Temperature that the scores were made with."""
    way: str | None
    """How some questions were read again, if they were."""
    reading: dict[str, Any] | None
    """Other inference settings, if the scores have them; see `answering.score.reading_of`."""
    folds: int
    before: Confidence
    after: Confidence
    """Expected values on other papers: calibration with cross-validated temperatures; ranking of
    answers (coverage, AURC) with the final one."""
    scores_sha256: str
    gold_sha256: str

    def as_json(self) -> dict[str, Any]:
        """The value for `--json` and for the record."""
        return {
            "temperature": round(self.temperature, 6),
            "scores_temperature": self.scores_temperature,
            "option_score": self.way,
            **({} if self.reading is None else {"reading": self.reading}),
            "folds": self.folds,
            "before": self.before.as_json(),
            "after": self.after.as_json(),
            "scores_sha256": self.scores_sha256,
            "gold_sha256": self.gold_sha256,
        }


def calibrate(
    file: ScoreFile, papers: PaperSet, folds: int = 5, seed: int = 0, bins: int = BINS
) -> Calibration:
    """Fit a temperature, and evaluate it by cross-validation.

    Only the ranking of answers is evaluated with the one temperature fitted on all papers. The
    folds' temperatures differ slightly, which would rank whole folds before others where
    probabilities are close; no model does that. The bias is negligible: one number, fitted to the
    likelihood and not to the order, can hardly move right answers to the front.

    Args:
        file: scores of papers with right answers; recalled blanks, and those of papers whose
            options are each used once, are left out.
        papers: these papers.
        folds: number of folds for cross-validation.
        seed: random seed for the folds.
        bins: number of bins of the calibration error.

    Raises:
        DataError: the scores are for other papers, the answers are not options, or all recalled.
    """
    file = in_order_of(file, papers)
    gold_Q = right_options(file, papers)
    # What `predict` adds after the temperature is not part of the model's logits.
    read_Q = np.array([reading is None for reading in file.read])
    known = np.flatnonzero((gold_Q >= 0) & read_Q & ~np.array(file.each_once))
    if not len(known):
        raise DataError(
            f"{file.path}: every answer was recalled, or its paper was answered as a whole; make "
            "the scores without --recall, and with --set reuse=true"
        )
    owners = [file.papers[i] for i in known]
    answered = {file.papers[i] for i in np.flatnonzero(gold_Q >= 0)}
    if len(set(owners)) == 1 < len(answered):
        raise DataError(
            f"{file.path}: only one paper is left to fit to, since every answer of the other "
            f"{counted(len(answered) - 1, 'paper')} was recalled, or the paper was answered as a "
            "whole; make the scores without --recall and with --set reuse=true, or give more papers"
        )
    gold_Q, chances_QK = gold_Q[known], file.chances_QK[known]
    present_QK = np.arange(chances_QK.shape[1]) < file.num_options_Q[known, None]
    fold_Q = folds_of(owners, folds, seed)
    after = measure(held_out_tempered(chances_QK, present_QK, gold_Q, fold_Q), gold_Q, bins)
    fitted = fit_temperature(chances_QK, present_QK, gold_Q)
    ranked = measure(temper(chances_QK, present_QK, fitted), gold_Q, bins)
    return Calibration(
        temperature=fitted * file.temperature,
        scores_temperature=file.temperature,
        way=file.way,
        reading=file.reading,
        folds=int(fold_Q.max()) + 1,
        before=measure(chances_QK, gold_Q, bins),
        after=replace(after, aurc=ranked.aurc, coverage=ranked.coverage),
        scores_sha256=file.sha256,
        gold_sha256=papers.source_hash,
    )
