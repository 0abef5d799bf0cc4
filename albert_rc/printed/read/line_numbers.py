"""Removal of the line numbers in the margin of a passage: 5, 10, 15, ... at every fifth line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from albert_rc.io.messages import counted
from albert_rc.printed.lines import Line

EVERY = 5
OUT = 2.0
"""Characters by which a number at the left is outside the column, if there is only one."""
_LEFT = re.compile(r"(\s*)([(\[]?([0-9]{1,3})[)\]]?)\s+(?=\S)")
_RIGHT = re.compile(r"\s{2,}[(\[]?([0-9]{1,3})[)\]]?\s*$")
_ANY = re.compile(r"\s*[(\[]?[0-9]{1,4}[)\]]?(?:[.、]|\s|$)")
_WORD = re.compile(r"\s*Line\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class _Number:
    """A number at the edge of a line."""

    at: int
    """Index of the line."""
    number: int
    left: bool
    edge: int
    """Where the line's own text begins, for a number at the left, or ends."""


def without_line_numbers(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """The lines without the numbers of every fifth one, and notes on those.

    Two such numbers or more must be exactly five lines apart, without other numbers between them. A
    single 5 must be on the fifth line of its text, and outside its column.
    """
    kept, notes = list(lines), []
    for run in _runs(lines):
        for found in run:
            kept[found.at] = _without(lines, found)
        first = run[0].at
        for at in range(max(0, first - EVERY), first):
            # SAT prints `Line` above the first number, at the left of a line.
            match = _WORD.match(lines[at].shadow)
            if match and run[0].left and _is_out(lines, at):
                kept[at] = _cut(lines, at, match.end())
        numbers = [str(found.number) for found in run]
        notes.append(
            f"{counted(len(run), 'line number')} in the margin ({', '.join(numbers)}; "
            f"{lines[first].place}) left out"
        )
    return kept, notes


def _runs(lines: Sequence[Line]) -> Iterator[list[_Number]]:
    """Numbers that belong together."""
    for left in (True, False):
        found = {each.at: each for each in _numbers(lines, left)}
        used: set[int] = set()
        for at, number in found.items():
            run = [number]
            while (below := found.get(run[-1].at + EVERY)) and _follows(lines, run[-1], below):
                run.append(below)
            if at in used or run[0].number != EVERY:
                continue
            if len(run) > 1 or (_is_fifth(lines, at) and (not left or _is_out(lines, at))):
                used.update(each.at for each in run)
                yield run


def _numbers(lines: Sequence[Line], left: bool) -> Iterator[_Number]:
    for at, line in enumerate(lines):
        match = _LEFT.match(line.shadow) if left else _RIGHT.search(line.shadow)
        number = int(match[3 if left else 1]) if match else 0
        if match and number and number % EVERY == 0:
            yield _Number(at, number, left, match.end() if left else match.start())


def _follows(lines: Sequence[Line], above: _Number, below: _Number) -> bool:
    between = lines[above.at + 1 : below.at]
    odd = _ANY.match if above.left else _RIGHT.search
    return below.number == above.number + EVERY and not any(odd(line.shadow) for line in between)


def _is_fifth(lines: Sequence[Line], at: int) -> bool:
    """Whether a line is the fifth of its text, and the text goes on."""
    start = at - EVERY + 1
    goes_on = at + 1 < len(lines) and not lines[at + 1].gap and not _ANY.match(lines[at + 1].shadow)
    begins = start == 0 or (start > 0 and lines[start].gap)
    return begins and goes_on and not any(
        line.gap or line.whole or _ANY.match(line.shadow) for line in lines[start + 1 : at]
    )  # fmt: skip


def _is_out(lines: Sequence[Line], at: int) -> bool:
    """Whether a line begins outside the column of its neighbours."""
    beside = [lines[i].indent for i in (at - 1, at + 1) if 0 <= i < len(lines)]
    return lines[at].indent + OUT <= min(beside, default=0)


def _without(lines: Sequence[Line], found: _Number) -> Line:
    line = lines[found.at]
    if found.left:
        return _cut(lines, found.at, found.edge)
    return replace(
        line,
        text=line.text[: found.edge],
        shadow=line.shadow[: found.edge],
        width=line.width * found.edge / len(line.shadow),
    )


def _cut(lines: Sequence[Line], at: int, end: int) -> Line:
    """A line without its beginning, in the column of the line below it."""
    line = lines[at]
    below = lines[at + 1] if at + 1 < len(lines) else line
    return replace(
        line,
        text=line.text[end:],
        shadow=line.shadow[end:],
        indent=max(line.indent, below.indent) if _is_out(lines, at) else line.indent,
    )
