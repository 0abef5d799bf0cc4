"""Strips, which are pictures of lines at one height, and rotation of pages until they are level."""

# H and W pixels, B lines

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from albert_rc.printed.scan.corners import Array, ends, height_of, heights, widths
from albert_rc.printed.scan.engine import Char, OcrEngine
from albert_rc.printed.scan.glued import widest_white
from albert_rc.printed.scan.rules import ink_of

STRIP = 48
"""Height of the strips that are read, in pixels."""
UPRIGHT = 0.75
"""Mean certainty of the longest lines below which a page may be upside down."""
TILT = 0.1
"""Minimum tilt of a page, in degrees, that is corrected."""


@dataclass(frozen=True, slots=True)
class Strip:
    """A recognised line: its corners, clockwise from the upper left, and its characters."""

    corner_42: Array
    chars: list[Char]
    ink_W: Sequence[bool] = ()
    """Whether each column of the strip has ink."""

    @property
    def height(self) -> float:
        """Height of the line, in pixels of the page."""
        return height_of(self.corner_42)

    @property
    def ends(self) -> tuple[float, float]:
        """The x coordinates of the line's beginning and end, in pixels of the page."""
        return ends(self.corner_42)

    @property
    def certainty(self) -> float:
        """Mean certainty of the characters."""
        read = [char.certainty for char in self.chars if char.text != " "]
        return sum(read) / len(read) if read else 0.0

    def at(self, share: float) -> tuple[float, float]:
        """The point (x, y) on the line's central axis at a share of its width."""
        left_2 = (self.corner_42[0] + self.corner_42[3]) / 2
        right_2 = (self.corner_42[1] + self.corner_42[2]) / 2
        x, y = left_2 + (right_2 - left_2) * share
        return float(x), float(y)

    def white(self, before: Char, after: Char) -> int:
        """Width of the widest white gap between two characters, in columns of the strip."""
        start, end = (round(char.place * len(self.ink_W)) for char in (before, after))
        return widest_white(self.ink_W, start, end)


def upright(page_HW3: Array, engine: OcrEngine) -> tuple[Array, Array]:
    """The page rotated by quarter turns until its lines are upright, and the lines' corners."""
    corner_B42 = engine.find(page_HW3)
    if len(corner_B42) and np.median(heights(corner_B42) / widths(corner_B42)) > 1:
        page_HW3 = np.ascontiguousarray(np.rot90(page_HW3))
        corner_B42 = engine.find(page_HW3)
    if not len(corner_B42):
        return page_HW3, corner_B42
    longest = corner_B42[np.argsort(-widths(corner_B42))[:5]]
    strips = [cut(page_HW3, corner_42) for corner_42 in longest]
    certain = _certainty(engine, strips)
    if certain < UPRIGHT:
        turned = [np.ascontiguousarray(strip[::-1, ::-1]) for strip in strips]
        if _certainty(engine, turned) > certain:
            page_HW3 = np.ascontiguousarray(page_HW3[::-1, ::-1])
            corner_B42 = engine.find(page_HW3)
    return page_HW3, corner_B42


def _certainty(engine: OcrEngine, strips: Sequence[Array]) -> float:
    read = engine.read(strips)
    return sum(Strip(np.empty(0), chars).certainty for chars in read) / len(read)


def level(page_HW3: Array, corner_B42: Array) -> tuple[Array, Array]:
    """The page rotated by a few degrees until most lines are level, and the lines' corners."""
    import cv2

    along_B2 = corner_B42[:, 1] - corner_B42[:, 0]
    long_B = widths(corner_B42) >= np.median(widths(corner_B42))
    angle = float(np.median(np.degrees(np.arctan2(along_B2[long_B, 1], along_B2[long_B, 0]))))
    if abs(angle) < TILT:
        return page_HW3, corner_B42
    height, width = page_HW3.shape[:2]
    turn_23 = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.0)
    page_HW3 = cv2.warpAffine(
        page_HW3, turn_23, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return page_HW3, (corner_B42 @ turn_23[:, :2].T + turn_23[:, 2]).astype(np.float32)


def cut(page_HW3: Array, corner_42: Array) -> Array:
    """A line's picture, made level and scaled to the height of a strip."""
    import cv2

    width, height = widths(corner_42[None])[0], height_of(corner_42)
    width = max(STRIP // 4, round(float(width / max(1.0, height)) * STRIP))
    target = np.array([[0, 0], [width, 0], [width, STRIP], [0, STRIP]], np.float32)
    view_33 = cv2.getPerspectiveTransform(corner_42.astype(np.float32), target)
    strip: Array = cv2.warpPerspective(
        page_HW3, view_33, (width, STRIP), flags=cv2.INTER_AREA if height > STRIP
        else cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    return strip


def strip_ink(strip_HW3: Array) -> Array:
    """Mask of a strip's ink, 0 or 255, [H, W]."""
    import cv2

    return ink_of(cv2.cvtColor(strip_HW3, cv2.COLOR_RGB2GRAY), STRIP)


def ink_columns(ink_HW: Array) -> Sequence[bool]:
    """Whether each column of a strip has ink; dirt at its upper and lower edges does not count."""
    columns: list[bool] = ((ink_HW[STRIP // 8 : -STRIP // 8] > 0).sum(0) > 1).tolist()
    return columns


def as_jpeg(strip_HW3: Array) -> bytes:
    """A line's picture, as JPEG."""
    import cv2

    _, written = cv2.imencode(".jpg", strip_HW3[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 60])
    content: bytes = written.tobytes()
    return content
