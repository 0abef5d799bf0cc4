"""The words of a page's picture, each with its place and how certainly it was read."""

# H and W pixels, B lines

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from albert_rc.printed.lines import Doubt
from albert_rc.printed.read.layout import Word
from albert_rc.printed.scan.doubts import is_doubtful
from albert_rc.printed.scan.engine import Char, Engine
from albert_rc.printed.scan.glued import (
    NO_SPACE,
    USUAL_SPACE,
    as_blank,
    cuts,
    widest_white,
)
from albert_rc.printed.scan.missed import missed_lines
from albert_rc.printed.scan.rows import rows_of
from albert_rc.printed.scan.rules import Rule, erase, find_rules, ink_of
from albert_rc.printed.scan.second import agreed, is_unclear
from albert_rc.printed.scan.straighten import Straightener, fit

Array = np.ndarray[Any, Any]
STRIP = 48
"""Height of the strips that are read, in pixels."""
MARGIN = 0.35
"""Paper at both ends of a strip, as a multiple of its height."""
TALLER = 0.12
"""Paper above and below a strip that is read a second time, likewise."""
UPRIGHT = 0.75
"""Mean certainty of the longest lines below which a page may stand on its head."""
LEAST_LINE = 0.45
"""Mean certainty of a line below which it cannot be read."""
TILT = 0.1
"""Degrees from which a page is turned."""
POINTS = 595
"""Width of a page in points, as of A4."""
NEAR = 0.45
"""White in a blank between its rule and its number, as a multiple of the line's height."""
LOST = 0.3, 1.1
"""White between two rules that a number takes, likewise."""
SPACE = 0.2
"""White between two words, likewise."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was read of a page."""

    words: list[Word]
    """In points."""
    unread: list[Doubt]
    """Lines that could not be read."""


@dataclass(frozen=True, slots=True)
class _Strip:
    """A line as it was read: its corners clockwise from the upper left, and its characters."""

    corner_42: Array
    chars: list[Char]
    ink_W: Sequence[bool] = ()
    """Which columns of the strip have ink."""

    @property
    def certainty(self) -> float:
        read = [char.certainty for char in self.chars if char.text != " "]
        return sum(read) / len(read) if read else 0.0

    def at(self, share: float) -> tuple[float, float]:
        """The place on the line's middle at a share of its width."""
        left_2 = (self.corner_42[0] + self.corner_42[3]) / 2
        right_2 = (self.corner_42[1] + self.corner_42[2]) / 2
        x, y = left_2 + (right_2 - left_2) * share
        return float(x), float(y)

    def white(self, before: Char, after: Char) -> int:
        """Widest white between two characters, in columns of the strip."""
        start, end = (round(char.place * len(self.ink_W)) for char in (before, after))
        return widest_white(self.ink_W, start, end)


def read_page(page_HW3: Array, engine: Engine) -> Page:
    """Read a page.

    Args:
        page_HW3: the picture, RGB.
        engine: recognises text.
    """
    import cv2

    page_HW3, corner_B42 = _upright(page_HW3, engine)
    if not len(corner_B42):
        return Page([], [])
    page_HW3, corner_B42 = _level(page_HW3, corner_B42)
    height = float(np.median(_heights(corner_B42)))
    gray_HW = cv2.cvtColor(page_HW3, cv2.COLOR_RGB2GRAY)
    drawn = find_rules(gray_HW, height)
    missed_B42 = missed_lines(gray_HW, corner_B42, drawn, height)
    own_B42 = np.concatenate([corner_B42, missed_B42])
    corner_B42 = np.stack([_extended(corner_42) for corner_42 in own_B42])
    lines = [_Strip(corner_42, []) for corner_42 in corner_B42]
    rules = [(rule, line) for rule in drawn if (line := _line_of(rule, lines)) is not None]
    clean_HW3 = erase(page_HW3, [rule for rule, _ in rules], height)
    pictures = [_cut(clean_HW3, corner_42) for corner_42 in corner_B42]
    found = engine.read(pictures)
    unclear = [at for at, chars in enumerate(found) if is_unclear(chars)]
    again = engine.read([_cut(clean_HW3, _taller(corner_B42[at])) for at in unclear])
    for at, chars in zip(unclear, again, strict=True):
        found[at] = agreed(found[at], chars)
    by_line: list[list[Word]] = []
    unread = []
    straight = fit(corner_B42, page_HW3.shape[1], page_HW3.shape[0])
    for at, (line, read, picture) in enumerate(zip(lines, found, pictures, strict=True)):
        chars = _own_chars(line, read, np.delete(own_B42, at, 0))
        strip = _Strip(line.corner_42, chars, _ink(picture))
        own = [rule for rule, owner in rules if owner is line]
        if chars and strip.certainty < LEAST_LINE:
            x, y = strip.at(0.0)
            across, down = x / page_HW3.shape[1], y / page_HW3.shape[0]
            where = f"{down:.0%} from the top, {max(0.0, across):.0%} from the left"
            unread.append(Doubt("", as_jpeg(_cut(page_HW3, line.corner_42)), where))
            continue
        found_here = _words(strip, own)
        if any(map(is_doubtful, found_here)):
            shown = as_jpeg(_cut(page_HW3, line.corner_42))
            found_here = [replace(w, picture=shown) if is_doubtful(w) else w for w in found_here]
        by_line.append(found_here)
    placed = [_in_points(words, straight, page_HW3.shape) for words in by_line]
    return Page(rows_of(placed), unread)


