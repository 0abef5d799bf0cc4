"""Full stops after the letters of options that have none, as in `1  A led   B brought   C carried`.

Exams of Cambridge's form print options like this. A letter without a mark may be an article or a
speaker as well, so a paper is changed only if it has no options with marks, and if all that looks
like such a list fits: A, B, C, ... in order, at the beginning of lines or after wide spaces, under
numbers without gaps, all lists of one length; and sentences for all blanks in a longer list.
Otherwise the place that does not fit is reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from string import ascii_uppercase as LETTERS

from albert_rc.printed.lines import Line, Piece, shortened
from albert_rc.printed.papers import Trouble
from albert_rc.printed.recognise.options import PRINTED_NUMBER, marks_in
from albert_rc.printed.recognise.prose import role_of

LEAST_OPTIONS = 3
LEAST_LISTS = 2
"""Lists of one length, unless one is so long that its letters are nothing else."""
LONG_LIST = 5
"""As the sentences to fill in in one list for all blanks."""
WRAPPED = 4
"""Most lines between two letters, or between a number and A."""
BEYOND = 8
"""Lines after a list in which its next letter is looked for."""

_NUMBERED = re.compile(rf"\s*{PRINTED_NUMBER}(?=\s|$)\s*")
_BARE_NUMBER = re.compile(r"\s*([0-9]{1,4})\s+(?=[^\W\d_])")
_KEY = re.compile(r"\s*(?:[0-9]{1,4}\s*[A-Z]\b[\s,;]*)+$")
_BARE = re.compile(r"([A-Z])(?=\s+[^\s.,;:!?)\]、])")
_WIDE = re.compile(r"\s{2,}|\t")
_NUMBER_BEFORE = re.compile(rf"(?:^|\s){PRINTED_NUMBER}\s*$")


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter that may begin an option, or the last digit of a question's number."""

    line: int
    place: int
    letter: str
    wide: bool = False
    """Whether a wide space follows."""


@dataclass(slots=True)
class _List:
    """Letters in order that may begin the options of a list."""

    letters: list[Letter]
    number: int | None
    """The number of its question, if there is one near."""
    stem: Letter | None
    """The last digit of this number, if a question stands between it and A."""


@dataclass(slots=True)
class FullStops:
    """Where full stops belong."""

    places: dict[int, list[int]] = field(default_factory=dict)
    """By the index of a line, the positions after which they are missing, in order."""
    note: str = ""
    trouble: Trouble | None = None
    """Why nothing is changed, although there are such lists."""


def missing_full_stops(lines: Sequence[Line]) -> FullStops:
    """Find the lists whose letters have no full stops."""
    if has_marks(lines):
        return FullStops()
    letters = [_letters(index, line) for index, line in enumerate(lines)]
    lists = _lists(lines, letters)
    short = [one for one in lists if one.number is not None and len(one.letters) < LONG_LIST]
    lengths = Counter(len(one.letters) for one in short if len(one.letters) >= LEAST_OPTIONS)
    usual, count = lengths.most_common(1)[0] if lengths else (0, 0)
    found = [
        one
        for one in lists
        if len(one.letters) >= LONG_LIST
        or (one.number is not None and len(one.letters) == usual and count >= LEAST_LISTS)
    ]
    if not found:
        return FullStops()
    if unclear := next(_unclear(lines, letters, lists, found), None):
        at, why = unclear
        text = shortened(lines[at].text.strip())
        reason = f"its options have letters without full stops, and {text!r} {why}"
        way_out = "write options as `A.`, `B.`, `C.`"
        return FullStops(trouble=Trouble((), lines[at].place, reason, way_out))
    places: dict[int, list[int]] = {}
    for one in found:
        for letter in [one.stem, *one.letters] if one.stem else one.letters:
            if lines[letter.line].shadow[letter.place + 1 : letter.place + 2].isspace():
                places.setdefault(letter.line, []).append(letter.place + 1)
    last = sorted({one.letters[-1].letter for one in found})
    where = lines[found[0].letters[0].line].place
    what = "list" if len(found) == 1 else "lists"
    return FullStops(
        {line: sorted(set(after)) for line, after in places.items()},
        f"{len(found)} {what} of options, from {where} on, have letters without full stops; they "
        f"were read as options A to {' or '.join(last)}",
    )


def has_marks(lines: Sequence[Line]) -> bool:
    """Whether some options have marks: A and B after it, in one line or at the beginning of two."""
    # An instruction may mention the letters: `'Right' (A) or 'Wrong' (B)`.
    marks = [set() if role_of(line.shadow) == "instruction" else _marked(line) for line in lines]
    return any(
        "A" in here and ("B" in here or any("B" in other for other in marks[index : index + 4]))
        for index, here in enumerate(marks)
    )


def _marked(line: Line) -> set[str]:
    """The letters with marks in a line, behind its number."""
    head = _NUMBERED.match(line.shadow)
    piece = Piece(line, head.end() if head else 0, len(line.shadow))
    return {mark.letter.upper() for mark in marks_in(piece)}


