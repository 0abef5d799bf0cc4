"""A model's temperature: kept next to its weights, found again by `predict`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from albert_rc.answering.request import HIGHEST, LOWEST
from albert_rc.checkpoints.hub import shipped_models
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.io.files import read_json, remembered_sha256, write_json
from albert_rc.scoring.calibration import Calibration
from albert_rc.scoring.score_file import ScoreFile

RECORDS = "calibration*.json"
"""In a model's folder, one for each way to read options."""
UNSAID = {"attention": "dense", "int8": False}
"""What records are taken for that do not say how the model had read."""


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
    """Keep a temperature next to the weights that it is about.

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
    """The temperature next to a model's weights, and whether there is one for this use of them.

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
    """What `keep` wrote next to a model's weights; None where nothing is, or of other weights.

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
