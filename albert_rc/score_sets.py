"""Score files of several models put into one order, and beside the papers' right answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from albert_rc.data.schema import PaperSet
from albert_rc.errors import DataError
from albert_rc.score_files import Indices, ScoreFile


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
    said = f"paper {key[0]!r}, number {key[1]}, is not in {file.path}"
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
            said = f"paper {key[0]!r}, number {key[1]}, is not among the papers given as gold"
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
        raise DataError(f"{file.path}: paper {paper!r}, number {number}, is not in it")
    if file.kind == "labels" and any(
        papers.labels[place] != name for place, name in file.labels.items()
    ):
        raise DataError(f"{file.path}: its labels are not those of {papers.format}, in that order")
    if max(gold) < 0:
        raise DataError("the papers give no right answers; give papers that do")
    return np.array(gold, np.int64)
