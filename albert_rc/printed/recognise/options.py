"""Lists of options: their beginnings, extents and numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from typing import Literal

from albert_rc.printed.lines import Line, Piece

SIGN = "[√✓✔☑✅]\ufe0f?"
"""A tick."""
_TICK = rf"(?:{SIGN}|\*(?=[A-Z(\[]))"
# `A.` `A)` `(A)` `[A]` `A、`, ticked or not; but neither `a.m.` nor the last letter of a word.
MARK = re.compile(
    rf"""(?:(?P<tick>{_TICK})(?P<space>[^\S\n]*))?
        (?:\(\s?(?P<round>[A-Za-z])\s?\) | \[\s?(?P<square>[A-Za-z])\s?\]
        | (?P<plain>[A-Za-z])(?:\s?[.、)]|\s\.)(?![A-Za-z]\.))""",
    re.VERBOSE,
)
# A number may follow a place for the answer, empty or filled in: `( ) 36.`, `( B ) 36.`, `____ 36.`
# A line is such a place only before a sentence or an option, since it may also be a blank.
_LINE = r"_{2,}[^\S\n]+|_+[^\S\n]*(?P<lined>[A-Z])[^\S\n]*_+[^\S\n]*"
_SENTENCE = r"[0-9]{1,4}[^\S\n]*[.、)][^\S\n]*(?=[^\W\d]|[\"'“‘(\[])"
_PLACE = (
    r"(?:\(\s*(?P<answer>[A-Z])?\s*\)\s*|\[\s*(?P<boxed>[A-Z])\s*\]\s*(?=[0-9]{1,4}\s*[.、)])|"
    rf"(?:{_LINE})(?={_SENTENCE}))?"
)
ANSWER_PLACE = r"(?:\(\s*[A-Z]?\s*\)\s*|\[\s*[A-Z]\s*\]\s*|_+\s*)?"
"""Pattern of a place for the answer before a question's number: `( B ) 36.`, `____ 36.`"""
PRINTED_NUMBER = r"[(\[]?\s*(?P<number>[0-9]{1,4})\s*(?P<sep>[)\].、:]{0,2})"
_NUMBER = rf"{_PLACE}{PRINTED_NUMBER}\s*"
START = re.compile(rf"^\s*{_NUMBER}")
INNER = re.compile(
    rf"(?<=\s){_NUMBER}(?=(?:{_TICK}\s*)?(?:\(\s?[Aa]\s?\)|\[\s?[Aa]\s?\]|[Aa]\s?[.、)]))"
)


