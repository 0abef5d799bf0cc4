"""Records in a run's folder: data, recipe, figures. Missing ones are left out.

Every file is optional: other checkpoints have none of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from albert_rc.answering.temperature import kept_record, record_path
from albert_rc.checkpoints.hub import shipped_models
from albert_rc.errors import AlbertRcError
from albert_rc.io.json import read_json, read_json_lines
from albert_rc.io.messages import counted, one_line
from albert_rc.stores.shards import open_store, split_path

Row = tuple[str, str]
FOLDERS = ("models", "runs", "checkpoints", "out", "output", "data", "build")
"""First parts of paths that are folders, not owners on the hub."""
SETTINGS = {
    "batch_size": "batch size",
    "learning_rate": "learning rate",
    "warmup": "share of warm-up steps",
    "weight_decay": "weight decay",
    "clip": "maximum gradient norm",
    "optimizer": "optimiser",
    "precision": "precision",
    "mask_rate": "share of other words masked",
    "mask_weight": "weight of the loss on these words",
    "option_score": "score of an option of several pieces",
    "attention": "attention",
    "pair": "task on pairs of segments",
    "pair_weight": "weight of its loss",
    "world": "processes",
    "seed": "seed",
}
"""Settings shown in the card, with their names there."""
OWNERS = {"mask_weight": "mask_rate", "pair_weight": "pair"}
"""Settings that have an effect only with another one, which is not one of `UNUSED`."""
OF_BLANKS = ("mask_rate", "mask_weight", "option_score")
"""Settings that only have an effect on cloze papers."""
UNUSED = (None, 0, "none")
OWN_CARD = "README.md"


@dataclass
class Records:
    """Known facts about a model's training."""

    started_from: str = "unknown"
    """Description of the initial weights."""
    base_model: str | None = None
    """Name of the base model on the hub, if any."""
    pretrained_only: bool = False
    data: list[Row] = field(default_factory=list)
    recipe: list[Row] = field(default_factory=list)
    figures: list[Row] = field(default_factory=list)
    temperature: float | None = None
    """Temperature saved by `evaluate --calibrate` for these weights."""
    own_card: str | None = None
    """Content of the folder's own card, if any."""


def read_records(folder: Path, unchanged: bool = True) -> Records:
    """Read all records of a run's folder.

    Args:
        folder: folder of a run, a model of the package, or any checkpoint.
        unchanged: whether the weights are exported as they are there.
    """
    found = Records()
    lines = list(read_json_lines(folder / "metrics.jsonl"))
    settings = _object(folder / "train.json")
    if not settings:
        settings = _object(folder / "pretrain.json")
        found.pretrained_only = bool(settings)
    if settings:
        _start(found, settings)
        found.recipe = list(_recipe(settings, _restarts(lines)))
        found.data = _data(folder, settings)
    if trained := [line for line in lines if line.get("kind") == "train"]:
        last = trained[-1]
        found.recipe.append(
            ("steps, epochs", f"{last.get('step')}, {last.get('epoch', 'unknown')}")
        )
    found.figures = _figures(lines, pretraining=found.pretrained_only)
    _calibration(found, folder)
    card = folder / OWN_CARD
    if not settings and card.is_file():
        text = card.read_text(encoding="utf-8", errors="replace")
        body = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()
        # Its headings move down two levels, below ours.
        found.own_card = re.sub(r"^(?=#{1,4} )", "##", body, flags=re.MULTILINE)
    for name, path in shipped_models().items():
        if path.resolve() == folder.resolve():
            found.started_from = f"`{name}`, which comes with albert-rc"
            if unchanged:
                found.started_from += ", unchanged"
    return found


def _object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if missing or unreadable."""
    try:
        value = read_json(path)
    except (AlbertRcError, OSError):
        return {}
    return value if isinstance(value, dict) else {}


def _shown(value: object) -> str:
    """A value for a table cell."""
    return one_line(str(value)).replace("|", "\\|")


def _may_be_of_the_hub(model: str) -> bool:
    """Whether a model's name is that of a repository, and not of a folder that is gone by now."""
    named = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", model) is not None
    return named and Path(model).parts[0] not in FOLDERS and not Path(model).exists()


def _start(found: Records, settings: Mapping[str, Any]) -> None:
    model, scratch = str(settings.get("model", "unknown")), settings.get("scratch")
    # A local path means nothing to others; its last part is the name.
    name = _shown(Path(model).name)
    if scratch:
        found.started_from = f"random weights (`--scratch {_shown(scratch)}`), vocabulary `{name}`"
    elif model in shipped_models():
        found.started_from = f"`{name}`, which comes with albert-rc"
    elif _may_be_of_the_hub(model):
        found.started_from, found.base_model = f"`{model}`", model
    else:
        found.started_from = f"the folder `{name}`"


