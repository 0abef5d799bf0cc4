"""Lines from words with positions: rows, and columns of text one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from albert_rc.printed.lines import Doubt, Line, Piece, clean, shadow_of
from albert_rc.printed.read.headers import without_headers
from albert_rc.printed.recognise.options import marks_in

SAME_LINE = 0.4  # of a letter's height
WIDE = 1.3  # of a letter's height: white space that separates columns of options
GUTTER = 6  # minimum gap between two columns of text, in points
INDENT = 24  # points by which lines of a column may be indented
MOST_CROSSING = 2  # rows across both columns of a page whose right one is short


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its position, in points from the page's upper left corner."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    certainty: float = 1.0
    """Certainty of having been read correctly, if it was read from a picture."""
    picture: bytes = b""
    """Picture of its line as JPEG, if a person must check the word."""


Row = list[Word]


def lines_of(pages: Sequence[tuple[Sequence[Word], float]]) -> tuple[list[Line], list[str]]:
    """The lines of pages, with notes on headers and footers left out.

    Args:
        pages: words and width in points of each page.
    """
    rows = [(_rows(words), width) for words, width in pages]
    whitest = [_whitest(page, width) for page, width in rows]
    gutters = [_gutter(page, at) for (page, _), at in zip(rows, whitest, strict=True)]
    found: list[list[Line]] = []
    for number, (page, width) in enumerate(rows, 1):
        gutter = gutters[number - 1]
        if gutter is None:
            # The last page's right column may be short, or there may be only one page.
            others = [g for g, (_, w) in zip(gutters, rows, strict=True) if g and w == width]
            gutter = _gutter_of_few(page, others, whitest[number - 1])
        found.append(_page_lines(page, gutter, number))
    return without_headers(found)


def _page_lines(rows: Sequence[Row], gutter: float | None, number: int) -> list[Line]:
    """The rows of a page as lines; two columns of text are read one after the other."""
    if gutter is None:
        columns = [rows]
    else:
        columns = []
        band: list[Row] = []
        for row in [*rows, None]:
            crossing = row is not None and any(w.left < gutter < w.right for w in row)
            if row is not None and not (crossing or _spans(row, gutter)):
                band.append(row)
                continue
            columns += [
                [half for r in band if (half := [w for w in r if (w.left > gutter) == right])]
                for right in (False, True)
            ]
            columns += [[row]] if row is not None else []
            band = []
    lines: list[Line] = []
    for column in columns:
        lines += _column_lines(column, f"page {number}", len(lines))
    return lines


def _rows(words: Sequence[Word]) -> list[Row]:
    rows: list[Row] = []
    for word in sorted(words, key=lambda w: ((w.top + w.bottom) / 2, w.left)):
        height = word.bottom - word.top
        middle = (word.top + word.bottom) / 2
        if rows and abs(middle - _middle(rows[-1])) < SAME_LINE * height:
            rows[-1].append(word)
        else:
            rows.append([word])
    return [sorted(row, key=lambda w: w.left) for row in rows]


def _middle(row: Row) -> float:
    return (row[-1].top + row[-1].bottom) / 2


def _gutter(rows: Sequence[Row], at: float) -> float | None:
    """The position of the gutter between two columns of text, if the page has two."""
    both = _halves(rows, at)
    if _crossed(rows, at) > 0.25 * len(rows) or len(both) < 4 or len(both) < 0.3 * len(rows):
        return None
    return None if _are_options(both) else at


def _gutter_of_few(rows: Sequence[Row], others: Sequence[float], own: float) -> float | None:
    """The gutter between two columns if the right one has only a few rows.

    Only a title or a page number may cross it, and the text to its right must be aligned.

    Args:
        rows: rows of the page.
        others: the gutters of the document's other pages.
        own: the likeliest position on this page.
    """
    for at in (*dict.fromkeys(others), own):
        both = _halves(rows, at)
        edges = Counter(round(right[0].left) for _, right in both)
        # Options are indented behind their questions' numbers.
        aligned = max(
            (sum(edges[edge + indent] for indent in range(INDENT + 1)) for edge in edges), default=0
        )
        least = 1 if at in others else 3
        if aligned < max(least, 0.6 * len(both)) or _are_options(both):
            continue
        if _crossed(rows, at) <= MOST_CROSSING:
            return at
    return None


def _whitest(rows: Sequence[Row], width: float) -> float:
    """The position near the middle of a page that the fewest rows cross."""
    steps = range(int(0.35 * width), max(int(0.65 * width), int(0.35 * width) + 1), 3)
    return float(min(steps, key=lambda step: (_crossed(rows, step), abs(step - width / 2))))


def _crossed(rows: Sequence[Row], at: float) -> int:
    return sum(any(w.left - GUTTER / 2 < at < w.right + GUTTER / 2 for w in r) for r in rows)


def _halves(rows: Sequence[Row], at: float) -> list[tuple[Row, Row]]:
    """The rows that have words on both sides."""
    return [
        (left, right)
        for row in rows
        if (left := [w for w in row if w.right <= at])
        and (right := [w for w in row if w.left >= at])
    ]


def _are_options(both: Sequence[tuple[Row, Row]]) -> bool:
    """Whether only the options, not the text, are in two columns."""
    # They go on from left to right: A at the left, B at the right.
    going_on = 0
    for left, right in both:
        line = _line(left, "", 0, 1)
        other = _line(right, "", 0, 1)
        letters = [mark.index for mark in marks_in(_whole(line))]
        next_ = [mark for mark in marks_in(_whole(other)) if mark.start == 0]
        going_on += bool(letters and next_ and next_[0].index == letters[-1] + 1)
    return going_on >= 0.3 * len(both)


def _whole(line: Line) -> Piece:
    return Piece(line, 0, len(line.text))


def _spans(row: Row, gutter: float) -> bool:
    """Whether a row is a single line across both columns, such as a title."""
    left = [w for w in row if w.right <= gutter]
    right = [w for w in row if w.left >= gutter]
    if not left or not right:
        return False
    space = right[0].left - left[-1].right
    return space < 0.6 * (row[0].bottom - row[0].top)


def _column_lines(rows: Sequence[Row], where: str, before: int) -> list[Line]:
    if not rows:
        return []
    edge = min(row[0].left for row in rows)
    letter = _letter_width(rows)
    steps = [b[0].top - a[0].top for a, b in pairwise(rows)]
    usual = median(steps) if steps else 0
    lines = []
    for number, row in enumerate(rows):
        gap = number > 0 and steps[number - 1] > 1.4 * usual
        line = _line(row, f"{where}, line {before + number + 1}", edge, letter)
        lines.append(replace(line, gap=gap, turns=number == 0))
    return lines


def _letter_width(rows: Sequence[Row]) -> float:
    letters = sum(len(w.text) for row in rows for w in row)
    return sum(w.right - w.left for row in rows for w in row) / max(1, letters) or 1


def _line(row: Row, place: str, edge: float, letter: float) -> Line:
    text = ""
    right = row[0].left
    for word in row:
        space = word.left - right
        height = word.bottom - word.top
        if text:
            text += "   " if space > WIDE * height else " " if space > 0.1 * height else ""
        text += word.text
        right = word.right
    text = clean(text)
    indent = (row[0].left - edge) / letter
    return Line(
        text,
        shadow_of(text),
        place,
        indent=indent,
        width=(right - edge) / letter,
        doubts=tuple(Doubt(word.text, word.picture, place) for word in row if word.picture),
    )
