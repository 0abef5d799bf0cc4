"""Repairs of recognised lines whose correct text follows from the rest of the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from albert_rc.printed.lines import Line, shadow_of

INDENTED = 2.0
"""Indent, in characters, above which a line begins a paragraph."""
_BLANK = re.compile(r"__(\d{1,4})__|(?<![_\d])_{2,6}(?: {1,3}_{2,6})?(?![_\d])")
_NUMBERED = re.compile(r"__(\d{1,4})__(?: ?_{0,2}(\d{1,2})__)?")
_DIRT = re.compile(r"^[.,;:·'`]\s*(?=[A-Z\"“])")


def repair(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Restore missed or split blank numbers from the blanks around them; remove dirt before text.

    Args:
        lines: a paper's recognised lines, in order.

    Returns:
        The lines, and notes for the user.
    """
    cleaned = [
        _with_text(line, _DIRT.sub("", line.text)) if line.indent > INDENTED else line
        for line in lines
    ]
    cleaned = _with_joint_numbers(cleaned)
    found = [(i, match) for i, line in enumerate(cleaned) for match in _BLANK.finditer(line.text)]
    numbers = [int(match[1]) if match[1] else None for _, match in found]
    notes, given = [], {}
    for place, number in enumerate(numbers):
        around = (numbers[place - 1] if place else None, _after(numbers, place))
        missing = _between(*around)
        if missing is not None and missing != number:
            given[place] = missing
            where = cleaned[found[place][0]].place
            notes.append(f"the blank after {missing - 1} was read as {missing} ({where})")
    for place in sorted(given, reverse=True):  # from the end, so that positions stay valid
        index, match = found[place]
        line = cleaned[index]
        text = f"{line.text[: match.start()]}__{given[place]}__{line.text[match.end() :]}"
        cleaned[index] = _with_text(line, text)
    return cleaned, notes


def _with_joint_numbers(lines: Sequence[Line]) -> list[Line]:
    """The lines, with split numbers joined: `__2__ 0__` after `__19__` becomes `__20__`."""
    before, done = None, []
    for line in lines:

        def joint(match: re.Match[str]) -> str:
            nonlocal before
            first, second = match[1], match[2]
            if second is not None and before is not None and int(first + second) == before + 1:
                before += 1
                return f"__{before}__"
            before = int(second or first)
            return match[0]

        done.append(_with_text(line, _NUMBERED.sub(joint, line.text)))
    return done


def _after(numbers: Sequence[int | None], place: int) -> int | None:
    return numbers[place + 1] if place + 1 < len(numbers) else None


def _between(before: int | None, after: int | None) -> int | None:
    """The number between two, if exactly one is missing."""
    if before is None or after is None or after != before + 2:
        return None
    return before + 1


def _with_text(line: Line, text: str) -> Line:
    return line if text == line.text else replace(line, text=text, shadow=shadow_of(text))
