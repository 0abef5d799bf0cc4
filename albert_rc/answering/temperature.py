"""The calibrated temperature of a model: saved next to its weights, and read for `predict`.

`score.final_scores` divides by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from albert_rc.answering.request import HIGHEST, LOWEST
from albert_rc.checkpoints.hub import shipped_models
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.io.files import remembered_sha256
from albert_rc.io.json import read_json, write_json
from albert_rc.model.config import READ_AGAIN
from albert_rc.scoring.calibration import Calibration
from albert_rc.scoring.score_file import OF_ENSEMBLE, ScoreFile

RECORDS = "calibration*.json"
"""Name pattern of the records in a model's folder, one for each way to read questions again."""
UNSAID = {"attention": "dense", "int8": False}
"""Defaults for records that lack these inference settings."""


def require_own(folder: Path) -> None:
    """Refuse a folder in which no temperature can be saved, before any work is done.

    Raises:
        UsageError: a model of the package, which is shared, or no folder.
        CheckpointError: there are no weights in it.
    """
    shipped = {path.resolve(): name for name, path in shipped_models().items()}
    name = str(folder) if not folder.is_dir() else shipped.get(folder.resolve())
    if name in shipped.values():
        raise UsageError(
            f"--model {folder}: models of the package cannot be changed; copy it with "
            f"`albert-rc export {name} --out models/{name}`, and give that folder"
        )
    if not folder.is_dir():
        raise UsageError(f"--model {folder}: no such folder")
    with _opened(folder / "model.safetensors"):
        pass


def keep(calibration: Calibration, folder: Path) -> Path:
    """Save a temperature next to its weights.

    Raises:
        UsageError: it is beyond what `predict` accepts.
        CheckpointError: there are no weights in the folder.
    """
    if not LOWEST <= calibration.temperature <= HIGHEST:
        raise UsageError(
            f"the temperature would be {calibration.temperature:g}, beyond {LOWEST:g} to "
            f"{HIGHEST:g}, because the scores were made with {calibration.scores_temperature:g}; "
            "make them with --temperature 1"
        )
    record = {**calibration.as_json(), "weights_sha256": _weights_hash(folder)}
    path = record_path(folder, calibration.way)
    write_json(path, record)
    return path


def record_path(folder: Path, way: str | None = None) -> Path:
    """Path of a temperature's record: one for each way to read questions again."""
    return folder / ("calibration.json" if way is None else f"calibration-{way}.json")


def kept_temperature(
    folder: Path, way: str | None = None, reading: Mapping[str, Any] | None = None
) -> tuple[float, bool]:
    """The temperature saved next to a model's weights, and whether one exists for these settings.

    Args:
        folder: the model's folder.
        way: how some questions are read again; each way has its own probabilities.
        reading: the other inference settings; not compared if it is None.

    Returns:
        1 and False if none was saved, or only one for other weights or settings.

    Raises:
        CheckpointError: the record is damaged.
    """
    record = kept_record(record_path(folder, way))
    if record is None or (reading is not None and other_reading(record, reading)):
        return 1.0, False
    return float(record["temperature"]), True


def why_unused(
    folder: Path, way: str | None = None, reading: Mapping[str, Any] | None = None
) -> str | None:
    """Why `kept_temperature` does not use the saved temperature, if it does not.

    Raises:
        CheckpointError: the record is damaged.
    """
    path = record_path(folder, way)
    if not path.is_file():
        return None
    record = kept_record(path)
    if record is None:
        return "for different weights"
    return None if reading is None else other_reading(record, reading)


def of_other_way(folder: Path, way: str | None) -> Path | None:
    """A saved temperature for questions that are read in another way, if there is none for this."""
    if record_path(folder, way).is_file():
        return None
    paths = (record_path(folder, other) for other in (None, *READ_AGAIN))
    return next((path for path in paths if path.is_file()), None)


def other_reading(record: Mapping[str, Any], reading: Mapping[str, Any]) -> str | None:
    """The inference setting in which a record differs, or None."""
    for name, was in record.get("reading", UNSAID).items():
        if (now := reading.get(name)) != was:
            said = "other settings" if isinstance(was, dict) else was
            return f"for scores with {name} {said}" + ("" if said is not was else f", not {now}")
    return None


def kept_record(path: Path) -> dict[str, Any] | None:
    """The record that `keep` wrote next to a model's weights; None if missing or for other weights.

    Raises:
        CheckpointError: the record is damaged.
    """
    if not path.is_file():
        return None
    try:
        record: dict[str, Any] = read_json(path)
        temperature, weights = float(record["temperature"]), str(record["weights_sha256"])
        if not LOWEST <= temperature <= HIGHEST:
            raise ValueError
        if not isinstance(record.get("reading", {}), dict):
            raise ValueError
    except (DataError, KeyError, TypeError, ValueError):
        raise CheckpointError(
            f"{path}: damaged; make it again with `albert-rc evaluate --calibrate`, or give "
            "--temperature 1"
        ) from None
    return record if weights == _weights_hash(path.parent) else None


def weights_id(folder: Path) -> str | None:
    """Identifier of the weights for a score file's first line; None if there are none."""
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (folder / name).is_file():
            return remembered_sha256(folder / name)[:16]
    return None


def require_made_by(file: ScoreFile, folder: Path) -> None:
    """Refuse scores made by other weights.

    Raises:
        UsageError: the file names other weights, or an ensemble.
    """
    if file.weights == OF_ENSEMBLE:
        raise UsageError(
            f"--model {folder}: {file.path} was made by an ensemble; leave --model out, or give "
            "the scores of this model alone"
        )
    own = weights_id(folder)
    if None not in (file.weights, own) and file.weights != own:
        raise UsageError(
            f"--model {folder}: {file.path} was made with different weights; give the run that "
            "made it, or make the scores again"
        )


def _weights_hash(folder: Path) -> str:
    path = folder / "model.safetensors"
    with _opened(path):
        return remembered_sha256(path)


@contextmanager
def _opened(weights: Path) -> Iterator[None]:
    """Open weights for reading; a CheckpointError if that fails."""
    try:
        with weights.open("rb"):
            yield
    except OSError as error:
        raise CheckpointError(
            f"{weights}: cannot be read ({error.strerror}); give the folder of the model that made "
            "the scores"
        ) from None
