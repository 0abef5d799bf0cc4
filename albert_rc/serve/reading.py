"""Conversion of an upload to passages and messages; what cannot be read is reported."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from albert_rc.errors import DataError
from albert_rc.io.json import parse_json
from albert_rc.io.messages import first_of
from albert_rc.papers.formats import OPTION_FORMATS, READERS, check_chunk
from albert_rc.papers.ids import Register
from albert_rc.papers.raw import Lines, Raw, WholeFile, paper_place
from albert_rc.papers.schema import PaperSet, Passage, letter
from albert_rc.serve.limits import Limits
from albert_rc.serve.messages import Message, Messages
from albert_rc.serve.uploads import Upload

SAMPLES = 100
"""Papers that are looked at to detect their format."""
BLANKS = 200
"""Number of blanks that are checked for each one that may be answered. Uploads with more are
refused at once: a single paper with millions of blanks would keep the server busy for a minute."""
LEVELS = {"error": "refused", "warning": "warning"}


@dataclass(frozen=True, slots=True)
class ReadText:
    """The passages and messages of an upload."""

    sets: list[PaperSet]
    """Papers by kind, in natural order of their ids; no set is empty."""
    messages: list[Message] = field(default_factory=list)
    numbers: dict[str, list[int]] = field(default_factory=dict)
    """Printed numbers of blanks and questions by paper; other papers are numbered from 1."""
    text: str = ""
    """Text read from pictures, for correction."""


def is_complete(messages: Sequence[Message]) -> bool:
    """Whether nothing of an upload was refused."""
    return all(message.level != "refused" for message in messages)


def read_json_papers(
    upload: Upload, limits: Limits, stopped: Callable[[], bool] = lambda: False
) -> ReadText:
    """Read papers in JSON: cloze, RACE or DREAM; a single one, a list, or one per line.

    Args:
        upload: the upload.
        limits: limits of the number of papers and of time.
        stopped: called before each paper; returns whether to stop.

    Raises:
        DataError: the format is unknown, or a limit is exceeded.
        InterruptedError: stopped.
    """
    end = time.monotonic() + limits.read_seconds
    number = 0

    def go_on() -> None:
        nonlocal number
        number += 1
        if stopped():
            raise InterruptedError
        if number > limits.entries:
            raise DataError(
                f"{upload.shown}: more than {limits.entries:,} papers, valid and invalid; at most "
                f"{limits.papers:,} are answered at a time: give them in parts, or use "
                "`albert-rc predict`"
            )
        if time.monotonic() > end:
            raise DataError(
                f"{upload.shown}: reading it takes more than {limits.read_seconds:g} seconds; give "
                "it in parts, or use `albert-rc predict`"
            )

    most = BLANKS * limits.questions
    if sum(1 for _ in islice(re.finditer(rb"_+", upload.content), most + 1)) > most:
        raise DataError(
            f"{upload.shown}: more than {limits.questions:,} blanks; give the papers in parts, or "
            "use `albert-rc predict`"
        )
    raw, sample = _raw_papers(upload)
    format_name = _sniffed(sample)
    if format_name is None:
        raise DataError(
            f"{upload.shown}: not a cloze paper, nor in RACE's or DREAM's format; docs/formats.md "
            "shows these formats (for SQuAD and GLUE use `albert-rc predict`)"
        )
    return read_raws([raw], format_name, go_on)


def read_raws(
    raws: Sequence[Raw], format_name: str, go_on: Callable[[], None] = lambda: None
) -> ReadText:
    """Check papers as `predict` does.

    Args:
        raws: files of papers, by name.
        format_name: a key of `READERS`.
        go_on: called for each paper; raises an exception to stop.
    """
    register, passages, messages = Register(), [], Messages()
    for record, passage in check_chunk(raws, format_name):
        go_on()
        if register.add(raws, record) and passage is not None:
            passages.append(passage)
        about = record.id or paper_place(raws[record.source].place, record.number)
        for problem in register.problems:
            messages.add(LEVELS[problem.severity], problem.message, about)
        register.problems.clear()  # a bad paper has up to two hundred
    ordered = [passages[i] for i in register.finish()]
    reader = READERS[format_name]
    papers = PaperSet("upload", reader.kind, format_name, ordered)
    return ReadText([papers] if ordered else [], messages.all(register.num_rejected))


def _raw_papers(upload: Upload) -> tuple[Raw, Any]:
    """The papers in the form that readers need, and one to detect their format by."""
    content = upload.content
    if upload.kind != "lines":
        try:
            value = parse_json(content)
        except ValueError as error:
            first = content.lstrip().split(b"\n", 1)
            try:
                sample = parse_json(first[0])
            except ValueError:
                raise DataError(f"{upload.shown}: {error}") from None
            if len(first) < 2 or not isinstance(sample, (dict, list)):
                raise DataError(f"{upload.shown}: {error}") from None
            return Lines(upload.name, content), sample
        listed = isinstance(value, list) and value and isinstance(value[0], dict)
        return WholeFile(upload.name, content), _sample(value) if listed else value
    lines = [line for line in content.split(b"\n", SAMPLES)[:SAMPLES] if line.strip()]
    values, problem = [], None
    for line in lines:
        try:
            values.append(parse_json(line))
        except ValueError as error:
            problem = problem or error
    if not values:
        raise DataError(f"{upload.shown}: {problem or 'there is nothing in it'}")
    return Lines(upload.name, content), _sample(values)


def _sample(values: Sequence[Any]) -> Any:
    """The first value that is a paper of a known format, else the first one."""
    return next((value for value in values[:SAMPLES] if _sniffed(value)), values[0])


def _sniffed(sample: Any) -> str | None:
    return next((name for name in OPTION_FORMATS if READERS[name].recognises(sample)), None)


def nothing_to_answer(messages: Sequence[Message]) -> str:
    """Why none of an upload's papers can be answered."""
    said = [message.text for message in messages if message.level == "refused"]
    shown = "\n".join(first_of(said)) or (
        "no blanks or questions with options were found in it; number them, and give a list of "
        "options for each"
    )
    return f"no paper that can be answered\n{shown}"


