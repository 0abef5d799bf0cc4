"""Alignment of several models' score files with each other and with the papers' right answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from albert_rc.errors import DataError
from albert_rc.io.messages import listed, quoted, shortened
from albert_rc.papers.schema import PaperSet, Passage
from albert_rc.scoring.score_file import Indices, ScoreFile


def put_together(files: Sequence[ScoreFile]) -> list[ScoreFile]:
    """Files of several models with their questions in the first one's order.

    Raises:
        DataError: they have different questions, or a model occurs twice.
    """
    first = files[0]
    places = {key: question for question, key in enumerate(first.keys)}
    result = [first]
    for other in files[1:]:
        if other.kind != first.kind:
            raise DataError(
                f"{other.path} has {other.kind}, but {first.path} has {first.kind}; give scores "
                "of one task"
            )
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
        if (other.ids is None) != (first.ids is None):
            has = "no ids" if other.ids is None else "ids"
            raise DataError(
                f"{other.path}: has {has} of questions, unlike {first.path}; all files must be "
                "about the same papers"
            )
        present = set(other.keys)
        for question, key in enumerate(first.keys):
            if key not in present:
                raise DataError(f"{first.where(question)}: {_lacks(key, other)}")
        result.append(_ordered(other, places))
    for number, one in enumerate(result):
        for other in result[:number]:
            if one.sha256 == other.sha256 or np.array_equal(one.chances_QK, other.chances_QK):
                said = f"all scores are the same as in {other.path}"
                raise DataError(f"{one.path}: {said}; give each model only once")
    return result


def _lacks(key: tuple[str, int], file: ScoreFile) -> str:
    said = f"paper {quoted(key[0])}, number {key[1]}, is not in {file.path}"
    return f"{said}; all files must be about the same papers"


def _ordered(file: ScoreFile, places: dict[tuple[str, int], int]) -> ScoreFile:
    order = sorted(range(len(file.keys)), key=lambda question: places[file.keys[question]])
    return replace(
        file,
        keys=[file.keys[i] for i in order],
        ids=None if file.ids is None else [file.ids[i] for i in order],
        lines=[file.lines[i] for i in order],
        read=[file.read[i] for i in order],
        each_once=[file.each_once[i] for i in order],
        answers=[file.answers[i] for i in order] if file.answers else [],
        chances_QK=file.chances_QK[order],
        num_options_Q=file.num_options_Q[order],
    )


def in_order_of(file: ScoreFile, papers: PaperSet) -> ScoreFile:
    """A file with its questions in the papers' order, which determines the folds.

    Raises:
        DataError: the file has other papers, or not all of these.
    """
    _require_options(file, papers)
    rows = rows_of(file, papers.passages, len(papers.labels)).tolist()
    return _ordered(file, {file.keys[row]: place for place, row in enumerate(rows)})


def right_options(file: ScoreFile, papers: PaperSet) -> Indices:
    """[Q] index of each question's right option; -1 if unknown.

    Raises:
        DataError: the file has other papers, or no right answer is known.
    """
    _require_options(file, papers)
    rows_Q = rows_of(file, papers.passages, len(papers.labels))
    gold_Q = np.full(len(file.keys), -1)
    questions = (question for passage in papers.passages for question in passage.questions)
    for row, question in zip(rows_Q.tolist(), questions, strict=True):
        if question.answer is not None:
            gold_Q[row] = question.answer
    if file.kind == "labels" and any(
        papers.labels[place] != name for place, name in file.labels.items()
    ):
        raise DataError(
            f"{file.path}: its labels are not those of {papers.format}, in that order; give the "
            "papers of its task"
        )
    if gold_Q.max() < 0:
        raise DataError("the papers have no right answers; give papers that have them")
    return gold_Q


def _require_options(file: ScoreFile, papers: PaperSet) -> None:
    if papers.kind == "span" or not file.answers or (papers.kind == "label") != bool(papers.labels):
        raise DataError(
            f"{file.path}: its answers are numbers or spans, which have no probabilities of "
            "options; use `evaluate` without --calibrate"
        )
    if (file.kind == "labels") != bool(papers.labels):
        raise DataError(f"{file.path}: holds {file.kind}; the papers are {papers.format}")


def rows_of(file: ScoreFile, papers: Sequence[Passage], num_labels: int = 0) -> Indices:
    """[Q] row in a file of every question of the papers, in the papers' order.

    Args:
        file: scores of options or labels.
        papers: the answered papers.
        num_labels: number of labels of a label task; 0 if questions have their own options.

    Raises:
        DataError: the file has other papers, or not all of these.
    """
    asked = {
        (passage.id, number): num_labels or len(question.options)
        for passage in papers
        for number, question in enumerate(passage.questions, 1)
    }
    rows = {key: row for row, key in enumerate(file.keys)}
    for row, (paper, number) in enumerate(file.keys):
        expected, found = asked.get((paper, number)), int(file.num_options_Q[row])
        if expected is None:
            said = f"paper {quoted(paper)}, number {number}, is not among the papers"
            raise DataError(f"{file.where(row)}: {said}; give the papers that were answered")
        if found != expected:
            raise DataError(
                f"{file.where(row)}: {found} options, but the paper has {expected}; give the "
                "papers that were answered"
            )
    missing = [key for key in asked if key not in rows]
    if missing:
        said = listed([f"{shortened(paper)}, number {number}" for paper, number in missing], 5)
        raise DataError(
            f"{file.path}: {len(missing):,} of {len(asked):,} questions have no line; the file may "
            f"be truncated:{said}\nmake it again with `albert-rc predict --scores`, or give the "
            "papers that were answered"
        )
    return np.array([rows[key] for key in asked], np.int64)
