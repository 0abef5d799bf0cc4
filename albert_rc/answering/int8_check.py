"""The check before int8 is used: the accuracy that quantising a model loses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from albert_rc import __version__
from albert_rc.answering.again import read
from albert_rc.answering.banks import best_options
from albert_rc.answering.quality import quality, span_quality
from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.answering.spans import find_spans
from albert_rc.checkpoints.hub import SHIPPED
from albert_rc.errors import CheckpointError
from albert_rc.io.files import file_sha256, remembered_sha256, sha256
from albert_rc.io.json import as_json, parse_json, write_json
from albert_rc.model.heads import ReadingModel
from albert_rc.model.span_head import SpanModel
from albert_rc.runtime.devices import Processes
from albert_rc.stores.shards import is_sharded, store_shards
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

RECORD = "int8.json"
MOST = 8
"""Number of measurements that are kept for a model."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings for answering the dev papers: the same as for the papers to predict."""

    precision: str
    """Precision that int8 is compared with."""
    way: str | None = None
    """How to read questions again, if at all."""
    null_threshold: float | None = None
    """Threshold for no answer, for spans; None for the one tuned in training."""
    token_budget: int = TOKEN_BUDGET
    reuse: bool = False
    """Whether an option may answer several blanks."""


@dataclass(frozen=True)
class Cost:
    """The effect of int8 on a store."""

    questions: int
    changed: int
    """Number of answers that differ from those without quantisation."""
    before: float | None
    """The task's score (accuracy, F1, ...) without quantisation; None if no answer is known."""
    after: float | None

    @property
    def points(self) -> float:
        """Percentage points lost: of the score, or of unchanged answers if no answer is known."""
        if self.before is None or self.after is None:
            return 100 * self.changed / max(1, self.questions)
        return 100 * (self.before - self.after)

    def line(self) -> str:
        """The result as a sentence."""
        share = self.changed / max(1, self.questions)
        found = f"int8 changes {self.changed:,} of {self.questions:,} dev answers ({share:.2%})"
        if self.before is None or self.after is None:
            return found
        gain = 100 * (self.after - self.before)
        return f"{found}; score {self.before:.2%} -> {self.after:.2%} ({gain:+.2f} points)"

    def require(self, tolerance: float) -> None:
        """Refuse a loss beyond the tolerance.

        Raises:
            CheckpointError: states the loss.
        """
        if self.points > tolerance:
            loss = f"loses {self.points:.2f} points"
            if self.before is None:
                loss = f"changes {self.points:.2f}% of the dev answers"
            raise CheckpointError(
                f"int8 {loss}, more than --tolerance {tolerance}; nothing was predicted. Use "
                "--precision bf16"
            )


def measure_cost(
    model: ReadingModel | SpanModel,
    tokenizer: Tokenizer,
    store: Store,
    processes: Processes,
    trial: Trial,
) -> Cost:
    """Answer a store with and without int8.

    Args:
        model: on the processes' device; its `compute` is int8 afterwards.
        tokenizer: the model's.
        store: preferably with answers.
        processes: the ranks that share the work.
        trial: settings for answering.
    """
    found = []
    for name in (trial.precision, "int8"):
        model.encoder.compute = replace(model.encoder.compute, precision=name)
        found.append(_answered(model, tokenizer, store, processes, trial))
    (exact, before), (quick, after) = found
    return Cost(
        questions=len(exact),
        changed=sum(one != other for one, other in zip(exact, quick, strict=True)),
        before=before,
        after=after,
    )


