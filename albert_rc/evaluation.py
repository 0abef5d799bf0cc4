"""Answers against gold papers: matching them up, and accuracy by what may explain it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.data.baseline import no_reading_answers
from albert_rc.data.schema import (
    PaperSet,
    Passage,
    gold_letters,
    letter,
    letter_index,
    question_keys,
)
from albert_rc.errors import DataError
from albert_rc.files import natural_key
from albert_rc.jsonkeys import read_unique_json
from albert_rc.metrics import Accuracy, accuracy, by_group
from albert_rc.score_files import read_scores
from albert_rc.scores import METRICS, interval, mean, squad1_match, squad2_match
from albert_rc.slices import Slices, slices_of
from albert_rc.wording import one_line, quoted, shortened


@dataclass
class Evaluation:
    """All figures of one answer file."""

    total: Accuracy
    groups: dict[str, dict[str, Accuracy]]
    """By level, passage length, blank number and what else `slices_of` tells apart."""
    chance: float
    no_reading: Accuracy | None
    unanswered_gold: int
    """Questions whose right answer the papers do not give."""

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        groups = {
            kind: {name: value.as_json() for name, value in found.items()}
            for kind, found in self.groups.items()
        }
        return {
            **self.total.as_json(),
            "chance": round(self.chance, 6),
            "no_reading": None if self.no_reading is None else self.no_reading.as_json(),
            "without_gold": self.unanswered_gold,
            "groups": groups,
        }


def read_answers(path: Path, papers: Sequence[Passage]) -> list[str]:
    """The letters of an answer file, one per question, in the papers' order.

    Both forms are read: paper id to a list of letters, and question id to a letter; score files
    too.

    Raises:
        DataError: papers or answers are missing, too many, or no option's letter; all are named.
    """
    content = _content(path)
    if not isinstance(content, dict):
        raise DataError(f'{path}: must be an object such as {{"test0001.json": ["B", ...]}}')
    content = dict(content)
    letters: list[str] = []
    problems: list[str] = []
    for passage in papers:
        count = len(passage.questions)
        keys = question_keys(passage.id, len(passage.questions))
        if passage.id in content:
            given = content.pop(passage.id)
        elif keys[0] in content:
            given = [content.pop(key, None) for key in keys]
        else:
            problems.append(f"{passage.id}: no answers")
            continue
        if not isinstance(given, list) or len(given) != count:
            found = len(given) if isinstance(given, list) else "no list of"
            problems.append(f"{passage.id}: {found} answers to {count} questions")
            continue
        for number, (answer, question) in enumerate(zip(given, passage.questions, strict=True), 1):
            index = letter_index(answer) if isinstance(answer, str) else None
            if index is None or index >= len(question.options):
                last = letter(len(question.options) - 1)
                problems.append(
                    f"{passage.id}: answer {number} is {quoted(answer)}, not A to {last}"
                )
        letters += given
    problems += [f"{shortened(key)}: answered, but it is not among the papers" for key in content]
    if problems:
        shown = "".join(f"\n  {one_line(problem)}" for problem in problems[:50])
        more = f"\n  and {len(problems) - 50} more" if len(problems) > 50 else ""
        raise DataError(
            f"{path}: does not belong to these papers, or is not whole:{shown}{more}\n"
            "make it again with `albert-rc predict` on the same papers"
        )
    return letters


def _content(path: Path) -> Any:
    """What an answer file holds; of a score file (`.jsonl`) the answers in it."""
    if path.suffix != ".jsonl":
        return read_unique_json(path)
    file = read_scores(path)
    if file.kind != "letters":
        given = file.answers or file.chances_QK[:, 0].tolist()
        return dict(zip(file.papers, given, strict=True))
    papers: dict[str, list[str]] = {}
    for paper, answer in zip(file.papers, file.answers, strict=True):
        papers.setdefault(paper, []).append(answer)
    return papers


def read_alone(path: Path, papers: Sequence[Passage]) -> list[str | None] | None:
    """What the model alone would have answered, where `predict --recall` knew the blank.

    Args:
        path: answers that `read_answers` has taken.
        papers: what was answered.

    Returns:
        One for each question in the papers' order, None where nothing was recalled; None in all
        for a file that does not tell.
    """
    if path.suffix != ".jsonl":
        return None
    file = read_scores(path)
    if not any(file.read):
        return None
    by_key = dict(zip(file.keys, file.read, strict=True))
    return [by_key[p.id, n] for p in papers for n in range(1, len(p.questions) + 1)]


def evaluate(
    answers: Sequence[str],
    papers: Sequence[Passage],
    train: Sequence[Passage] | None = None,
    slices: Slices | None = None,
) -> Evaluation:
    """Accuracy of answers, in all and by group.

    Args:
        answers: as `read_answers` gives them.
        papers: the gold papers.
        train: the training split, for the no-reading baseline and the passages that it shares.
        slices: what `slices_of` says of these papers, where that is known already.

    Raises:
        DataError: the papers give no right answers.
    """
    gold = gold_letters(papers)
    places = [(p, n) for p in papers for n in range(len(p.questions))]
    known = [i for i, right in enumerate(gold) if right is not None]
    if not known:
        raise DataError("the papers give no right answers; evaluate on papers that do")
    right = [answers[i] == gold[i] for i in known]
    owners = [places[i][0].id for i in known]
    if slices is None:
        slices = slices_of(papers, train)
    kinds = {kind: [names[i] for i in known] for kind, names in slices.items()}
    no_reading = None
    if train:
        guesses = no_reading_answers(train, papers)
        no_reading = accuracy([letter(guesses[i]) == gold[i] for i in known], owners)
    groups = {kind: by_group(right, owners, names) for kind, names in kinds.items()}
    groups = {
        kind: dict(sorted(found.items(), key=lambda item: natural_key(item[0])))
        for kind, found in groups.items()
        if found
    }
    chances = [1 / len(places[i][0].questions[places[i][1]].options) for i in known]
    return Evaluation(
        total=accuracy(right, owners),
        groups=groups,
        chance=sum(chances) / len(chances),
        no_reading=no_reading,
        unanswered_gold=len(gold) - len(known),
    )


@dataclass
class Measured:
    """A metric with its 95% interval, over items."""

    name: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        said = f"{self.value:.2%}"
        return said if np.isnan(self.low) else f"{said} [{self.low:.2%}, {self.high:.2%}]"


def read_given(path: Path, ids: Sequence[str], kind: type) -> list[Any]:
    """What an answer file gives to each of these ids.

    Args:
        path: an object of answers by id.
        ids: of the questions or rows.
        kind: what an answer must be: `str` or `float`.

    Raises:
        DataError: answers are missing, too many, or of another kind.
    """
    content = _content(path)
    if not isinstance(content, dict):
        raise DataError(f'{path}: must be an object such as {{"id": answer, ...}}')
    kinds = (int, float) if kind is float else (kind,)
    problems = [f"{key}: no answer" for key in ids if key not in content]
    problems += [
        f"{shortened(key)}: answered, but it is not asked" for key in content.keys() - set(ids)
    ]
    problems += [
        f"{key}: the answer {quoted(content[key])} is no {'number' if kind is float else 'text'}"
        for key in ids
        if key in content and not isinstance(content[key], kinds)
    ]
    if problems:
        shown = "".join(f"\n  {one_line(problem)}" for problem in problems[:20])
        raise DataError(f"{path}: {len(problems)} problem(s):{shown}\nmake it again with predict")
    return [content[key] for key in ids]


def evaluate_rows(path: Path, papers: PaperSet) -> list[Measured]:
    """GLUE's metrics of an answer file.

    Raises:
        DataError: it does not belong to these papers, or they have no labels.
    """
    given = read_given(path, papers.ids, float if not papers.labels else str)
    questions = [passage.questions[0] for passage in papers.passages]
    right: list[Any] = [
        q.value if not papers.labels else q.answer if q.answer is None else papers.labels[q.answer]
        for q in questions
    ]
    known = [i for i, value in enumerate(right) if value is not None]
    if not known:
        raise DataError("the papers give no right answers; evaluate on papers that do")
    columns = [[values[i] for i in known] for values in (right, given)]
    if papers.labels:
        unknown = sorted(set(columns[1]) - set(papers.labels))
        if unknown:
            raise DataError(
                f"{path}: {quoted(unknown[0])} is not one of {', '.join(papers.labels)}"
            )
        columns = [[papers.labels.index(value) for value in column] for column in columns]
    return [
        Measured(name, float(METRICS[name](*columns)), *interval(METRICS[name], *columns))
        for name in papers.metrics
    ]


def evaluate_spans(path: Path, papers: PaperSet) -> list[Measured]:
    """SQuAD's metrics of an answer file: 2.0's if some question has no answer, else 1.1's.

    Raises:
        DataError: it does not belong to these papers, or they have no answers.
    """
    asked = [(p, q) for p in papers.passages for q in p.questions]
    given = read_given(path, [q.id for _, q in asked], str)
    known = [i for i, (_, q) in enumerate(asked) if q.answer is not None]
    if not known:
        raise DataError("the papers give no right answers; evaluate on papers that do")
    golds = [[asked[i][0].text[a:b] for a, b in asked[i][1].spans] for i in known]
    match = squad1_match if all(golds) else squad2_match
    found = [match(given[i], gold) for i, gold in zip(known, golds, strict=True)]
    groups = {"": list(range(len(known)))}
    if not all(golds):
        groups["has answer: "] = [i for i, gold in enumerate(golds) if gold]
        groups["no answer: "] = [i for i, gold in enumerate(golds) if not gold]
    return [
        Measured(f"{prefix}{name}", float(mean(values)), *interval(mean, values))
        for prefix, members in groups.items()
        for name in ("exact", "f1")
        if (values := [getattr(found[i], name) for i in members])
    ]
