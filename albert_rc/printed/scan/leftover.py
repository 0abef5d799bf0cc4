"""Ink of a line that no character was recognised for, and characters without ink.

Text recognition misses lone punctuation marks after blanks, and may take the remains of a rule for
a character.
"""

# H and W pixels of a strip

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from albert_rc.printed.scan.corners import Array
from albert_rc.printed.scan.engine import Char

REACH = 0.32
"""How far from a character's middle its ink reaches, as a multiple of the strip's height."""
LEAST_INK = 7
"""Minimum number of ink pixels; smaller spots are dirt."""
DOT = 0.17
"""Largest width and height of a full stop, as a multiple of the strip's height."""
BASELINE = 0.55, 0.88
"""Vertical range of a full stop's middle, as shares of the strip's height."""
LEAST_TALL, TALL_SIGNS = 0.25, "?!"
"""Minimum height of letters, as a multiple of the strip's, and punctuation marks as tall."""
LIKE_A_DOT = 0.85
"""Certainty of a full stop that is recognised by its shape."""


def _has_ink(char: Char, ink_HW: Array) -> bool:
    """Whether a recognised letter or tall mark has ink of its height; True for other marks."""
    if not (char.text.isalnum() or char.text in TALL_SIGNS):
        return True
    height, width = ink_HW.shape
    x, reach = char.place * width, 0.3 * height
    rows = np.flatnonzero(ink_HW[:, max(0, int(x - reach)) : int(x + reach) + 1].any(1))
    return bool(len(rows)) and int(rows[-1] - rows[0]) + 1 >= LEAST_TALL * height


def with_leftover(chars: Sequence[Char], ink_HW: Array) -> list[Char]:
    """The characters of a strip that have ink, and the full stops that were missed.

    Other ink that no character was recognised for makes the nearest character doubtful.

    Args:
        chars: from left to right.
        ink_HW: mask of the strip's ink, with rules erased.
    """
    import cv2

    height, width = ink_HW.shape
    found = [char for char in chars if _has_ink(char, ink_HW)]
    if not any(char.text != " " for char in found):
        return found
    count, _, stats, centers = cv2.connectedComponentsWithStats(ink_HW, connectivity=8)
    for index in range(1, count):
        left, top, wide, tall, area = (int(v) for v in stats[index])
        edge = left <= 1 or left + wide >= width - 1 or top <= 1 or top + tall >= height - 1
        if area < LEAST_INK or edge:
            continue
        x, y = (float(v) for v in centers[index])
        far = min(
            max(left - char.place * width, char.place * width - left - wide, 0.0)
            for char in found
            if char.text != " "
        )
        if far <= REACH * height:
            continue
        is_dot = max(wide, tall) <= DOT * height and 0.6 < wide / tall < 1.7
        if is_dot and BASELINE[0] < y / height < BASELINE[1]:
            at = sum(char.place < x / width for char in found)
            found[at:at] = [Char(" ", x / width, 1.0), Char(".", x / width, LIKE_A_DOT)]
        elif tall > DOT * height:
            at = min(
                (i for i, char in enumerate(found) if char.text != " "),
                key=lambda i: abs(found[i].place - x / width),
            )
            found[at] = replace(found[at], certainty=0.0)
    return found
