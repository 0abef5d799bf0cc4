"""Published fine-tuning recipes by task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert_rc.errors import UsageError
from albert_rc.stores.store import Store
from albert_rc.training.config import TrainConfig

DEFAULT: dict[str, Any] = {
    name: getattr(TrainConfig(), name)
    for name in ("epochs", "batch_size", "learning_rate", "warmup")
}
"""Recipe of the ASC20-21 entry, trained on two GPUs of 8 GB: batches of 2, 4 epochs, 1e-5."""


def _row(learning_rate: float, batch_size: int, steps: int, warmup: int) -> dict[str, Any]:
    return {
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "max_steps": steps,
        "warmup": warmup / steps,
    }


PUBLISHED: dict[str, dict[str, Any]] = {
    "cloze": DEFAULT,
    "race": _row(1e-5, 32, 12_000, 1000),
    "squad 1.1": _row(5e-5, 48, 3649, 365),
    "squad 2.0": _row(3e-5, 48, 8144, 814),
    "cola": _row(1e-5, 16, 5336, 320),
    "sst-2": _row(1e-5, 32, 20_935, 1256),
    "mrpc": _row(2e-5, 32, 800, 200),
    "sts-b": _row(2e-5, 16, 3598, 214),
    "qqp": _row(5e-5, 128, 14_000, 1000),
    "mnli": _row(3e-5, 128, 10_000, 1000),
    "qnli": _row(1e-5, 32, 33_112, 1986),
    "rte": _row(3e-5, 32, 800, 200),
    "wnli": _row(2e-5, 16, 2000, 250),
}
"""ALBERT's recipes (Lan et al. 2020, appendix A.4, Table 14); cloze as in the ASC20-21 entry.

RACE as in the authors' repository for version 2, since that diverges with version 1's 2e-5 and
dropout.
"""
DROPPING = {"qqp": 0.1, "rte": 0.1, "wnli": 0.1}
"""Dropout of the layers in the same table; 0 for the other tasks, as in the checkpoints."""
RECIPES = ("default", "published")


def task_name(store: Store) -> str:
    """The key of `PUBLISHED` for a store; SQuAD's version follows from its answers."""
    name = store.meta["source_format"]
    if name != "squad":
        return name
    return "squad 2.0" if bool((store.tensors["answer"] == 0).any()) else "squad 1.1"


def choose(recipe: str, store: Store, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe, except those that the user gave.

    Args:
        recipe: one of `RECIPES`.
        store: the training store.
        given: settings by name; None if the recipe decides.

    Raises:
        UsageError: unknown recipe, or none for this task.
    """
    if recipe not in RECIPES:
        raise UsageError(f"--recipe {recipe}: choose from {', '.join(RECIPES)}")
    settings = DEFAULT
    if recipe == "published":
        task = task_name(store)
        if task not in PUBLISHED:
            raise UsageError(
                f"--recipe published: no recipe was published for {task}, only for "
                f"{', '.join(PUBLISHED)}; leave --recipe out"
            )
        settings = PUBLISHED[task]
    chosen = settings | {name: value for name, value in given.items() if value is not None}
    if given.get("epochs") is not None and given.get("max_steps") is None:
        chosen.pop("max_steps", None)  # a requested number of epochs overrides the recipe's steps
    return chosen


def dropout_of(recipe: str, store: Store, given: float | None) -> float | None:
    """The dropout of a recipe's layers; None for the checkpoint's own."""
    if given is None and recipe == "published":
        return DROPPING.get(task_name(store))
    return given
