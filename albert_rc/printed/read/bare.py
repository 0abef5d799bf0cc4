"""Full stops after the letters of options that have none, as in `1  A led   B brought   C carried`.

Exams of Cambridge's form print options like this. A letter without a mark may be an article or a
speaker as well, so only whole lists are changed: A, B, C, ... in order, at the beginning of lines
or after wide spaces, under a number; and only if several lists of a paper have the same length.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from albert_rc.printed.lines import Line

LETTERS = "ABCDEFGHIJ"
LEAST_OPTIONS = 3
LEAST_LISTS = 2
"""Lists of one length, unless one is so long that its letters are nothing else."""
LONG_LIST = 5
"""As the sentences to fill in in one list for all blanks."""
WRAPPED = 4
"""Most lines between two letters, or between a number and A."""

_NUMBERED = re.compile(r"\s*[(\[]?\s*([0-9]{1,4})\s*[)\].、:]{0,2}(?=\s|$)\s*")
_BARE = re.compile(rf"([{LETTERS}])(?=\s+[^\s.,;:!?)\]、])")
_WIDE = re.compile(r"\s{2,}|\t")


class Letter(NamedTuple):
    """A letter that may begin an option."""

    line: int
    place: int
    letter: str


class _List(NamedTuple):
    """A list that may be one of options."""

    letters: list[Letter]
    number: Letter | None
    """The end of the number above, if there is one near."""


def with_full_stops(lines: Sequence[Line]) -> tuple[dict[int, list[int]], str]:
    """Where full stops belong.

    Returns:
        By the index of a line, the positions after its letters, and after the number of a question
        whose options follow on other lines, in order; and a note, if any.
    """
    lists = _lists(lines)
    lengths = Counter(len(one.letters) for one in lists)
    usual, count = lengths.most_common(1)[0] if lengths else (0, 0)
    places: dict[int, list[int]] = {}
    found = []
    for letters, number in lists:
        if len(letters) < LONG_LIST and (len(letters) != usual or count < LEAST_LISTS):
            continue
        found.append(letters)
        apart = number is not None and number.line != letters[0].line
        for one in [number, *letters] if number and apart else letters:
            if lines[one.line].shadow[one.place + 1 : one.place + 2].isspace():
                places.setdefault(one.line, []).append(one.place + 1)
    if not found:
        return places, ""
    where = lines[found[0][0].line].place
    what = "list" if len(found) == 1 else "lists"
    note = f"{len(found)} {what} of options, from {where} on, have letters without full stops; "
    return places, f"{note}they were read as options A to {found[0][-1].letter}"


def _lists(lines: Sequence[Line]) -> list[_List]:
    """All sequences A, B, C, ... of such letters; short ones only under a number."""
    lists: list[_List] = []
    side_by_side = 1
    number: Letter | None = None
    for index, line in enumerate(lines):
        head = _NUMBERED.match(line.shadow)
        if head:
            number = Letter(index, head.end(1) - 1, "")
        letters = _letters(index, line, head)
        same = len({one.letter for one in letters}) == 1
        if same and letters[0].letter == "A":
            side_by_side = len(letters)
        for column, one in enumerate(letters):
            if one.letter == "A":
                near = number if number and index - number.line <= WRAPPED else None
                lists.append(_List([one], near))
                side_by_side = side_by_side if same else 1
            elif lists:
                # Letters below each other, if lists are side by side.
                of = column - side_by_side if same and len(letters) == side_by_side else -1
                before = lists[of].letters
                follows = one.letter == LETTERS[len(before) : len(before) + 1]
                between = number is not None and number.line > before[-1].line
                if follows and not between and index - before[-1].line <= WRAPPED:
                    before.append(one)
    return [
        one for one in lists if len(one.letters) >= (LEAST_OPTIONS if one.number else LONG_LIST)
    ]


def _letters(index: int, line: Line, head: re.Match[str] | None) -> list[Letter]:
    """The letters of a line that may begin options: at its beginning, or after a wide space."""
    text = line.shadow
    start = head.end() if head else len(text) - len(text.lstrip())
    if head and re.match(rf"A\s+{int(head[1]) + 1}\s+[{LETTERS}]\s", text[start:]):
        return []  # a key: 1 A 2 B 3 C
    places = [start, *(match.end() for match in _WIDE.finditer(text, start))]
    found = [match for place in places if (match := _BARE.match(text, place))]
    if head and found and found[0].start() == start:
        # With single spaces, if each letter is there once.
        every = list(re.finditer(rf"(?<=\s){_BARE.pattern}", text[start - 1 :]))
        parts = [text[start - 1 + a.end() : start - 1 + b.start()] for a, b in pairwise(every)]
        ordered = LETTERS.startswith("".join(one[1] for one in every))
        if len(every) >= LEAST_OPTIONS and ordered and all(map(str.strip, parts)):
            return [Letter(index, start - 1 + one.start(), one[1]) for one in every]
    letters: list[Letter] = []
    for match in found:
        if letters and not text[letters[-1].place + 1 : match.start()].strip():
            continue  # an option that begins with such a letter
        letters.append(Letter(index, match.start(), match[1]))
    return letters
