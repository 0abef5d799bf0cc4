"""Text recognition in pictures by RapidOCR, whose package includes its models."""

# B boxes, H and W pixels

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.errors import UsageError
from albert_rc.printed.scan.corners import Array
from albert_rc.printed.scan.pictures import needs
from albert_rc.runtime.pool import cores

DETECTED = 1600
"""Maximum length of a page's longer side, in pixels, for the detection of text lines."""
LEAST_BOX = 0.4
"""Minimum mean certainty of a detected line's pixels."""


@dataclass(frozen=True, slots=True)
class Char:
    """A recognised character of a strip."""

    text: str
    place: float
    """Centre of the character, as a share of the strip's width."""
    certainty: float


class OcrEngine:
    """Finds lines of text in a page, and reads them."""

    def __init__(self) -> None:
        from rapidocr import RapidOCR

        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        self._engine: Any = RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.use_cls": False,  # this step turns some upright English lines upside down
                "Global.max_side_len": DETECTED,
                "Global.text_score": 0.0,
                "Det.box_thresh": LEAST_BOX,
                "EngineConfig.onnxruntime.intra_op_num_threads": cores(),
            }
        )

    def find(self, page_HW3: Array) -> Array:
        """The lines' corners, clockwise from the upper left, [B, 4, 2], in pixels."""
        found = self._engine(page_HW3, use_det=True, use_cls=False, use_rec=False)
        boxes = getattr(found, "boxes", None)
        if boxes is None or not len(boxes):
            return np.zeros((0, 4, 2), np.float32)
        return np.asarray(boxes, np.float32)

    def read(self, strips: Sequence[Array]) -> list[list[Char]]:
        """The characters of each strip (a picture of one line), including spaces."""
        if not strips:
            return []
        self._engine.return_word_box = True
        found = self._engine.recognize_txt(list(strips))
        lines = []
        for text, info in zip(found.txts, found.word_results, strict=True):
            columns = [column for word in info.word_cols for column in word]
            chars: list[Char] = []
            for char, certainty in zip(text, info.confs, strict=False):
                if char.isspace():
                    chars.append(Char(" ", chars[-1].place if chars else 0.0, certainty))
                elif columns:
                    place = (columns.pop(0) + 0.5) / max(1.0, info.line_txt_len)
                    chars.append(Char(char, min(1.0, place), certainty))
            lines.append(chars)
        return lines


def open_engine(path: Path) -> OcrEngine:
    """The engine, loaded once per process.

    Args:
        path: the file or folder to read, named in the error.

    Raises:
        UsageError: text recognition is not installed.
    """
    try:
        return _engine()
    except ImportError:
        raise UsageError(needs(path)) from None


@cache
def _engine() -> OcrEngine:
    return OcrEngine()
