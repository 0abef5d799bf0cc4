"""Ink outside the detected lines: text detection misses lone numbers and short words."""

# H and W pixels, B lines

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert_rc.printed.scan.corners import Array
from albert_rc.printed.scan.rules import Rule, ink_of

LOWEST, TALLEST = 0.22, 1.1
"""Minimum and maximum height of letters, as multiples of a line's height."""
TOGETHER = 0.45
"""Maximum gap between two letters of a word, likewise."""


def missed_lines(gray_HW: Array, corner_B42: Array, rules: Sequence[Rule], height: float) -> Array:
    """Corners of possible text outside the detected lines, [B, 4, 2].

    Args:
        gray_HW: the page.
        corner_B42: corners of the detected lines, clockwise from the upper left.
        rules: drawn lines, which are not letters.
        height: of a usual line, in pixels.
    """
    import cv2

    ink_HW = ink_of(gray_HW, height)
    for rule in rules:
        ink_HW[
            int(rule.top) - 2 : int(rule.bottom) + 3, int(rule.left) - 2 : int(rule.right) + 3
        ] = 0
    for corner_42 in corner_B42:
        cv2.fillConvexPoly(ink_HW, np.round(corner_42).astype(np.int32), 0)
    # Ink outside the area of the detected lines may lie outside the paper.
    left, top = corner_B42.reshape(-1, 2).min(0)
    right, bottom = corner_B42.reshape(-1, 2).max(0)
    count, label_HW, stats, _ = cv2.connectedComponentsWithStats(ink_HW, connectivity=8)
    letters_HW = np.zeros_like(ink_HW)
    for index in range(1, count):
        x, y, width, tall, area = (int(v) for v in stats[index])
        inside = left <= x and x + width <= right and top <= y and y + tall <= bottom
        is_letter = LOWEST * height <= tall <= TALLEST * height and width <= 2 * height
        if inside and is_letter and area > 0.01 * height**2:
            part = label_HW[y : y + tall, x : x + width] == index
            letters_HW[y : y + tall, x : x + width][part] = 255
    reach = max(3, round(TOGETHER * height))
    brush = cv2.getStructuringElement(cv2.MORPH_RECT, (reach, 1))
    count, _, stats, _ = cv2.connectedComponentsWithStats(
        cv2.morphologyEx(letters_HW, cv2.MORPH_CLOSE, brush), connectivity=8
    )
    found = []
    for index in range(1, count):
        x, y, width, tall, _ = (int(v) for v in stats[index])
        edge = 0.15 * height
        x0, y0, x1, y1 = x - edge, y - edge, x + width + edge, y + tall + edge
        found.append([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    return np.array(found, np.float32).reshape(-1, 4, 2)
