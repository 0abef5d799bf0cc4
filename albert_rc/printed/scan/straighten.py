"""Correction of slanted and curved lines: from positions on a photographed page to flat ones.

Only coordinates are changed, never the picture. The slope of lines is a smooth function of the
position on the page, fitted to the long lines; the left margin is fitted in the same way.
"""

# B lines, P points

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from albert_rc.printed.scan.corners import Array

LONG = 2.5
"""Minimum length of lines that the slope is fitted to, as a multiple of their height."""
FEW = 6
"""Minimum number of lines for fitting more than a rotation."""


@dataclass(frozen=True, slots=True)
class Straightener:
    """A fitted correction: coefficients of terms in x and y (`slope`), of powers of y (`edge`)."""

    slope: Array
    edge: Array
    width: float
    height: float

    def straighten(self, x_P: Array, y_P: Array) -> tuple[Array, Array]:
        """Positions, in pixels, moved to a page with level lines and an upright left margin."""
        u_P, v_P = x_P / self.width - 0.5, y_P / self.height - 0.5
        a, b, c, d, e, f = self.slope
        # The slope's integral from the middle of the page along x.
        rise_P = u_P * (a + c * v_P + f * v_P**2) + u_P**2 / 2 * (b + d * v_P) + u_P**3 / 3 * e
        straight_y = y_P - rise_P * self.width
        v_P = straight_y / self.height - 0.5
        shift_P = self.edge[0] * v_P + self.edge[1] * v_P**2
        return x_P - shift_P * self.width, straight_y


def fit(corner_B42: Array, width: float, height: float) -> Straightener:
    """Fit the slopes of lines and the left margin.

    Args:
        corner_B42: corners of the lines, clockwise from the upper left.
        width: of the page, in pixels.
        height: likewise.
    """
    flat = Straightener(np.zeros(6), np.zeros(2), width, height)
    if len(corner_B42) == 0:
        return flat
    start_B2 = (corner_B42[:, 0] + corner_B42[:, 3]) / 2
    end_B2 = (corner_B42[:, 1] + corner_B42[:, 2]) / 2
    length_B = np.abs(end_B2[:, 0] - start_B2[:, 0])
    tall_B = np.abs(corner_B42[:, 3, 1] - corner_B42[:, 0, 1])
    long_B = length_B >= LONG * tall_B
    if not long_B.any():
        return flat
    run_B = end_B2[long_B] - start_B2[long_B]
    slope_B = run_B[:, 1] / run_B[:, 0]
    middle_B2 = (start_B2 + end_B2)[long_B] / 2
    u_B, v_B = middle_B2[:, 0] / width - 0.5, middle_B2[:, 1] / height - 0.5
    one_B = np.ones_like(u_B)
    terms_B6 = np.stack([one_B, u_B, v_B, u_B * v_B, u_B**2, v_B**2], 1)
    # Lines as wide as the page all have the same middle, so they cannot show how lines curve.
    spread = u_B.std() > 0.1 and len(u_B) >= 3 * FEW
    kept = [0, 1, 2, 3, 4, 5] if spread else [0, 2, 5] if len(u_B) >= FEW else [0]
    slope = np.zeros(6)
    # A corner's error does not depend on the line's length, so longer lines have more exact slopes.
    slope[kept] = _robust(terms_B6[:, kept], slope_B, length_B[long_B] ** 2)
    found = Straightener(slope, np.zeros(2), width, height)
    return Straightener(slope, _margin(found, start_B2, width, height), width, height)


def _margin(found: Straightener, start_B2: Array, width: float, height: float) -> Array:
    """Coefficients of the left margin's lean, fitted to the lines that begin at the margin."""
    x_B, y_B = found.straighten(start_B2[:, 0], start_B2[:, 1])
    v_B = y_B / height - 0.5
    edge, near_B = np.zeros(2), x_B <= np.percentile(x_B, 40)
    for _ in range(6):
        if near_B.sum() < FEW or np.ptp(v_B[near_B]) < 0.3:
            return np.zeros(2)
        terms_B3 = np.stack([np.ones_like(v_B), v_B, v_B**2], 1)
        level, *bent = np.linalg.lstsq(terms_B3[near_B], x_B[near_B] / width, rcond=None)[0]
        edge = np.array(bent)
        off_B = x_B / width - terms_B3 @ np.array([level, *bent])
        near_B = np.abs(off_B) < 0.012
    return edge if np.abs(edge).max() < 0.3 else np.zeros(2)


def _robust(terms_BK: Array, value_B: Array, weight_B: Array) -> Array:
    """Iteratively reweighted least squares: lines far from one fit count less in the next."""
    weight_B = weight_B / weight_B.max()
    doubt_B = np.ones_like(weight_B)
    found = np.zeros(terms_BK.shape[1])
    for _ in range(8):
        scale_B = np.sqrt(weight_B * doubt_B)
        found = np.linalg.lstsq(terms_BK * scale_B[:, None], value_B * scale_B, rcond=None)[0]
        off_B = np.abs(value_B - terms_BK @ found)
        usual = max(1e-4, float(np.median(off_B)))
        doubt_B = 1 / np.maximum(1.0, off_B / (2 * usual))
    return found