def _own_chars(line: _Strip, chars: list[Char], other_B42: Array) -> list[Char]:
    """A strip's characters without those at its ends that belong to a neighbouring line."""
    edge = MARGIN * float(_heights(line.corner_42[None])[0])
    share = edge / max(1.0, float(_widths(line.corner_42[None])[0]))
    kept = []
    for char in chars:
        if not share < char.place < 1 - share and char.text != " ":
            x, y = line.at(char.place)
            left_B, right_B = other_B42[:, [0, 3], 0].mean(1), other_B42[:, [1, 2], 0].mean(1)
            top_B, bottom_B = other_B42[:, :2, 1].min(1), other_B42[:, 2:, 1].max(1)
            if ((left_B < x) & (x < right_B) & (top_B < y) & (y < bottom_B)).any():
                continue
        kept.append(char)
    return kept


def as_jpeg(strip_HW3: Array) -> bytes:
    """A line's picture, as JPEG."""
    import cv2

    _, written = cv2.imencode(".jpg", strip_HW3[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 60])
    content: bytes = written.tobytes()
    return content


def _heights(corner_B42: Array) -> Array:
    """Heights of lines, [B]."""
    down_B2 = (corner_B42[:, 3] + corner_B42[:, 2] - corner_B42[:, 0] - corner_B42[:, 1]) / 2
    height_B: Array = np.hypot(down_B2[:, 0], down_B2[:, 1])
    return height_B


def _widths(corner_B42: Array) -> Array:
    along_B2 = corner_B42[:, 1] - corner_B42[:, 0]
    width_B: Array = np.hypot(along_B2[:, 0], along_B2[:, 1])
    return width_B


def _upright(page_HW3: Array, engine: Engine) -> tuple[Array, Array]:
    """The page turned by quarters so that its lines can be read, and their corners."""
    corner_B42 = engine.find(page_HW3)
    if len(corner_B42) and np.median(_heights(corner_B42) / _widths(corner_B42)) > 1:
        page_HW3 = np.ascontiguousarray(np.rot90(page_HW3))
        corner_B42 = engine.find(page_HW3)
    if not len(corner_B42):
        return page_HW3, corner_B42
    longest = corner_B42[np.argsort(-_widths(corner_B42))[:5]]
    strips = [_cut(page_HW3, corner_42) for corner_42 in longest]
    certain = _certainty(engine, strips)
    if certain < UPRIGHT:
        turned = [np.ascontiguousarray(strip[::-1, ::-1]) for strip in strips]
        if _certainty(engine, turned) > certain:
            page_HW3 = np.ascontiguousarray(page_HW3[::-1, ::-1])
            corner_B42 = engine.find(page_HW3)
    return page_HW3, corner_B42


def _certainty(engine: Engine, strips: Sequence[Array]) -> float:
    read = engine.read(strips)
    return sum(_Strip(np.empty(0), chars).certainty for chars in read) / len(read)


