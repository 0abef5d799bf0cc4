"""Score files, as `predict --scores` writes them: read, checked line by line, put beside gold."""

# Q questions, K options (the most that a question of the file has)

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray

from albert_rc.data.schema import PaperSet, letter, letter_index
from albert_rc.errors import DataError
from albert_rc.files import sha256

Chances = NDArray[np.float64]
Indices = NDArray[np.int64]

SUM_TOLERANCE = 1e-3
"""Other programs round to three digits or four; ours to six."""
TIE = 1e-6


@dataclass(frozen=True, kw_only=True)
class ScoreFile:
    """What one model thinks of every question."""

    path: Path
    sha256: str
    kind: Literal["letters", "labels", "numbers"]
    keys: list[tuple[str, int]]
    """Paper and number of each question."""
    ids: list[str] | None
    """Keys of a multiple-choice answer file; None for others."""
    lines: list[int]
    """Where each question stands in the file, for messages."""
    answers: list[str]
    """Empty for numbers."""
    chances_QK: Chances
    """Probabilities, 0 where there is no option; for numbers [Q, 1] the numbers."""
    num_options_Q: Indices
    temperature: float
    """What the model's logits were divided by before they became probabilities."""

    @property
    def papers(self) -> list[str]:
        """The paper of each question."""
        return [paper for paper, _ in self.keys]

    def where(self, question: int) -> str:
        """A question's place, for messages."""
        return f"{self.path}, line {self.lines[question]}"

    def label_names(self) -> dict[int, str]:
        """Names of the labels by their place, as far as the answers tell.

        Raises:
            DataError: two names for a place.
        """
        names: dict[int, str] = {}
        for question, (place, name) in enumerate(
            zip(self.chances_QK.argmax(-1).tolist(), self.answers, strict=True)
        ):
            if names.setdefault(place, name) != name:
                raise DataError(
                    f"{self.where(question)}: the likeliest label, number {place + 1}, is called "
                    f"{name!r} here and {names[place]!r} before; make the file again with predict"
                )
        return names


