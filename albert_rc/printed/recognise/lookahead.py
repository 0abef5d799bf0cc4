"""Lookahead: where questions and lists begin, from the line of their number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from albert_rc.printed.lines import Line, Piece, words
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.labels import HEADING, labels_in
from albert_rc.printed.recognise.options import (
    INNER,
    MARK,
    START,
    Mark,
    answer_before,
    first_mark,
    marks_in,
)
from albert_rc.printed.recognise.prose import is_foreign
from albert_rc.printed.recognise.unread import letters_below, unread_key

STEM_LINES = 8  # maximum for one question
KEY_AHEAD = 10
PASSAGE_WORDS = 5  # minimum under a letter; a single word is more likely an option
FARTHEST = 200  # lines of a passage
_LETTER = re.compile(r"\s*\(\s*[A-H]\s*\)\s*")


class Head(NamedTuple):
    """The beginning of an item in a line."""

    start: int
    number: int
    body: int
    """Position of its option A."""
    answer: str
    """The letter in the place for the answer before the number."""


def heads_in(line: Line) -> list[Head]:
    """Items of a line whose option A directly follows the number."""
    heads: list[Head] = []
    for match in (START.match(line.shadow), *INNER.finditer(line.shadow)):
        if match is None or (heads and match.start() <= heads[-1].body):
            continue
        mark = MARK.match(line.shadow, match.end())
        if mark is not None and (mark["round"] or mark["square"] or mark["plain"]) in "Aa":
            number = int(match["number"])
            heads.append(Head(match.start(), number, match.end(), answer_before(match)))
    return heads


def question_ahead(lines: Sequence[Line], at: int) -> tuple[int, Mark] | None:
    """The line and option A where the options of a question begin.

    Args:
        lines: all lines of the file.
        at: index of the line that begins with the question's number.
    """
    match = START.match(lines[at].shadow)
    start = match.end() if match else 0
    found = _inline(Piece(lines[at], start, len(lines[at].text)))
    if found is not None:
        return at, found
    listed = False
    for number in range(at + 1, min(at + 1 + STEM_LINES, len(lines))):
        line = lines[number]
        match = START.match(line.shadow)
        if (match and match["sep"]) or heads_in(line) or key.is_key_heading(line):
            return None
        mark = first_mark(line)
        listed = mark is not None and mark.letter.islower() and (
            listed or (mark.index == 0 and _capital_below(lines, number))
        )  # fmt: skip
        if listed:
            continue
        if mark is not None:
            return (number, mark) if mark.index == 0 else None
        found = _inline(Piece(line, 0, len(line.text)))
        if found is not None:
            return number, found
    return None


def _capital_below(lines: Sequence[Line], at: int) -> bool:
    """Whether `A.` begins a line soon below one that begins with `a.`.

    The question has a list of its own then, as in `a. He fell. b. He rose.` / `A. a-b B. b-a`.
    """
    for line in lines[at + 1 : at + STEM_LINES]:
        match = START.match(line.shadow)
        if match and match["sep"]:
            return False
        mark = first_mark(line)
        if mark is not None and mark.letter == "A":
            return True
    return False


def label_at(lines: Sequence[Line], at: int) -> bool:
    """Whether a line is a letter in brackets, `(B)`, that is the label of the passage below it.

    An option may be on the line below its letter, too. Then there is the line of another letter
    above or below it, without the number of a question in between.
    """
    if not _LETTER.fullmatch(lines[at].shadow):
        return False
    for line in lines[max(0, at - FARTHEST) : at][::-1]:
        if _LETTER.fullmatch(line.shadow):
            return False
        if _begins_item(line):
            break
    length = 0
    for line in lines[at + 1 : at + FARTHEST]:
        if _begins_item(line):
            return length >= PASSAGE_WORDS
        if first_mark(line) is not None:
            return False
        length += len(words(line))
    return False


def _begins_item(line: Line) -> bool:
    match = START.match(line.shadow)
    return match is not None and bool(match["sep"])


def list_ahead(lines: Sequence[Line]) -> bool:
    """Whether an option B occurs in the lines, the first of which begins with an A."""
    return any(
        mark.index == 1 for line in lines for mark in marks_in(Piece(line, 0, len(line.text)))
    )


def _inline(piece: Piece) -> Mark | None:
    """The A of options that follow other words in a line; a B must follow it."""
    for mark, following in pairwise(marks_in(piece)):
        if mark.index == 0 and following.index == 1:
            return mark
    return None


def single_answers(lines: Sequence[Line], at: int) -> list[list[key.KeyEntry]]:
    """A key with one answer per line: `21. A` above `22. B`; empty if there is none.

    Args:
        lines: all lines of the file.
        at: index of the first line that may belong to it.
    """
    found: list[list[key.KeyEntry]] = []
    rises = False
    for number in range(at, len(lines)):
        read = key.read_key_line(lines[number])
        if read is None or read[1] or len(read[0]) != 1:
            break
        rises = rises or (bool(found) and read[0][0].number == found[-1][0].number + 1)
        found.append(read[0])
        if len(found) > KEY_AHEAD and not rises:
            break  # or a long list of something else would be reread from each of its lines
    return found if rises else []


def explained_at(lines: Sequence[Line], at: int) -> key.KeyEntry | None:
    """`36. A. Because ...`, which would be an answer in a key, and is not a list of options."""
    below = first_mark(lines[at + 1]) if at + 1 < len(lines) else None
    inside = marks_in(Piece(lines[at], 0, len(lines[at].text)))
    if len(inside) > 1 or (below is not None and below.index == 1):
        # Explanations in Chinese go through the options: `36. A. 考查动词。A. take拿; B. make做`.
        return key.read_explained(lines[at]) if is_foreign(lines[at].shadow) else None
    return key.read_explained(lines[at])


def explanation_at(lines: Sequence[Line], at: int) -> key.KeyEntry | None:
    """The answer of an explanation in a key, at its beginning or at its end."""
    return explained_at(lines, at) or key.read_chosen(lines[at])


def odd_key(
    lines: Sequence[Line], at: int, labels: Sequence[str]
) -> tuple[list[key.KeyEntry], int]:
    """A key in a form recognised only under a heading: explained, in a column, or unnumbered.

    Args:
        lines: all lines of the file.
        at: index of the first line that may belong to it.
        labels: the lines above it.

    Returns:
        The answers, empty if it is not such a key, and the number of lines used.
    """
    explained = explanation_at(lines, at)
    if explained is not None:
        return [explained], 1
    pair = key.read_key_pair(lines[at], lines[at + 1]) if at + 1 < len(lines) else None
    if pair is not None:
        return [pair], 2
    row = key.read_row(lines[at])
    if row is not None and (labels_in(row[0]) or (not row[0] and any(map(labels_in, labels[-1:])))):
        return key.labelled(row[1], row[0]), 1
    return [], 0


def begins_key(lines: Sequence[Line], at: int) -> bool:
    """Whether a line is a key's heading, by its words and by an answer that follows.

    The answer need not be readable.
    """
    if not key.is_key_heading(lines[at]):
        return False
    following = lines[at + 1 : at + KEY_AHEAD]
    return (
        any(
            key.read_key_line(line) or (below and key.read_key_table(line, below))
            for line, below in zip_longest(following, following[1:])
        )
        or letters_below(following, 0) > 0
        or any(
            odd_key(following, number, [line.shadow for line in following[:number]])[0]
            for number in range(min(2, len(following)))
            if not number or labels_in(following[0].shadow[:HEADING])
        )
        or any(unread_key(line, in_key=True) for line in following[:2])
    )