def require_within(reading: ReadText, limits: Limits) -> None:
    """Refuse an upload that would take too long.

    Raises:
        DataError: no papers, or more than the limits allow.
    """
    if not reading.sets:
        raise DataError(nothing_to_answer(reading.messages))
    passages = [passage for papers in reading.sets for passage in papers.passages]
    counts = (
        (len(passages), limits.papers, "papers"),
        (sum(len(p.questions) for p in passages), limits.questions, "blanks or questions"),
        (
            sum(_characters(p) for p in passages),
            limits.characters,
            "characters (a passage counts for each option of its questions)",
        ),
    )
    for number, most, noun in counts:
        if number > most:
            raise DataError(
                f"{number:,} {noun}; at most {most:,} are answered at a time: give them in parts, "
                "or use `albert-rc predict`"
            )


def _characters(passage: Passage) -> int:
    """Number of characters of a passage that the model reads."""
    asked = sum(len(option) for q in passage.questions for option in q.options)
    if passage.kind == "cloze":
        return len(passage.text) + asked
    times = sum(len(q.options) for q in passage.questions)
    return len(passage.text) * times + asked


def paper_json(passage: Passage) -> dict[str, Any]:
    """A paper's JSON in the project's own format (docs/formats.md)."""
    questions = passage.questions
    known = all(question.answer is not None for question in questions)
    content: dict[str, Any] = {
        "article": passage.text,
        "options": [list(question.options) for question in questions],
    }
    if passage.kind != "cloze":
        content["questions"] = [question.text for question in questions]
    content["answers"] = [letter(question.answer or 0) for question in questions] if known else []
    content["id"] = passage.id
    return content
