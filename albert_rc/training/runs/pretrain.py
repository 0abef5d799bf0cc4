"""Preparation of a pretraining run: from a corpus and a recipe to a trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from albert_rc.checkpoints.load import Opening, load_model
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus, check_corpus
from albert_rc.runtime.devices import Processes
from albert_rc.training.checkpoint import planned_before
from albert_rc.training.config import TrainConfig
from albert_rc.training.memory.planner import Levers, fit
from albert_rc.training.objectives.pretraining import Pretraining, check_teacher, open_teacher
from albert_rc.training.runs.prepared import PreparedRun, hold_layers, origin_of


@dataclass(frozen=True, kw_only=True)
class PretrainingRun:
    """A pretraining as the user asked for it."""

    model: str
    """Folder or hub id to start from, or of the vocabulary."""
    how: Opening
    data: Path
    """Folder with train/ and dev/."""
    pair: str
    """A key of `PAIRS`."""
    masking: MaskConfig
    settings: TrainConfig
    levers: Levers
    memory: str | None
    group: Processes
    workers: int
    teacher: str | None = None

    def prepare(self, say: Callable[[str], None], resumed: Path | None = None) -> PreparedRun:
        """Open the corpus and the model, and plan the memory.

        Args:
            say: called by the main process with a message about the held-out corpus.
            resumed: the folder of the resumed run, if any.

        Raises:
            UsageError: unknown model or teacher, or a recipe that does not suit them.
            CheckpointError: unusable weights.
            DataError: the corpus is missing, or made for another model.
            OutOfMemoryError: nothing fits.
        """
        corpus, dev = Corpus(self.data / "train"), self._held_out(say)
        loaded = load_model(
            self.model,
            "pretraining",
            with_pairs=self.pair != "none",
            seed=self.settings.seed,
            **self.how,
        )
        model, tokenizer = loaded.model, loaded.tokenizer
        hold_layers(model.encoder, self.settings, self.how)
        teacher = None
        if self.teacher is not None:
            teacher = open_teacher(
                self.teacher, tokenizer, self.settings.teacher_precision, self.group.device
            )
            check_teacher(self.teacher, teacher.config, model.config, corpus)
        for part in (corpus, dev):
            if part is not None:
                check_corpus(part, tokenizer, model.config.max_length)
        settings, plan = fit(
            self.settings,
            model.config,
            corpus,
            self.group,
            self.memory,
            self.levers,
            masked_share=self.masking.rate,
            before=None if resumed is None else planned_before(resumed, self.group),
            teacher=None if teacher is None else teacher.config,
        )
        record = {
            "model": self.model,
            "scratch": self.how.get("scratch"),
            "data": str(self.data),
            "pair": self.pair,
            "teacher": self.teacher,
            "masking": asdict(self.masking),
            "shape": asdict(model.config),
            **asdict(settings),
        }
        objective = Pretraining(
            model, tokenizer, corpus, dev, settings, self.masking, self.pair, teacher
        )
        objective.origin = origin_of(self.model, self.how)
        return PreparedRun(
            loaded=loaded,
            objective=objective,
            settings=settings,
            plan=plan,
            data=(corpus.count.line(), dev.count.line() if dev else None),
            group=self.group,
            workers=self.workers,
            about={"pretrain.json": record},
        )

    def _held_out(self, say: Callable[[str], None]) -> Corpus | None:
        """The held-out corpus; None if there is none."""
        folder = self.data / "dev"
        found = Corpus(folder) if folder.is_dir() else None
        if found is None or len(found):
            return found
        if self.group.is_main:
            say(f"note: {folder} has no sequences")
        return None
