"""Evaluation of tasks with their own metrics: GLUE's tables, SQuAD's spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import counted, listed, quoted, shortened
from albert_rc.papers.schema import PaperSet
from albert_rc.scoring.accuracy import (
    Comparison,
    Gain,
    accuracy,
    compare_right,
    gain,
    mean_interval,
)
from albert_rc.scoring.glue_squad import (
    METRICS,
    interval,
    normalize_answer,
    squad1_match,
    squad2_match,
)
from albert_rc.scoring.score_file import answers_in, span_answers


@dataclass
class Measured:
    """A metric with its 95% interval, over rows or SQuAD's paragraphs."""

    name: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "not defined: all answers or all right scores are the same, or there is one row"
        said = f"{self.value:.2%}"
        return said if np.isnan(self.low) else f"{said} [{self.low:.2%}, {self.high:.2%}]"


@dataclass(frozen=True)
class Answered:
    """A file's answers to the questions with a known right answer."""

    answers: list[Any]
    """Normalised answers: labels, numbers, or lower-case texts without articles."""
    right: list[bool]
    """Whether each is the right label, or matches a right answer exactly; empty for numbers."""
    metrics: list[Measured]
    papers: list[int]
    """The paper of each, by number: a row of a table is one, and a paragraph of SQuAD."""
    without_gold: int
    """Number of the other questions, whose right answer is not known."""


def measured(path: Path, papers: PaperSet) -> Answered:
    """The metrics of an answer file or a score file.

    Raises:
        DataError: it does not belong to these papers, or they have no right answers.
    """
    return _rows(path, papers) if papers.kind == "label" else _spans(path, papers)


def compared(first: Answered, second: Answered) -> tuple[Comparison, Gain]:
    """Two files on the same questions: agreement, and the gain in (exactly) right answers.

    Raises:
        UsageError: the answers are numbers, which are not simply right or wrong.
    """
    if len(first.right) < len(first.answers):
        raise UsageError(
            "--against compares right and wrong answers, but a score (STS-B) is neither; leave the "
            "option out, and evaluate each file separately"
        )
    alike = [a == b for a, b in zip(first.answers, second.answers, strict=True)]
    found = compare_right(alike, first.right, second.right)
    return found, gain(first.right, second.right, first.papers)


def read_given(path: Path, ids: Sequence[str], kind: type, spans: bool = False) -> list[Any]:
    """The answers of a file to each of these ids.

    Args:
        path: a JSON object of answers by id, or a score file.
        ids: ids of the questions or rows.
        kind: type of an answer: `str` or `float`.
        spans: SQuAD's, whose score files have another format.

    Raises:
        DataError: answers are missing, too many, or of another kind.
    """
    content = span_answers(path) if spans and path.suffix == ".jsonl" else answers_in(path)
    if not isinstance(content, dict):
        raise DataError(f'{path}: must be an object such as {{"id": answer, ...}}')
    kinds = (int, float) if kind is float else (kind,)
    asked = set(ids)
    problems = [f"{key}: no answer" for key in ids if key not in content]
    problems += [
        f"{shortened(key)}: answered, but it is not among the questions"
        for key in content
        if key not in asked
    ]
    problems += [
        f"{shortened(key)}: the answer {quoted(content[key])} must be "
        f"{'a number' if kind is float else 'text'}"
        for key in ids
        if key in content and type(content[key]) not in kinds
    ]
    if problems:
        raise DataError(
            f"{path}: {counted(len(problems), 'problem')}:{listed(problems)}\n"
            "make it again with predict, on the same papers"
        )
    return [content[key] for key in ids]


def _known(right: Sequence[Any]) -> list[int]:
    known = [i for i, value in enumerate(right) if value is not None]
    if not known:
        raise DataError("the papers have no right answers; give papers that have them")
    return known


def _rows(path: Path, papers: PaperSet) -> Answered:
    """GLUE's metrics."""
    given = read_given(path, papers.ids, str if papers.labels else float)
    questions = [passage.questions[0] for passage in papers.passages]
    right = [q.answer if papers.labels else q.value for q in questions]
    known = _known(right)
    columns: list[list[Any]] = [[values[i] for i in known] for values in (right, given)]
    flags: list[bool] = []
    if papers.labels:
        unknown = sorted(set(columns[1]) - set(papers.labels))
        if unknown:
            row = papers.ids[given.index(unknown[0])]
            raise DataError(
                f"{path}: the answer to {shortened(row)}, {quoted(unknown[0])}, is not one of "
                f"{', '.join(papers.labels)}; give answers to these papers, or another --format"
            )
        columns[1] = [papers.labels.index(value) for value in columns[1]]
        flags = [a == b for a, b in zip(*columns, strict=True)]
    found = []
    for name in papers.metrics:
        if name == "accuracy":
            share = accuracy(flags, known)
            found.append(Measured(name, share.value, share.low, share.high))
        else:
            ends = interval(METRICS[name], *columns)
            found.append(Measured(name, float(METRICS[name](*columns)), *ends))
    return Answered(columns[1], flags, found, known, len(questions) - len(known))


def _spans(path: Path, papers: PaperSet) -> Answered:
    """SQuAD's metrics: 2.0's if some question has no answer, else 1.1's."""
    asked = [(p, q) for p in papers.passages for q in p.questions]
    paper_of = [number for number, p in enumerate(papers.passages) for _ in p.questions]
    given = read_given(path, [q.id for _, q in asked], str, spans=True)
    known = _known([q.answer for _, q in asked])
    golds = [[asked[i][0].text[a:b] for a, b in asked[i][1].spans] for i in known]
    match = squad1_match if all(golds) else squad2_match
    found = [match(given[i], gold) for i, gold in zip(known, golds, strict=True)]
    groups = {"": list(range(len(known)))}
    if not all(golds):
        groups["has answer: "] = [i for i, gold in enumerate(golds) if gold]
        groups["no answer: "] = [i for i, gold in enumerate(golds) if not gold]
    figures = [
        Measured(
            f"{prefix}{name}",
            float(np.mean(values)),
            *mean_interval(values, [paper_of[known[i]] for i in members]),
        )
        for prefix, members in groups.items()
        for name in ("exact", "f1")
        if (values := [getattr(found[i], name) for i in members])
    ]
    answers = [normalize_answer(given[i]) for i in known]
    right = [each.exact == 1 for each in found]
    papers_of = [paper_of[i] for i in known]
    return Answered(answers, right, figures, papers_of, len(asked) - len(known))
