"""A line's place on a page: four corners, clockwise from the upper left, in pixels."""

# B lines

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def heights(corner_B42: Array) -> Array:
    """Heights of lines, [B]."""
    down_B2 = (corner_B42[:, 3] + corner_B42[:, 2] - corner_B42[:, 0] - corner_B42[:, 1]) / 2
    height_B: Array = np.hypot(down_B2[:, 0], down_B2[:, 1])
    return height_B


def widths(corner_B42: Array) -> Array:
    """Widths of lines, [B]."""
    along_B2 = corner_B42[:, 1] - corner_B42[:, 0]
    width_B: Array = np.hypot(along_B2[:, 0], along_B2[:, 1])
    return width_B


def height_of(corner_42: Array) -> float:
    """Height of one line."""
    return float(heights(corner_42[None])[0])


def ends(corner_42: Array) -> tuple[float, float]:
    """The x coordinates of a line's beginning and end, in pixels."""
    return float(corner_42[[0, 3], 0].mean()), float(corner_42[[1, 2], 0].mean())


def widened(corner_42: Array, before: float, after: float) -> Array:
    """A line's corners with more paper at its beginning and its end."""
    along_2 = (corner_42[1] + corner_42[2] - corner_42[0] - corner_42[3]) / 2
    along_2 = along_2 / max(1.0, float(np.hypot(*along_2)))
    back_2, on_2 = -along_2 * before, along_2 * after
    wider_42: Array = corner_42 + np.stack([back_2, on_2, on_2, back_2])
    return wider_42


def heightened(corner_42: Array, share: float) -> Array:
    """A line's corners with more paper above and below, each a share of the line's height."""
    up_42 = (corner_42[[0, 1, 1, 0]] - corner_42[[3, 2, 2, 3]]) * share
    taller_42: Array = corner_42 + up_42 * np.array([[1], [1], [-1], [-1]])
    return taller_42
