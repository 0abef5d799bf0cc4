"""Lines of a PDF, from the positions of its words."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from albert_rc.errors import DataError, UsageError
from albert_rc.printed.lines import Line, shortened
from albert_rc.printed.read.layout import Word, lines_of

LARGEST = 14_400  # points: a page's side, by the standard's limits


def read_pdf(path: Path) -> tuple[list[Line], list[str]]:
    """The lines of a PDF's pages (none if they are pictures), with notes on headers left out.

    Raises:
        UsageError: pdfplumber is not installed.
        DataError: it cannot be read.
    """
    try:
        import pdfplumber
    except ImportError:
        raise UsageError(
            f'{path}: PDF files need pdfplumber; pip install "albert-rc[import]"'
        ) from None
    logging.getLogger("pdfminer").setLevel(logging.ERROR)
    pages: list[tuple[list[Word], float]] = []
    try:
        with pdfplumber.open(path) as document:
            for page in document.pages:
                pages.append((_words(page), min(float(page.width), LARGEST)))
                page.close()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except Exception as error:  # a damaged file can raise anything
        if isinstance(error, MemoryError) or isinstance(error.__context__, MemoryError):
            raise MemoryError from None  # pdfplumber wraps it
        said = str(error) or type(error).__name__
        if "Password" in repr(error):
            raise DataError(
                f"{path}: protected by a password; save it without one, or print it to PDF"
            ) from None
        raise DataError(
            f"{path}: not a readable PDF ({shortened(said, 80)}); print it to PDF again"
        ) from None
    return lines_of(pages)


def _words(page: Any) -> list[Word]:
    return [
        Word(w["text"], w["x0"], w["x1"], w["top"], w["bottom"])
        for w in page.extract_words(x_tolerance_ratio=0.15, y_tolerance=2)
        if w["upright"] and all(abs(w[side]) <= LARGEST for side in ("x0", "x1", "top", "bottom"))
    ]
