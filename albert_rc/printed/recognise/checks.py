"""Checks of lists of options: duplicate or missing numbers, differing lengths."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import count, pairwise, takewhile

from albert_rc.printed.lines import Line
from albert_rc.printed.papers import Trouble
from albert_rc.printed.recognise.blanks import Candidate
from albert_rc.printed.recognise.options import ANSWER_PLACE, Item

MOST_MISSING = 10  # numbers between two others; more are another passage's


def stem_of(item: Item) -> str:
    """The text of a question, without spaces and punctuation; empty for a blank."""
    return re.sub(r"[\s_().]+", "", "".join(p.line.shadow[p.start : p.end] for p in item.stem))


def number_troubles(items: Sequence[Item], found: Sequence[Candidate]) -> list[Trouble]:
    """Problems of lists of options that do not depend on their passage.

    `found` are the numbers in the text above the lists.
    """
    numbered = [item for item in items if item.number is not None]
    _mark_lengths([item for item in numbered if not stem_of(item)])
    _mark_lengths([item for item in numbered if stem_of(item)])
    return [*_twice(numbered), *_missing(numbered, found), *_own(items)]


_QUESTION = re.compile(rf"\s*{ANSWER_PLACE}[(\[]?\s*([0-9]{{1,4}})\s*[.)\]、]\s*[^\W\d_]")
# The title of a section, as in `II. Reading comprehension`.
_TITLE = re.compile(
    r"(?i)(?:\w+\s+){0,3}(?:reading|comprehension|cloze|writing|vocabulary|grammar|listening|"
    r"translation|section|part)(?:\W+\w+){0,3}\W*$"
)


def beginnings(text: Sequence[Line]) -> dict[int, str]:
    """The numbers that begin lines as those of questions do, with the place of each first one."""
    return {
        int(match[1]): line.place
        for line in reversed(text)
        if (match := _QUESTION.match(line.shadow))
        and not _TITLE.match(line.shadow, match.end() - 1)
    }


def lost_questions(
    text: Sequence[Line], items: Sequence[Item], before: int | None, known: Container[int | None]
) -> list[Trouble]:
    """Questions that were read as text because their options could not be read.

    They begin a line with the number directly before the list below, or directly after the list
    above.

    Args:
        text: the text of a block.
        items: the lists under it.
        before: the last number of the list above it.
        known: all numbers of the file that have options.
    """
    starts = beginnings(text)
    asked = [item.number for item in items if item.number is not None and stem_of(item)]
    runs = [count(min(asked) - 1, -1)] if asked else []
    runs += [count(before + 1)] if before is not None else []
    lost = {
        number
        for run in runs
        for number in takewhile(lambda number: number in starts and number not in known, run)
    }
    return [
        Trouble(
            (number,),
            starts[number],
            f"{number} begins a line of the text, but its options cannot be read",
            "write them as `A. ...`, or remove the question",
        )
        for number in sorted(lost)
    ]


def _twice(items: Sequence[Item]) -> Iterator[Trouble]:
    for number, times in sorted(Counter(item.number or 0 for item in items).items()):
        if times > 1:
            places = ", ".join(item.place for item in items if item.number == number)
            reason = f"the options of {number} occur {times} times"
            yield Trouble((number,), places, reason, "keep only one, or correct the number")


def _missing(items: Sequence[Item], found: Sequence[Candidate]) -> Iterator[Trouble]:
    marked = {candidate.number for candidate in found if candidate.style == "line"}
    for before, after in pairwise(sorted({item.number or 0 for item in items})):
        for number in range(before + 1, after) if after - before <= MOST_MISSING else ():
            if number not in marked:  # else it is a blank without options
                reason = f"{number} is missing between {before} and {after}: it has no options"
                yield Trouble((number,), "", reason, "add them, or correct the numbers")


def _own(items: Sequence[Item]) -> Iterator[Trouble]:
    for item in items:
        if item.trouble:
            name = "a list of options without a number" if item.number is None else item.number
            numbers = () if item.number is None else (item.number,)
            yield Trouble(
                numbers, item.place, f"{name}: {item.trouble}", "correct its options there"
            )


def _mark_lengths(items: Sequence[Item]) -> None:
    """Report lists of a different length, which were not divided correctly."""
    sizes = Counter(len(item.options) for item in items if not item.trouble)
    if len(sizes) < 2:
        return
    (usual, most), (_, second) = sizes.most_common(2)
    others = "another number" if most == second else str(usual)
    for item in items:
        if not item.trouble and (len(item.options) != usual or most == second):
            item.trouble = f"it has {len(item.options)} options, others have {others}"
