"""Lines of a PDF, from the positions of its words."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import counted, first_of, quoted
from albert_rc.printed.lines import Line, shortened
from albert_rc.printed.read.layout import Word, lines_of
from albert_rc.printed.read.underlines import with_blanks

MOST_PICTURES = 20  # pages named in the notes
_BULLET = re.compile(r"\(cid:(?:127|129|141|143|144|157)\)")
"""Pattern of codes that WinAnsiEncoding leaves unused, which are bullets (ISO 32000-1, annex D)."""
_UNKNOWN = re.compile(r"\(cid:[0-9]+\)")
LARGEST = 14_400  # points: a page's side, by the standard's limits


def read_pdf(path: Path) -> tuple[list[Line], list[str]]:
    """The lines of a PDF's pages (none if they are pictures), with notes on what was left out.

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
    pictures = []
    try:
        with pdfplumber.open(path) as document:
            for number, page in enumerate(document.pages, 1):
                words = with_blanks(_words(page), page)
                pages.append((words, min(float(page.width), LARGEST)))
                if page.images and not pages[-1][0]:
                    pictures.append(number)
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
    lines, notes = lines_of(pages)
    unread = [f"page {number} is a picture without text, and was not read" for number in pictures]
    for number, (words, _) in enumerate(pages, 1):
        if odd := [word.text for word in words if _UNKNOWN.search(word.text)]:
            unread.append(
                f"page {number}: {counted(len(odd), 'word')} with characters that the file does "
                f"not name, such as {quoted(odd[0])}; correct them, or print it to PDF again"
            )
    return lines, notes + first_of(unread, MOST_PICTURES, "more pages")


def _words(page: Any) -> list[Word]:
    return [
        Word(_BULLET.sub("•", w["text"]), w["x0"], w["x1"], w["top"], w["bottom"])
        for w in page.extract_words(x_tolerance_ratio=0.15, y_tolerance=2)
        if w["upright"] and all(abs(w[side]) <= LARGEST for side in ("x0", "x1", "top", "bottom"))
    ]
