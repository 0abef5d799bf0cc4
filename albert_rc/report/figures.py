"""The metrics of a report: `evaluate`'s, calibration, and notably weak slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from albert_rc.errors import UsageError
from albert_rc.papers.schema import Kind, Passage, gold_letters
from albert_rc.report.reliability import Reliability, loss_of, reliability_of
from albert_rc.report.runs import Run
from albert_rc.scoring.accuracy import Comparison, Gain, compare
from albert_rc.scoring.evaluate import Evaluation, evaluate, gains
from albert_rc.scoring.slices import Slices, slices_of

SURE = 0.9
ENOUGH = 30  # minimum number of questions of a slice to be highlighted
CLEARLY = 1.5


@dataclass(frozen=True)
class RunFigures:
    """One run and its metrics."""

    run: Run
    evaluation: Evaluation | None
    """Evaluation of the answers; None if the papers have no right answer."""
    calibration: Reliability | None
    """Reliability of the probabilities; None without right answers or probabilities."""
    losses: list[float | None] | None
    """Loss of every question, in nats; None without probabilities."""
    mean_confidence: float | None


@dataclass(frozen=True)
class Weak:
    """A slice that is significantly worse than the whole."""

    kind: str
    name: str
    accuracy: float
    lost: int
    """Number of additional right answers with the overall accuracy."""


@dataclass(frozen=True)
class Figures:
    """All figures of a report."""

    kind: Kind
    num_papers: int
    num_questions: int
    slices: Slices
    runs: list[RunFigures]
    comparison: Comparison | None
    gain: Gain | None
    """Gain of the first run over the second; None without one, or without right answers."""
    gains: dict[str, dict[str, Gain]]
    """Gains of the first run over the second by slice."""
    weak: list[Weak]
    sure_and_wrong: int

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`: the first run's metrics as in `evaluate`, then the rest."""
        found: dict[str, Any] = {"papers": self.num_papers, "questions": self.num_questions}
        for number, figures in enumerate(self.runs):
            own = figures.evaluation.as_json() if figures.evaluation else {}
            if figures.calibration is not None:
                own["calibration"] = figures.calibration.as_json()
            if number == 0:
                found |= own
                found["weak"] = [vars(weak) for weak in self.weak]
            else:
                found["against"] = own
        if self.comparison is not None:
            found["against"] |= self.comparison.as_json()
        if self.gain is not None:
            found["against"]["gain"] = self.gain.gain_as_json()
            found["against"]["gains"] = {
                kind: {name: part.gain_as_json() for name, part in groups.items()}
                for kind, groups in self.gains.items()
            }
        return found


def require_options(kind: Kind) -> None:
    """Refuse papers without options.

    Raises:
        UsageError: the kind has no options.
    """
    if kind not in ("cloze", "choice"):
        raise UsageError(
            "report shows papers with options to choose from (cloze, RACE, DREAM); "
            "for SQuAD and GLUE use `albert-rc evaluate`"
        )


def figures_of(
    kind: Kind,
    papers: Sequence[Passage],
    runs: Sequence[Run],
    train: Sequence[Passage] | None = None,
) -> Figures:
    """Compute a report's metrics.

    Args:
        kind: kind of the papers.
        papers: cloze or multiple choice; without right answers there are fewer metrics.
        runs: one, or two to compare.
        train: the training split, for the no-reading baseline and shared passages.

    Raises:
        UsageError: papers of a kind that has no options.
    """
    require_options(kind)
    gold = gold_letters(papers)
    slices = slices_of(papers, train)
    found = [_figures(run, papers, gold, slices, train) for run in runs]
    compared = None
    if len(runs) > 1:
        compared = compare(runs[0].letters, runs[1].letters, gold)
    whole: Gain | None = None
    parts: dict[str, dict[str, Gain]] = {}
    if len(runs) > 1 and any(letter is not None for letter in gold):
        whole, parts = gains(runs[0].letters, runs[1].letters, papers, slices)
    return Figures(
        kind=kind,
        num_papers=len(papers),
        num_questions=len(gold),
        slices=slices,
        runs=found,
        comparison=compared,
        gain=whole,
        gains=parts,
        weak=weak_slices(found[0].evaluation),
        sure_and_wrong=_sure_and_wrong(runs[0], gold),
    )


def _figures(
    run: Run,
    papers: Sequence[Passage],
    gold: Sequence[str | None],
    slices: Slices,
    train: Sequence[Passage] | None,
) -> RunFigures:
    known = [i for i, right in enumerate(gold) if right is not None]
    evaluation = evaluate(run.letters, papers, train, slices) if known else None
    sure = run.confidence
    if run.probabilities is None or sure is None:
        return RunFigures(run, evaluation, None, None, None)
    questions = chain.from_iterable(passage.questions for passage in papers)
    losses = [
        None if q.answer is None else loss_of(row[q.answer])
        for q, row in zip(questions, run.probabilities, strict=True)
    ]
    owners = [passage.id for passage in papers for _ in passage.questions]
    calibration = None
    if known:
        calibration = reliability_of(
            [sure[i] for i in known],
            [run.letters[i] == gold[i] for i in known],
            [loss for loss in losses if loss is not None],
            [owners[i] for i in known],
        )
    # As accuracy and calibration, over the questions with a right answer, if there are any.
    counted = [sure[i] for i in known] or sure
    return RunFigures(run, evaluation, calibration, losses, sum(counted) / len(counted))


def _sure_and_wrong(run: Run, gold: Sequence[str | None]) -> int:
    sure = run.confidence
    if sure is None:
        return 0
    given = zip(gold, run.letters, sure, strict=True)
    return sum(right not in (None, answer) and chance >= SURE for right, answer, chance in given)


def weak_slices(evaluation: Evaluation | None) -> list[Weak]:
    """Up to three slices that are clearly below the overall accuracy, costliest first.

    A report has about 20 slices, one of which would often be below by chance if its interval were
    only to exclude the whole; so the gap must be `CLEARLY` times the interval's upper half.
    """
    if evaluation is None:
        return []
    whole = evaluation.total.value
    found = [
        Weak(kind, name, round(part.value, 6), round((whole - part.value) * part.total))
        for kind, groups in evaluation.groups.items()
        for name, part in groups.items()
        if whole - part.value > CLEARLY * (part.high - part.value) and part.total >= ENOUGH
    ]
    return sorted(found, key=lambda weak: -weak.lost)[:3]
