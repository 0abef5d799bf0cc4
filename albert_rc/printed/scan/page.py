"""Words recognised in the picture of a page, each with its position and certainty."""

# H and W pixels, B lines

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from albert_rc.printed.lines import Doubt
from albert_rc.printed.read.layout import Word
from albert_rc.printed.scan.corners import Array, ends, height_of, heightened, heights, widened
from albert_rc.printed.scan.doubts import is_doubtful
from albert_rc.printed.scan.engine import Char, OcrEngine
from albert_rc.printed.scan.leftover import with_leftover
from albert_rc.printed.scan.missed import missed_lines
from albert_rc.printed.scan.rows import rows_of
from albert_rc.printed.scan.rules import Rule, erase, find_rules
from albert_rc.printed.scan.second import agreed, is_unclear
from albert_rc.printed.scan.straighten import Straightener, fit
from albert_rc.printed.scan.strips import (
    Strip,
    as_jpeg,
    cut,
    ink_columns,
    level,
    strip_ink,
    upright,
)
from albert_rc.printed.scan.words import words_of

LEAST_LINE = 0.45
"""Mean certainty below which a line counts as unreadable."""
EDGE = 3
"""A line that comes within this many pixels of the picture's edge may be cut off."""
MARGIN = 0.35
"""Paper added at both ends of a strip, as a multiple of the line's height: a rule may reach beyond
the letters."""
TALLER = 0.12
"""Paper added above and below a strip for a second reading, as a multiple of its height."""
AWAY = 1.2
"""Maximum gap between a line and a rule at its side, as a multiple of the line's height."""
BEYOND = 0.8
"""How far strips reach beyond a blank at the end of a line, in multiples of the line's height."""
POINTS = 595
"""Width of a page in points: that of A4."""


@dataclass(frozen=True, slots=True)
class RecognisedPage:
    """The result of reading a page."""

    words: list[Word]
    """With positions in points."""
    unread: list[Doubt]
    """Lines that could not be read."""


def read_page(page_HW3: Array, engine: OcrEngine) -> RecognisedPage:
    """Read a page from its picture in RGB."""
    import cv2

    page_HW3, corner_B42 = upright(page_HW3, engine)
    if not len(corner_B42):
        return RecognisedPage([], [])
    # Part of a line that reaches the edge may lie outside the picture.
    across_B4, width = corner_B42[:, :, 0], page_HW3.shape[1]
    cut_off_B = (across_B4.min(1) < EDGE) | (across_B4.max(1) > width - EDGE)
    page_HW3, corner_B42 = level(page_HW3, corner_B42)
    height = float(np.median(heights(corner_B42)))
    gray_HW = cv2.cvtColor(page_HW3, cv2.COLOR_RGB2GRAY)
    drawn = find_rules(gray_HW, height)
    missed_B42 = missed_lines(gray_HW, corner_B42, drawn, height)
    own_B42 = np.concatenate([corner_B42, missed_B42])
    corner_B42 = np.stack([_with_margin(corner_42) for corner_42 in own_B42])
    lines = [Strip(corner_42, []) for corner_42 in corner_B42]
    rules = [(rule, line) for rule in drawn if (line := _line_of(rule, lines)) is not None]
    corner_B42 = np.stack(
        [
            _beyond(corner_42, [rule for rule, owner in rules if owner == at])
            for at, corner_42 in enumerate(corner_B42)
        ]
    )
    clean_HW3 = erase(page_HW3, [rule for rule, _ in rules], height)
    pictures = [cut(clean_HW3, corner_42) for corner_42 in corner_B42]
    found = engine.read(pictures)
    unclear = [at for at, chars in enumerate(found) if is_unclear(chars)]
    again = engine.read([cut(clean_HW3, heightened(corner_B42[at], TALLER)) for at in unclear])
    for at, chars in zip(unclear, again, strict=True):
        found[at] = agreed(found[at], chars)
    by_line: list[list[Word]] = []
    unread = []
    straight = fit(corner_B42, page_HW3.shape[1], page_HW3.shape[0])
    for at, (corner_42, read, picture) in enumerate(zip(corner_B42, found, pictures, strict=True)):
        ink_HW = strip_ink(picture)
        strip = Strip(corner_42, with_leftover(read, ink_HW), ink_columns(ink_HW))
        chars = _own_chars(strip, own_B42[at], np.delete(own_B42, at, 0))
        strip = replace(strip, chars=chars)
        own = [rule for rule, owner in rules if owner == at]
        cut_off = at < len(cut_off_B) and bool(cut_off_B[at]) and len(chars) > 1
        if (chars and strip.certainty < LEAST_LINE) or cut_off:
            x, y = strip.at(0.0)
            across, down = x / page_HW3.shape[1], y / page_HW3.shape[0]
            where = f"{down:.0%} from the top, {max(0.0, across):.0%} from the left"
            where += ", cut off by the picture's edge" if cut_off else ""
            unread.append(Doubt("", as_jpeg(cut(page_HW3, corner_42)), where))
            continue
        found_here = words_of(strip, own)
        if any(map(is_doubtful, found_here)):
            shown = as_jpeg(cut(page_HW3, corner_42))
            found_here = [replace(w, picture=shown) if is_doubtful(w) else w for w in found_here]
        by_line.append(found_here)
    placed = [_in_points(words, straight, page_HW3.shape) for words in by_line]
    return RecognisedPage(rows_of(placed), unread)


