"""The steps of `albert-rc predict`: open the papers, prepare, score, write answer.json."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from albert_rc.answering import int8_check
from albert_rc.answering.cluster import Cluster, Reader
from albert_rc.answering.lookup import Memory, Recalled
from albert_rc.answering.opening import Say, open_model, open_papers, read_papers, ready_store
from albert_rc.answering.pieces import readings, require_way, rescored, too_long
from albert_rc.answering.request import Request
from albert_rc.answering.score import describe, reading_of, score, write_predictions
from albert_rc.answering.spans import Found, find_spans, write_spans
from albert_rc.answering.temperature import (
    kept_temperature,
    record_path,
    weights_id,
    why_unused,
)
from albert_rc.checkpoints.hub import usual_model
from albert_rc.checkpoints.load import Loaded
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.io.messages import listed
from albert_rc.model.heads import ReadingModel
from albert_rc.model.span_head import SpanModel
from albert_rc.papers.schema import Kind, PaperSet
from albert_rc.runtime.devices import Processes, choose_precision
from albert_rc.runtime.engines import Engine
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.store import Store, check_store, load_store, make_store


def _require_for(request: Request, papers: Store | PaperSet) -> None:
    """Refuse options that do not apply to these papers.

    Raises:
        UsageError: names the option.
    """
    spans = papers.kind == "span"
    numbers = papers.kind == "label" and not papers.labels
    if (spans or numbers) and (request.abstain is not None or request.temperature is not None):
        raise UsageError("--abstain and --temperature are for answers with a probability each")
    if request.null_threshold is not None and not spans:
        raise UsageError("--null-threshold is for SQuAD: other questions always have an answer")


Progress = Callable[[int], None]


@dataclass(frozen=True)
class Show:
    """Callbacks that display messages and progress."""

    say: Say
    bar: Callable[[str, int, bool], AbstractContextManager[Progress]]
    """Called with a description, a total and whether this is the main process."""


def run(request: Request, group: Processes, show: Show, engine: Engine | None = None) -> list[str]:
    """Answer all papers of a request.

    Args:
        request: the settings.
        group: the device, and the ranks that share the work.
        show: displays warnings and progress.
        engine: where the model runs; here by default.

    Returns:
        Summary lines; empty in processes other than the main one.

    Raises:
        AlbertRcError: something cannot be answered; nothing was written.
    """
    papers = open_papers(request.data, request.format_, request.model, show.say, request.strict)
    _require_for(request, papers)
    chosen = choose_precision(request.precision, group.device)
    how = {"attention": request.attention, "lsh": request.lsh, "precision": chosen}
    loaded = open_model(request.model, papers, how, group, show.say)
    store = ready_store(request.data, papers, loaded, request.max_length, show.say)
    task = (SpanTask if papers.kind == "span" else OptionTask)(request, loaded, store, group, show)
    encoder = loaded.model.encoder
    encoder.compute = replace(encoder.compute, precision=chosen, ffn_chunk=request.ffn_chunk)
    task.prepare()
    if chosen == "int8":
        _pass_int8_check(request, loaded, group, show.say)
    encoder.freeze()
    keep_freed_memory()  # only from here on, so that loading returns its memory
    task.settle()
    with (
        _readers(engine or Engine(), request, papers.kind, how, task) as readers,
        show.bar("answering", task.count, group.is_main) as advance,
    ):
        task.score(readers, lambda done: advance(done * group.world))
    if not group.is_main:
        return []
    more = task.write()
    papers_read = len(store.meta["ids"])
    return [f"{request.out}: {store.num_questions:,} answers to {papers_read:,} papers", *more]


@contextmanager
def _readers(
    engine: Engine, request: Request, kind: Kind, how: dict[str, Any], task: _Task
) -> Iterator[Processes]:
    """The processes that read: these, or the workers of a cluster."""
    if engine.is_local:
        yield task.group
        return
    if task.group.world > 1:
        raise UsageError("--engine ray starts processes of its own; run it without torchrun")
    reader = Reader(
        source=request.model or usual_model(kind),
        task=kind,
        how=how,
        ffn_chunk=request.ffn_chunk,
        weights=weights_id(task.loaded.tokenizer.folder),
    )
    with engine.model_pool(reader) as pool:
        yield Cluster(device=task.group.device, pool=pool)


class _Task(ABC):
    """One kind of task: checks and lookups beforehand, scoring, and writing."""

    def __init__(
        self, request: Request, loaded: Loaded[Any], store: Store, group: Processes, show: Show
    ) -> None:
        self.request, self.loaded, self.store = request, loaded, store
        self.group, self.show = group, show

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

    @abstractmethod
    def score(self, readers: Processes, progress: Progress) -> None:
        """Compute the answers."""

    @abstractmethod
    def write(self) -> list[str]:
        """Write the answers, all or nothing; returns further summary lines."""


class OptionTask(_Task):
    """Blanks and questions with options, classification, and regression."""

    model: ReadingModel
    recalled: Recalled | None = None
    divisor: float = 1.0
    """Temperature: the divisor of the logits before the softmax."""
    calibrated = False
    scored_QK: Tensor
    """Log-probabilities of the options in nats, in the store's order."""

    @property
    def count(self) -> int:
        return self.store.num_questions

    def prepare(self) -> None:
        request = self.request
        if request.option_score is not None:
            require_way(self.loaded.model, self.store, request.option_score)
        if request.recall is not None:
            self.recalled = self._recall(request.recall)

    def _recall(self, path: Path) -> Recalled:
        """What training papers say about the store's blanks."""
        if path.suffix == ".pt":
            known = load_store(path)
        else:
            papers = read_papers(path, self.request.format_, self.show.say)
            known = make_store(papers, self.loaded.tokenizer, self.loaded.model.config.max_length)
        if not known.has_answers:
            raise DataError(f"--recall {path}: its papers have no answers to recall")
        found = Memory(known).recall(self.store)
        blanks = len(self.store.num_options)
        alike = known.meta["source_hash"] == self.store.meta["source_hash"]
        if alike or found.known > blanks / 2:
            self.say(
                f"warning: {found.known:,} of {blanks:,} blanks stand in {path}; where these are "
                "the papers that are to be answered, their own key is being copied"
            )
        return found

    def settle(self) -> None:
        request, folder = self.request, self.loaded.tokenizer.folder
        self.reading = reading_of(self.loaded.model, self.store.meta["max_length"])
        shown = (request.scores or request.abstain or request.recall) is not None
        if self.store.is_numeric or not shown or not self.group.is_main:
            self.divisor = request.temperature or 1.0
            return
        way = request.option_score
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
            self.say(f"temperature {self.divisor:.4f}, kept in {record} (--temperature 1: without)")
        elif why := why_unused(folder, way, self.reading):
            self.say(f"warning: {record} is {why}, and is not used; calibrate again")

    def score(self, readers: Processes, progress: Progress) -> None:
        self.scored_QK = score(
            self.loaded.model,
            self.loaded.tokenizer,
            self.store,
            readers,
            token_budget=self.request.token_budget,
            progress=progress,
        )
        if self.request.option_score is not None:
            self._read_again(self.request.option_score, readers)

    def _read_again(self, way: str, readers: Processes) -> None:
        """Rescore options of several pieces, with a [MASK] for each piece."""
        model = self.loaded.model
        longest = model.config.max_length
        if left := too_long(self.store, longest):
            self.say(
                f"warning: the model's window of {longest:,} tokens has no room for some options; "
                f"their blanks are answered as without --option-score:{listed(left)}"
            )
        again = readings(model, self.loaded.tokenizer, self.store, way)
        name = "reading options of several pieces"
        with self.show.bar(name, len(again), self.group.is_main) as advance:
            self.scored_QK = rescored(
                model,
                again,
                self.scored_QK,
                readers,
                token_budget=self.request.token_budget,
                progress=lambda done: advance(done * self.group.world),
            )

    def write(self) -> list[str]:
        request, kept = self.request, self.request.scores is not None
        unsure = write_predictions(
            self.store,
            self.scored_QK,
            request.out,
            request.scores,
            temperature=self.divisor,
            abstain=request.abstain,
            recalled=self.recalled,
            way=request.option_score,
            weights=weights_id(self.loaded.tokenizer.folder) if kept else None,
            reading=self.reading if kept else None,
        )
        said = []
        if self.recalled is not None:
            said.append(describe(self.recalled, self.scored_QK, self.divisor))
        if request.abstain is not None and unsure is not None:
            said.append(unsure.line(request.abstain, request.out, self.calibrated))
        return said


