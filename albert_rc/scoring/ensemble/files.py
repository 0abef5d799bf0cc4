"""Output files of an ensemble: answers, scores, and the saved fit for other papers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.errors import DataError
from albert_rc.io.files import read_bytes
from albert_rc.io.json import parse_json, six_digits, write_json
from albert_rc.io.messages import counted, quoted
from albert_rc.papers.schema import PaperSet, letter, question_keys
from albert_rc.scoring.ensemble.assess import Assessment
from albert_rc.scoring.ensemble.mix import MIX, Fit, make_pool
from albert_rc.scoring.score_file import OF_ENSEMBLE, ScoreFile


def label_names(files: Sequence[ScoreFile]) -> tuple[str, ...]:
    """Names of the labels by index; empty if options have letters.

    Raises:
        DataError: the files differ in them, or a label is never an answer, so its name is unknown.
    """
    if files[0].kind != "labels":
        return ()
    names: dict[int, str] = {}
    for file in files:
        for place, name in file.labels.items():
            if names.setdefault(place, name) != name:
                raise DataError(
                    f"{file.path}: label {place + 1} is {quoted(name)}, but "
                    f"{quoted(names[place])} in files before it; all must be of the same task"
                )
    count = int(files[0].num_options_Q.max())
    unnamed = [place + 1 for place in range(count) if place not in names]
    if unnamed:
        raise DataError(
            f"{files[0].path}: label {unnamed[0]} of {count} is never an answer in the score "
            "files, so its name is not known; give the papers with --gold, or score more papers"
        )
    return tuple(names[place] for place in range(count))


def require_like(file: ScoreFile, dev: ScoreFile, labels: Sequence[str]) -> None:
    """Refuse scores of a different task than the fit's, where `check_models` cannot tell.

    Args:
        file: one of the score files that are answered.
        dev: one of those that the fit is made on.
        labels: of the papers that `dev` is for; empty if options have letters.

    Raises:
        DataError: one has blanks and the other questions, or their labels differ.
    """
    said = f"{file.path}: the fit on {dev.path} does not apply to it: "
    for name, one, other in (
        (
            "has answers to",
            *("blanks" if each.ids is None else "questions" for each in (file, dev)),
        ),
        ("has", *(counted(_num_labels(each), "label") for each in (file, dev))),
    ):
        if one != other:
            raise DataError(f"{said}it {name} {one}, not {other}; give scores of the same task")
    require_labels(file, labels, said)


def require_labels(file: ScoreFile, labels: Sequence[str], said: str) -> None:
    """Refuse scores with other labels.

    Raises:
        DataError: begins with `said`.
    """
    if any(list(labels[place : place + 1]) != [name] for place, name in file.labels.items()):
        raise DataError(f"{said}its labels are not {', '.join(labels)}, in that order")


def _num_labels(file: ScoreFile) -> int:
    return int(file.num_options_Q.max()) if file.kind == "labels" else 0


def score_lines(
    files: Sequence[ScoreFile], fit: Fit, labels: Sequence[str]
) -> list[dict[str, Any]]:
    """Lines of the ensemble's score file, as `predict --scores` writes them.

    Args:
        files: result of `put_together`. If one recalled a blank, `read` is the majority's
            answer without recall.
        fit: how to combine them; numbers are averaged.
        labels: names of the options, if they have no letters.
    """
    like = files[0]
    if like.kind == "numbers":
        pool, chances_QK = None, np.mean([file.chances_QK for file in files], 0)
    else:
        pool = make_pool(files)
        chances_QK = fit(pool)
    lines: list[dict[str, Any]] = []
    best = chances_QK.argmax(-1).tolist()
    for question, (paper, number) in enumerate(like.keys):
        line: dict[str, Any] = {"paper": paper, "number": number}
        if like.ids is not None:
            line["id"] = like.ids[question]
        if pool is None:
            line["answer"] = round(float(chances_QK[question, 0]), 6)
        else:
            line["answer"] = labels[best[question]] if labels else letter(best[question])
            chances = chances_QK[question, : like.num_options_Q[question]].tolist()
            line["probabilities"] = [six_digits(chance) for chance in chances]
            if fit.temperature != 1 and not pool.once_Q[question]:
                line["temperature"] = round(fit.temperature, 6)
            if any(file.read[question] for file in files):
                read = Counter(file.read[question] or file.answers[question] for file in files)
                line["read"] = read.most_common(1)[0][0]
            if pool.once_Q[question]:
                line["each_once"] = True
        lines.append(line)
    for line in lines[:1]:
        line["weights"] = OF_ENSEMBLE
    return lines


def answers_of(lines: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Content of answer.json, in `predict`'s format for a kind of papers.

    Args:
        lines: records of a score file.
        kind: `cloze`, `choice` or `label`.
    """
    if "probabilities" not in lines[0]:
        return {line["paper"]: round(line["answer"], 4) for line in lines}
    if kind == "label":
        return {line["paper"]: line["answer"] for line in lines}
    papers: dict[str, list[str]] = {}
    for line in lines:
        papers.setdefault(line["paper"], []).append(line["answer"])
    if kind == "cloze":
        return dict(papers)
    return {
        key: answer
        for paper, given in papers.items()
        for key, answer in zip(question_keys(paper, len(given)), given, strict=True)
    }


def models_of(files: Sequence[ScoreFile]) -> list[dict[str, Any]]:
    """Properties of the fitted files, to save with the fit."""
    return [
        {
            "scores": str(file.path),
            "sha256": file.sha256,
            "temperature": file.temperature,
            "kind": file.kind,
            "questions": file.ids is not None,
            "option_score": file.way,
            "weights": file.weights,
            "reading": file.reading,
        }
        for file in files
    ]


