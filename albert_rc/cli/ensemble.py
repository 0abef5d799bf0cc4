"""`albert-rc ensemble`: one answer file from the scores of several models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import example, out, print_json, say, table
from albert_rc.cli.outputs import answer_files, check_outputs
from albert_rc.cli.papers import Format, Key, read_graded
from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import counted

if TYPE_CHECKING:
    from albert_rc.scoring.abstain import Unsure
    from albert_rc.scoring.ensemble.assess import Assessment
    from albert_rc.scoring.ensemble.mix import Fit
    from albert_rc.scoring.score_file import ScoreFile

CALIBRATE = "fit them with --gold and --dev-scores, or give a saved fit with --use"


@example("albert-rc ensemble a.jsonl b.jsonl c.jsonl --out predictions/answer.json")
def ensemble(
    context: typer.Context,
    scores: Annotated[
        list[Path], typer.Argument(help="Score files of the same papers, one per model.")
    ],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", help="File to write the answers to, such as answer.json."),
    ] = None,
    scores_out: Annotated[
        Path | None,
        typer.Option("--scores", help="Also write the ensemble's probabilities to this file."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How to combine the models: the mean of their probabilities (default), logits or "
            "ranks; with --gold also weights, greedy, or best (the most accurate of all)."
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="Papers with right answers, for fitting and evaluation: folder or file."),
    ] = None,
    key: Key = None,
    dev_scores: Annotated[
        list[Path] | None,
        typer.Option(
            help="Score file of the papers in --gold; one for each model, in the order of SCORES "
            "(default: SCORES)."
        ),
    ] = None,
    fit_out: Annotated[
        Path | None, typer.Option("--fit", help="Save the fit to this file, for --use.")
    ] = None,
    use: Annotated[
        Path | None, typer.Option(help="Use a saved fit; give SCORES in the order of the fit.")
    ] = None,
    abstain: Annotated[
        float | None,
        typer.Option(
            help="Also list answers with a probability below this, for review, in a file next to "
            "--out."
        ),
    ] = None,
    format_: Format = None,
    set_: settings.Set = None,
    folds: options.Folds = 5,
    seed: options.FoldSeed = 0,
    json: Annotated[
        bool, typer.Option("--json", help="Print the evaluation on --gold as JSON.")
    ] = False,
) -> None:
    """Combine several models' scores; fit their weights on dev papers and report the gain."""
    from albert_rc.scoring.abstain import write_answers
    from albert_rc.scoring.align import in_order_of, put_together
    from albert_rc.scoring.ensemble import files as kept
    from albert_rc.scoring.ensemble.assess import assess
    from albert_rc.scoring.ensemble.mix import Fit, make_pool
    from albert_rc.scoring.score_file import read_scores

    _require_sense(
        scores=scores,
        method=method,
        gold=gold,
        use=use,
        out_file=out_file,
        abstain=abstain,
        needs_gold={"--key": key, "--dev-scores": dev_scores, "--fit": fit_out},
        needs_out={"--scores": scores_out, "--abstain": abstain},
    )
    if gold is None:
        settings.need(context, "--gold", "format_", "folds", "seed", "json")
    check_outputs(
        {**answer_files(out_file, scores_out, abstain), "--fit": fit_out},
        [*scores, *(dev_scores or ()), gold, key, use],
    )
    files = put_together([read_scores(path) for path in scores])
    numbers = files[0].kind == "numbers"
    if numbers and (gold or use or abstain or method not in (None, "probabilities")):
        raise UsageError(
            f"{files[0].path}: holds numbers (STS-B), which can only be averaged; leave out "
            "--gold, --use, --abstain and --method"
        )
    fit = Fit(method or "probabilities", (1 / len(files),) * len(files))
    kind = "cloze" if files[0].ids is None else "choice"
    labels: tuple[str, ...] = ()
    if gold is not None:
        papers = read_graded(gold, key, format_)
        dev = put_together([read_scores(path) for path in dev_scores]) if dev_scores else files
        kept.check_models(files, kept.models_of(dev))
        kept.require_like(files[0], dev[0], papers.labels)
        _refuse_recalled(dev)
        dev = [in_order_of(file, papers) for file in dev]
        names = [str(file.path) for file in dev]
        fit, report = assess(make_pool(dev, papers), names, fit.method, folds, seed)
        kind, labels = papers.kind, papers.labels
        if fit_out is not None:
            kept.save_fit(fit_out, fit, report, dev, gold, papers)
        _show(report, fit, json)
        if out_file is not None:
            _show_pairs(files, kept.models_of(dev), fit)
    elif use is not None:
        fit, models, labels = kept.load_fit(use)
        kept.check_models(files, models)
        kept.require_labels(files[0], labels, f"{files[0].path}: the fit {use} does not apply: ")
        _show_pairs(files, models, fit)
    if out_file is None:
        return
    labels = labels or kept.label_names(files)
    lines = kept.score_lines(files, fit, labels)
    answers = kept.answers_of(lines, "label" if labels else kind)
    unsure = write_answers(answers, out_file, lines, scores_out, abstain, labels)
    number = counted(len(set(files[0].papers)), "paper")
    said = f"{out_file}: {counted(len(lines), 'answer')} to {number}"
    tell = say if json else typer.echo
    tell(said)
    _tell_unsure(unsure, abstain, out_file, gold is not None or use is not None, tell)