def read_scores(path: Path) -> ScoreFile:
    """Read a score file.

    Raises:
        DataError: not readable, or not what `predict --scores` writes; names the line.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    found: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, text in enumerate(content.split(b"\n"), 1):
        if text.strip():
            found.append(_record(text, path, number))
            numbers.append(number)
    if not found:
        raise DataError(f"{path}: no scores in it; make them with `albert-rc predict --scores`")
    _check_numbering(found, numbers, path)
    first = found[0]
    for line, record in zip(numbers, found, strict=True):
        for name, what in (("probabilities", "probabilities"), ("id", "an id")):
            if (name in record) != (name in first):
                _refuse(path, line, f"{what} here or on line {numbers[0]}, but not on both")
        if record.get("temperature", 1.0) != first.get("temperature", 1.0):
            _refuse(path, line, f"another temperature than on line {numbers[0]}")
    common: dict[str, Any] = {
        "path": path,
        "sha256": sha256(content),
        "keys": [(record["paper"], record["number"]) for record in found],
        "ids": [record["id"] for record in found] if "id" in first else None,
        "lines": numbers,
        "temperature": float(first.get("temperature", 1.0)),
    }
    if "probabilities" not in first:
        return ScoreFile(
            kind="numbers",
            answers=[],
            chances_QK=np.array([[record["answer"]] for record in found], np.float64),
            num_options_Q=np.ones(len(found), np.int64),
            **common,
        )
    answers = [record["answer"] for record in found]
    counts = np.array([len(record["probabilities"]) for record in found])
    chances_QK = np.zeros((len(found), int(counts.max())))
    for row, record in zip(chances_QK, found, strict=True):
        row[: len(record["probabilities"])] = record["probabilities"]
    by_letter = all(letter_index(answer) is not None for answer in answers)
    if by_letter:
        _set_first(chances_QK, answers, path, numbers)
    chances_QK /= chances_QK.sum(-1, keepdims=True)
    return ScoreFile(
        kind="letters" if by_letter else "labels",
        answers=answers,
        chances_QK=chances_QK,
        num_options_Q=counts,
        **common,
    )


_AGAIN = "make the file again with `albert-rc predict --scores`"


def _refuse(path: Path, line: int, what: str) -> NoReturn:
    raise DataError(f"{path}, line {line}: {what}; {_AGAIN}")


def _record(text: bytes, path: Path, line: int) -> dict[str, Any]:
    """One line, every field checked."""
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        said = "a score is NaN or infinite" if b"NaN" in text or b"Infinity" in text else error.msg
        _refuse(path, line, f"not JSON ({said})")
    if not isinstance(record, dict):
        _refuse(path, line, "must be an object")
    if "best" in record or "null_odds" in record:
        raise DataError(
            f"{path}, line {line}: spans (SQuAD), which may stand anywhere in a passage: there are "
            "no options to average or to calibrate; only cloze, multiple choice and GLUE have them"
        )
    number, temperature = record.get("number"), record.get("temperature", 1.0)
    if not isinstance(record.get("paper"), str) or type(number) is not int or number < 1:
        _refuse(path, line, '"paper" must be text and "number" count from 1')
    if type(temperature) not in (int, float) or not temperature > 0:
        _refuse(path, line, '"temperature" must be a number above 0')
    answer = record.get("answer")
    if "probabilities" not in record:
        if type(answer) not in (int, float):
            _refuse(path, line, 'neither "probabilities" nor a number as "answer"')
        return record
    if not isinstance(answer, str) or not isinstance(record.get("id", ""), str):
        _refuse(path, line, '"answer" and "id" must be text')
    _check_chances(record["probabilities"], path, line)
    return record


def _check_chances(chances: Any, path: Path, line: int) -> None:
    if not isinstance(chances, list) or len(chances) < 2:
        _refuse(path, line, '"probabilities" must be a list of two or more')
    for place, chance in enumerate(chances, 1):
        if type(chance) not in (int, float):
            what = "null, as NaN is written in JSON" if chance is None else repr(chance)
            _refuse(path, line, f"probability {place} is {what}, no number")
        if not 0 <= chance <= 1 + TIE:
            _refuse(path, line, f"probability {place} is {chance}, not between 0 and 1")
    total = math.fsum(chances)
    if abs(total - 1) > SUM_TOLERANCE:
        _refuse(path, line, f"the probabilities sum to {total:.6g}, not to 1")


def _check_numbering(found: Sequence[dict[str, Any]], lines: Sequence[int], path: Path) -> None:
    """Refuse papers with questions missing, twice, or in disorder: answers would shift."""
    last = dict.fromkeys((record["paper"] for record in found), 0)
    for line, record in zip(lines, found, strict=True):
        paper, number = record["paper"], record["number"]
        if number != last[paper] + 1:
            expected = f"number {last[paper] + 1} was to come"
            _refuse(path, line, f"paper {paper} has number {number} where {expected}")
        last[paper] = number


def _set_first(
    chances_QK: Chances, answers: Sequence[str], path: Path, lines: Sequence[int]
) -> None:
    """Have each answer be the likeliest option, also where rounding made a tie of it."""
    for row, answer, line in zip(chances_QK, answers, lines, strict=True):
        place = letter_index(answer)
        if place is None or place >= len(row) or row[place] < row.max() - TIE:
            _refuse(
                path, line, f"the answer is {answer}, but {letter(int(row.argmax()))} likeliest"
            )
        row[place] = row.max() + TIE * TIE


def put_together(files: Sequence[ScoreFile]) -> list[ScoreFile]:
    """Files of several models with their questions in the first one's order.

    Raises:
        DataError: they are about other questions, or one model stands there twice.
    """
    first = files[0]
    places = {key: question for question, key in enumerate(first.keys)}
    result = [first]
    for other in files[1:]:
        if other.kind != first.kind:
            raise DataError(f"{other.path}: holds {other.kind}, but {first.path} {first.kind}")
        for question, key in enumerate(other.keys):
            mine = places.get(key)
            if mine is None:
                raise DataError(f"{other.where(question)}: {_lacks(key, first)}")
            counts = int(other.num_options_Q[question]), int(first.num_options_Q[mine])
            if counts[0] != counts[1]:
                raise DataError(
                    f"{other.where(question)}: {counts[0]} options, but {counts[1]} in "
                    f"{first.where(mine)}; all files must be about the same papers"
                )
        present = set(other.keys)
        for question, key in enumerate(first.keys):
            if key not in present:
                raise DataError(f"{first.where(question)}: {_lacks(key, other)}")
        result.append(_ordered(other, places))
    for number, one in enumerate(result):
        for other in result[:number]:
            if one.sha256 == other.sha256 or np.array_equal(one.chances_QK, other.chances_QK):
                said = f"line 1 to the last: the same scores as {other.path}"
                raise DataError(f"{one.path}, {said}; each model may be given once")
    return result


def _lacks(key: tuple[str, int], file: ScoreFile) -> str:
    said = f"paper {key[0]}, number {key[1]}, is not in {file.path}"
    return f"{said}; all files must be about the same papers"


def _ordered(file: ScoreFile, places: dict[tuple[str, int], int]) -> ScoreFile:
    order = sorted(range(len(file.keys)), key=lambda question: places[file.keys[question]])
    return replace(
        file,
        keys=[file.keys[i] for i in order],
        ids=None if file.ids is None else [file.ids[i] for i in order],
        lines=[file.lines[i] for i in order],
        answers=[file.answers[i] for i in order] if file.answers else [],
        chances_QK=file.chances_QK[order],
        num_options_Q=file.num_options_Q[order],
    )


def right_options(file: ScoreFile, papers: PaperSet) -> Indices:
    """[Q] index of each question's right option; -1 where the papers do not tell.

    Raises:
        DataError: the file is about other papers than these, or none is known.
    """
    if papers.kind == "span" or not file.answers or (papers.kind == "label") != bool(papers.labels):
        raise DataError(f"{file.path}: only answers that are options can be compared with papers")
    if (file.kind == "labels") != bool(papers.labels):
        raise DataError(f"{file.path}: holds {file.kind}; the papers are {papers.format}")
    asked = {
        (passage.id, number): question
        for passage in papers.passages
        for number, question in enumerate(passage.questions, 1)
    }
    gold = []
    for question, key in enumerate(file.keys):
        if key not in asked:
            said = f"paper {key[0]}, number {key[1]}, is not among the papers given as gold"
            raise DataError(f"{file.where(question)}: {said}")
        expected = len(papers.labels) or len(asked[key].options)
        if file.num_options_Q[question] != expected:
            said = f"{file.num_options_Q[question]} options, but the paper has {expected}"
            raise DataError(f"{file.where(question)}: {said}")
        answer = asked[key].answer
        gold.append(-1 if answer is None else answer)
    missing = asked.keys() - set(file.keys)
    if missing:
        paper, number = min(missing)
        raise DataError(f"{file.path}: paper {paper}, number {number}, is not in it")
    if file.kind == "labels" and any(
        papers.labels[place] != name for place, name in file.label_names().items()
    ):
        raise DataError(f"{file.path}: its labels are not those of {papers.format}, in that order")
    if max(gold) < 0:
        raise DataError("the papers give no right answers; give papers that do")
    return np.array(gold, np.int64)
