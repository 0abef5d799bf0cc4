"""A model's temperature: fitted on dev scores, kept beside its weights, used by `predict`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.confidence import (
    BINS,
    COLDEST,
    HOTTEST,
    Confidence,
    fit_temperature,
    folds_of,
    held_out_tempered,
    measure,
    temper,
)
from albert_rc.data.schema import PaperSet, letter, letter_index
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.files import read_json, remembered_sha256, write_json
from albert_rc.hub import shipped_models
from albert_rc.score_files import ScoreFile
from albert_rc.score_sets import in_order_of, right_options

RECORDS = "calibration*.json"
"""In a model's folder, one for each way to read options."""
UNSAID = {"attention": "dense", "int8": False}
"""What records are taken for that do not say how the model had read."""
LOWEST, HIGHEST = COLDEST**2, HOTTEST**2
"""Of temperatures that may be asked for: that of scores that were made with another, too."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a temperature does to a model's probabilities."""

    temperature: float
    """Of the model's own logits, fitted on all papers."""
    scores_temperature: float
    """What the scores had been made with."""
    way: str | None
    """How options of several pieces had been read again."""
    reading: dict[str, Any] | None
    """How the model had read otherwise, where the scores say so; see `predict.reading_of`."""
    folds: int
    before: Confidence
    after: Confidence
    """What to expect on other papers: how far probabilities can be believed, by temperatures that
    never saw the paper; which answers are surest (coverage, AURC), by the one that is kept."""
    scores_sha256: str
    gold_sha256: str

    def as_json(self) -> dict[str, Any]:
        """For `--json` and for the record."""
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
    """Fit a temperature, and measure it on papers that it was not fitted on.

    Only which answers are surest is measured with the one temperature that was fitted on all
    papers. The folds' differ a little, and where probabilities lie close that would put whole folds
    before others, as no model ever does. Nothing is flattered: one number, fitted to the likelihood
    and not to the order, can hardly bring right answers to the front.

    Args:
        file: scores of papers with right answers; blanks that were recalled are left out.
        papers: these papers.
        folds: into which the papers are divided, to fit on all but one and measure on that one.
        seed: of the division.
        bins: of the calibration error.

    Raises:
        DataError: the scores are of other papers, the answers are no options, or all recalled.
    """
    file = in_order_of(file, papers)
    gold_Q = right_options(file, papers)
    # What is recalled is no logit of the model's, and `predict` adds it after the temperature.
    read_Q = np.array([reading is None for reading in file.read])
    known = np.flatnonzero((gold_Q >= 0) & read_Q)
    if not len(known):
        raise DataError(f"{file.path}: every answer was recalled; make it without --recall")
    gold_Q, chances_QK = gold_Q[known], file.chances_QK[known]
    present_QK = np.arange(chances_QK.shape[1]) < file.num_options_Q[known, None]
    fold_Q = folds_of([file.papers[i] for i in known], folds, seed)
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


def require_own(folder: Path) -> None:
    """Refuse, before the work, a folder that no temperature can be kept in.

    Raises:
        UsageError: a model of the package, which is for all, or no folder.
        CheckpointError: there are no weights in it.
    """
    if not folder.is_dir():
        shipped = shipped_models().get(str(folder))
        raise UsageError(
            f"--model {folder}: no such folder"
            if shipped is None
            else f"--model {folder}: a model of the package is not written to; copy it with "
            f"`albert-rc export {folder} --out models/{folder}`, and name that folder"
        )
    with _opened(folder / "model.safetensors"):
        pass


def keep(calibration: Calibration, folder: Path) -> Path:
    """Keep a temperature beside the weights that it is about.

    Raises:
        CheckpointError: there are no weights in the folder.
    """
    record = {**calibration.as_json(), "weights_sha256": _weights_hash(folder)}
    path = record_path(folder, calibration.way)
    write_json(path, record)
    return path


def record_path(folder: Path, way: str | None = None) -> Path:
    """Where a temperature is kept: each way to read options again has one of its own."""
    return folder / ("calibration.json" if way is None else f"calibration-{way}.json")


def kept_temperature(
    folder: Path, way: str | None = None, reading: Mapping[str, Any] | None = None
) -> tuple[float, bool]:
    """The temperature beside a model's weights, and whether there is one for this use of them.

    Args:
        folder: of the model.
        way: how options of several pieces are read again; each way has probabilities of its own.
        reading: how the model reads otherwise; not compared where it is None.

    Returns:
        1 and False where none was kept, or only one of other weights or of another reading.

    Raises:
        CheckpointError: the record is damaged.
    """
    record = kept_record(record_path(folder, way))
    if record is None or (reading is not None and _other_reading(record, reading)):
        return 1.0, False
    return float(record["temperature"]), True


