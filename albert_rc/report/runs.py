"""What a system answered: a file of scores, or of answers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from albert_rc.data.schema import Passage, Question, letter, letter_index
from albert_rc.errors import DataError
from albert_rc.evaluation import read_answers
from albert_rc.files import parse_json

SHOWN = 50
TOLERANCE = 0.01
"""How far probabilities may be from 1 in all; files that others wrote are rounded."""


@dataclass(frozen=True)
class Run:
    """One system's answers to all questions, in the papers' order."""

    name: str
    letters: list[str]
    chosen: list[int]
    """The same as indices of options."""
    probabilities: list[list[float]] | None
    """Of every option of every question; None where the file holds answers alone."""

    @property
    def confidence(self) -> list[float] | None:
        """The chosen option's probability of every question."""
        if self.probabilities is None:
            return None
        return [row[i] for row, i in zip(self.probabilities, self.chosen, strict=True)]


def run_names(paths: Sequence[Path]) -> list[str]:
    """What to call the systems: by file, and where files are called alike by folder too."""
    names = [path.name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{path.resolve().parent.name}/{path.name}" for path in paths]
    return names


def read_run(path: Path, papers: Sequence[Passage], name: str) -> Run:
    """Read `predict`'s scores (JSON lines), or an answer.json, which has no probabilities.

    Args:
        path: the file.
        papers: what was answered; every question must have its answer, and no other.
        name: what the report calls it.

    Raises:
        DataError: the file does not belong to these papers, or is not whole; all is named.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    lines = [(n, line) for n, line in enumerate(content.splitlines(), 1) if line.strip()]
    if not (lines and _is_score(lines[0][1])):
        return _run(name, read_answers(path, papers), None)
    return _read_scores(path, name, lines, papers)


def _is_score(line: bytes) -> bool:
    try:
        first = parse_json(line)
    except ValueError:
        return False
    return isinstance(first, dict) and {"paper", "number", "answer"} <= first.keys()


def _read_scores(
    path: Path, name: str, lines: Sequence[tuple[int, bytes]], papers: Sequence[Passage]
) -> Run:
    starts: dict[str, int] = {}
    total = 0
    for passage in papers:
        starts[passage.id] = total
        total += len(passage.questions)
    questions = list(chain.from_iterable(passage.questions for passage in papers))
    counts = {passage.id: len(passage.questions) for passage in papers}
    letters: list[str | None] = [None] * total
    chances: list[list[float] | None] = [None] * total
    problems: list[str] = []
    for at, line in lines:
        try:
            score = parse_json(line)
        except ValueError as error:
            problems.append(f"line {at}: {error}")
            continue
        paper, number, problem = _place(score, counts)
        if problem:
            problems.append(f"line {at}: {problem}")
            continue
        place = starts[paper] + number - 1
        if letters[place] is not None:
            problems.append(f"line {at}: {paper}: answer {number} is given a second time")
            continue
        wrong = _wrong_answer(score, questions[place])
        problems += [f"line {at}: {paper}: answer {number}: {what}" for what in wrong]
        if not wrong:
            letters[place], chances[place] = score["answer"], score.get("probabilities")
    if not problems:
        for paper, count in counts.items():
            missing = letters[starts[paper] : starts[paper] + count].count(None)
            if missing:
                problems.append(f"{paper}: {missing} of {count} answers are missing")
    known = [row for row in chances if row is not None]
    if not problems and 0 < len(known) < total:
        problems.append(f"{total - len(known)} of {total} answers have no probabilities")
    if problems:
        shown = "".join(f"\n  {problem}" for problem in problems[:SHOWN])
        more = f"\n  and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise DataError(
            f"{path}: does not belong to these papers, or is not whole:{shown}{more}\n"
            "make it again with `albert-rc predict --scores` on the same papers"
        )
    return _run(name, [x for x in letters if x is not None], known or None)


def _run(name: str, letters: list[str], probabilities: list[list[float]] | None) -> Run:
    chosen = [index for x in letters if (index := letter_index(x)) is not None]
    return Run(name, letters, chosen, probabilities)


def _place(score: Any, counts: dict[str, int]) -> tuple[str, int, str | None]:
    """The paper and the number of the question that a line is about, or what is wrong with it."""
    if not isinstance(score, dict):
        return "", 0, 'must be an object such as {"paper": ..., "number": 1, "answer": "B"}'
    paper, number = score.get("paper"), score.get("number")
    if not isinstance(paper, str) or paper not in counts:
        return "", 0, f"{str(paper)[:80]!r} is not among the papers"
    if type(number) is not int or not 1 <= number <= counts[paper]:
        return "", 0, f"{paper}: number {str(number)[:20]} is not 1 to {counts[paper]}"
    return paper, number, None


def _wrong_answer(score: dict[str, Any], question: Question) -> list[str]:
    answer, row = score.get("answer"), score.get("probabilities")
    count = len(question.options)
    problems = []
    index = letter_index(answer) if isinstance(answer, str) else None
    if index is None or index >= count:
        problems.append(f"{str(answer)[:20]!r} is not A to {letter(count - 1)}")
    if row is None:
        return problems
    if not isinstance(row, list) or len(row) != count:
        found = len(row) if isinstance(row, list) else "no list of"
        problems.append(f"{found} probabilities of {count} options")
    elif not all(type(p) in (int, float) and math.isfinite(p) and 0 <= p <= 1 for p in row):
        problems.append("its probabilities are not all numbers from 0 to 1")
    elif abs(sum(row) - 1) > TOLERANCE:
        problems.append(f"its probabilities are {sum(row):.3g} in all, not 1")
    return problems