def _lists(lines: Sequence[Line], letters: Sequence[Sequence[Letter]]) -> list[_List]:
    """All sequences A, B, C, ... of letters."""
    lists: list[_List] = []
    side_by_side = 1
    head: tuple[int, int, Letter] | None = None
    for index, line in enumerate(lines):
        if match := _NUMBERED.match(line.shadow):
            head = index, int(match[1]), Letter(index, match.end(1) - 1, "")
        here = letters[index]
        same = len({one.letter for one in here}) == 1
        if any(one.letter == "A" for one in here):
            side_by_side = len(here) if same else 1
        for column, one in enumerate(here):
            if one.letter == "A":
                lists.append(_begun(line, one, head))
            elif lists:
                # Letters below each other, if lists are side by side.
                of = column - side_by_side if same and len(here) == side_by_side else -1
                before = lists[of].letters
                follows = one.letter == LETTERS[len(before) : len(before) + 1]
                between = head is not None and head[0] > before[-1].line
                word = one.letter == "I" and before[0].wide and not one.wide
                if follows and not word and not between and index - before[-1].line <= WRAPPED:
                    before.append(one)
    return lists


def _begun(line: Line, one: Letter, head: tuple[int, int, Letter] | None) -> _List:
    """A list that begins with an A, and the number that it belongs to."""
    before = _NUMBER_BEFORE.search(line.shadow[: one.place])
    if before:
        return _List([one], int(before[1]), None)
    if head and one.line - head[0] <= WRAPPED:
        return _List([one], head[1], head[2])
    return _List([one], None, None)


def _letters(index: int, line: Line) -> list[Letter]:
    """The letters of a line that may begin options: at its beginning, or after a wide space."""
    text = line.shadow
    head = _NUMBERED.match(text)
    start = head.end() if head else len(text) - len(text.lstrip())
    if head and _is_key(text, int(head[1]), start):
        return []
    places = [start, *(match.end() for match in _WIDE.finditer(text, start))]
    found = [match for place in places if (match := _BARE.match(text, place))]
    if head and len(found) == 1 and found[0].start() == start:
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
        wide = bool(_WIDE.match(text, match.end()))
        letters.append(Letter(index, match.start(), match[1], wide))
    return letters


def _is_key(text: str, number: int, start: int) -> bool:
    """Whether a line is a key: `1 A 2 B 3 C`, or `1 A 3 B 5 C`, numbers at equal distances."""
    numbers = [number, *map(int, re.findall(r"[A-Z]\s+([0-9]{1,4})(?=\s+[A-Z]\b)", text[start:]))]
    steps = {after - before for before, after in pairwise(numbers)}
    if len(numbers) == 2:
        return steps == {1}
    return len(steps) == 1 and min(steps) > 0


def _unclear(
    lines: Sequence[Line],
    letters: Sequence[Sequence[Letter]],
    lists: Sequence[_List],
    found: Sequence[_List],
) -> Iterator[tuple[int, str]]:
    """What does not fit lists that would be read: the index of a line, and why."""
    for one in lists:
        if one not in found and one.number is not None and len(one.letters) > 1:
            yield one.letters[0].line, "begins a list of another length"
    yield from _odd_numbers(lines, found)
    used = {(letter.line, letter.place) for one in found for letter in one.letters}
    for one in found:
        first, last = one.letters[0], one.letters[-1]
        for index in range(first.line, last.line + 1):
            for letter in letters[index]:
                word = letter.letter in "AI" and not letter.wide
                if (index, letter.place) not in used and not word:
                    yield index, f"has a {letter.letter} that is not in order"
        for letter in one.letters:
            if letter.letter == "I" and not letter.wide:
                yield letter.line, "may begin with the word I or with an option"
        yield from _next_letters(lines, letters, one, used)


def _next_letters(
    lines: Sequence[Line],
    letters: Sequence[Sequence[Letter]],
    one: _List,
    used: set[tuple[int, int]],
) -> Iterator[tuple[int, str]]:
    """Lines below a list that begin as if they belonged to it."""
    first, last = one.letters[0], one.letters[-1]
    following = LETTERS[len(one.letters) : len(one.letters) + 1]
    long = len(one.letters) >= LONG_LIST
    for index in range(last.line + 1, min(last.line + 1 + BEYOND, len(lines))):
        if any((index, letter.place) in used for letter in letters[index]):
            break
        match = re.match(r"\s*([B-Z])\s+\S", lines[index].shadow)
        if match is None:
            continue
        wide = bool(_WIDE.match(lines[index].shadow, match.end(1)))
        if match[1] == "I" and first.wide and not wide:
            continue  # the word, where letters have wide spaces after them
        if match[1] == following or (long and match[1] > following and match[1] != "I"):
            yield index, f"begins with {match[1]}, as if it were an option of the list above"


def _odd_numbers(lines: Sequence[Line], found: Sequence[_List]) -> Iterator[tuple[int, str]]:
    """Numbers at the beginning of lines that should have lists, and numbers out of order."""
    numbered = [one for one in found if one.number is not None]
    heads = {(one.stem or one.letters[0]).line for one in numbered}
    bare = {
        index: int(match[1])
        for index, line in enumerate(lines)
        if index not in heads
        and (match := _BARE_NUMBER.match(line.shadow))
        and not _KEY.match(line.shadow)
    }
    edges = [None, *numbered, None]
    for before, after in pairwise(edges):
        p, q = (one.number if one else None for one in (before, after))
        start = before.letters[-1].line + 1 if before else 0
        end = (after.stem or after.letters[0]).line if after else len(lines)
        if p is not None and q is not None:
            if q == p + 1:
                continue
            if q <= p and q > 1 and after:
                yield (after.stem or after.letters[0]).line, f"has number {q} after {p}"
        expected = {number for number in (p and p + 1, q and q - 1) if number}
        for index in range(start, end):
            if bare.get(index) in expected:
                yield index, "has a number that should have options, and none that can be read"