def why_unused(
    folder: Path, way: str | None = None, reading: Mapping[str, Any] | None = None
) -> str | None:
    """What the temperature that is kept there is of, if `kept_temperature` does not use it.

    Raises:
        CheckpointError: the record is damaged.
    """
    path = record_path(folder, way)
    if not path.is_file():
        return None
    record = kept_record(path)
    if record is None:
        return "of other weights"
    return None if reading is None else _other_reading(record, reading)


def _other_reading(record: Mapping[str, Any], reading: Mapping[str, Any]) -> str | None:
    """In what a record's scores had been read otherwise, or None."""
    for name, was in record.get("reading", UNSAID).items():
        if (now := reading.get(name)) != was:
            said = "other settings" if isinstance(was, dict) else was
            return f"of scores with {name} {said}" + ("" if said is not was else f", not {now}")
    return None


def kept_record(path: Path) -> dict[str, Any] | None:
    """What `keep` wrote beside a model's weights; None where nothing is, or of other weights.

    Raises:
        CheckpointError: the record is damaged.
    """
    if not path.is_file():
        return None
    try:
        record: dict[str, Any] = read_json(path)
        temperature, weights = float(record["temperature"]), str(record["weights_sha256"])
        if not COLDEST**2 <= temperature <= HOTTEST**2:
            raise ValueError
        if not isinstance(record.get("reading", {}), dict):
            raise ValueError
    except (DataError, KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{path}: damaged; make it again with `albert-rc calibrate`, or give --temperature 1"
        ) from None
    return record if weights == _weights_hash(path.parent) else None


def weights_id(folder: Path) -> str | None:
    """The weights' name on a score file's first line; None where they are no single file."""
    path = folder / "model.safetensors"
    return remembered_sha256(path)[:16] if path.is_file() else None


def require_made_by(file: ScoreFile, folder: Path) -> None:
    """Refuse scores that other weights made.

    Raises:
        UsageError: the file says so.
    """
    own = weights_id(folder)
    if None not in (file.weights, own) and file.weights != own:
        raise UsageError(
            f"--model {folder}: other weights made {file.path}; name the run that did, or make "
            "the scores again"
        )


def _weights_hash(folder: Path) -> str:
    path = folder / "model.safetensors"
    with _opened(path):
        return remembered_sha256(path)


@contextmanager
def _opened(weights: Path) -> Iterator[None]:
    """Weights that can be read; a CheckpointError if not."""
    try:
        with weights.open("rb"):
            yield
    except OSError as error:
        raise CheckpointError(
            f"{weights}: cannot be read ({error.strerror}); name the folder of the model that made "
            "the scores"
        ) from None


@dataclass(frozen=True)
class Unsure:
    """Answers that a teacher should see."""

    lines: list[dict[str, Any]]
    """In the papers' order."""
    total: int
    expected: float
    """Mean probability of the other answers: their accuracy, if the probabilities are calibrated.
    NaN where there are none."""

    def line(self, below: float, path: Path, calibrated: bool) -> str:
        """What was found, as a sentence."""
        said = f"{path}: {len(self.lines):,} of {self.total:,} answers are less sure than {below:g}"
        if len(self.lines) == self.total:
            return said
        if not calibrated:
            return f"{said}; not calibrated (`albert-rc calibrate`), so these are no frequencies"
        return f"{said}; the rest should be right in {self.expected:.1%}"


def find_unsure(
    lines: Sequence[Mapping[str, Any]], below: float, labels: Sequence[str] = ()
) -> Unsure:
    """Answers whose probability is below a threshold, with the runner-up.

    Args:
        lines: as in a score file, with probabilities.
        below: the threshold.
        labels: names of the options by their place, where they are no letters.
    """
    found, others = [], []
    for line in lines:
        chances = list(line["probabilities"])
        answer = line["answer"]
        place = letter_index(answer) if not labels else list(labels).index(answer)
        chance = chances[place or 0]
        if chance >= below:
            others.append(chance)
            continue
        second = max((i for i in range(len(chances)) if i != place), key=chances.__getitem__)
        keys = {name: line[name] for name in ("paper", "number", "id") if name in line}
        found.append(
            {
                **keys,
                "answer": answer,
                "probability": chance,
                "runner_up": labels[second] if labels else letter(second),
                "runner_up_probability": chances[second],
            }
        )
    return Unsure(found, len(lines), float(np.mean(others)) if others else float("nan"))


def unsure_path(answers: Path) -> Path:
    """Where they are listed: `answer.unsure.jsonl` beside `answer.json`."""
    return answers.with_name(f"{answers.stem}.unsure.jsonl")
