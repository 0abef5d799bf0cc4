"""`albert-rc evaluate --calibrate`: fitting and evaluation of a temperature."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from albert_rc.cli.console import out, print_json, say, table
from albert_rc.cli.outputs import check_outputs
from albert_rc.cli.papers import read_graded
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.messages import counted

if TYPE_CHECKING:
    from albert_rc.papers.schema import PaperSet
    from albert_rc.scoring.calibration import Calibration


def calibrate(
    scores: Path,
    gold: Path,
    key: Path | None,
    model: Path | None,
    out_file: Path | None,
    figure: Path | None,
    how: tuple[int, int, int],
    format_: str | None,
    json: bool,
) -> None:
    """Fit a temperature, show its effect, and save it with the model if one is named.

    Args:
        scores: a score file of papers with right answers.
        gold: these papers.
        key: file with their right answers, if they do not contain them.
        model: the run's folder, where the temperature is saved.
        out_file: path for the metrics as JSON.
        figure: path for the reliability diagram.
        how: number of folds, their seed, and bins of the calibration error.
        format_: format of the papers.
        json: print the metrics as JSON.
    """
    from albert_rc.answering import temperature
    from albert_rc.io.json import write_json
    from albert_rc.model.config import READ_AGAIN
    from albert_rc.report.plots import figure_paths, require_matplotlib
    from albert_rc.scoring import calibration
    from albert_rc.scoring.score_file import read_scores

    drawn = [] if figure is None else figure_paths(figure)
    written = {"--out": out_file} | {f"--figure's {path.suffix}": path for path in drawn}
    records = (
        [] if model is None else [temperature.record_path(model, w) for w in (None, *READ_AGAIN)]
    )
    check_outputs(written, [scores, gold, key, *records])
    if figure is not None:
        require_matplotlib()
    if model is not None:
        temperature.require_own(model)
    papers = read_graded(gold, key, format_)
    if model is not None:
        _require_task(model, papers)
    file = read_scores(scores)
    if model is not None:
        temperature.require_made_by(file, model)
    found = calibration.calibrate(file, papers, *how)
    recalled = sum(reading is not None for reading in file.read)
    if recalled:
        say(
            f"left out {counted(recalled, 'answer')} recalled from training papers, since a "
            "temperature is fitted to the model's own answers"
        )
    if whole := sum(file.each_once):
        say(
            f"left out {counted(whole, 'answer')} to papers whose options are each used once, "
            "since the model's own probabilities are not in the file"
        )
    if out_file is not None:
        write_json(out_file, found.as_json())
    if json:
        print_json(found.as_json())
    else:
        _show(scores, found)
    _warn(found)
    if model is None:
        say(f"temperature {found.temperature:.4f}, not saved; --model RUN saves it with the run")
    else:
        earlier = 1.0
        with suppress(CheckpointError):  # a damaged record is replaced
            earlier, _ = temperature.kept_temperature(model, found.way)
        path = temperature.keep(found, model)
        instead = f", in place of {earlier:.4f}" if earlier not in (1, found.temperature) else ""
        say(
            f"{path}: temperature {found.temperature:.4f}{instead}; `predict --scores` and "
            "`--abstain` use it"
        )
    if figure is not None:
        _draw(found, figure)


def _require_task(model: Path, papers: PaperSet) -> None:
    """Refuse to save a temperature fitted on papers that the model cannot answer."""
    from albert_rc.checkpoints.hf_config import read_config
    from albert_rc.checkpoints.hf_names import FAMILIES
    from albert_rc.checkpoints.labels import labels_in

    config, raw = read_config(model)
    classes = FAMILIES[config.family].architectures
    fitting = {classes[papers.kind]}
    if papers.kind == "cloze":  # the masked-LM head of pretraining answers them too
        fitting.add(classes["pretraining"])
    named = set(raw.get("architectures") or fitting)
    if not fitting & named or (papers.labels and labels_in(raw)[0] != papers.labels):
        raise UsageError(
            f"--model {model} does not answer {papers.format} papers, so it cannot have made these "
            "scores; name the run that did"
        )


def _show(scores: Path, found: Calibration) -> None:
    from albert_rc.scoring.confidence import FIGURES

    names = {"accuracy": "accuracy", "ece": "ECE", "brier": "Brier", "nll": "NLL", "aurc": "AURC"}
    forms = dict.fromkeys(FIGURES, ".4f") | {"accuracy": ".2%"}
    rows = [
        (names[name], *(format(getattr(side, name), form) for side in (found.before, found.after)))
        for name, form in forms.items()
    ]
    rows += [
        (
            f"accuracy of the most certain {share:.0%}",
            f"{value:.2%}",
            f"{found.after.coverage[share]:.2%}",
        )
        for share, value in found.before.coverage.items()
    ]
    before = f"as in the scores (temperature {found.scores_temperature:.4f})"
    table(f"{scores}", ("", before, "with the fitted temperature"), rows)
    out.print(
        f"after: in {found.folds} folds, each paper's temperature was fitted on the other folds; "
        "accuracy by certainty and AURC use the final temperature"
    )
    for name, side in (("before", found.before), ("after", found.after)):
        cells = [
            (f"{row.low:.0%} to {row.high:.0%}", f"{row.questions:,}", f"{row.confidence:.2%}",
             f"{row.accuracy:.2%}") for row in side.bins
        ]  # fmt: skip
        table(f"reliability {name}", ("probability", "answers", "mean", "accuracy"), cells)
    out.print(
        f"temperature: {found.temperature:.4f}, fitted on all {found.before.questions:,} answers"
    )


def _warn(found: Calibration) -> None:
    """Say where the temperature is of little use."""
    from albert_rc.scoring.confidence import limit_warning

    if warning := limit_warning(found.temperature / found.scores_temperature):
        say(warning)
    if found.after.ece >= found.before.ece:
        say("warning: the temperature does not lower the calibration error on held-out papers")


def _draw(found: Calibration, path: Path) -> None:
    from albert_rc.report.plots import lines, save

    sides = {"before": found.before, "after": found.after}
    reliable = {
        name: ([100 * row.confidence for row in s.bins], [100 * row.accuracy for row in s.bins])
        for name, s in sides.items()
    }
    reliable["ideal"] = ([0.0, 100.0], [0.0, 100.0])
    covered = {
        name: ([100 * share for share in s.coverage], [100 * a for a in s.coverage.values()])
        for name, s in sides.items()
    }
    panels = {"accuracy, %": reliable, "accuracy of the answered questions, %": covered}
    labels = ("probability of the answer, %", "questions answered, %")
    title = f"Temperature {found.temperature:.3f}: ECE {found.before.ece:.3f}"
    for file in save(lines(panels, labels, f"{title} -> {found.after.ece:.3f}"), path):
        say(f"{file}")