class SpanTask(_Task):
    """Questions whose answers are spans of a passage."""

    model: SpanModel
    found: list[Found]

    @property
    def count(self) -> int:
        return self.store.num_items

    def prepare(self) -> None:
        if self.request.option_score is not None:
            raise UsageError(f"--option-score {self.request.option_score} is for cloze papers")
        if self.request.recall is not None:
            raise UsageError("--recall is for cloze papers")

    def settle(self) -> None:
        """Do nothing: spans have no temperature."""

    def score(self, readers: Processes, progress: Progress) -> None:
        self.found = find_spans(
            self.loaded.model,
            self.loaded.tokenizer,
            self.store,
            readers,
            token_budget=self.request.token_budget,
            progress=progress,
        )

    def write(self) -> list[str]:
        threshold = self.request.null_threshold
        if threshold is None:
            threshold = self.loaded.model.null_threshold
        write_spans(self.found, threshold, self.request.out, self.request.scores)
        return []


def _pass_int8_check(request: Request, loaded: Loaded[Any], group: Processes, say: Say) -> None:
    """Continue in int8 only if it loses little on dev papers answered with the same settings."""
    dev = request.gate or request.data.with_name("dev.pt")
    if not dev.is_file():
        raise UsageError(
            f"--precision int8 is tested on dev papers first, and there is no {dev}; "
            "name a store with --gate, or use --precision bf16"
        )
    folder = loaded.tokenizer.folder
    trial = int8_check.Trial(
        precision=choose_precision(None, group.device),
        way=request.option_score,
        null_threshold=request.null_threshold,
        token_budget=request.token_budget,
    )
    of = int8_check.identity(loaded.model, folder, dev, trial)
    cost = int8_check.remembered_cost(folder, of)
    if cost is None:
        store = load_store(dev)
        check_store(store, dev, loaded.tokenizer, loaded.model.config.max_length)
        if store.kind != loaded.model.task:
            raise UsageError(f"--gate {dev}: holds {store.kind}, but the model {loaded.model.task}")
        keep_freed_memory()
        cost = int8_check.measure_cost(loaded.model, loaded.tokenizer, store, group, trial)
        if group.is_main:
            int8_check.remember_cost(folder, of, cost)
    if group.is_main:
        say(cost.line())
    cost.require(request.tolerance)
