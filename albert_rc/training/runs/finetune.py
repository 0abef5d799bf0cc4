"""Preparation of a fine-tuning run: from stores and a recipe to a trainer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from albert_rc.checkpoints.load import Loaded, Opening, load_model
from albert_rc.errors import DataError
from albert_rc.fields import flag_of
from albert_rc.io.json import as_json
from albert_rc.model.heads import HeadedModel
from albert_rc.runtime.devices import Processes, release_unused
from albert_rc.stores.shards import exists, open_store, split_path
from albert_rc.stores.store import Store, check_store
from albert_rc.stores.subset import joined
from albert_rc.training.checkpoint import planned_before
from albert_rc.training.config import TrainConfig
from albert_rc.training.identity import FIXED, OF_MODEL, OF_TEACHER
from albert_rc.training.memory.planner import Levers, fit
from albert_rc.training.objective import Objective, stores_identity
from albert_rc.training.objectives.reading import Reading
from albert_rc.training.objectives.spans import Spans
from albert_rc.training.objectives.teacher import Teacher
from albert_rc.training.runs.prepared import PreparedRun, hold_layers, origin_of


@dataclass(frozen=True, kw_only=True)
class FineTuning:
    """The common part of runs that differ in their papers, seed or folder."""

    model: str
    """Folder or hub id to start from."""
    how: Opening
    settings: TrainConfig
    levers: Levers
    memory: str | None
    data: Path
    """Path of the stores, for messages."""
    group: Processes
    workers: int
    teacher: Teacher | None = None

    def prepare(
        self, train: Store, dev: Store | None, seed: int, resumed: Path | None = None
    ) -> PreparedRun:
        """Open the model, check that the stores are made for it, and plan the memory.

        Args:
            train: the training store.
            dev: selects the weights to keep; or None.
            seed: the run's seed.
            resumed: the folder of the resumed run, if any.

        Raises:
            UsageError: unknown model, or a recipe that does not suit these papers.
            CheckpointError: unusable weights.
            DataError: a store made for another model.
            OutOfMemoryError: nothing fits.
        """
        release_unused(self.group.device)
        loaded = self._load(train, seed)
        hold_layers(loaded.model.encoder, self.settings, self.how)
        own = loaded.model.config.max_length
        longest = min(self.how.get("max_length") or own, own)
        for store, name in ((train, "train"), (dev, "dev")):
            if store is not None:
                path = split_path(self.data, name)
                check_store(store, path, loaded.tokenizer, longest, limited=longest < own)
        taught: tuple[Any, ...] = ()
        about: dict[str, Any] = {}
        if self.teacher is not None:  # before the plan, because its memory is not a step's
            precision = self.settings.precision
            chance_O = self.teacher.chances(train, self.group, precision, resumed)
            taught = chance_O, self.teacher.identity(chance_O)
            about = dict(self.teacher.kept(train, chance_O, precision))
        settings, plan = fit(
            replace(self.settings, seed=seed),
            loaded.model.config,
            train,
            self.group,
            self.memory,
            self.levers,
            masked_share=self.settings.mask_rate if train.kind == "cloze" else 0.0,
            attention=loaded.model.encoder.compute.attention,
            before=None if resumed is None else planned_before(resumed, self.group),
        )
        parts = (loaded.model, loaded.tokenizer, train, dev, settings)
        objective: Objective[Any]
        about["train.json"] = self._record(loaded.model, settings)
        if train.kind == "span" and not taught:
            objective = Spans(*parts)
        else:
            objective = Reading(*parts, *taught)
        objective.origin = origin_of(self.model, self.how)
        return PreparedRun(
            loaded=loaded,
            objective=objective,
            settings=settings,
            plan=[*plan, *([] if self.teacher else _unanswered(train))],
            group=self.group,
            workers=self.workers,
            data=(train.summary(), dev.summary() if dev and dev.has_answers else None),
            about=about,
        )

    def _record(self, model: HeadedModel, settings: TrainConfig) -> dict[str, Any]:
        """The user's request, how the model was opened, and all settings."""
        compute = model.encoder.compute
        return {
            "model": self.model,
            "scratch": self.how.get("scratch"),
            "data": str(self.data),
            "teacher": None if self.teacher is None else self.teacher.source,
            "task": model.task,
            "residual": model.config.residual,
            "dropout": model.config.dropout,
            "option_score": model.option_score,
            "attention": compute.attention,
            "lsh": asdict(compute.lsh),
            "world": self.group.world,
            **asdict(settings),
        }

    def _load(self, store: Store, seed: int) -> Loaded[Any]:
        """The model for a store's kind of questions."""
        return load_model(
            self.model,
            store.kind,
            labels=store.labels,
            format_name=store.meta.get("source_format") if store.kind == "label" else None,
            **self.how,
            seed=seed,
        )


