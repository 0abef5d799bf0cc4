"""Drawn lines of a page: the rules of blanks, which text recognition does not read."""

# H and W pixels

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from albert_rc.printed.scan.corners import Array

SHORTEST = 0.5
"""Length of a rule, as a multiple of a line's height; dashes are shorter."""
THICKEST = 0.16
"""Its height, likewise."""
CLEAR = 0.15
"""Share of ink directly below a rule."""
GAP, TOUCHING = 0.14, 0.1
"""Height above a rule, as a multiple of a line's, in which there is a row with so little ink."""
PAGE_WIDE = 0.6
"""Share of the page's width from which a line belongs to a frame or a table."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal line, in pixels."""

    left: float
    right: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        """Its height on the page."""
        return (self.top + self.bottom) / 2


def ink_of(gray_HW: Array, height: float) -> Array:
    """What is darker than the paper around it, 0 or 255: shadows do not count."""
    import cv2

    block = max(11, int(1.2 * height)) | 1
    ink_HW: Array = cv2.adaptiveThreshold(
        gray_HW, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, block, 12
    )
    return ink_HW


def find_rules(gray_HW: Array, height: float) -> list[Rule]:
    """Horizontal lines of a page.

    Args:
        gray_HW: the page, upright to within some degrees.
        height: of a usual line of text, in pixels.
    """
    import cv2

    ink_HW = ink_of(gray_HW, height)
    # Short enough that a slanted or curved line passes through in steps.
    brush = cv2.getStructuringElement(cv2.MORPH_RECT, (max(5, int(0.3 * height)), 1))
    flat_HW = cv2.morphologyEx(ink_HW, cv2.MORPH_OPEN, brush)
    joint = cv2.getStructuringElement(cv2.MORPH_RECT, (max(3, int(0.12 * height)), 1))
    flat_HW = cv2.morphologyEx(flat_HW, cv2.MORPH_CLOSE, joint)
    count, label_HW, stats, _ = cv2.connectedComponentsWithStats(flat_HW, connectivity=8)
    rules = []
    for index in range(1, count):
        left, top, width, tall, _ = (int(v) for v in stats[index])
        if not SHORTEST * height <= width <= PAGE_WIDE * gray_HW.shape[1]:
            continue
        part_hw = label_HW[top : top + tall, left : left + width] == index
        thickness = part_hw.sum() / width
        slant = tall - thickness  # a slanted line is as tall as it rises
        thin = thickness <= max(2.5, THICKEST * height) and slant <= max(3, 0.12 * width)
        if thin and _is_clear(ink_HW, left, top, width, tall, height):
            rules.append(Rule(left, left + width, top, top + tall))
    return rules


def _is_clear(ink_HW: Array, left: int, top: int, width: int, tall: int, height: float) -> bool:
    """Whether nothing stands on a line or hangs from it, but for a letter's tail or a number.

    Between a line and what stands above it there is paper; between a letter and its foot, as in 2
    or E, there is none.
    """
    across = slice(left, left + width)
    above_HW = ink_HW[max(0, top - max(4, round(GAP * height))) : max(0, top - 1), across] > 0
    below_HW = ink_HW[top + tall + 2 : top + tall + 2 + max(3, round(0.1 * height)), across] > 0
    apart = not above_HW.size or above_HW.mean(1).min() < TOUCHING
    return bool(apart and (not below_HW.size or below_HW.mean() < CLEAR))


def erase(page_HW3: Array, rules: list[Rule], height: float) -> Array:
    """The page without these rules: each column gets the colours above and below it."""
    page_HW3 = page_HW3.copy()
    edge = max(2, round(0.06 * height))
    for rule in rules:
        left, right = max(0, int(rule.left) - edge), int(rule.right) + edge
        top, bottom = max(0, int(rule.top) - edge), min(len(page_HW3), int(rule.bottom) + edge)
        above = page_HW3[max(0, top - 1), left:right].astype(np.int32)
        below = page_HW3[min(len(page_HW3) - 1, bottom), left:right].astype(np.int32)
        # The lighter one: a letter that reaches down to the rule must not be drawn out.
        page_HW3[top:bottom, left:right] = np.maximum(above, below)[None]
    return page_HW3
