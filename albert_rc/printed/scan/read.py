"""Reading of a paper's lines from pictures of its pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.errors import DataError
from albert_rc.io.files import natural_key
from albert_rc.io.messages import counted
from albert_rc.printed.lines import Doubt, PrintedText
from albert_rc.printed.read.layout import Word, lines_of
from albert_rc.printed.scan.engine import open_engine
from albert_rc.printed.scan.page import POINTS, read_page
from albert_rc.printed.scan.pictures import SUFFIXES, draw_pages, read_pictures
from albert_rc.printed.scan.repair import repair


def read_scan(path: Path) -> PrintedText:
    """The lines of text in a picture, a folder of pictures, or the rendered pages of a PDF file.

    Args:
        path: a picture; a folder, whose pictures are the pages of one paper in the order of their
            names; or a PDF file.

    Raises:
        UsageError: text recognition is not installed.
        DataError: no picture was given, one cannot be read, or no text was found.
    """
    engine = open_engine(path)
    pages: list[tuple[list[Word], float]] = []
    unread: list[Doubt] = []
    for number, picture in enumerate(_pictures(path), 1):
        page = read_page(picture, engine)
        pages.append((page.words, POINTS))
        unread += [replace(doubt, place=f"page {number}, {doubt.place}") for doubt in page.unread]
    lines, notes = lines_of(pages)
    if not lines:
        raise DataError(
            f"{path}: no text in it, and none was recognised; take the picture again, in better "
            "light"
        )
    lines, repaired = repair(lines)
    notes += repaired
    notes.append(f"text recognised in {counted(len(pages), 'picture')}; please check it")
    return PrintedText(lines, notes, unread)


def _pictures(path: Path) -> Iterable[np.ndarray[Any, Any]]:
    if path.suffix.lower() == ".pdf":
        yield from draw_pages(path)
        return
    files = [path]
    if path.is_dir():
        # No pipes, which are never read to their end.
        files = [one for one in path.iterdir() if one.suffix.lower() in SUFFIXES and one.is_file()]
        files.sort(key=lambda file: natural_key(file.name))
        if not files:
            raise DataError(
                f"{path}: no pictures in this folder; it must hold {', '.join(SUFFIXES)} files"
            )
    for file in files:
        yield from read_pictures(file)
