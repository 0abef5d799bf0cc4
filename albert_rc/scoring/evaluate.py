"""Evaluation of answer files on gold papers: accuracy overall and by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from albert_rc.errors import DataError, UsageError
from albert_rc.io.files import natural_key
from albert_rc.io.messages import counted, listed, quoted, shortened
from albert_rc.papers.schema import (
    PaperSet,
    Passage,
    gold_letters,
    letter,
    letter_index,
    question_keys,
)
from albert_rc.scoring.accuracy import Accuracy, Gain, accuracy, by_group, gain, gain_by_group
from albert_rc.scoring.baseline import no_reading_answers
from albert_rc.scoring.score_file import answers_in, letters_of, read_letters, read_scores
from albert_rc.scoring.slices import Slices, slices_of

UNANSWERED = "-"
"""Stands for an answer where a person gave none."""


@dataclass
class Evaluation:
    """All figures of one answer file."""

    total: Accuracy
    groups: dict[str, dict[str, Accuracy]]
    """Accuracy by the groups of `slices_of`: level, passage length, blank number and so on."""
    chance: float
    no_reading: Accuracy | None
    unanswered_gold: int
    """Number of questions without a given right answer."""
    unanswered: int
    """Number of the other questions that have no answer, which is wrong."""

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
        groups = {
            kind: {name: value.as_json() for name, value in found.items()}
            for kind, found in self.groups.items()
        }
        return {
            **self.total.as_json(),
            "chance": round(self.chance, 6),
            "no_reading": None if self.no_reading is None else self.no_reading.as_json(),
            "without_gold": self.unanswered_gold,
            "unanswered": self.unanswered,
            "groups": groups,
        }


def read_answers(
    path: Path,
    papers: Sequence[Passage],
    advice: str = "correct it, or make it again with `albert-rc predict` on the same papers",
    unanswered: bool = False,
) -> list[str]:
    """The letters of an answer file, one per question, in the papers' order.

    Accepts both formats (paper id to a list of letters, question id to a letter), with letters
    in either case, and score files. `advice` ends the message about answers that do not fit. With
    `unanswered`, `UNANSWERED` may stand for an answer, such as a pupil's, and is kept.

    Raises:
        DataError: lists papers and answers that are missing, too many, or no option's letter.
    """
    is_scores = path.suffix == ".jsonl"
    content: Any = letters_of(read_letters(path)) if is_scores else answers_in(path)
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
        elif any(key in content for key in keys):
            lacking = [f"{shortened(key)}: no answer" for key in keys if key not in content]
            given = [content.pop(key, None) for key in keys]
            if lacking:
                problems += lacking
                continue
        else:
            problems.append(f"{passage.id}: no answers")
            continue
        if not isinstance(given, list) or len(given) != count:
            found = (
                counted(len(given), "answer") if isinstance(given, list) else "no list of answers"
            )
            problems.append(f"{passage.id}: {found} to {counted(count, 'question')}")
            continue
        for number, (answer, question) in enumerate(zip(given, passage.questions, strict=True), 1):
            said = answer.strip().upper() if isinstance(answer, str) else ""
            index = letter_index(said)
            fits = index is not None and index < len(question.options)
            if not fits and not (unanswered and said == UNANSWERED):
                last = letter(len(question.options) - 1)
                wrong = f"{passage.id}: answer {number} is {quoted(answer)}, not A to {last}"
                if unanswered:
                    wrong += f', or "{UNANSWERED}" for none'
                problems.append(wrong)
            letters.append(said)
    problems += [f"{shortened(key)}: answered, but it is not among the papers" for key in content]
    if problems:
        raise DataError(
            f"{path}: does not belong to these papers, or is incomplete:{listed(problems, 50)}\n"
            f"{advice}"
        )
    return letters


def with_key(papers: PaperSet, key: Path) -> PaperSet:
    """Papers without right answers, with those of a file in the format of answer.json.

    Raises:
        DataError: see `read_answers`.
        UsageError: the papers have right answers, or no options.
    """
    if papers.kind not in ("cloze", "choice"):
        raise UsageError(f"--key is for papers with options, not for {papers.format} papers")
    answered = sum(passage.is_answered for passage in papers.passages)
    if answered:
        own = "has right answers already; leave --key out"
        if answered < len(papers.passages):
            own = (
                f"has right answers to {answered:,} of {len(papers.passages):,} papers already; "
                "put the others into a folder of their own, or their answers into the papers"
            )
        raise UsageError(f"--key {key}: {papers.name} {own}")
    advice = "correct the key: one list of letters for each paper, and nothing else"
    places = map(letter_index, read_answers(key, papers.passages, advice))
    passages = [
        replace(
            passage,
            questions=tuple(replace(each, answer=next(places)) for each in passage.questions),
        )
        for passage in papers.passages
    ]
    return replace(papers, passages=passages)


def read_alone(path: Path, papers: Sequence[Passage]) -> list[str | None] | None:
    """The model's own answers at the blanks that `predict --recall` recalled.

    Args:
        path: answers that `read_answers` has accepted.
        papers: the answered papers.

    Returns:
        One for each question in the papers' order, None if nothing was recalled; or just None
        for a file without this information.
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
    """Accuracy of answers, overall and by group.

    Args:
        answers: result of `read_answers`.
        papers: the gold papers.
        train: the training split, for the no-reading baseline and shared passages.
        slices: result of `slices_of` for these papers, if already computed.

    Raises:
        DataError: the papers have no right answers.
    """
    gold = gold_letters(papers)
    places = [(p, n) for p in papers for n in range(len(p.questions))]
    known = [i for i, right in enumerate(gold) if right is not None]
    if not known:
        raise DataError(
            "the papers have no right answers; give papers that have them, "
            "or `evaluate --key` a file of them"
        )
    right = [answers[i] == gold[i] for i in known]
    owners = [places[i][0].id for i in known]
    if slices is None:
        slices = slices_of(papers, train)
    kinds = {kind: [names[i] for i in known] for kind, names in slices.items()}
    no_reading = None
    if train and any(passage.is_answered for passage in train):
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
        unanswered=sum(answers[i] == UNANSWERED for i in known),
    )


def gains(
    answers: Sequence[str],
    others: Sequence[str],
    papers: Sequence[Passage],
    slices: Slices | None = None,
) -> tuple[Gain, dict[str, dict[str, Gain]]]:
    """Differences in accuracy of two systems: overall, and by slice.

    Args:
        answers: result of `read_answers`.
        others: the other system's answers.
        papers: the answered papers; questions without a right answer are skipped.
        slices: result of `slices_of` for these papers; none by default.
    """
    gold = gold_letters(papers)
    owners = [passage.id for passage in papers for _ in passage.questions]
    known = [i for i, letter in enumerate(gold) if letter is not None]
    mine, theirs = ([given[i] == gold[i] for i in known] for given in (answers, others))
    answered = [owners[i] for i in known]
    by_slice = {
        kind: gain_by_group(mine, theirs, answered, [names[i] for i in known])
        for kind, names in (slices or {}).items()
    }
    return gain(mine, theirs, answered), by_slice
