"""The Python API for answering papers: letters, options and probabilities."""

from __future__ import annotations

import marshal
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from albert_rc.answering.again import read, require_way, way_of
from albert_rc.answering.request import HIGHEST, LOWEST, TOKEN_BUDGET
from albert_rc.answering.score import reading_of, score_lines
from albert_rc.answering.temperature import kept_temperature
from albert_rc.checkpoints.hub import READY
from albert_rc.checkpoints.load import Loaded, load_model
from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import parse_json, parse_unique_json, to_json
from albert_rc.io.messages import kind_of, shortened
from albert_rc.model.heads import ReadingModel
from albert_rc.papers.formats import OPTION_FORMATS, READERS, check_chunk, read_good, require_good
from albert_rc.papers.ids import Register
from albert_rc.papers.raw import Items
from albert_rc.papers.schema import PaperSet, letter
from albert_rc.runtime.devices import Processes, choose_precision
from albert_rc.stores.losses import losses
from albert_rc.stores.store import make_store

_ONE_AT_A_TIME = threading.Lock()
"""Answering changes a model's state and restores it, which two threads cannot do at once."""

Papers = str | bytes | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one blank or question."""

    number: int
    """Number of the blank or question in its paper, from 1."""
    letter: str
    option: str
    """The text of the option."""
    probability: float
    """Probability of this option."""
    probabilities: dict[str, float]
    """Probability of each option, by letter."""


@dataclass(frozen=True, slots=True)
class AnsweredPaper:
    """The answers to one paper."""

    id: str
    """Its file's name, or the id that it gives itself; `papers[N]` for the Nth dict, from 1, if
    it has none."""
    answers: tuple[Answer, ...]

    @property
    def letters(self) -> list[str]:
        """The letters alone, as in answer.json."""
        return [answer.letter for answer in self.answers]


def answer(
    papers: Papers,
    model: Loaded[ReadingModel] | str | Path | None = None,
    *,
    precision: str | None = None,
    temperature: float | None = None,
    option_score: str | None = None,
    reuse: bool = False,
    token_budget: int = TOKEN_BUDGET,
) -> list[AnsweredPaper]:
    """Answer every blank or question of some papers, as `albert-rc predict` does.

    Args:
        papers: a paper as a dict (`{"article": "It _ .", "options": [["is", "are"]]}`, or with
            `questions` as in RACE); a list of such dicts; their JSON as text or bytes; or the path
            of a file or folder in any format that `predict` reads, such as DREAM's.
        model: from `load_model(source, "cloze")` or `load_model(source, "choice")`, which is loaded
            once for many calls; or the source itself: a run's folder, a hub id, or a model of the
            package. By default the package's own model for this kind of papers.
        precision: fp32, bf16 or fp16; bf16 if the hardware has it.
        temperature: divisor of the logits before the softmax; by default the value that
            `evaluate --calibrate` saved next to the weights, else 1. It changes no answer.
        option_score: "masks" reads blanks with options of several words again, with a [MASK] for
            each piece; "excerpt" reads questions about longer passages again, with the part that
            shares most words with them; both are more accurate. "once" reads nothing again. By
            default as the model's config.json says, else "once".
        reuse: allow an option for several blanks of a passage whose blanks all have the same
            options; by default each is used at most once.
        token_budget: tokens of a batch.

    Returns:
        Papers of a list in its order, those of a path in the natural order of their names. Threads
        take turns.

    Warns:
        UserWarning: the model was not trained to answer, so its answers are guesses; a paper could
            only be read by guessing (a blank attached to a word); or text that the model does not
            see: what is longer than its window, and options that are the same for it.

    Raises:
        DataError: papers have errors, all of which are listed; or a loaded model answers another
            kind of question. (One that is given by its name is opened for their kind, and warns if
            its head for it is untrained.)
        UsageError: an option is invalid, or only `predict` supports the model's task.
        CheckpointError: the model, or the calibration saved next to it, is damaged.
    """
    given = _read(papers)
    model = _opened(model, given.kind)
    reading, tokenizer = model.model, model.tokenizer
    if reading.task not in ("cloze", "choice"):
        raise UsageError(f"use `albert-rc predict` for a model of {reading.task} papers")
    if given.kind != reading.task:
        raise DataError(
            f"these are {given.kind} papers, but the model answers {reading.task} papers; "
            f'load_model(source, "{given.kind}") loads one for them'
        )
    if model.report.untrained:
        warnings.warn(
            "the model's head is untrained, so its answers are guesses; fine-tune it with "
            "`albert-rc train` first",
            stacklevel=2,
        )
    if reuse and given.kind != "cloze":
        raise UsageError("reuse is for cloze papers; leave it out")
    if precision == "int8":
        raise UsageError(
            'precision "int8" needs `albert-rc predict`, which tests the quantised model first'
        )
    if temperature is not None and not (
        isinstance(temperature, int | float) and LOWEST <= temperature <= HIGHEST
    ):
        raise UsageError(
            f"temperature {temperature!r} must be a number between {LOWEST:g} and {HIGHEST:g}"
        )
    if token_budget < 1:
        raise UsageError(f"token_budget {token_budget} must be above 0")
    store = make_store(given, tokenizer, reading.config.max_length)
    for said in (*map(str, given.problems), *losses(store)):
        warnings.warn(said, stacklevel=2)
    way = way_of(reading, option_score)
    require_way(reading, store, way)
    device = reading.words.device
    chosen = choose_precision(precision, device)
    with _ONE_AT_A_TIME:
        before = reading.encoder.compute
        reading.encoder.compute = replace(before, precision=chosen)
        try:
            if temperature is None:
                how = reading_of(reading, reading.config.max_length)
                temperature, _ = kept_temperature(tokenizer.folder, way, how)
            alone = Processes(torch.device(device))
            scored_QK, warning = read(reading, tokenizer, store, alone, way, token_budget)
            if warning is not None:
                warnings.warn(warning, stacklevel=2)
        finally:
            reading.encoder.compute = before
    lines = iter(score_lines(store, scored_QK, temperature, reuse=reuse))
    return [
        AnsweredPaper(
            passage.id,
            tuple(_answer(next(lines), question.options) for question in passage.questions),
        )
        for passage in given.passages
    ]


def _opened(model: Loaded[ReadingModel] | str | Path | None, kind: str) -> Loaded[ReadingModel]:
    """The model itself, or that of a name, or the package's for a kind of papers."""
    if isinstance(model, Loaded):
        return model
    if model is None:
        with _ONE_AT_A_TIME:
            return _usual(kind)
    if not isinstance(model, str | Path):
        raise UsageError(
            f"the model is {model!r}; give its name or folder, or the result of load_model"
        )
    if kind not in READY:
        raise UsageError(f"these are {kind} papers; use `albert-rc predict` for them")
    return load_model(model, kind)