def _of_weights(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The evaluation of the saved weights; empty if they were not evaluated."""
    best = [line for line in lines if line.get("kind") == "dev" and line.get("best")]
    return best[-1] if best else {}


def _restarts(lines: list[dict[str, Any]]) -> int:
    """How often the run was restarted after a collapse before it reached the saved weights."""
    attempt = (_of_weights(lines) or [{}, *lines][-1]).get("attempt")
    return attempt if isinstance(attempt, int) else 0


def _recipe(settings: Mapping[str, Any], restarts: int) -> Iterator[Row]:
    steps = settings.get("max_steps")
    if steps:
        yield "requested steps", _shown(steps)
    elif "epochs" in settings:
        yield "requested epochs", _shown(settings["epochs"])
    for name, shown in SETTINGS.items():
        value, owner = settings.get(name), OWNERS.get(name)
        if name in OF_BLANKS and settings.get("task") not in (None, "cloze"):
            continue
        if value is not None and (owner is None or settings.get(owner) not in UNUSED):
            said = _shown(value)
            if name == "learning_rate" and restarts and isinstance(value, (int, float)):
                times = counted(restarts, "restart")
                said = f"{value / 2**restarts:g} ({said} before {times} after a collapse)"
            yield shown, said
    masking = settings.get("masking")
    if isinstance(masking, dict):
        yield "share of tokens masked", _shown(masking.get("rate"))
        yield "maximum number of consecutive masked words", _shown(masking.get("max_ngram"))


def _data(folder: Path, settings: Mapping[str, Any]) -> list[Row]:
    """The run's training and dev stores, from the record in its states."""
    place = Path(str(settings.get("data", "")))
    rows: list[Row] = [("folder", f"`{_shown(place.name or place)}`")]
    identity = _identity(folder)
    for split in ("train", "dev"):
        recorded = identity.get(f"{split} store")
        recorded = recorded if isinstance(recorded, dict) else {}
        said = _store(split_path(place, split), recorded.get("source_hash"))
        if not said and recorded:
            said = f"SHA-256 of the papers {recorded.get('source_hash')}"
        if said:
            rows.append((split, said))
    return rows


def _identity(folder: Path) -> dict[str, Any]:
    """Fingerprints of the data in the newest readable state."""
    for path in sorted(folder.glob("resume-*.pt"), reverse=True):
        try:
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            found = content["data"]
        except Exception:  # truncated or foreign: torch raises many types
            continue
        if isinstance(found, dict):
            return found
    return {}


def _store(path: Path, recorded: str | None) -> str:
    """A store's summary, if it is the one that the run used."""
    try:
        store = open_store(path)
    except (AlbertRcError, OSError):
        return ""
    meta = store.meta
    if recorded is not None and meta.get("source_hash") != recorded:
        return ""
    said = (
        f"{counted(len(meta['ids']), 'paper')}, {counted(store.num_questions, 'question')} "
        f"({_shown(meta.get('source_format'))}), windows of {meta['max_length']} tokens, "
        f"SHA-256 of the papers {_shown(meta.get('source_hash'))}"
    )
    if recorded is None:
        said += " (as found at export; the run's states, which would confirm it, were removed)"
    return said


def _figures(lines: list[dict[str, Any]], pretraining: bool) -> list[Row]:
    """Dev metrics of the saved weights."""
    line = _of_weights(lines)
    if not line:
        return []
    rows = [("step of these weights", _shown(line.get("step")))]
    for name, value in line.items():
        if name in ("kind", "step", "epoch", "best", "attempt") or isinstance(value, bool):
            continue
        if isinstance(value, (int, float)) and math.isfinite(value):
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
            on = "dev corpus" if pretraining else "dev store"
            rows.append((f"{on}, {_shown(name).replace('_', ' ')}", shown))
    return rows


def _calibration(found: Records, folder: Path) -> None:
    try:
        record = kept_record(record_path(folder))
    except AlbertRcError:
        return
    if record is None:
        return
    found.temperature = temperature = float(record["temperature"])
    for side, shown in (
        ("before", "without a temperature"),
        ("after", "with the temperature, held out"),
    ):
        part = record.get(side)
        error = part.get("ece") if isinstance(part, dict) else None
        if isinstance(error, (int, float)):
            found.figures.append((f"calibration error (ECE) {shown}", f"{error:.4f}"))
    found.figures.append(("temperature", f"{temperature:.4f}"))
