"""Slices: groups of questions whose accuracy is reported separately."""

from __future__ import annotations

import re
from collections.abc import Sequence

from albert_rc.papers.overlap import OverlapIndex
from albert_rc.papers.schema import Passage, Question
from albert_rc.scoring.parts_of_speech import parts_of_speech

LENGTHS = (150, 250, 350, 500)  # words
QUESTION_WORDS = ("what", "which", "who", "when", "where", "why", "how")
_WHOM = {"whom": "who", "whose": "who"}
_WORD = re.compile("[a-z]+")

Slices = dict[str, list[str | None]]
"""Name of the slicing -> group of every question, in the papers' order; None for no group."""


def slices_of(papers: Sequence[Passage], train: Sequence[Passage] | None = None) -> Slices:
    """The groups of every question.

    Args:
        papers: cloze or multiple choice.
        train: the training split, to find passages that also occur there.

    Returns:
        Only the slicings that apply: for example levels where papers have one, question types
        where they have questions.
    """
    places = [(p, n) for p in papers for n in range(len(p.questions))]
    lengths = {id(p): length_group(p) for p in papers}
    slices: Slices = {
        "level": [p.level for p, _ in places],
        "passage length": [lengths[id(p)] for p, _ in places],
        "blank number": [_number_group(p, n) for p, n in places],
        "options": [_options_group(p.questions[n]) for p, n in places],
        "part of speech": parts_of_speech(papers),
        "question type": [_question_type(p.questions[n]) for p, n in places],
    }
    if train:
        shared = OverlapIndex(train).all(papers)
        slices["overlap with training"] = [
            "shared with training" if p.id in shared else "not in training" for p, _ in places
        ]
    return {kind: names for kind, names in slices.items() if any(names)}


def length_group(passage: Passage) -> str:
    """The passage's length in words, as a range."""
    words = len(passage.text.split())
    edges = (0, *LENGTHS)
    for low, high in zip(edges, LENGTHS, strict=False):
        if words < high:
            return f"{low}-{high - 1} words"
    return f"{LENGTHS[-1]}+ words"


def _number_group(passage: Passage, number: int) -> str | None:
    if passage.kind == "choice":
        return None
    first = number // 5 * 5
    return f"blanks {first + 1}-{first + 5}"


def _options_group(question: Question) -> str | None:
    """Whether a blank's options are single words; a question's are usually sentences."""
    if question.text:
        return None
    several = any(len(option.split()) > 1 for option in question.options)
    return "with several words" if several else "of one word each"


def _question_type(question: Question) -> str | None:
    """The type of a question, from its first question word."""
    if not question.text:
        return None
    if "_" in question.text:
        return "to be completed"
    for match in _WORD.finditer(question.text.lower()):
        word = _WHOM.get(match[0], match[0])
        if word in QUESTION_WORDS:
            return word
    return "other"
