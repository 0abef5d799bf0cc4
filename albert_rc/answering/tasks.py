"""The kinds of tasks, with their checks, scoring and output."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from albert_rc import __version__
from albert_rc.answering.again import require_way, second_reading, way_of
from albert_rc.answering.banks import banks
from albert_rc.answering.lookup import Memory, Recalled
from albert_rc.answering.opening import Say, read_papers
from albert_rc.answering.request import Request
from albert_rc.answering.score import describe, reading_of, score, write_predictions
from albert_rc.answering.spans import Found, find_spans, write_spans
from albert_rc.answering.temperature import (
    kept_temperature,
    of_other_way,
    record_path,
    weights_id,
    why_unused,
)
from albert_rc.checkpoints.load import Loaded
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.io.messages import counted
from albert_rc.model.config import READ_ONCE
from albert_rc.runtime.devices import Processes
from albert_rc.runtime.pool import ResultT
from albert_rc.scoring.abstain import outdated
from albert_rc.stores.shards import is_store, open_store
from albert_rc.stores.store import Store, check_store, make_store

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Show:
    """Callbacks that display messages and progress."""

    say: Say
    bar: Callable[[str, int, bool], AbstractContextManager[Progress]]
    """Called with a description, a total and whether this is the main process."""


class Task(ABC):
    """One kind of task: checks and lookups beforehand, scoring, and writing."""

    def __init__(
        self, request: Request, loaded: Loaded[Any], store: Store, group: Processes, show: Show
    ) -> None:
        self.request, self.loaded, self.store = request, loaded, store
        self.group, self.show = group, show
        self.is_first = True
        """Whether this is the first part of the papers, or the only one."""
        self.names_unsure = True
        """Whether to name the list of unsure answers; not for parts that are joined."""

    def turn_to(self, part: Request, store: Store) -> None:
        """Continue with another part of the papers.

        Raises:
            DataError: it is of another kind or vocabulary.
        """
        check_store(store, part.data, self.loaded.tokenizer, self.loaded.model.config.max_length)
        if store.kind != self.store.kind or store.labels != self.store.labels:
            raise DataError(
                f"{part.data}: its task differs from that of the shards before it; make all of "
                "them again with `albert-rc preprocess`"
            )
        if store.meta["source_hash"] != self.store.meta["source_hash"]:
            raise DataError(
                f"{part.data}: made from different papers than the shards before it; make all of "
                "them again with `albert-rc preprocess`"
            )
        self.request, self.store, self.is_first = part, store, False
        self.prepare()

    def say(self, line: str) -> None:
        """Print a line, in the main process only."""
        if self.group.is_main:
            self.show.say(line)

    @property
    @abstractmethod
    def count(self) -> int:
        """Total for the progress bar."""

    @abstractmethod
    def prepare(self) -> None:
        """Check everything that may be refused, before anything is computed."""

    @abstractmethod
    def settle(self) -> None:
        """Look up what answers need before scoring, so that a damaged record fails early."""

    def made_by(self) -> dict[str, Any]:
        """All that answers depend on besides the papers and the request, as JSON."""
        compute, meta = self.loaded.model.encoder.compute, self.store.meta
        return {
            "weights": weights_id(self.loaded.tokenizer.folder),
            "precision": compute.precision,
            "made_with": f"albert-rc {__version__}",
            "papers": {
                "source_hash": meta["source_hash"],
                "vocabulary": meta["vocabulary"],
                "max_length": meta["max_length"],
            },
        }

    @abstractmethod
    def score(self, readers: Processes, progress: Progress) -> None:
        """Compute the answers."""

    def _compute(
        self, work: Callable[..., ResultT], readers: Processes, progress: Progress
    ) -> ResultT:
        return work(
            self.loaded.model,
            self.loaded.tokenizer,
            self.store,
            readers,
            token_budget=self.request.token_budget,
            progress=progress,
        )

    @abstractmethod
    def write(self) -> list[str]:
        """Write the answers, all or nothing; returns further summary lines."""


class OptionTask(Task):
    """Blanks and questions with options, classification, and regression."""

    memory: Memory | None = None
    """The papers that `--recall` names, indexed once for all parts."""
    recalled: Recalled | None = None
    recall_hash: str | None = None
    """Hash of the source of those papers."""
    divisor: float = 1.0
    """Temperature: the divisor of the logits before the softmax."""
    calibrated = False
    scored_QK: Tensor
    """Log-probabilities of the options in nats, in the store's order."""

    @property
    def count(self) -> int:
        return self.store.num_questions

    @property
    def way(self) -> str | None:
        """How to read questions again, if at all."""
        return way_of(self.loaded.model, self.request.option_score)

    def prepare(self) -> None:
        request = self.request
        require_way(self.loaded.model, self.store, self.way)
        if request.recall is not None:
            self.recalled = self._recall(request.recall)

    def _recall(self, path: Path) -> Recalled:
        """The options found in training papers for the store's blanks."""
        if self.memory is None:
            self.memory, self.recall_hash = self._remembered(path)
        found = self.memory.recall(self.store)
        blanks = len(self.store.num_options)
        alike = self.recall_hash == self.store.meta["source_hash"]
        if self.is_first and (alike or found.known > blanks / 2):
            self.say(
                f"warning: {found.known:,} of {blanks:,} blanks were found in {path}; if these are "
                "the papers to answer, this only copies their key: give other papers with --recall"
            )
        return found

    def _remembered(self, path: Path) -> tuple[Memory, str]:
        """The training papers, indexed for lookup, and the hash of their source."""
        if is_store(path):
            known = open_store(path)
        else:
            request = self.request
            papers = read_papers(path, request.format_, self.show.say, request.strict)
            known = make_store(papers, self.loaded.tokenizer, self.loaded.model.config.max_length)
        if not known.has_answers:
            raise DataError(
                f"--recall {path}: its papers have no answers to recall; give papers with answers"
            )
        return Memory(known), known.meta["source_hash"]

    def settle(self) -> None:
        request, folder = self.request, self.loaded.tokenizer.folder
        self.reading = reading_of(self.loaded.model, self.store.meta["max_length"])
        shown = (request.scores or request.abstain or request.recall) is not None
        way = self.way
        if self.store.is_numeric or not shown or not self.group.is_main:
            self.divisor = request.temperature or 1.0
            if request.temperature is None and not self.store.is_numeric:
                # Part of what parts were made with, whether their probabilities are shown or not.
                with suppress(CheckpointError):
                    self.divisor, _ = kept_temperature(folder, way, self.reading)
            return
        if request.temperature is not None:
            own = 1.0
            with suppress(CheckpointError):  # the record is not used here
                own, _ = kept_temperature(folder, way, self.reading)
            self.divisor = request.temperature
            self.calibrated = own != 1 and math.isclose(request.temperature, own, rel_tol=1e-4)
            return
        self.divisor, self.calibrated = kept_temperature(folder, way, self.reading)
        record = record_path(folder, way)
        if self.calibrated:
            self.say(
                f"temperature {self.divisor:.4f}, from {record} (--temperature 1 turns it off)"
            )
        elif why := why_unused(folder, way, self.reading):
            self.say(
                f"warning: {record} is {why}, so it is not used; make it again with "
                "`albert-rc evaluate --calibrate`"
            )
        elif other := of_other_way(folder, way):
            self.say(
                f"note: {other} is for another --option-score, so it is not used; make one for "
                "these scores with `albert-rc evaluate --calibrate`"
            )

    def made_by(self) -> dict[str, Any]:
        return super().made_by() | {
            "temperature": self.divisor,
            "reading": self.reading,
            "read_again": self.way,
            "recall": self.recall_hash,
        }

    def score(self, readers: Processes, progress: Progress) -> None:
        self.scored_QK = self._compute(score, readers, progress)
        if self.way is not None:
            self._read_again(readers, self.way)

    def _read_again(self, readers: Processes, way: str) -> None:
        model = self.loaded.model
        second = second_reading(model, self.loaded.tokenizer, self.store, way)
        if second.warning is not None:
            self.say(f"warning: {second.warning}")
        with self.show.bar(second.title, second.count, self.group.is_main) as advance:
            self.scored_QK = second.rescore(
                self.scored_QK,
                readers,
                token_budget=self.request.token_budget,
                progress=lambda done: advance(done * self.group.world),
            )

    def write(self) -> list[str]:
        request = self.request
        kept = request.scores is not None and self.is_first
        unsure = write_predictions(
            self.store,
            self.scored_QK,
            request.out,
            request.scores,
            temperature=self.divisor,
            abstain=request.abstain,
            recalled=self.recalled,
            way=self.way,
            weights=weights_id(self.loaded.tokenizer.folder) if kept else None,
            reading=self.reading if kept else None,
            reuse=request.reuse,
        )
        said = []
        if not request.reuse and (whole := sum(1 for _ in banks(self.store))):
            said.append(
                f"{counted(whole, 'paper')} with one list of options for all blanks: each option "
                "is used at most once (--set reuse=true allows more)"
            )
        if self.recalled is not None:
            said.append(
                describe(self.store, self.recalled, self.scored_QK, self.divisor, request.reuse)
            )
        if self.names_unsure and request.abstain is not None and unsure is not None:
            said.append(unsure.line(request.abstain, request.out, self.calibrated))
        if self.names_unsure and request.abstain is None:
            said += outdated(request.out)
        return said


class SpanTask(Task):
    """Questions whose answers are spans of a passage."""

    found: list[Found]

    @property
    def count(self) -> int:
        return self.store.num_items

    def prepare(self) -> None:
        if (way := self.request.option_score) is not None:
            require_way(self.loaded.model, self.store, None if way == READ_ONCE else way)
        if self.request.recall is not None:
            raise UsageError("--recall is for cloze papers; leave it out")

    def settle(self) -> None:
        """Do nothing: spans have no temperature."""

    def score(self, readers: Processes, progress: Progress) -> None:
        self.found = self._compute(find_spans, readers, progress)

    def write(self) -> list[str]:
        threshold = self.request.null_threshold
        if threshold is None:
            threshold = self.loaded.model.null_threshold
        write_spans(self.found, threshold, self.request.out, self.request.scores)
        return []