@cache
def _usual(kind: str) -> Loaded[ReadingModel]:
    """The package's model for a kind of papers, loaded once."""
    if kind not in READY:
        raise UsageError(f"the package has no model for {kind} papers; give one")
    return load_model(READY[kind], kind)


def _answer(line: Mapping[str, Any], options: Sequence[str]) -> Answer:
    chances = {letter(i): chance for i, chance in enumerate(line["probabilities"])}
    chosen = str(line["answer"])
    place = list(chances).index(chosen)
    return Answer(line["number"], chosen, options[place], chances[chosen], chances)


def _read(papers: Papers) -> PaperSet:
    """Read papers from any supported source; all must be valid."""
    if isinstance(papers, str):
        papers = papers.removeprefix("\ufeff")
    if isinstance(papers, bytes) or (isinstance(papers, str) and papers.lstrip()[:1] in ("{", "[")):
        try:
            papers = parse_unique_json(papers if isinstance(papers, bytes) else papers.encode())
        except ValueError as error:
            raise DataError(f"the papers' text: {error}") from None
        if not isinstance(papers, (dict, list)):
            raise DataError(f"the papers' text is {kind_of(papers)}; it must be a dict or a list")
    if isinstance(papers, (str, Path)):
        return read_good(_place(papers))
    if isinstance(papers, Mapping):
        found = _checked([papers])
    elif isinstance(papers, Iterable):
        found = _checked(list(papers))
    else:
        raise DataError(
            f"the papers are {shortened(repr(papers))}; give a dict, a list of dicts, or a path"
        )
    require_good([found])
    return found


def _place(papers: str | Path) -> Path:
    """A path to papers, and no text that was given in its place."""
    try:
        if str(papers).strip() and Path(papers).exists():
            return Path(papers)
    except (OSError, ValueError):  # too long for a name, or with a NUL
        pass
    said = shortened(repr(str(papers)))
    raise DataError(f"{said}: no such file or folder; give a dict, its JSON, or a path")


def _checked(values: Sequence[Any]) -> PaperSet:
    """Papers given as JSON values, checked as `read_split` checks those in files."""
    values = [dict(value) if isinstance(value, Mapping) else value for value in values]
    if not values:
        raise DataError("the list of papers is empty; give at least one")
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise DataError(f"papers[{number}] is {kind_of(value)}; it must be a dict")
    name = next((name for name in OPTION_FORMATS if READERS[name].recognises(values[0])), "cloze")
    try:
        content = marshal.dumps(parse_json(to_json(values)))  # tuples become lists
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"the papers cannot be converted to JSON ({error}); use only text, numbers, lists and "
            "dicts"
        ) from None
    raws, register, passages = [Items("papers", content)], Register(), []
    for record, passage in check_chunk(raws, name):
        if register.add(raws, record) and passage is not None:
            passages.append(passage)
    return PaperSet(
        name="papers",
        kind=READERS[name].kind,
        format=name,
        passages=passages,
        problems=register.problems,
        num_rejected=register.num_rejected,
    )