def _answered(
    model: ReadingModel | SpanModel,
    tokenizer: Tokenizer,
    store: Store,
    processes: Processes,
    trial: Trial,
) -> tuple[Sequence[int | str], float | None]:
    """An answer to each question, and their accuracy if right answers are known."""
    budget = trial.token_budget
    if isinstance(model, SpanModel):
        found = find_spans(model, tokenizer, store, processes, token_budget=budget)
        threshold = _threshold(model, trial)
        tuned, good = threshold is not None, None
        if store.has_answers:
            good = span_quality(store, found, tuned, threshold).f1
        return [question.answer(threshold) for question in found], good
    scored_QK, _ = read(model, tokenizer, store, processes, trial.way, budget)
    good = quality(store, scored_QK, trial.reuse).score if store.has_answers else None
    if store.is_numeric:  # equal if the same to one decimal
        return [f"{number:.1f}" for number in scored_QK[:, 0].tolist()], good
    return best_options(store, scored_QK, trial.reuse).tolist(), good


def _threshold(model: ReadingModel | SpanModel, trial: Trial) -> float | None:
    """The threshold above which a span model gives no answer."""
    if not isinstance(model, SpanModel) or trial.null_threshold is not None:
        return trial.null_threshold
    return model.null_threshold


def identity(
    model: ReadingModel | SpanModel, folder: Path, store_path: Path, trial: Trial
) -> dict[str, Any]:
    """Everything a measurement depends on, as JSON; empty if the weights are unreadable.

    Args:
        model: on the device used for the measurement.
        folder: the folder of its weights.
        store_path: the store to answer.
        trial: settings for answering.
    """
    compute = model.encoder.compute
    try:
        hashes = {
            "weights": remembered_sha256(folder / "model.safetensors"),
            "store": _store_hash(store_path),
        }
    except OSError:
        return {}  # weights in another format: measured each time
    found = hashes | {
        "config": asdict(model.config),
        "task": model.task,
        "attention": compute.attention,
        "lsh": asdict(compute.lsh) if compute.attention == "lsh" else None,
        "option_score": model.option_score,
        "read_again": trial.way,
        "reuse": trial.reuse,
        "null_threshold": _threshold(model, trial),
        "compared_with": trial.precision,
        "device": _kernels_of(next(model.parameters()).device),
        # Other versions may compute differently, and torch's kernels depend on the processor.
        "made_with": f"albert-rc {__version__}, torch {torch.__version__}",
    }
    return as_json(found)


def _store_hash(path: Path) -> str:
    """The hash of a store's file, or of its shards' hashes."""
    if not is_sharded(path):
        return file_sha256(path)
    return sha256("".join(map(file_sha256, store_shards(path))).encode())


def _kernels_of(device: torch.device) -> str:
    """The device, and the properties that determine its kernels."""
    if device.type == "cuda":
        return f"cuda, {torch.cuda.get_device_name(device)}"
    return f"{device.type}, {torch.backends.cpu.get_cpu_capability()}"


def record_of(folder: Path) -> Path:
    """The file with a model's measurements: in its folder, unless that is shared.

    Models of the package and downloads from the hub have theirs in the user's cache.
    """
    place = folder.resolve()
    shared = place.is_relative_to(SHIPPED.resolve()) or place.parent.name == "snapshots"
    if not shared:
        return folder / RECORD
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "albert-rc" / f"int8-{sha256(str(place).encode())[:16]}.json"


def remembered_cost(folder: Path, of: dict[str, Any]) -> Cost | None:
    """An earlier measurement with the same `identity`."""
    return next(
        (cost for known, cost in _remembered(record_of(folder)) if of and known == of), None
    )


def _remembered(path: Path) -> list[tuple[dict[str, Any], Cost]]:
    """The measurements in a file, newest first; none if it is missing or not ours."""
    try:
        return [(each["of"], Cost(**each["cost"])) for each in parse_json(path.read_bytes())]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def remember_cost(folder: Path, of: dict[str, Any], cost: Cost) -> None:
    """Save a measurement, next to the newest ones with other settings, where that is possible."""
    if not of:
        return
    path = record_of(folder)
    others = [each for each in _remembered(path) if each[0] != of][: MOST - 1]
    try:
        write_json(path, [{"of": o, "cost": asdict(c)} for o, c in [(of, cost), *others]])
    except OSError:
        return  # read-only folder: measured again next time
