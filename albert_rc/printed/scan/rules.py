"""Drawn lines of a page: the rules of blanks, which text recognition does not read."""

# H and W pixels

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from albert_rc.printed.scan.corners import Array

SHORTEST = 0.5
"""Minimum length of a rule, as a multiple of a line's height; dashes are shorter."""
THICKEST = 0.16
"""Maximum thickness of a rule, likewise."""
CLEAR = 0.15
"""Maximum share of ink directly below a rule."""
GAP, TOUCHING = 0.14, 0.1
"""Height of the area above a rule, as a multiple of a line's height, and the maximum share of
ink in the clearest row of pixels of that area."""
PAGE_WIDE = 0.6
"""Share of the page's width above which a drawn line belongs to a frame or a table."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A horizontal drawn line, with coordinates in pixels."""

    left: float
    right: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        """The y coordinate of the rule's middle."""
        return (self.top + self.bottom) / 2


def ink_of(gray_HW: Array, height: float) -> Array:
    """Mask of what is darker than the paper around it, 0 or 255; shadows do not count."""
    import cv2

    block = max(11, int(1.2 * height)) | 1
    ink_HW: Array = cv2.adaptiveThreshold(
        gray_HW, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, block, 12
    )
    return ink_HW


def find_rules(gray_HW: Array, height: float) -> list[Rule]:
    """The horizontal drawn lines of a page.

    Args:
        gray_HW: the page, upright to within a few degrees.
        height: of a usual line of text, in pixels.
    """
    import cv2

    ink_HW = ink_of(gray_HW, height)
    # The brush is so short that a slanted or curved line is kept, as a series of steps.
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
        slant = tall - thickness  # how far the line rises or falls
        thin = thickness <= max(2.5, THICKEST * height) and slant <= max(3, 0.12 * width)
        if thin and _is_clear(ink_HW, left, top, width, tall, height):
            rules.append(Rule(left, left + width, top, top + tall))
    return rules


def _is_clear(ink_HW: Array, left: int, top: int, width: int, tall: int, height: float) -> bool:
    """Whether nothing touches a drawn line, except for a letter's tail or a number.

    There is paper between a drawn line and the text above it, but none between the foot of a
    character such as 2 or E and the rest of it.
    """
    across = slice(left, left + width)
    above_HW = ink_HW[max(0, top - max(4, round(GAP * height))) : max(0, top - 1), across] > 0
    below_HW = ink_HW[top + tall + 2 : top + tall + 2 + max(3, round(0.1 * height)), across] > 0
    apart = not above_HW.size or above_HW.mean(1).min() < TOUCHING
    return bool(apart and (not below_HW.size or below_HW.mean() < CLEAR))


def erase(page_HW3: Array, rules: list[Rule], height: float) -> Array:
    """The page with rules erased: columns take the lighter of the colours above and below them."""
    page_HW3 = page_HW3.copy()
    edge = max(2, round(0.06 * height))
    for rule in rules:
        left, right = max(0, int(rule.left) - edge), int(rule.right) + edge
        top, bottom = max(0, int(rule.top) - edge), min(len(page_HW3), int(rule.bottom) + edge)
        above = page_HW3[max(0, top - 1), left:right].astype(np.int32)
        below = page_HW3[min(len(page_HW3) - 1, bottom), left:right].astype(np.int32)
        # The lighter colour, so that a letter that reaches down to the rule is not lengthened.
        page_HW3[top:bottom, left:right] = np.maximum(above, below)[None]
    return page_HW3