def _own_chars(strip: Strip, own_42: Array, other_B42: Array) -> list[Char]:
    """A strip's characters without those at its ends that belong to a neighbouring line.

    Args:
        strip: the line, with paper added at its ends.
        own_42: the line's corners, without the added paper.
        other_B42: the corners of the other lines, likewise.
    """
    first, last = ends(own_42)
    left_B, right_B = other_B42[:, [0, 3], 0].mean(1), other_B42[:, [1, 2], 0].mean(1)
    top_B, bottom_B = other_B42[:, :2, 1].min(1), other_B42[:, 2:, 1].max(1)
    kept = []
    for char in strip.chars:
        x, y = strip.at(char.place)
        inside_B = (left_B < x) & (x < right_B) & (top_B < y) & (y < bottom_B)
        if char.text == " " or first <= x <= last or not inside_B.any():
            kept.append(char)
    return kept


def _with_margin(corner_42: Array) -> Array:
    more = MARGIN * height_of(corner_42)
    return widened(corner_42, more, more)


def _beyond(corner_42: Array, rules: Sequence[Rule]) -> Array:
    """A line's corners, widened beyond blanks at its ends, as a full stop may follow a blank."""
    more = BEYOND * height_of(corner_42)
    left, right = ends(corner_42)
    after = max((rule.right + more - right for rule in rules), default=0.0)
    before = max((left + more - rule.left for rule in rules), default=0.0)
    return widened(corner_42, max(0.0, before), max(0.0, after))


def _line_of(rule: Rule, lines: Sequence[Strip]) -> int | None:
    """The index of the line in whose lower half a rule lies, if there is one."""
    best, least = None, 0.35
    for index, line in enumerate(lines):
        (left, right), height = line.ends, line.height
        middle = (rule.left + rule.right) / 2
        away = max(left - rule.right, rule.left - right) / height
        if away > AWAY:
            continue
        _, y = line.at((middle - left) / max(1.0, right - left))
        below = (rule.middle - y) / height + max(0.0, away) / 10
        if 0.1 < below < 0.6 and abs(below - 0.3) < least:
            best, least = index, abs(below - 0.3)
    return best


def _in_points(words: Sequence[Word], straight: Straightener, shape: tuple[int, ...]) -> list[Word]:
    """Words with their positions on a flat page as wide as A4, in points."""
    scale = POINTS / shape[1]
    if not words:
        return []
    x_P = np.array([(word.left + word.right) / 2 for word in words])
    y_P = np.array([(word.top + word.bottom) / 2 for word in words])
    x_P, y_P = straight.straighten(x_P, y_P)
    placed = []
    for word, x, y in zip(words, x_P, y_P, strict=True):
        half_width, half = (word.right - word.left) / 2, (word.bottom - word.top) / 2
        left, right, top, bottom = (
            float(v) * scale for v in (x - half_width, x + half_width, y - half, y + half)
        )
        placed.append(replace(word, left=left, right=right, top=top, bottom=bottom))
    return placed
