"""Reading of score files from `predict --scores`, checked line by line."""

# Q questions, K options (the maximum over the file's questions)

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from albert_rc.errors import DataError
from albert_rc.io.files import read_bytes, sha256
from albert_rc.io.json import parse_json, read_unique_json
from albert_rc.io.messages import quoted
from albert_rc.papers.schema import letter, letter_index

Chances = NDArray[np.float64]
Indices = NDArray[np.int64]

SUM_TOLERANCE = 1e-3
"""Tolerance for a row's sum: other programs round to three or four digits, ours to six."""
TIE = 1e-6
OF_ENSEMBLE = "ensemble"
"""In place of the weights' hash: several models made the scores."""
ROUNDED = 5e-7
"""Value for a probability written as 0 with six decimals."""


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """One model's probabilities for every question."""

    path: Path
    sha256: str
    kind: Literal["letters", "labels", "numbers"]
    keys: list[tuple[str, int]]
    """Paper and number of each question."""
    ids: list[str] | None
    """Keys of a multiple-choice answer file; None for others."""
    lines: list[int]
    """Line number of each question, for messages."""
    answers: list[str]
    """Answer to each question; empty for regression."""
    chances_QK: Chances
    """Probabilities, 0 beyond a question's last option; for regression, the numbers [Q, 1]."""
    num_options_Q: Indices
    labels: dict[int, str]
    """Names of labels by index, as far as the answers show them; empty for other kinds."""
    temperature: float
    """Divisor of the model's logits before the softmax; not of papers answered as a whole."""
    weights: str | None
    """Prefix of the SHA-256 of the weights that made the scores, if given; or `OF_ENSEMBLE`."""
    reading: dict[str, Any] | None
    """Inference settings (attention, window and the like), if given."""
    way: str | None
    """How some questions were read again, if they were (`predict --option-score`)."""
    read: list[str | None]
    """The model's own answers at blanks recalled by `predict --recall`."""
    each_once: list[bool]
    """Whether the options of the question's paper are each used at most once."""

    @property
    def papers(self) -> list[str]:
        """The paper of each question."""
        return [paper for paper, _ in self.keys]

    def where(self, question: int) -> str:
        """A question's position, for messages."""
        return f"{self.path}, line {self.lines[question]}"


def read_scores(path: Path) -> ScoreFile:
    """Read a score file.

    Raises:
        DataError: not readable, or not in the format of `predict --scores`; names the line.
    """
    content = read_bytes(path)
    if _is_answer_file(content):
        raise DataError(
            f"{path}: holds answers without their probabilities; give the file that `predict "
            "--scores` wrote, or, where answers alone are enough, rename this one to end in .json"
        )
    lines = _lines(content, path)
    found = [_record(text, path, number) for number, text in lines]
    numbers = [number for number, _ in lines]
    _check_numbering(found, numbers, path)
    first = found[0]
    for line, record in zip(numbers, found, strict=True):
        for name, what in (("probabilities", "probabilities"), ("id", "an id")):
            if (name in record) != (name in first):
                _refuse(path, line, f"only one of this line and line {numbers[0]} has {what}")
        if record.get("option_score") != first.get("option_score"):
            _refuse(path, line, f"option_score differs from line {numbers[0]}")
    temperature = _common_temperature(found, numbers, path)
    made_by = {name: _common(found, numbers, path, name) for name in ("weights", "reading")}
    common: dict[str, Any] = {
        "path": path,
        "sha256": sha256(content),
        "keys": [(record["paper"], record["number"]) for record in found],
        "ids": [record["id"] for record in found] if "id" in first else None,
        "lines": numbers,
        "temperature": temperature,
        **made_by,
        "way": first.get("option_score"),
        "read": [record.get("read") for record in found],
        "each_once": [record.get("each_once", False) for record in found],
    }
    if "probabilities" not in first:
        return ScoreFile(
            kind="numbers",
            answers=[],
            chances_QK=np.array([[record["answer"]] for record in found], np.float64),
            num_options_Q=np.ones(len(found), np.int64),
            labels={},
            **common,
        )
    answers = [record["answer"] for record in found]
    counts = np.array([len(record["probabilities"]) for record in found])
    chances_QK = np.zeros((len(found), int(counts.max())))
    for row, record in zip(chances_QK, found, strict=True):
        row[: len(record["probabilities"])] = record["probabilities"]
    given_QK = np.arange(chances_QK.shape[1]) < counts[:, None]
    # Never above a written probability, so that the order of options stays.
    least = min(ROUNDED, float(chances_QK[chances_QK > 0].min(initial=1.0)))
    chances_QK[given_QK & (chances_QK == 0)] = least
    places = [letter_index(answer) for answer in answers]
    by_letter = None not in places
    named: dict[str, int] = {}
    if not by_letter:
        named = _label_places(chances_QK, answers, path, numbers)
        places = [named.get(answer) for answer in answers]
    _set_first(chances_QK, places, answers, path, numbers)
    return ScoreFile(
        kind="letters" if by_letter else "labels",
        answers=answers,
        chances_QK=chances_QK / chances_QK.sum(-1, keepdims=True),
        num_options_Q=counts,
        labels={place: name for name, place in named.items()},
        **common,
    )