def _level(page_HW3: Array, corner_B42: Array) -> tuple[Array, Array]:
    """The page turned by some degrees so that most of its lines are level."""
    import cv2

    along_B2 = corner_B42[:, 1] - corner_B42[:, 0]
    long_B = _widths(corner_B42) >= np.median(_widths(corner_B42))
    angle = float(np.median(np.degrees(np.arctan2(along_B2[long_B, 1], along_B2[long_B, 0]))))
    if abs(angle) < TILT:
        return page_HW3, corner_B42
    height, width = page_HW3.shape[:2]
    turn_23 = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.0)
    page_HW3 = cv2.warpAffine(
        page_HW3, turn_23, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return page_HW3, (corner_B42 @ turn_23[:, :2].T + turn_23[:, 2]).astype(np.float32)


def _extended(corner_42: Array) -> Array:
    """A line's corners with some paper at both ends, where a rule may reach beyond the letters."""
    along_2 = (corner_42[1] + corner_42[2] - corner_42[0] - corner_42[3]) / 2
    along_2 = along_2 / max(1.0, float(np.hypot(*along_2)))
    more_2 = along_2 * MARGIN * float(_heights(corner_42[None])[0])
    wider_42: Array = corner_42 + np.stack([-more_2, more_2, more_2, -more_2])
    return wider_42


def _taller(corner_42: Array) -> Array:
    """A line's corners with some paper above and below."""
    up_42 = (corner_42[[0, 1, 1, 0]] - corner_42[[3, 2, 2, 3]]) * TALLER
    taller_42: Array = corner_42 + up_42 * np.array([[1], [1], [-1], [-1]])
    return taller_42


def _cut(page_HW3: Array, corner_42: Array) -> Array:
    """A line's picture, level and of the height that is read."""
    import cv2

    width, height = _widths(corner_42[None])[0], _heights(corner_42[None])[0]
    width = max(STRIP // 4, round(float(width / max(1.0, height)) * STRIP))
    target = np.array([[0, 0], [width, 0], [width, STRIP], [0, STRIP]], np.float32)
    view_33 = cv2.getPerspectiveTransform(corner_42.astype(np.float32), target)
    strip: Array = cv2.warpPerspective(
        page_HW3, view_33, (width, STRIP), flags=cv2.INTER_AREA if height > STRIP
        else cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    return strip


def _line_of(rule: Rule, lines: Sequence[_Strip]) -> _Strip | None:
    """The line that a rule stands in the lower half of."""
    best, least = None, 0.35
    for line in lines:
        left, right = line.corner_42[[0, 3], 0].mean(), line.corner_42[[1, 2], 0].mean()
        middle = (rule.left + rule.right) / 2
        if not left <= middle <= right:
            continue
        _, y = line.at((middle - left) / max(1.0, right - left))
        below = (rule.middle - y) / float(_heights(line.corner_42[None])[0])
        if 0.1 < below < 0.6 and abs(below - 0.3) < least:
            best, least = line, abs(below - 0.3)
    return best


def _words(strip: _Strip, rules: Sequence[Rule]) -> list[Word]:
    """A line's words; rules with nothing but a number above or between them are blanks."""
    height = float(_heights(strip.corner_42[None])[0])
    edges = [edge for rule in rules for edge in (rule.left, rule.right)]
    parts = _spaced(_split(strip, edges), strip, height)
    for rule in rules:
        above = [word for word in parts if rule.left < (word.left + word.right) / 2 < rule.right]
        if any(not _is_number(word.text) for word in above):
            continue  # an underlined word
        for word in above:
            parts.remove(word)
        number = "".join(word.text for word in above)
        text = f"__{number}__" if number else "__"
        certainty = min((word.certainty for word in above), default=1.0)
        y = rule.middle - 0.3 * height
        parts.append(Word(text, rule.left, rule.right, y - height / 2, y + height / 2, certainty))
    return _apart(_joined(sorted(parts, key=lambda word: word.left), height), height)


def _ink(strip_HW3: Array) -> Sequence[bool]:
    """Which columns of a strip have ink; dirt at its upper and lower edge does not count."""
    import cv2

    ink_HW = ink_of(cv2.cvtColor(strip_HW3, cv2.COLOR_RGB2GRAY), STRIP)
    columns: list[bool] = ((ink_HW[STRIP // 8 : -STRIP // 8] > 0).sum(0) > 1).tolist()
    return columns


def _split(strip: _Strip, edges: Sequence[float]) -> list[list[tuple[float, Char]]]:
    """A line's characters with their places, by words; an empty word stands for a space."""
    words: list[list[tuple[float, Char]]] = [[]]
    for char in strip.chars:
        x, _ = strip.at(char.place)
        if char.text == " ":
            words += [[], []]
            continue
        if words[-1] and any(words[-1][-1][0] < edge < x for edge in edges):
            words += [[], []]
        words[-1].append((x, char))
    words = [letters for letters in words if letters]
    spaces = [strip.white(a[-1][1], b[0][1]) for a, b in pairwise(words)]
    space = median(spaces) if len(spaces) > 2 else USUAL_SPACE * STRIP
    space = min(max(space, 0.6 * USUAL_SPACE * STRIP), 2 * USUAL_SPACE * STRIP)
    joint = words[:1]
    for letters, white in zip(words[1:], spaces, strict=True):
        if white < NO_SPACE * space and joint[-1][-1][1].text.isalnum():
            joint[-1] = joint[-1] + letters
        else:
            joint.append(letters)
    found: list[list[tuple[float, Char]]] = []
    for letters in joint:
        text = "".join(char.text for _, char in letters)
        white = [strip.white(a, b) for (_, a), (_, b) in pairwise(letters)]
        for start, end in pairwise([0, *cuts(text, white, space), len(letters)]):
            found += [letters[start:end], []]
    return found


def _spaced(split: Sequence[list[tuple[float, Char]]], strip: _Strip, height: float) -> list[Word]:
    """Words with white between them where a space was read, and none where there was none."""
    edge, end = strip.corner_42[[0, 3], 0].mean(), strip.corner_42[[1, 2], 0].mean()
    found: list[Word] = []
    is_apart = False
    for letters in split:
        if not letters:
            is_apart = True
            continue
        first, last = letters[0][0], letters[-1][0]
        half = (last - first) / (len(letters) - 1) / 2 if len(letters) > 1 else 0.2 * height
        left, right = first - half, last + half
        _, y = strip.at(((first + last) / 2 - edge) / max(1.0, end - edge))
        if found:
            white = SPACE * height if is_apart else 0.0
            before = found[-1]
            middle = (before.right + left) / 2
            if left - before.right < white or not is_apart:
                found[-1] = replace(before, right=middle - white / 2)
                left = middle + white / 2
        text = "".join(char.text for _, char in letters)
        text = as_blank(text) or text
        certainty = min(char.certainty for _, char in letters)
        found.append(Word(text, left, right, y - height / 2, y + height / 2, certainty))
        is_apart = False
    return found


def _is_number(text: str) -> bool:
    return text.strip("()[]._ ").isdigit()


def _joined(parts: list[Word], height: float) -> list[Word]:
    """Rules and the number between them as one word: `__`, `36`, `__`."""
    done: list[Word] = []
    for word in parts:
        before = done[-1] if done else None
        white = (word.left - before.right) / height if before is not None else 0.0
        joint = None if before is None else _one_blank(before.text, word.text, white)
        if before is not None and joint is not None:
            done[-1] = Word(
                joint, before.left, word.right, before.top, before.bottom,
                min(before.certainty, word.certainty),
            )  # fmt: skip
        else:
            done.append(word)
    return done


def _apart(words: list[Word], height: float) -> list[Word]:
    """White around blanks: where a letter ends beside a rule is known to half a letter only."""
    for at, word in enumerate(words):
        if "_" not in word.text:
            continue
        if at and words[at - 1].right > word.left - SPACE * height:
            words[at - 1] = replace(words[at - 1], right=word.left - SPACE * height)
        after = words[at + 1] if at + 1 < len(words) else None
        if after is not None and after.text[0].isalnum():
            words[at + 1] = replace(after, left=max(after.left, word.right + SPACE * height))
    return words


def _one_blank(before: str, text: str, white: float) -> str | None:
    """Two parts as one, if they belong to one blank.

    Args:
        before: the part at the left.
        text: the part at the right.
        white: between them, as a multiple of the line's height.
    """
    if set(before) == set(text) == {"_"} and LOST[0] < white < LOST[1]:
        return before  # the number between them was not read
    if white > NEAR:
        return None
    if set(text) == {"_"} and before.strip("_").isdigit():
        return before + text if before[-1] != "_" else before
    if set(before) == {"_"} and as_blank(text):
        return text
    if before.startswith("_") and before[-1].isdigit() and as_blank(text):
        return f"{before}{text.strip('_')}__"  # `__1` and `__2__`
    return before + text if set(before) == {"_"} and _is_number(text) else None


def _in_points(words: Sequence[Word], straight: Straightener, shape: tuple[int, ...]) -> list[Word]:
    """Words where they would stand on a flat page of usual size."""
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
