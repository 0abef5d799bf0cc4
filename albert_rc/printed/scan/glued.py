"""Detection of spaces and blanks that were missed inside recognised words, and of false spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence

from albert_rc.papers.words import is_word

LIKE_SPACES = 0.7
"""Minimum gap between letters that counts as a space, as a share of the line's usual space."""
LIKE_SPACES_OF_WORDS = 0.45
"""Likewise if both parts are words and the whole is not, or if one part is a number."""
LIKE_SPACES_OF_SLIM = 1.0
"""Likewise next to narrow characters, which have wide gaps around them anyway."""
SLIM, APOSTROPHES = set("lIitjf1r!|"), set("'’‘`")
NO_SPACE = 0.3
"""Share of the usual space below which a recognised space is false."""
SHORT_FORMS = frozenset(["s", "t", "m", "d", "ll", "re", "ve"])
HARDLY_SPACE = 0.55
"""As `NO_SPACE`, if the two parts form one word."""
USUAL_SPACE = 0.25
"""Width of a space, as a multiple of the line's height, if the line has too few to measure."""
STRETCHED = 1.35
"""Advance of a word, as a multiple of its line's usual one, above which letters must be missing."""
_NARROW = 0.55
_WIDTHS = {**dict.fromkeys("mwMWQ@%", 1.5), **dict.fromkeys("ABCDEFGHJKLNOPRSTUVXYZ", 1.2)}
_BLANK = re.compile(r"_+\d{0,4}_*|\d{1,4}_+")
_GLUED_NUMBER = re.compile(r"(?<=\d)(?!(?:st|nd|rd|th|s)\b)(?=[A-Za-z]{2})|(?<=[A-Za-z]{2})(?=\d)")
_LETTERS = re.compile(r"[A-Za-z]+")


def cuts(text: str, white: Sequence[float], space: float) -> list[int]:
    """Indices in a recognised word at which another word begins.

    Args:
        text: the word.
        white: widest gap between each character and the next; one value fewer than characters.
        space: width of the line's usual gap between words.
    """
    found = {at for match in _BLANK.finditer(text) for at in match.span()}
    found |= {
        match.start()
        for match in _GLUED_NUMBER.finditer(text)
        if white[match.start() - 1] >= LIKE_SPACES_OF_WORDS * space
    }
    for at, gap in enumerate(white, 1):
        before, after = text[at - 1], text[at]
        if not (before.isalpha() or after.isalpha()) or APOSTROPHES & {before, after}:
            continue
        if _within_word(text, at):
            continue  # letter positions are exact only to half a letter
        if gap >= _like_space(before, after) * space:
            found.add(at)
    for match in _LETTERS.finditer(text):
        if not is_word(match[0], compound=False):
            found |= {
                at
                for at in range(match.start() + 1, match.end())
                if white[at - 1] >= LIKE_SPACES_OF_WORDS * space
                and _are_words(text[match.start() : at], text[at : match.end()])
            }
    return sorted(at for at in found if 0 < at < len(text))


def may_be_two(text: str, white: Sequence[float], space: float) -> bool:
    """Whether an English word has a gap as wide as a space: `day s` may be read as `days`."""
    return any(
        gap >= _like_space(text[at - 1], text[at]) * space and _within_word(text, at)
        for at, gap in enumerate(white, 1)
    )


def _like_space(before: str, after: str) -> float:
    return LIKE_SPACES_OF_SLIM if SLIM & {before, after} else LIKE_SPACES


def _within_word(text: str, at: int) -> bool:
    """Whether a place is between two letters of an English word."""
    letters = text[at - 1].isalpha() and text[at].isalpha()
    return letters and is_word(_run_at(text, at), compound=False)


def _run_at(text: str, at: int) -> str:
    """The run of letters around a place of a text."""
    return next((m[0] for m in _LETTERS.finditer(text) if m.start() < at < m.end()), "")


def is_space(before: str, after: str, white: float) -> bool:
    """Whether a recognised space is a true one.

    Args:
        before: the word on its left.
        after: the word on its right.
        white: width of the gap between them, as a share of the line's usual space.
    """
    one, two = re.search(r"[A-Za-z]+$", before), re.match(r"[A-Za-z]+", after)
    if one and two and _are_words(one[0], two[0]):
        return True
    if white < NO_SPACE:
        return not before[-1:].isalnum()
    short = two is not None and two[0] in SHORT_FORMS  # in papers without apostrophes
    if white >= HARDLY_SPACE or not (one and two) or short or APOSTROPHES & set(before + after):
        return True
    return not is_word(one[0] + two[0], compound=False)  # `al l` is `all`


def _are_words(*parts: str) -> bool:
    return all(part in ("a", "A", "I") or is_word(part, compound=False) for part in parts)


def widest_white(ink_W: Sequence[bool], start: int, end: int) -> int:
    """Width of the widest run of columns without ink between two columns of a strip."""
    widest = run = 0
    for column in ink_W[max(0, start) : end]:
        run = 0 if column else run + 1
        widest = max(widest, run)
    return widest


def advance(text: str, place: Sequence[float]) -> float:
    """Distance between the centres of a word's first and last letters, per letter of usual width.

    Args:
        text: the word.
        place: x coordinate of each character's centre.
    """
    widths = [_NARROW if c in SLIM or not c.isalnum() else _WIDTHS.get(c, 1.0) for c in text]
    usual = sum(widths) - (widths[0] + widths[-1]) / 2
    return (place[-1] - place[0]) / usual if usual else 0.0


def as_blank(text: str) -> str | None:
    """A text as the blank `__` or `__36__`, or None if it is not a blank."""
    if "_" not in text or not _BLANK.fullmatch(text):
        return None
    number = text.strip("_")
    return f"__{number}__" if number else "__"
