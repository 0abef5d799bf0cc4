"""Reading of the lines of a file of any kind."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

from albert_rc.errors import DataError, UsageError
from albert_rc.io.decode import decode
from albert_rc.io.files import read_bytes
from albert_rc.printed.lines import Line, PrintedText, make_lines
from albert_rc.printed.read.docx import read_docx
from albert_rc.printed.read.headers import without_headers
from albert_rc.printed.read.pdf import read_pdf
from albert_rc.printed.scan.pictures import SUFFIXES as PICTURES

TEXT = (".txt", ".text")
SUFFIXES = (*TEXT, ".docx", ".pdf", *PICTURES)
NO_PICTURES = (".heic", ".heif", ".pdf", ".doc", ".docx")
"""Suffixes of files that may be a page of a paper, but are not read with its pictures."""


def require_printed(path: Path, kind: Literal["paper", "key"] = "paper") -> None:
    """Refuse a file that cannot be a printed paper, without reading it.

    Args:
        path: a file, or a folder of pictures.
        kind: what it should be, for messages.

    Raises:
        UsageError: unsupported file type.
        DataError: no such file.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        names = sorted(file.name for file in path.iterdir())
        if any(name.lower().endswith(PICTURES) for name in names):
            others = [name for name in names if name.lower().endswith(NO_PICTURES)]
            if others:
                raise UsageError(
                    f"{path / others[0]}: a folder of pictures must hold nothing but the pages of "
                    "one paper; save this page as JPEG or PNG, or move it elsewhere"
                )
        else:
            ends = [end for end in SUFFIXES if any(name.lower().endswith(end) for name in names)]
            if ends:
                raise UsageError(
                    f"{path}: a folder must hold the pictures of one paper; for others give the "
                    f"files: {path / ('*' + ends[0])}"
                )
        return
    if suffix == ".doc":
        raise UsageError(f"{path}: an old Word document; save it as .docx")
    if suffix in (".heic", ".heif"):
        raise UsageError(f"{path}: HEIC pictures (from iPhones) are not supported; save it as JPEG")
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    if suffix not in SUFFIXES:
        raise UsageError(f"{path}: the file name of a {kind} must end in {', '.join(SUFFIXES)}")


def read_printed(path: Path) -> PrintedText:
    """A paper's lines, with notes on how it was read.

    Args:
        path: a file, or a folder of pictures, which are the pages of one paper.

    Raises:
        UsageError: unsupported file type, or one whose library is not installed.
        DataError: no such file, or it cannot be read.
    """
    require_printed(path)
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in PICTURES:
        return _scan(path)
    if suffix == ".docx":
        return PrintedText(*read_docx(path))
    if suffix == ".pdf":
        lines, notes = read_pdf(path)
        return PrintedText(lines, notes) if lines else _scan(path)
    content = read_bytes(path)
    try:
        text, encoding = decode(content)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    notes = [] if encoding.title == "UTF-8" else [f"read as {encoding.title}"]
    lines, of_headers = _text_lines(text)
    return PrintedText(lines, notes + of_headers)


def _scan(path: Path) -> PrintedText:
    from albert_rc.printed.scan.read import read_scan

    return read_scan(path)


def _text_lines(text: str) -> tuple[list[Line], list[str]]:
    """The lines of a text, without the headers of its pages, if form feeds divide it into pages."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    starts = set()
    rows: list[str] = []
    for row in re.split("\n", text):
        if "\f" in row:
            starts.add(len(rows) + 1)
        rows.append(row.replace("\f", "").replace("\0", " "))
    lines = make_lines(rows)
    pages: list[list[Line]] = [[]]
    for line in lines:
        if int(line.place.split()[1]) in starts:
            pages.append([])
        pages[-1].append(replace(line, turns=len(pages) > 1 and not pages[-1]))
    return without_headers(pages)