def answers_in(path: Path) -> Any:
    """The JSON value of an answer file; for a score file (`.jsonl`) its answers.

    Raises:
        DataError: not readable, or no such file.
    """
    if path.suffix != ".jsonl":
        try:
            return read_unique_json(path)
        except DataError:
            with suppress(OSError), path.open("rb") as lines:
                if b'"probabilities"' in lines.readline():
                    said = "looks like a score file, whose name must end in .jsonl"
                    raise DataError(f"{path}: {said}; rename it") from None
            raise
    file = read_scores(path)
    if file.kind == "letters":
        return letters_of(file)
    given = file.answers or file.chances_QK[:, 0].tolist()
    return dict(zip(file.papers, given, strict=True))


def read_letters(path: Path) -> ScoreFile:
    """Read the score file of papers with options to choose from.

    Raises:
        DataError: as `read_scores`, or its answers are labels or numbers.
    """
    file = read_scores(path)
    if file.kind != "letters":
        raise DataError(
            f"{path}: holds {file.kind}, but the papers have options to choose from; give the "
            "scores of these papers"
        )
    return file


def letters_of(file: ScoreFile) -> dict[str, list[str]]:
    """The answers of a file of `read_letters` by paper, as in answer.json."""
    papers: dict[str, list[str]] = {}
    for paper, answer in zip(file.papers, file.answers, strict=True):
        papers.setdefault(paper, []).append(answer)
    return papers


def span_answers(path: Path) -> dict[str, str]:
    """The answers in a score file of SQuAD, by the questions' ids; empty for no answer.

    Raises:
        DataError: not readable, or a line without an answer; names the line.
    """
    answers: dict[str, str] = {}
    for line, text in _lines(read_bytes(path), path):
        record = _parsed(text, path, line)
        key, answer = record.get("id"), record.get("answer")
        if not isinstance(key, str) or key in answers:
            _refuse(path, line, '"id" must be text, and different on each line')
        if not isinstance(answer, str):
            raise DataError(
                f'{path}, line {line}: no "answer", which earlier versions did not write; give '
                f"answer.json instead, or {_AGAIN}"
            )
        answers[key] = answer
    return answers


def _is_answer_file(content: bytes) -> bool:
    """Whether this is an answer.json: a single object over all lines, and no line of scores."""
    if b'"probabilities"' in content[:4096] or not content.lstrip().startswith(b"{"):
        return False
    try:
        value = parse_json(content)
    except ValueError:
        return False
    return isinstance(value, dict) and "paper" not in value


_AGAIN = "make the file again with `albert-rc predict --scores`"


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise DataError(f"{path}, line {line}: {what}; {_AGAIN}")


