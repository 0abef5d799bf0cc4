"""Tables in GLUE's format: tabs between columns, one paper per line, no quoting."""

from __future__ import annotations

from typing import Any

SAMPLED = 20
"""Number of lines of a table examined to detect its task."""
TABLES = (".tsv", ".csv")
"""Suffixes of tables; a .txt may be one too."""
COLUMN_NAMES = {
    "sentence", "sentence1", "sentence2", "question", "question1", "question2", "label", "score",
    "gold_label", "is_duplicate", "Quality", "#1 String", "#2 String", "index",
}  # fmt: skip
"""A first line with one of these, and a tab, is a header."""


def _columns(line: bytes) -> list[str]:
    """GLUE's tables have no quoting: a quotation mark is an ordinary character."""
    return line.decode("utf-8-sig").rstrip("\r\n").split("\t")


def header_of(line: bytes) -> tuple[str, ...]:
    """The column names in a table's first line; none if it is not a header.

    A row of a table without one may hold such a word, too: `score` with the label 1.
    """
    try:
        names = tuple(_columns(line))
    except UnicodeDecodeError:
        return ()
    is_row = any(name.lstrip("-").isdecimal() for name in names)
    return names if len(names) > 1 and COLUMN_NAMES & set(names) and not is_row else ()


def row_of(line: bytes, header: tuple[str, ...]) -> Any:
    """Texts by column (a list of texts without a header), or an error in the line."""
    if b"\0" in line:
        return ValueError("has NUL bytes, as in UTF-16; save the file as UTF-8")
    try:
        values = _columns(line)
    except UnicodeDecodeError as error:
        return ValueError(f"byte {error.start + 1} of the line is not UTF-8; save it as UTF-8")
    if not header:
        return values
    if len(values) < len(header):
        return ValueError(
            f"{len(values)} columns, but the header has {len(header)}; "
            "write every column, with nothing between its tabs where it is empty"
        )
    # Some lines of MRPC and MNLI have more: annotators' labels after the named columns.
    return dict(zip(header, values, strict=False))


def first_row(content: bytes) -> Any:
    """The first complete row of a table, or None if it is not a table.

    If no row is complete, the columns are those of the header.
    """
    lines = content.split(b"\n", SAMPLED)[:SAMPLED]
    # A truncated JSON paper is not a table, though it may be indented with tabs.
    if b"\t" not in lines[0] or lines[0].lstrip().startswith((b"{", b"[{")):
        return None
    header = header_of(lines[0])
    given = [line for line in (lines[1:] if header else lines[:1]) if line.strip()]
    rows = [row_of(line, header) for line in given]
    whole = next((row for row in rows if not isinstance(row, ValueError)), None)
    return dict.fromkeys(header, "") if whole is None and header and rows else whole