def _unanswered(train: Store) -> list[str]:
    """A note about training questions without answers, if there are any."""
    count = int((train.tensors["answer"] < 0).sum())
    if not count:
        return []
    thing = "blanks" if train.kind == "cloze" else "questions"
    return [
        f"note: {count:,} of {train.num_questions:,} training {thing} have no answer; nothing is "
        "learned from these"
    ]


def unlike(train: Store, dev: Store | None) -> str | None:
    """The difference if two stores are not from one `preprocess` run, which may have died; or None.

    It may be intended, so it is a warning and not an error.
    """
    if dev is None or train.meta["max_length"] == dev.meta["max_length"]:
        return None
    return (
        f"train.pt has windows of {train.meta['max_length']} tokens, but dev.pt of "
        f"{dev.meta['max_length']}; unless this is intended, preprocess both again"
    )


def open_stores(
    data: Path, with_dev: bool = False, taught: bool = False
) -> tuple[Store, Store | None]:
    """The training store, and the dev store if there is one.

    Args:
        data: folder with train.pt and optionally dev.pt, or these in shards.
        with_dev: train on both.
        taught: a teacher answers the questions without answers.

    Raises:
        DataError: missing, unusable, without answers, or of two tasks.
    """
    train_path, dev_path = split_path(data, "train"), split_path(data, "dev")
    train = open_store(train_path)
    dev = open_store(dev_path) if exists(dev_path) else None
    if with_dev and dev is None:
        raise DataError(f"--with-dev: {dev_path} does not exist; leave the option out")
    for store, path in ((train, train_path), (dev if with_dev else None, dev_path)):
        if store is not None and not (store.has_answers or taught):
            raise DataError(
                f"{path}: its papers have no answers to learn from; preprocess papers with answers"
            )
    if dev is not None and dev.kind != train.kind:
        raise DataError(
            f"{dev_path} has {dev.kind} papers, but {train_path.name} has {train.kind} papers; "
            "make both from papers of the same task"
        )
    if dev is not None and dev.labels != train.labels:
        raise DataError(
            f"{dev_path} has different labels than train; make both from papers of the same task"
        )
    if with_dev and dev is not None:
        return joined([train, dev], "train and dev"), None
    return train, dev


OF_SEVERAL = ("patience", "on_collapse", "eval_steps")
"""Settings that decide which weights are kept, so that several runs must have them in common."""


def made_of(tuning: FineTuning, train: Store, dev: Store | None) -> dict[str, Any]:
    """Everything that affects the result of runs, by option or name, as read back from JSON."""
    how, settings = tuning.how, tuning.settings
    teacher = tuning.teacher
    found = {
        "--model": str(Path(tuning.model)),
        **stores_identity(train, dev),
        **{f"--{name}": how.get(name) for name in ("scratch", "attention", "dropout")},
        "--residual": None,
        **{flag_of(name): value for name, value in how.get("shape", {}).items()},
        "--max-length": how.get("max_length"),
        "setting of lsh": how.get("lsh", {}),
        "--option-score": how.get("option_score"),
        "--teacher": None if teacher is None else teacher.source,
        **{flag_of(name): getattr(settings, name) for name in (*FIXED, *OF_SEVERAL)},
        "--optimizer-states": tuning.levers.states or settings.optimizer_states,
        # Last, so that a difference in options is reported as such.
        OF_MODEL: origin_of(tuning.model, how),
        OF_TEACHER: None if teacher is None else teacher.source_id(),
    }
    return as_json(found)
