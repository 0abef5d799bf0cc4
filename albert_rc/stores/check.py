"""Consistency checks of a store's tensors, so that no index in a foreign file is out of range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from albert_rc.papers.schema import Kind
from albert_rc.stores.pack import COLUMNS
from albert_rc.stores.writer import Cuts

_META: dict[str, type] = {
    "ids": list, "levels": list, "vocabulary": str, "max_length": int,
    "vocab_size": int, "split": str, "source_hash": str,
}  # fmt: skip
_META_OF: dict[Kind, dict[str, type]] = {
    "cloze": {"num_long": int},
    "choice": {"num_specials": int, "question_keys": list},
    "label": {"labels": list},
    "span": {"num_specials": int, "num_long": int},
}


def what_is_wrong(kind: Kind, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> str | None:
    """The first error that makes a store unusable, or None; checks every value.

    `tensors` must have all of `COLUMNS[kind]`.
    """
    for name, needed in (_META | _META_OF[kind]).items():
        if type(meta.get(name)) is not needed:
            return f"its {name} are missing or invalid"
    for name in Cuts.__annotations__:
        if type(meta.get(name, 0)) is not int:
            return f"its {name} are invalid"
    for name in ("ids", "labels", "question_keys"):
        if not all(isinstance(text, str) for text in meta.get(name, ())):
            return f"its {name} are not text"
    levels = meta["levels"]
    if len(levels) != len(meta["ids"]):
        return f"it has {len(levels):,} levels for {len(meta['ids']):,} papers"
    if not all(level is None or isinstance(level, str) for level in levels):
        return "its levels are not text"
    return _wrong_lengths(kind, tensors, meta) or _wrong_values(kind, tensors, meta)


def _wrong_lengths(
    kind: Kind, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]
) -> str | None:
    units: dict[str, int] = {}
    if kind in ("choice", "span"):
        units["paper"] = len(meta["ids"])
    for name, column in COLUMNS[kind].items():
        tensor = tensors[name]
        good = ("int16", "int32") if column.dtype == "id" else (column.dtype,)
        if tensor.ndim != 1 or str(tensor.dtype).removeprefix("torch.") not in good:
            return f"{name} must be a vector of {' or '.join(good)}"
        length = len(tensor) - bool(column.counts)  # -1 for offsets without their first 0
        if units.setdefault(column.per, length) != length:
            return f"{name} has {length:,} values for {units[column.per]:,} {column.per}s"
    for name, column in COLUMNS[kind].items():
        if column.counts:
            edges = tensors[name]
            whole = units[column.counts]
            ends = edges[[0, -1]].tolist() if len(edges) else []
            if ends != [0, whole] or not _all(edges.diff() >= 0):
                return f"the offsets in {name} do not cover {whole:,} {column.counts}s"
    if kind == "label" and units["question"] != len(meta["ids"]):
        return "the number of rows differs from the number of ids"
    if kind == "choice" and units["question"] != len(meta["question_keys"]):
        return "the number of questions differs from the number of keys"
    return None


def _wrong_values(kind: Kind, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> str | None:
    """The first invalid value, as a message, or None."""
    width = tensors["token_offset"].diff()
    bounds: list[tuple[str, Tensor, Tensor | int]] = []
    least_answer = -1
    if kind == "cloze":
        of_window = tensors["blank_offset"].diff().long()
        bounds += [
            ("window_passage", tensors["window_passage"], len(meta["ids"])),
            ("blank_position", tensors["blank_position"], width.repeat_interleave(of_window)),
        ]
    if kind in ("choice", "span"):
        owner = tensors["question_passage"]
        if not _within(owner, len(meta["ids"])):
            return "question_passage points outside the store"
        width = width[owner.long()]
    if kind == "choice":
        bounds.append(("kept", tensors["kept"], width + 1))
        bounds.append(("start", tensors["start"], width + 1 - tensors["kept"]))
    if kind in ("cloze", "choice"):
        options = tensors["option_offset"].diff()
        if not (_all(options > 0) and _all(tensors["piece_offset"].diff() > 0)):
            return "a question has no options, or an option has no pieces"
        bounds.append(("answer", tensors["answer"], options))
    if kind == "label":
        numbers = 2**15  # regression
        bounds += [
            ("answer", tensors["answer"], len(meta["labels"]) or numbers),
            ("second", tensors["second"], width + 1),
        ]
    if kind == "span":
        windows = tensors["window_offset"].diff().long()
        room = width.repeat_interleave(windows) + 1 - tensors["window_length"]
        bounds += [
            ("window_length", tensors["window_length"], 2**31 - 1),
            ("window_start", tensors["window_start"], room),
            ("answer", tensors["answer"], 2),
        ]
    for name, values, end in bounds:
        if not _within(values, end, least_answer if name == "answer" else 0):
            return f"{name} points outside the store"
    for name in {"token", "piece"} & tensors.keys():
        if not _within(tensors[name], meta["vocab_size"]):
            return f"{name} contains ids that are not in the vocabulary"
    return None


def _all(found: Tensor) -> bool:
    return bool(found.all())


def _within(values: Tensor, end: Tensor | int, first: int = 0) -> bool:
    """Whether all values are at least `first` and below `end`."""
    if not len(values):
        return True
    if int(values.min()) < first:
        return False
    return int(values.max()) < end if isinstance(end, int) else bool(torch.lt(values, end).all())
