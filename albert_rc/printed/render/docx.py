"""A sheet as a Word document."""

from __future__ import annotations

import io
from typing import Any

from albert_rc.errors import UsageError
from albert_rc.printed.render.sheet import Choice, Sheet

FONT, POINTS = "Times New Roman", 11
INDENT, STEP = 0.9, 4.0  # cm: indent of the options, and a quarter of the line's width


def docx_bytes(sheet: Sheet) -> bytes:
    """The content of a .docx file.

    Raises:
        UsageError: python-docx is not installed.
    """
    try:
        from docx import Document
        from docx.shared import Pt
    except ImportError:
        raise UsageError('a .docx needs python-docx; pip install "albert-rc[render]"') from None
    document = Document()
    normal = document.styles["Normal"]
    normal.font.name, normal.font.size = FONT, Pt(POINTS)
    normal.paragraph_format.space_after = Pt(4)
    if sheet.title:
        document.add_heading(sheet.title, 0)
    for part in sheet.parts:
        document.add_heading(part.heading, 2)
        document.add_paragraph().add_run(part.instruction).italic = True
        for text in part.paragraphs:
            document.add_paragraph(text).paragraph_format.first_line_indent = Pt(2 * POINTS)
        for choice in part.choices:
            _choice(document, choice)
    if sheet.key:
        document.add_page_break()
        document.add_heading("Answers", 2)
        for line in sheet.key:
            document.add_paragraph(line)
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def _choice(document: Any, choice: Choice) -> None:
    """Add a question's number and its options, the options at tab stops."""
    from docx.shared import Cm, Pt

    rows = ["\t".join(row) for row in choice.rows()]
    if choice.stem:
        rows = [f"{choice.number}. {choice.stem}", *rows]
    else:
        rows[0] = f"\t{rows[0]}" if choice.number is None else f"{choice.number}.\t{rows[0]}"
    for at, row in enumerate(rows):
        paragraph = document.add_paragraph(row if at == 0 else f"\t{row}")
        layout = paragraph.paragraph_format
        layout.space_after = Pt(0)
        layout.keep_with_next = at + 1 < len(rows)
        width = STEP * 4 / choice.columns
        for place in range(choice.columns):
            layout.tab_stops.add_tab_stop(Cm(INDENT + place * width))
