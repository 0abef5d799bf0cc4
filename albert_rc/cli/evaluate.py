"""`albert-rc evaluate`: accuracy of answers, and comparison of two systems."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import example, out, print_json, table
from albert_rc.cli.papers import Format, Key, TrainingPapers, read_graded, training_passages
from albert_rc.errors import UsageError

if TYPE_CHECKING:
    from albert_rc.papers.schema import PaperSet
    from albert_rc.scoring.accuracy import Comparison
    from albert_rc.scoring.tasks import Measured


@example("albert-rc evaluate predictions/answer.json papers/dev")
def evaluate(
    context: typer.Context,
    answers: Annotated[
        Path, typer.Argument(help="Answers to evaluate: answer.json or a score file.")
    ],
    gold: Annotated[Path, typer.Argument(help="The papers with right answers: folder or file.")],
    against: Annotated[
        Path | None,
        typer.Option(help="Another answer.json or score file to compare with; not for STS-B."),
    ] = None,
    key: Key = None,
    train: TrainingPapers = None,
    format_: Format = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Fit a temperature to a score file, and show the calibration error before and "
            "after, and the accuracy by coverage.",
        ),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            help="With --calibrate: the run's folder, where the temperature is saved for predict."
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            help="With --calibrate: file for a plot of reliability and coverage, written as PNG "
            "and SVG."
        ),
    ] = None,
    set_: settings.Set = None,
    json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="With --calibrate: also write the metrics to this file as JSON.",
            hidden=True,
        ),
    ] = None,
    folds: options.Folds = 5,
    bins: Annotated[
        int,
        typer.Option(
            min=1, max=10000, help="Number of bins for the calibration error.", hidden=True
        ),
    ] = 15,
    seed: options.FoldSeed = 0,
) -> None:
    """Show accuracy with a 95% interval: overall, and by level, blank number and length."""
    if calibrate:
        others = {"--against": against, "--train": train}
        if given := [name for name, value in others.items() if value is not None]:
            raise UsageError(f"{' and '.join(given)} cannot be used with --calibrate")
        from albert_rc.cli.calibration import calibrate as fit

        fit(answers, gold, key, model, out_file, figure, (folds, seed, bins), format_, json)
        return
    settings.need(context, "--calibrate", "model", "figure", "out_file", "folds", "bins", "seed")
    _evaluate(answers, gold, key, against, train, format_, json)


def _evaluate(
    answers: Path,
    gold: Path,
    key: Path | None,
    against: Path | None,
    train: Path | None,
    format_: str | None,
    json: bool,
) -> None:
    """Accuracy, or the metrics of the papers' kind."""
    from albert_rc.papers.schema import gold_letters
    from albert_rc.scoring import evaluate as evaluation
    from albert_rc.scoring.accuracy import compare
    from albert_rc.scoring.slices import slices_of

    papers = read_graded(gold, key, format_)
    if papers.kind in ("label", "span"):
        if train is not None:
            raise UsageError(
                f"--train is for cloze and multiple choice; leave it out for {papers.format} papers"
            )
        _evaluate_metrics(answers, against, papers, json)
        return
    train_papers = training_passages(train, gold, papers)
    letters = evaluation.read_answers(answers, papers.passages, unanswered=True)
    slices = slices_of(papers.passages, train_papers)
    alone = evaluation.read_alone(answers, papers.passages)
    if alone is not None:
        slices["answered by"] = ["reading" if x is None else "recall" for x in alone]
    result = evaluation.evaluate(letters, papers.passages, train_papers, slices)
    found: dict[str, Any] = result.as_json()
    if alone is not None:
        read = [x or y for x, y in zip(alone, letters, strict=True)]
        reading = evaluation.evaluate(read, papers.passages, None, {}).total
        found["reading_alone"] = reading.as_json()
    compared = None
    if against is not None:
        others = evaluation.read_answers(against, papers.passages, unanswered=True)
        known = gold_letters(papers.passages)
        compared = compare(letters, others, known)
        other = evaluation.evaluate(others, papers.passages, None, {})
        change, _ = evaluation.gains(letters, others, papers.passages)
        found["against"] = {
            **other.total.as_json(),
            **compared.as_json(),
            "gain": change.gain_as_json(),
        }
    if json:
        print_json(found)
        return
    rows = [("all", result.total.total, result.total)]
    for kind, groups in result.groups.items():
        rows += [(f"{kind}: {name}", value.total, value) for name, value in groups.items()]
    table(f"{answers}", ("questions", "number", "accuracy [95% interval]"), rows)
    out.print(f"chance: {result.chance:.2%}")
    if result.no_reading is not None:
        out.print(
            f"without reading (the option most often right in training): {result.no_reading}",
            markup=False,
        )
    if alone is not None:
        out.print(f"without recall (the model's own answers): {reading}", markup=False)
    _say_missing(result.unanswered, result.unanswered_gold)
    if compared is not None:
        _say_against(against, str(other.total), compared)
        out.print(f"gain over {against}: {change}", markup=False)


def _say_missing(answers: int, gold: int) -> None:
    """Print the numbers of questions without an answer, and without a right one."""
    if answers:
        out.print(f"questions without an answer, counted as wrong: {answers:,}")
    if gold:
        out.print(f"questions without a right answer in the papers: {gold:,}")


def _evaluate_metrics(answers: Path, against: Path | None, papers: PaperSet, json: bool) -> None:
    """Print the metrics of SQuAD and GLUE papers."""
    from albert_rc.scoring.tasks import compared, measured

    ours = measured(answers, papers)
    other = None if against is None else measured(against, papers)
    found = None if other is None else compared(ours, other)
    if json:
        record: dict[str, Any] = {
            "metrics": _numbers(ours.metrics),
            "questions": len(ours.answers),
            "without_gold": ours.without_gold,
        }
        if other is not None and found is not None:
            agreed, change = found
            record["against"] = {
                "metrics": _numbers(other.metrics),
                **agreed.as_json(),
                "gain": change.gain_as_json(),
            }
        print_json(record)
        return
    table(f"{answers}", ("metric", "value [95% interval]"), [(m.name, m) for m in ours.metrics])
    out.print(f"questions with a right answer: {len(ours.answers):,}")
    _say_missing(0, ours.without_gold)
    if other is not None and found is not None:
        agreed, change = found
        figures = ", ".join(f"{m.name} {m}" for m in other.metrics)
        _say_against(against, figures, agreed)
        out.print(f"gain over {against} in right answers: {change}", markup=False)


def _say_against(against: Path | None, figures: str, agreed: Comparison) -> None:
    said = f"against {against}: {figures}; {agreed.agreement:.2%} of the answers agree"
    out.print(said, markup=False)


def _numbers(found: list[Measured]) -> dict[str, dict[str, float]]:
    return {m.name: {k: v for k, v in vars(m).items() if k != "name"} for m in found}
