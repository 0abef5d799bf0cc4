"""Answers that are marked on the paper itself: `( B ) 36.`, and ticks behind options."""

from __future__ import annotations

import re
from collections.abc import Sequence

from albert_rc.data.schema import letter
from albert_rc.importing import key
from albert_rc.importing.answers import give
from albert_rc.importing.options import Item
from albert_rc.importing.papers import Paper, Trouble, spans

_SIGN = "[√✓✔☑✅]\ufe0f?"
# Before an option only where words follow: `√2` is no tick.
_TICK = re.compile(rf"\s*[(\[（]?\s*{_SIGN}\s*[)\]）]?\s*$|^{_SIGN}\s*(?=[^\W\d_])")
BRACKETS, TICKS = "letters in brackets before its numbers", "ticks at its options"


def without_ticks(texts: Sequence[str]) -> tuple[list[str], str]:
    """Options without the ticks at them, and the letters of those that had one.

    An option that is nothing but the sign stays.
    """
    bare, ticked = [], ""
    for number, text in enumerate(texts):
        found = _TICK.sub("", text)
        if found and found != text:
            ticked += letter(number)
        bare.append(found or text)
    return bare, ticked


def collect_marks(papers: Sequence[Paper], items: Sequence[Item]) -> None:
    """Keep for papers what is marked at the lists of options that they were made of."""
    for paper in papers:
        for name, field in ((BRACKETS, "answer"), (TICKS, "ticks")):
            found = [
                key.Answer(item.number, letter_, item.place)
                for item in items
                if item.number in paper.numbers and item.number is not None
                for letter_ in getattr(item, field)
            ]
            if found:
                paper.marked[name] = found


def use_marks(papers: Sequence[Paper]) -> None:
    """Marks are the key of a paper that has one at each number; another key must agree.

    To be called once the papers have the answers of their keys.
    """
    for paper in papers:
        for name, found in paper.marked.items():
            numbers = [answer.number for answer in found]
            single = [answer for answer in found if numbers.count(answer.number) == 1]
            if paper.answers is not None:
                _compare(paper, name, single)
            elif len(single) == len(paper.numbers) and len(found) == len(single):
                give(paper, single)
                paper.notes.append(f"its answers are the {name}")
            else:
                lacking = sorted(set(paper.numbers) - {answer.number for answer in single})
                paper.notes.append(
                    f"the {name} were not read as answers: {spans(lacking)} "
                    "without just one; mark all, or give a key"
                )


def _compare(paper: Paper, name: str, marked: Sequence[key.Answer]) -> None:
    if paper.answers is None or len(paper.answers) < len(paper.numbers):
        return  # what is missing is the paper's trouble already
    known = dict(zip(paper.numbers, paper.answers, strict=True))
    for answer in marked:
        other = known[answer.number]
        if other != answer.letter:
            paper.troubles.append(
                Trouble(
                    (answer.number,),
                    answer.place,
                    f"{answer.number} is {answer.letter} by the {name}, but {other} in the key",
                    "leave one of them",
                )
            )
