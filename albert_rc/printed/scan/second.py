"""Second readings of unclear lines, from taller strips, and their comparison with the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from albert_rc.printed.scan.engine import Char

CLEAR = 0.9
"""Certainty from which a character needs no second reading."""
ALIKE = frozenset("COSUVWXZ")
DISPUTED = 0.0
"""Certainty given to characters on which two readings differ."""


def is_unclear(chars: Sequence[Char]) -> bool:
    """Whether a line should be read again."""
    return any(char.certainty < CLEAR for char in chars if char.text != " ")


def agreed(first: Sequence[Char], second: Sequence[Char]) -> list[Char]:
    """Merge two readings of a line; characters on which both agree take the higher certainty.

    If the readings differ, the more certain one is taken and marked as disputed. Positions
    are the first reading's. Differences in white space alone are ignored.
    """
    one, other = _without_spaces(first), _without_spaces(second)
    was, now = ("".join(alike(char.text) for char in chars) for chars in (one, other))
    surer: dict[int, list[Char]] = {}
    for kind, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if kind == "equal":
            for at in range(a, b):
                certainty = max(one[at].certainty, other[c + at - a].certainty)
                surer[at] = [replace(one[at], certainty=certainty)]
        elif kind == "insert":  # the character before the insertion, or after it, is in doubt
            at = max(0, a - 1)
            if one:
                surer[at] = [replace(one[at], certainty=DISPUTED)]
        else:
            replaced = _surer(one[a:b], other[c:d])
            surer |= {at: [] for at in range(a, b)}
            surer[a] = [replace(char, certainty=DISPUTED) for char in replaced]
    found, at = [], 0
    for char in first:
        if char.text == " ":
            found.append(char)
        else:
            found += surer.get(at, [char])
            at += 1
    return found


def alike(letter: str) -> str:
    """The lower-case form of a letter whose two cases look alike; other letters unchanged."""
    return letter.lower() if letter in ALIKE else letter


def with_usual_case(text: str) -> str:
    """A lower-case word with look-alike capitals inside it made lower-case: `sO` becomes `so`."""
    small = any(char.islower() for char in text)
    return text[:1] + "".join(map(alike, text[1:])) if small and text[:1].islower() else text


def _without_spaces(chars: Sequence[Char]) -> list[Char]:
    return [char for char in chars if char.text != " "]


def _surer(first: Sequence[Char], second: Sequence[Char]) -> list[Char]:
    """The more certain of two readings, at the positions of the first."""
    if not second or _least(first) >= _least(second):
        return list(first)
    last = len(first) - 1
    return [replace(char, place=first[min(at, last)].place) for at, char in enumerate(second)]


def _least(chars: Sequence[Char]) -> float:
    return min((char.certainty for char in chars), default=0.0)