def answer_before(match: re.Match[str]) -> str:
    """The letter in the place for the answer before a number, from `START` or `INNER`."""
    return match["answer"] or match["boxed"] or match["lined"] or ""


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark at the beginning of an option."""

    line: Line
    start: int
    end: int
    """Index after the mark."""
    letter: str
    strong: bool
    """Whether it is at the beginning of a line, after a wide space, or after a number."""
    tick: Literal["", "its", "doubtful"] = ""
    """A tick before it; if uncertain, it may belong to the option before."""

    @property
    def index(self) -> int:
        """0 for A."""
        return ord(self.letter.upper()) - 65


@dataclass(slots=True)
class Item:
    """A number with its options, or a list of options for several blanks (no number)."""

    number: int | None
    place: str
    stem: list[Piece] = field(default_factory=list)
    body: list[Piece] = field(default_factory=list)
    """The text after the number and the stem."""
    options: list[list[Piece]] = field(default_factory=list)
    trouble: str = ""
    answer: str = ""
    """The letter in brackets before its number."""
    below: str = ""
    """The letter that a line under it gives, `Answer: B`."""
    ticks: str = ""
    """The letters of options with a tick after them."""
    ticks_before: str = ""
    """The letters with a tick before them."""
    ticks_doubtful: str = ""
    """The letters with a tick before them that `ticks` counts as one after the option before."""
    columns: bool = False
    """Whether it shares its lines with another item."""


def marks_in(piece: Piece) -> list[Mark]:
    """All possible option marks in part of a line."""
    found = []
    shadow = piece.line.shadow
    for match in MARK.finditer(shadow, piece.start, piece.end):
        letter = match["round"] or match["square"] or match["plain"]
        tick = _tick_before(match, shadow[piece.start : match.start()])
        start = match.start() if tick == "its" or not match["tick"] else match.end("space")
        before = shadow[piece.start : start]
        if tick == "doubtful":
            before += " "  # the tick separates it from the text before
        if before and not before[-1].isspace() and before[-1] not in ",;。;" + ")":
            continue
        if letter.islower() and match["plain"] and before.strip() and match[0][-1] == ".":
            # `a.` in the middle of a line is a mark only if the line's others are lower-case too.
            first = MARK.search(shadow, piece.start, piece.end)
            if first is None or not (first["round"] or first["square"] or first["plain"]).islower():
                continue
        strong = not before.strip() or before.endswith(("  ", "\t"))
        found.append(Mark(piece.line, start, match.end(), letter, strong, tick))
    return found


def _tick_before(match: re.Match[str], before: str) -> Literal["", "its", "doubtful"]:
    """The option that a tick before a letter belongs to: the nearer one."""
    if not match["tick"]:
        return ""
    left = len(before) - len(before.rstrip()) if before.strip() else math.inf
    right = len(match["space"])
    if left == right:
        return "doubtful"
    return "its" if left > right else ""


def first_mark(line: Line) -> Mark | None:
    """The mark that a line begins with."""
    lead = len(line.shadow) - len(line.shadow.lstrip())
    marks = marks_in(Piece(line, lead, len(line.shadow)))
    return marks[0] if marks and marks[0].start == lead else None


def in_columns(line: Line) -> bool:
    """Whether options are side by side in a line with wide white space between them."""
    marks = marks_in(Piece(line, 0, len(line.text)))
    return any(re.search(r"\s{3}$|\t$", line.shadow[: mark.start]) for mark in marks[1:])


def sequence(marks: Sequence[Mark], expected: int | None) -> list[Mark] | str:  # noqa: PLR0911 - one case, one answer
    """The marks that divide a list into A, B, C, ..., or the reason why that is unclear.

    They are in this order, also if columns are read downwards.

    Args:
        marks: all possible marks, in order.
        expected: number of options of the paper's lists, if known.
    """
    if not marks or marks[0].index != 0:
        return "its options do not begin with A"
    small = marks[0].letter.islower()
    marks = [mark for mark in marks if mark.letter.islower() == small]
    readings = []
    for chosen in (marks, [mark for mark in marks if mark.strong]):
        if [mark.index for mark in chosen] == list(range(len(chosen))) and len(chosen) > 1:
            readings.append(chosen)
    fitting = [reading for reading in readings if len(reading) == expected]
    if fitting:
        return fitting[0]
    if readings:
        if expected is not None or len(readings) == 1 or readings[0] == readings[1]:
            return readings[0]
        return "its options can be divided in two ways"
    if len(marks) == 1:
        return "it has only one option"
    if _read_downwards(marks):
        return sorted(marks, key=lambda mark: mark.index)
    counts = Counter(mark.index for mark in marks)
    twice = sorted(chr(65 + index) for index, count in counts.items() if count > 1)
    if twice:
        return f"{' and '.join(twice)} may occur twice among its options"
    missing = sorted(set(range(max(counts) + 1)) - set(counts))
    if missing:
        return f"option {', '.join(chr(65 + index) for index in missing)} is missing"
    return f"its options are in the order {''.join(mark.letter for mark in marks)}"


def _read_downwards(marks: Sequence[Mark]) -> bool:
    """Whether options are in columns with B under A, as word banks often are."""
    rows = [[mark.index for mark in row] for _, row in groupby(marks, lambda mark: mark.line.place)]
    return (
        len(rows) > 1
        and sorted(chain(*rows)) == list(range(len(marks)))
        and all(row == sorted(row) for row in rows)
        and all(mark.strong for mark in marks)
        and all(index - 1 in above for above, row in pairwise(rows) for index in row)
    )


def cut(item: Item, expected: int | None) -> None:
    """Divide an item's body into options; if that fails, the reason is its trouble."""
    if item.options or item.trouble:
        return
    marks = [mark for piece in item.body for mark in marks_in(piece)]
    chosen = sequence(marks, expected)
    if isinstance(chosen, str):
        item.trouble = chosen
        return
    as_printed = [mark for mark in marks if mark in chosen]
    following = dict(zip(as_printed, [*as_printed[1:], None], strict=True))
    item.options = [_between(item.body, mark, following[mark]) for mark in chosen]
    item.ticks_before = "".join(mark.letter.upper() for mark in chosen if mark.tick == "its")
    item.ticks_doubtful = "".join(m.letter.upper() for m in chosen if m.tick == "doubtful")


def _between(body: Sequence[Piece], mark: Mark, following: Mark | None) -> list[Piece]:
    pieces, inside = [], False
    for piece in body:
        start, end = piece.start, piece.end
        if piece.line is mark.line and piece.start <= mark.start < piece.end:
            inside, start = True, mark.end
        if not inside:
            continue
        if following and piece.line is following.line and piece.start <= following.start < end:
            pieces.append(Piece(piece.line, start, following.start))
            break
        pieces.append(Piece(piece.line, start, end))
    return pieces


def usual_count(items: Sequence[Item]) -> int | None:
    """The number of options of most lists, if most agree."""
    counts: Counter[int] = Counter()
    for item in items:
        marks = [mark.index for piece in item.body for mark in marks_in(piece)]
        length = 0
        while length < len(marks) and marks[length] == length:
            length += 1
        counts[length] += length > 1
    common = counts.most_common(2)
    if not common or (len(common) > 1 and common[0][1] == common[1][1]):
        return None
    return common[0][0]