def _lines(content: bytes, path: Path) -> list[tuple[int, bytes]]:
    """The non-empty lines, with their numbers; at least one."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}: is UTF-16; save it as UTF-8, or {_AGAIN}")
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = [(number, text) for number, text in enumerate(lines, 1) if text.strip()]
    if not found:
        raise DataError(f"{path} contains no scores; make them with `albert-rc predict --scores`")
    return found


def _parsed(text: bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        said = "a score is NaN or infinite" if b"NaN" in text or b"Infinity" in text else error.msg
        _refuse(path, line, f"not JSON ({said})")
    if not isinstance(record, dict):
        _refuse(path, line, "must be an object")
    return record


def _common_temperature(found: list[dict[str, Any]], numbers: list[int], path: Path) -> float:
    """The temperature of all lines; it does not apply where each option is used once."""
    common, at = None, 0
    for line, record in zip(numbers, found, strict=True):
        if record.get("each_once"):
            continue
        if common is None:
            common, at = float(record.get("temperature", 1.0)), line
        elif record.get("temperature", 1.0) != common:
            _refuse(path, line, f"temperature differs from line {at}")
    return 1.0 if common is None else common


def _common(found: list[dict[str, Any]], numbers: list[int], path: Path, name: str) -> Any:
    """What lines say under a name, those that have it; None if none has."""
    common, at = None, 0
    for line, record in zip(numbers, found, strict=True):
        if name not in record:
            continue
        if not at:
            common, at = record[name], line
        elif record[name] != common:
            _refuse(path, line, f"{name} differs from line {at}: scores of several models")
    return common


def _record(text: bytes, path: Path, line: int) -> dict[str, Any]:
    """One line as a record, with every field checked."""
    record = _parsed(text, path, line)
    if "best" in record or "null_odds" in record:
        raise DataError(
            f"{path}, line {line}: the answers are spans (SQuAD), without options to average or to "
            "calibrate; only cloze, multiple choice and GLUE have options"
        )
    number, temperature = record.get("number"), record.get("temperature", 1.0)
    if not isinstance(record.get("paper"), str) or type(number) is not int or number < 1:
        _refuse(path, line, '"paper" must be text, and "number" must count from 1')
    if type(temperature) not in (int, float) or not temperature > 0:
        _refuse(path, line, '"temperature" must be a number above 0')
    answer = record.get("answer")
    if "probabilities" not in record:
        if type(answer) not in (int, float):
            _refuse(path, line, 'neither "probabilities" nor a number as "answer"')
        return record
    texts = ("id", "read", "option_score", "weights")
    if not all(isinstance(text, str) for text in (answer, *(record.get(n, "") for n in texts))):
        _refuse(path, line, '"answer", "id", "read", "option_score" and "weights" must be text')
    if not isinstance(record.get("each_once", False), bool):
        _refuse(path, line, '"each_once" must be true or false')
    if not isinstance(record.get("reading", {}), dict):
        _refuse(path, line, '"reading" must be an object')
    if not re.fullmatch("[a-z]+|", record.get("option_score", "")):
        _refuse(path, line, '"option_score" must be the name of a method, such as masks')
    _check_chances(record["probabilities"], path, line)
    return record


def _check_chances(chances: Any, path: Path, line: int) -> None:
    if not isinstance(chances, list) or len(chances) < 2:
        _refuse(path, line, '"probabilities" must be a list of two or more')
    for place, chance in enumerate(chances, 1):
        if type(chance) not in (int, float):
            what = "null, as NaN is written in JSON" if chance is None else repr(chance)
            _refuse(path, line, f"probability {place} is {what}, not a number")
        if not 0 <= chance <= 1 + TIE:
            _refuse(path, line, f"probability {place} is {chance}, not between 0 and 1")
    total = math.fsum(chances)
    if abs(total - 1) > SUM_TOLERANCE:
        _refuse(path, line, f"the probabilities sum to {total:.6g}, not to 1")


def _check_numbering(found: Sequence[dict[str, Any]], lines: Sequence[int], path: Path) -> None:
    """Refuse papers with missing, duplicate or unordered questions: answers would shift."""
    last = dict.fromkeys((record["paper"] for record in found), 0)
    for line, record in zip(lines, found, strict=True):
        paper, number = record["paper"], record["number"]
        if number != last[paper] + 1:
            expected = f"number {last[paper] + 1} was expected"
            _refuse(path, line, f"paper {quoted(paper)} has number {number} where {expected}")
        last[paper] = number


def _label_places(
    chances_QK: Chances, answers: Sequence[str], path: Path, lines: Sequence[int]
) -> dict[str, int]:
    """Indices of the labels by name, from the lines where one of them is likeliest."""
    places: dict[str, int] = {}
    names: dict[int, str] = {}
    second_Q, first_Q = np.sort(chances_QK, -1)[:, -2:].T
    best_Q = chances_QK.argmax(-1)
    for question in np.flatnonzero(first_Q - second_Q > TIE).tolist():
        place, name = int(best_Q[question]), answers[question]
        if places.setdefault(name, place) != place or names.setdefault(place, name) != name:
            said = f"number {place + 1}, is called {quoted(name)} here, but not on earlier lines"
            _refuse(path, lines[question], f"the likeliest label, {said}")
    return places


def _set_first(
    chances_QK: Chances,
    places: Sequence[int | None],
    answers: Sequence[str],
    path: Path,
    lines: Sequence[int],
) -> None:
    """Make each answer the likeliest option, even if rounding produced a tie."""
    for row, place, answer, line in zip(chances_QK, places, answers, lines, strict=True):
        if place is None:
            continue  # a label that is likeliest only in ties
        if place >= len(row) or row[place] < row.max() - TIE:
            _refuse(
                path,
                line,
                f"the answer is {quoted(answer)}, but {letter(int(row.argmax()))} is likeliest",
            )
        row[place] = row.max() + TIE * TIE