def save_fit(
    path: Path,
    fit: Fit,
    report: Assessment,
    files: Sequence[ScoreFile],
    gold: Path,
    papers: PaperSet,
) -> None:
    """Save a fit on some papers, with its source files, the papers' labels and its evaluation."""
    models = [
        {**model, "weight": round(weight, 6)}
        for model, weight in zip(models_of(files), fit.weights, strict=True)
    ]
    write_json(
        path,
        {
            "ensemble": 1,
            "method": fit.method,
            "temperature": round(fit.temperature, 6),
            "models": models,
            "labels": list(papers.labels),
            "gold": {"papers": str(gold), "sha256": papers.source_hash},
            "measured": report.as_json(),
        },
    )


def load_fit(path: Path) -> tuple[Fit, list[dict[str, Any]], tuple[str, ...]]:
    """Load a saved fit; its models, in order; and its labels, if it has any.

    Raises:
        DataError: the file is not a fit.
    """
    content = read_bytes(path)
    try:
        record = parse_json(content)
        models = list(record["models"])
        weights = tuple(float(model["weight"]) for model in models)
        method, temperature = record["method"], float(record["temperature"])
        whole = all(
            isinstance(m[name], str) for m in models for name in ("scores", "sha256", "kind")
        )
        inputs = [float(model["temperature"]) for model in models]
        sound = method in MIX and 0 < temperature < math.inf and min(inputs) > 0
        labels = tuple(record.get("labels", ()))  # fits of earlier versions lack them
        sound = sound and all(isinstance(name, str) for name in labels)
        if not (whole and sound and min(weights) >= 0 and abs(sum(weights) - 1) < 1e-4):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise DataError(
            f"{path}: not the fit of an ensemble; make one with `albert-rc ensemble --gold ... "
            "--fit`"
        ) from None
    total = sum(weights)
    return Fit(method, tuple(weight / total for weight in weights), temperature), models, labels


def check_models(files: Sequence[ScoreFile], models: Sequence[dict[str, Any]]) -> None:
    """Refuse files that do not match the fitted models.

    Args:
        files: the files to combine.
        models: result of `models_of` for the fitted files.

    Raises:
        DataError: the number or order of files, the kind of answers, the temperature, or how some
            questions were read again differs from the fit's.
    """
    if len(files) != len(models):
        raise DataError(
            f"{len(files)} score files, but the fit is of {len(models)} models "
            f"({', '.join(model['scores'] for model in models)}); give one file for each, in this "
            "order"
        )
    for own, (file, model) in enumerate(zip(files, models, strict=True), 1):
        places = _places(file, models)
        if places and own not in places:
            raise DataError(
                f"{file.path}: is score file number {own} here, but its model was number "
                f"{places[0]} in the fit; give the score files in the order of the fit"
            )
        if file.kind != model["kind"]:
            raise DataError(
                f"{file.path}: holds {file.kind}, but the fit was made with {model['scores']}, "
                f"which holds {model['kind']}; give scores of the same task"
            )
        if (file.ids is not None) != model.get("questions", file.ids is not None):
            other = "questions" if file.ids is None else "blanks"
            raise DataError(
                f"{file.path}: the fit was made with {model['scores']}, which has answers to "
                f"{other}; give scores of the same task"
            )
        known = {file.weights, model.get("weights")} - {None, OF_ENSEMBLE}
        if len(known) > 1:
            raise DataError(
                f"{file.path}: made with different weights than {model['scores']}, of the fit; "
                "give the scores of the same models, or fit again"
            )
        if file.way != model.get("option_score"):
            raise DataError(
                f"{file.path}: made {_way(file.way)}, but {model['scores']}, of the fit, was made "
                f"{_way(model.get('option_score'))}; make the scores again with the same "
                "`predict --option-score`"
            )
        if _differ(file.reading, model.get("reading")):
            raise DataError(
                f"{file.path}: made with {_settings(file.reading)}, but {model['scores']}, of the "
                f"fit, with {_settings(model['reading'])}; make the scores again with the same "
                "options of `predict`"
            )
        as_before = np.isclose(file.temperature, model["temperature"], rtol=1e-4)
        if not as_before and not all(file.each_once):
            raise DataError(
                f"{file.path}: made with temperature {file.temperature:g}, but "
                f"{model['scores']}, of the fit, with {model['temperature']:g}; make the scores "
                "of dev and test again with the same temperature: the saved one, or "
                "`predict --temperature 1`"
            )


def _places(file: ScoreFile, models: Sequence[Mapping[str, Any]]) -> list[int]:
    """The numbers of the models that a file may be from: by its content, or by its weights."""
    numbered = list(enumerate(models, 1))
    itself = [number for number, model in numbered if file.sha256 == model["sha256"]]
    return itself or [number for number, model in numbered if _same(file, model)]


def _same(file: ScoreFile, model: Mapping[str, Any]) -> bool:
    """Whether a file is known to be from a model, with the same settings."""
    made_by = file.weights not in (None, OF_ENSEMBLE) and file.weights == model.get("weights")
    alike = file.way == model.get("option_score")
    return made_by and alike and not _differ(file.reading, model.get("reading"))


def _differ(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether settings of prediction differ, where both are known."""
    return one is not None and other is not None and dict(one) != dict(other)


def _settings(reading: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted((reading or {}).items()))


def _way(way: str | None) -> str:
    return "without --option-score" if way is None else f"with --option-score {way}"
