"""The classes of a classifier, as config.json names them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from albert_rc.checkpoints.hf_names import saved_class, saved_task


def same_classes(raw: Mapping[str, Any], task: str, labels: Sequence[str] | None) -> bool:
    """Whether config.json allows a checkpoint's classifier to be for this task and these labels.

    Placeholder names such as `LABEL_0`, which transformers assigns to unnamed labels, match any
    labels if there are equally many.
    """
    saved = saved_task(raw)
    if saved != task or task != "label" or labels is None:
        # A class without a head, such as BertModel, may be followed by any of ours.
        return saved == task or (saved is None and "For" not in (saved_class(raw) or ""))
    known, _ = labels_in(raw)
    if not known and "id2label" not in raw and raw.get("problem_type") != "regression":
        known = ("LABEL_0", "LABEL_1")  # transformers writes no names for its default of two
    unnamed = bool(known) and all(re.fullmatch(r"LABEL_\d+", name) for name in known)
    return tuple(labels) == known or (unnamed and len(labels) == len(known))


def labels_in(raw: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """The labels in a config.json (empty: regression), and the format of papers, if known.

    For transformers, a single label without `problem_type` is regression.
    """
    names, of = raw.get("id2label", {}), raw.get("albert_rc", {}).get("format")
    if raw.get("problem_type") == "regression" or not isinstance(names, Mapping):
        return (), of
    found = tuple(str(names[key]) for key in sorted(names, key=int))
    alone = len(found) == 1 and raw.get("problem_type") is None
    return () if alone else found, of
