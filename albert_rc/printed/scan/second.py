"""Lines that are not clear are read twice, from strips of different height: where both agree?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from albert_rc.printed.scan.engine import Char

CLEAR = 0.9
"""Certainty of a character from which it is not looked at again."""
ALIKE = frozenset("COSUVWXZ")
DISPUTED = 0.0
"""Certainty of characters that were read in two ways."""


def is_unclear(chars: Sequence[Char]) -> bool:
    """Whether a line should be read again."""
    return any(char.certainty < CLEAR for char in chars if char.text != " ")


def agreed(first: Sequence[Char], second: Sequence[Char]) -> list[Char]:
    """The characters of two readings of a line: the first one, surer where both agree.

    Where they differ, the surer reading counts, and it is marked as disputed. Places are the
    first reading's. Differences in white space alone are no dispute.
    """
    one, other = _without_spaces(first), _without_spaces(second)
    was, now = ("".join(alike(char.text) for char in chars) for chars in (one, other))
    surer: dict[int, list[Char]] = {}
    for kind, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if kind == "equal":
            for at in range(a, b):
                certainty = max(one[at].certainty, other[c + at - a].certainty)
                surer[at] = [replace(one[at], certainty=certainty)]
        elif kind == "insert":  # the neighbour before it, or behind it, is in doubt
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
    """A letter that looks the same large and small, as its small one; others as they are."""
    return letter.lower() if letter in ALIKE else letter


def with_usual_case(text: str) -> str:
    """A word without large letters in it that are as likely small ones: `sO`."""
    small = any(char.islower() for char in text)
    return text[:1] + "".join(map(alike, text[1:])) if small and text[:1].islower() else text


def _without_spaces(chars: Sequence[Char]) -> list[Char]:
    return [char for char in chars if char.text != " "]


def _surer(first: Sequence[Char], second: Sequence[Char]) -> list[Char]:
    """The surer of two readings, at the places of the first."""
    if not second or _least(first) >= _least(second):
        return list(first)
    last = len(first) - 1
    return [replace(char, place=first[min(at, last)].place) for at, char in enumerate(second)]


def _least(chars: Sequence[Char]) -> float:
    return min((char.certainty for char in chars), default=0.0)
