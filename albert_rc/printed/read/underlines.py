"""Blanks of a PDF that are drawn lines, as Word exports underlined spaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from albert_rc.printed.read.layout import Word

THIN = 2.0  # points: maximum height of a rectangle that is a line
SHORTEST = 6.0  # points
PAGE_WIDE = 0.6
"""Share of the page's width above which a line belongs to a frame or a table."""
BROKEN = 1.5  # points: maximum gap between two parts of one line
TOUCHES = 2.0  # points
BELOW, FOOT = 0.6, 0.4
"""Where a line lies next to text, in heights of a word: from its top, and below its bottom."""
COVERED = 0.3  # share of a word that must be above a line to be underlined by it
_NUMBER = re.compile(r"[(\[（]?[0-9０-９]{1,4}[)\]）]?[.．]?")


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal drawn line, in points from the page's upper left corner."""

    left: float
    right: float
    at: float
    """Its distance from the top."""


def with_blanks(words: Sequence[Word], page: Any) -> list[Word]:
    """The words of a page with blanks where lines without text are drawn in a row of text.

    A line below a number alone becomes `__36__`, one below nothing `____`. Underlined words, and
    lines of tables and frames, are left as they are.

    Args:
        words: words of the page.
        page: page of pdfplumber.
    """
    found = list(words)
    for rule in _rules(page):
        row = [word for word in words if _is_next_to(word, rule)]
        if not row:
            continue
        above = [word for word in row if _covered(word, rule) > COVERED]
        if not above:
            height = max(word.bottom - word.top for word in row)
            bottom = max(word.bottom for word in row)
            found.append(Word("____", rule.left, rule.right, bottom - height, bottom))
        elif len(above) == 1 and _NUMBER.fullmatch(above[0].text) and above[0] in found:
            number = above[0]
            if rule.right - rule.left > number.right - number.left + SHORTEST:
                left, right = min(rule.left, number.left), max(rule.right, number.right)
                blank = replace(number, text=f"__{number.text}__", left=left, right=right)
                found[found.index(number)] = blank
    return found


def _rules(page: Any) -> list[Rule]:
    """The horizontal lines of a page that belong to no table or frame, joined where broken."""
    flat, upright = [], []
    for drawn in (*page.lines, *page.rects):
        left, right, top, bottom = (float(drawn[side]) for side in ("x0", "x1", "top", "bottom"))
        if bottom - top <= THIN and right - left > bottom - top:
            flat.append(Rule(left, right, (top + bottom) / 2))
        elif bottom - top > THIN:
            upright.append((left, right, top, bottom))
    joined: list[Rule] = []
    for rule in sorted(flat, key=lambda r: (round(r.at), r.left)):
        last = joined[-1] if joined else None
        if last and abs(last.at - rule.at) < 1 and rule.left <= last.right + BROKEN:
            joined[-1] = replace(last, right=max(last.right, rule.right))
        else:
            joined.append(rule)
    widest = PAGE_WIDE * float(page.width)
    return [
        rule
        for rule in joined
        if SHORTEST <= rule.right - rule.left <= widest and not _is_framed(rule, upright)
    ]


def _is_framed(rule: Rule, upright: Iterable[tuple[float, float, float, float]]) -> bool:
    """Whether an upright line, or the side of a rectangle, meets a line."""
    for left, right, top, bottom in upright:
        if not top - TOUCHES <= rule.at <= bottom + TOUCHES:
            continue
        if any(rule.left - TOUCHES <= side <= rule.right + TOUCHES for side in (left, right)):
            return True
    return False


def _is_next_to(word: Word, rule: Rule) -> bool:
    height = word.bottom - word.top
    return word.top + BELOW * height <= rule.at <= word.bottom + FOOT * height


def _covered(word: Word, rule: Rule) -> float:
    """The share of a word's width that is above a line."""
    shared = min(word.right, rule.right) - max(word.left, rule.left)
    return shared / max(word.right - word.left, 0.1)
