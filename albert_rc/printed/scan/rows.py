"""Rows of lines that lie side by side, as options do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from albert_rc.printed.read.layout import Word

SAME_ROW = 0.6
"""Maximum vertical distance between the end of a line and the beginning of the next one in its row,
as a multiple of a line's height."""
OVERLAP = 0.5
"""Maximum horizontal overlap of two lines of a row, likewise."""


@dataclass(slots=True)
class _Row:
    words: list[Word]

    @property
    def end(self) -> Word:
        return self.words[-1]


def rows_of(lines: Sequence[Sequence[Word]]) -> list[Word]:
    """The words of lines, with those of a row all at one vertical position.

    Lines are taken from left to right, and each is appended to the row whose end is vertically
    nearest. So a remaining slant, whose effect grows along a row, never joins two rows.

    Args:
        lines: words of each line, from left to right, on a straightened page.
    """
    lines = [line for line in lines if line]
    if not lines:
        return []
    height = median(word.bottom - word.top for line in lines for word in line)
    rows: list[_Row] = []
    for line in sorted(lines, key=lambda line: line[0].left):
        near = [
            row
            for row in rows
            if row.end.right - OVERLAP * height <= line[0].left
            and abs(_middle(row.end) - _middle(line[0])) < SAME_ROW * height
        ]
        if near:
            best = min(near, key=lambda row: abs(_middle(row.end) - _middle(line[0])))
            best.words += line
        else:
            rows.append(_Row(list(line)))
    found = []
    for row in rows:
        middle = fmean(map(_middle, row.words))
        found += [
            replace(word, top=middle - height / 2, bottom=middle + height / 2) for word in row.words
        ]
    return found


def _middle(word: Word) -> float:
    return (word.top + word.bottom) / 2
