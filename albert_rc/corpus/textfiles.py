"""Text files: detection of papers in .txt files, and reading of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from albert_rc.errors import DataError
from albert_rc.io.files import unreadable
from albert_rc.papers.tables import header_of

TEXT = (".txt", ".text", ".md")
_HEAD = 2**14  # bytes for detection: some dozens of lines
_ROWS = 20  # lines examined; fewer than _LEAST_ROWS are not conclusive
_LEAST_ROWS = 3

# RACE's papers end in .txt. A text may begin with a bracket ("[Illustration]"), but not like this.
_PAPER = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*\{)')


def is_paper(path: Path) -> bool:
    """Whether a .txt file holds an exam paper, as RACE's do; only its head is read.

    Raises:
        DataError: it is a table, such as MRPC's, or cannot be read.
    """
    if path.suffix.lower() != ".txt":
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise unreadable(path, error) from None
    if _PAPER.match(head):
        return True
    if _is_table(head):
        raise DataError(
            f"{path}: a table with tabs between its columns, not running text; move it elsewhere, "
            f"or rename it to {path.stem}.tsv, so that it is skipped"
        )
    return False


def _is_table(head: bytes) -> bool:
    lines = head.splitlines()
    if len(head) == _HEAD:
        lines.pop()  # it may be incomplete
    if not lines:
        return False
    if header_of(lines[0]):
        return True
    rows = [line.strip() for line in lines if line.strip()][:_ROWS]
    tabs = {row.count(b"\t") for row in rows}
    return len(rows) >= _LEAST_ROWS and len(tabs) == 1 and 0 not in tabs


def text_lines(path: Path, codec: str) -> Iterator[str]:
    """Lines of a text file, one (and a buffer) in memory; `codec` is from `decode.encoding_of`.

    Raises:
        DataError: it cannot be read, or has another encoding.
    """
    try:
        with path.open(encoding=codec) as file:
            for line in file:
                yield line.replace("\0", " ")
    except OSError as error:
        raise unreadable(path, error) from None
    except UnicodeError:
        raise DataError(
            f"{path} is no longer valid {codec}: it was changed during the run; start again"
        ) from None
