"""The engine: a model, one thread that answers with it, and a queue of requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

from albert_rc.answering.again import second_reading, way_of
from albert_rc.answering.banks import solve
from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.answering.score import answers_of, reading_of, score, score_lines
from albert_rc.answering.temperature import kept_temperature
from albert_rc.checkpoints.hub import READY
from albert_rc.checkpoints.load import Loaded, load_model
from albert_rc.errors import AlbertRcError, CheckpointError, DataError
from albert_rc.io.files import natural_key
from albert_rc.io.json import to_json
from albert_rc.model.config import READ_AGAIN
from albert_rc.model.heads import ReadingModel
from albert_rc.papers.schema import PaperSet, gold_letters
from albert_rc.runtime.devices import Processes, choose_precision, is_out_of_memory
from albert_rc.serve.limits import Limits
from albert_rc.serve.line import BusyError, Place, Queue
from albert_rc.serve.messages import Message, bounded
from albert_rc.serve.printed import read_printed
from albert_rc.serve.reading import (
    ReadText,
    is_complete,
    nothing_to_answer,
    paper_json,
    read_json_papers,
    require_within,
)
from albert_rc.serve.uploads import Upload
from albert_rc.serve.workplace import clear_away
from albert_rc.stores.losses import losses
from albert_rc.stores.store import Store, make_fitting_store

CPU_TOKENS = 1024
"""Tokens of a batch on a CPU. After each batch, progress is reported and cancellation is checked.
With `xxlarge` a batch takes seconds on two cores; larger ones are not faster per token."""
NOUNS = {"cloze": "blanks", "choice": "questions with options"}


class SlowError(AlbertRcError):
    """Answering exceeded the time limit."""


class FailedError(AlbertRcError):
    """A failure of the server; its message reveals nothing about the machine."""


class Engine:
    """Answers papers, one request at a time.

    Args:
        model: a folder, a hub id, or a model of the package; None for the package's own, one for
            blanks and one for questions with options. It is loaded immediately for blanks, and for
            questions on first use, or immediately if it was trained only for those.
        processes: the device.
        limits: limits of a request.
        say: called with messages about the weights.
        option_score: how to read some questions again (`predict --option-score`): a way for one
            kind of papers leaves the other as its model's config.json says.

    Raises:
        UsageError: unknown model.
        CheckpointError: unusable weights.
    """

    def __init__(
        self,
        model: str | None,
        processes: Processes,
        limits: Limits,
        say: Callable[[str], None],
        option_score: str | None = None,
    ) -> None:
        self._models = READY if model is None else dict.fromkeys(NOUNS, model)
        self.name = self._names(NOUNS)
        self.limits = limits
        self._processes, self._say = processes, say
        self._option_score = option_score
        self._loaded: dict[str, Loaded[ReadingModel]] = {}
        self._temperatures: dict[str, tuple[float, bool]] = {}
        self._pool = ThreadPoolExecutor(1, "answers")
        self._futures: dict[Place, Future[bytes]] = {}
        self.line = Queue(limits.waiting, self._displace)
        self._closing = Event()
        clear_away()
        first = self._load("cloze")
        # A single model has one trained head.
        untrained = "cloze" if first.report.untrained else "choice"
        if first.report.untrained and self._load("choice").report.untrained:
            said = " nor ".join(NOUNS.values())
            say(f"warning: {self.name} was trained for neither {said}; its answers are guesses")
        elif model is not None and READ_AGAIN.get(option_score or "") == untrained:
            say(
                f"note: --option-score {option_score} only affects {NOUNS[untrained]}, for which "
                f"{self.name} was not trained"
            )

    def _way(self, model: ReadingModel) -> str | None:
        """How a model reads questions again, if at all."""
        given = self._option_score
        if given in READ_AGAIN and READ_AGAIN[given] != model.task:
            given = None
        return way_of(model, given)

    def _names(self, tasks: Iterable[str]) -> str:
        """Names of the models for these kinds of papers, as clients may know them."""
        # A path is private: clients only get the folder's name.
        models = dict.fromkeys(self._models[task] for task in tasks)
        return " and ".join(
            Path(model).resolve().name if Path(model).is_dir() else model for model in models
        )

    @property
    def calibrated(self) -> bool:
        """Whether all models that are loaded so far, and trained, have a saved temperature."""
        loaded = list(self._temperatures.items())
        trained = [ok for task, (_, ok) in loaded if not self._loaded[task].report.untrained]
        return all(trained) and bool(trained)

    def submit(
        self,
        upload: Upload,
        key: Upload | None,
        gone: Callable[[], bool] = lambda: False,
        ticket: str | None = None,
        client: str = "",
    ) -> Future[bytes]:
        """Queue a request.

        Args:
            upload: the paper.
            key: its answer key, if that is a separate file.
            gone: called repeatedly; returns whether the client has left.
            ticket: identifies the request for `line.progress`.
            client: the client's address.

        Returns:
            A future with the response's JSON, or with DataError, SlowError or FailedError. It is
            cancelled if another client needs the place, or the engine is closed.

        Raises:
            BusyError: the queue is full, or the engine was closed.
            DataError: the ticket is invalid or in use.
        """
        place = self.line.enter(ticket, client)
        given = [(upload, key)]
        try:
            future = self._pool.submit(self._work, given, gone, place)
        except RuntimeError:  # closed
            self.line.leave(place)
            raise BusyError("the server is shutting down") from None
        self._futures[place] = future

        def leave(_: Future[bytes]) -> None:
            self.line.leave(place)
            del self._futures[place]
            given.clear()  # the pool keeps cancelled requests until their turn

        future.add_done_callback(leave)
        return future

    def _displace(self, place: Place) -> None:
        if (future := self._futures.get(place)) is not None:  # not answered just now
            future.cancel()

    @property
    def closing(self) -> bool:
        """Whether the engine accepts no more requests."""
        return self._closing.is_set()

    def close(self) -> None:
        """Cancel the current request at its next batch, and accept no more."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)

    def _work(
        self, given: list[tuple[Upload, Upload | None]], gone: Callable[[], bool], place: Place
    ) -> bytes:
        def stopped() -> bool:
            return self._closing.is_set() or gone()

        try:
            if stopped():
                raise InterruptedError
            place.stage = "reading"
            ((upload, key),) = given
            reading = self._read(upload, key, stopped)
            require_within(reading, self.limits)
            place.total = sum(found.num_questions for found in reading.sets)
            end = time.monotonic() + self.limits.answer_seconds
            return self._respond(reading, end, stopped, place)
        except CheckpointError as error:
            raise self._failed("the model cannot answer this", error) from None
        except InterruptedError:  # the client or the server stops
            raise
        except OSError as error:  # a full disk, too many files or processes
            said = f"the server cannot read this now ({error.strerror or type(error).__name__})"
            raise self._failed(said, error) from None
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, MemoryError) or is_out_of_memory(error)):
                raise
            raise FailedError("out of memory; give fewer or shorter papers") from None

    def _failed(self, message: str, error: Exception) -> FailedError:
        """A failure for the client, after the terminal was told where and why."""
        self._say(f"error: {error}")
        return FailedError(f"{message}; see the server's terminal for the reason")

    def _read(self, upload: Upload, key: Upload | None, stopped: Callable[[], bool]) -> ReadText:
        if upload.kind not in ("json", "lines"):
            return read_printed(upload, key, self.limits, stopped)
        if key is not None:
            raise DataError(
                'a JSON paper has its key in the field "answers"; leave the separate key out'
            )
        return read_json_papers(upload, self.limits, stopped)

    def _load(self, task: str) -> Loaded[ReadingModel]:
        """The model with the head that a kind of paper needs; loaded once."""
        if task not in self._loaded:
            device = self._processes.device
            precision = choose_precision(None, device)
            loaded = load_model(self._models[task], task, precision=precision)
            for line in loaded.report.lines():
                self._say(f"{NOUNS[task]}: {line}")
            loaded.model.to(device)
            loaded.model.eval()
            loaded.model.encoder.compute = replace(
                loaded.model.encoder.compute, precision=precision
            )
            loaded.model.encoder.freeze()
            reading = reading_of(loaded.model, loaded.model.config.max_length)
            kept = kept_temperature(loaded.tokenizer.folder, self._way(loaded.model), reading)
            self._loaded[task] = loaded
            self._temperatures[task] = kept
        return self._loaded[task]

    def _respond(
        self, reading: ReadText, end: float, stopped: Callable[[], bool], place: Place
    ) -> bytes:
        messages = list(reading.messages)
        papers: list[dict[str, Any]] = []
        answers: dict[str, Any] = {}
        for found in reading.sets:
            place.stage = "loading"
            try:
                loaded = self._load(found.kind)
            except AlbertRcError as error:  # the model's folder changed
                raise self._failed("the model cannot be loaded", error) from None
            place.stage = "answering"
            if loaded.report.untrained:
                name, asked = self._names([found.kind]), NOUNS[found.kind]
                said = f"{name} was not trained for {asked}: its answers are guesses"
                messages.append(Message("warning", said))
            longest = loaded.model.config.max_length
            store, fitting, unfit = make_fitting_store(found, loaded.tokenizer, longest)
            messages += [
                Message("refused", f"{each.fault}; shorten it", bounded(each.passage_id))
                for each in unfit
            ]
            if not fitting.passages:
                continue
            messages += [Message("warning", line) for line in losses(store)]
            answers[found.kind], lines, warning = self._answer(store, loaded, end, stopped, place)
            if warning is not None:
                messages.append(Message("warning", warning))
            messages += _partial_keys(fitting)
            papers += _papers(fitting, lines, reading.numbers)
        if not papers:
            raise DataError(nothing_to_answer(messages))
        papers.sort(key=lambda paper: natural_key(paper["id"]))  # a printed exam has both kinds
        return to_json(
            {
                "model": self._names(answers) or self.name,
                "calibrated": bool(answers) and all(self._temperatures[x][1] for x in answers),
                "complete": is_complete(messages),
                "papers": papers,
                "answers": answers,
                "messages": [message.as_json() for message in messages],
                **({"text": reading.text} if reading.text else {}),
            },
            indent=False,
        )

    def _answer(
        self,
        store: Store,
        loaded: Loaded[ReadingModel],
        end: float,
        stopped: Callable[[], bool],
        place: Place,
    ) -> tuple[Any, list[dict[str, Any]], str | None]:
        """The answers and score records, as `predict` would write them, and its warning if any."""

        def answered(questions: int) -> None:
            place.answered(questions)
            in_time(questions)

        def in_time(_: int) -> None:
            if stopped():
                raise InterruptedError
            if time.monotonic() > end:
                raise SlowError(
                    f"answering took longer than {self.limits.answer_seconds:g} seconds; give "
                    "fewer papers at a time, or use `albert-rc predict`"
                )

        model, tokenizer, group = loaded.model, loaded.tokenizer, self._processes
        budget = TOKEN_BUDGET if group.device.type == "cuda" else CPU_TOKENS
        scored_QK = score(model, tokenizer, store, group, token_budget=budget, progress=answered)
        warning = None
        if way := self._way(model):
            place.stage = "again"
            second = second_reading(model, tokenizer, store, way)
            scored_QK = second.rescore(scored_QK, group, token_budget=budget, progress=in_time)
            warning = second.warning
        temperature, _ = self._temperatures[store.kind]
        solved = solve(store, scored_QK, progress=in_time)
        answers = answers_of(store, scored_QK, solved=solved)
        return answers, score_lines(store, scored_QK, temperature, solved=solved), warning


def _partial_keys(found: PaperSet) -> list[Message]:
    """Notes about papers whose key lacks some answers: their JSON has a whole key or none."""
    said = "the key lacks some answers, so the paper's JSON is saved without a key"
    return [
        Message("note", said, bounded(passage.id))
        for passage in found.passages
        if len({question.answer is None for question in passage.questions}) == 2
    ]


def _papers(
    found: PaperSet, lines: list[dict[str, Any]], numbers: dict[str, list[int]]
) -> list[dict[str, Any]]:
    """Each paper in the project's format, with its answers."""
    rest = iter(lines)
    shown = []
    for passage in found.passages:
        printed = numbers.get(passage.id) or range(1, len(passage.questions) + 1)
        questions = [
            {
                "number": number,
                "answer": line["answer"],
                "right": right,
                "probabilities": line["probabilities"],
            }
            for number, right, line in zip(printed, gold_letters([passage]), rest, strict=False)
        ]
        entry = {"id": passage.id, "kind": passage.kind, "paper": paper_json(passage)}
        shown.append({**entry, "questions": questions})
    return shown