def _tell_unsure(
    unsure: Unsure | None,
    abstain: float | None,
    out_file: Path,
    calibrated: bool,
    tell: Callable[[str], None],
) -> None:
    """Describe the list of uncertain answers, or an outdated one where none was asked for."""
    from albert_rc.scoring.abstain import outdated

    if abstain is None:
        for line in outdated(out_file):
            say(line)
    elif unsure is not None:
        tell(unsure.line(abstain, out_file, calibrated, CALIBRATE))


def _require_sense(
    *,
    scores: list[Path],
    method: str | None,
    gold: Path | None,
    use: Path | None,
    out_file: Path | None,
    abstain: float | None,
    needs_gold: dict[str, Any],
    needs_out: dict[str, Any],
) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: names the options.
    """
    from albert_rc.scoring.ensemble.mix import WEIGH, fitted_methods

    dev_scores = needs_gold["--dev-scores"]
    for wrong, said in (
        (len(scores) < 2, "an ensemble needs at least two score files"),
        (
            method not in (None, "best", *WEIGH),
            f"--method {method}: choose from {', '.join(WEIGH)}, best",
        ),
        (use and (gold or method), "--use applies a saved method: leave out --gold and --method"),
        (not gold and any(needs_gold.values()), _need(needs_gold, "--gold")),
        (
            not gold and method in fitted_methods(),
            f"--method {method} is fitted on papers with right answers: give --gold "
            "and --dev-scores, or a saved fit with --use",
        ),
        (not out_file and any(needs_out.values()), _need(needs_out, "--out")),
        (
            not out_file and not gold,
            "give --out FILE to write the answers, or --gold PAPERS to evaluate the ensemble",
        ),
        (
            abstain is not None and not 0 < abstain <= 1,
            f"--abstain {abstain} must be above 0 and at most 1",
        ),
        (
            dev_scores and len(dev_scores) != len(scores),
            f"{len(dev_scores or ())} --dev-scores for {len(scores)} SCORES; give --dev-scores "
            "once for each score file, in the same order",
        ),
    ):
        if wrong:
            raise UsageError(said)


def _need(options_: dict[str, Any], other: str) -> str:
    """A sentence about those options that were given without another one."""
    given = [name for name, value in options_.items() if value]
    return f"{' and '.join(given)} {'need' if len(given) > 1 else 'needs'} {other}"


def _refuse_recalled(files: Sequence[ScoreFile]) -> None:
    recalled = sum(any(read) for read in zip(*(file.read for file in files), strict=True))
    if recalled:
        raise DataError(
            f"the scores of --gold contain {counted(recalled, 'answer')} recalled from training "
            "papers; weights and temperatures must be fitted to the models' own answers: make "
            "these scores without --recall"
        )


def _show_pairs(files: Sequence[ScoreFile], models: Sequence[dict[str, Any]], fit: Fit) -> None:
    """Print which file corresponds to which fitted model."""
    for file, model, weight in zip(files, models, fit.weights, strict=True):
        say(f"{weight:.4f} {file.path} (fitted with {model['scores']})")
        if file.sha256 == model["sha256"]:
            say(
                f"warning: the fit was made on {file.path} itself, so its accuracy will look too "
                "good; evaluate the ensemble on other papers"
            )


def _show(report: Assessment, fit: Fit, json: bool) -> None:
    """Print the single models, the methods, and the gain of the chosen one."""
    from albert_rc.scoring.confidence import limit_warning

    if warning := limit_warning(fit.temperature):
        say(warning)
    if json:
        fitted = {"weights": list(fit.weights), "temperature": fit.temperature}
        print_json({**report.as_json(), "fit": {"method": fit.method, **fitted}})
        return
    names = {"single": "single best in the other folds", "probabilities": "mean of probabilities",
             "logits": "mean of logits", "ranks": "mean of ranks"}  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        (row.name, row.accuracy, f"{row.nll:.4f}", f"{row.ece:.4f}") for row in report.singles
    ]
    rows += [
        (
            f"{'* ' if name == report.chosen else ''}{names.get(name, name)}",
            row.accuracy,
            f"{row.nll:.4f}",
            f"{row.ece:.4f}",
        )
        for name, row in report.methods.items()
    ]
    header = ("system", "accuracy [95% interval]", "NLL", "ECE")
    table(f"{report.folds} folds over papers; * marks the chosen method", header, rows)
    best = report.singles[report.best].name
    for line in (
        "methods: evaluated with weights and temperatures fitted on the other folds",
        f"gain over {best}, the best on all of dev: {report.gain}",
        f"gain over the single model that is best in the other folds: {report.gain_in_folds}",
        f"fitted on all of dev: {fit.method}, temperature {fit.temperature:.4f}",
        *(f"  {w:.4f} {row.name}" for w, row in zip(fit.weights, report.singles, strict=True)),
    ):
        out.print(line, markup=False)
