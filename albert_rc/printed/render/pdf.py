"""A sheet as PDF, on A4."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import first_line
from albert_rc.printed.render.sheet import Choice, Sheet

POINTS, LEADING = 11, 15
MARGIN = 56  # points
NUMBER = 28  # points: width of the column of numbers
_SIMILAR = {
    **dict.fromkeys("●∙⦁■▪◆", "•"),
    **dict.fromkeys("‐‑−", "-"),
    **dict.fromkeys("―─", "—"),
    **dict.fromkeys("′ʼ", "’"),
    "″": "”",
    **dict.fromkeys("\u2002\u2003\u2009\u202f\u3000", " "),
}
"""Signs that many fonts lack, and what is printed instead."""


def pdf_bytes(sheet: Sheet, font: Path | None = None) -> bytes:
    """The content of a PDF file with numbered pages.

    Args:
        sheet: the sheet to print.
        font: a TrueType file, for letters beyond those of Western Europe.

    Raises:
        UsageError: reportlab is not installed, or a character is not in the font.
        DataError: the font cannot be read, or an option does not fit on a page.
    """
    try:
        from reportlab.lib.pagesizes import A4
        from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate
        from reportlab.platypus.doctemplate import LayoutError
    except ImportError:
        raise UsageError('a .pdf needs reportlab; pip install "albert-rc[render]"') from None
    style = _styles(_font_name(font))
    similar = _similar(sheet, font)

    def shown(text: str) -> str:
        return escape(text.translate(similar))

    story: list[Any] = [Paragraph(shown(sheet.title), style["title"])] if sheet.title else []
    for part in sheet.parts:
        story.append(Paragraph(escape(part.heading), style["heading"]))
        story.append(Paragraph(escape(part.instruction), style["instruction"]))
        story += [Paragraph(shown(text), style["text"]) for text in part.paragraphs]
        for choice in part.choices:
            story += _choice(choice, style, shown)
    if sheet.key:
        story += [PageBreak(), Paragraph("Answers", style["heading"])]
        story += [Paragraph(line, style["plain"]) for line in sheet.key]
    written = io.BytesIO()
    document = SimpleDocTemplate(
        written, pagesize=A4, leftMargin=MARGIN, rightMargin=MARGIN, topMargin=MARGIN,
        bottomMargin=MARGIN, title=sheet.title or sheet.parts[0].heading, invariant=1,
    )  # fmt: skip
    try:
        document.build(story, onFirstPage=_page_number, onLaterPages=_page_number)
    except LayoutError:
        choices = (choice for part in sheet.parts for choice in part.choices)
        longest = max(choices, key=lambda choice: max(map(len, choice.options)))
        what = f"number {longest.number}"
        if longest.number is None:
            part = next(part for part in sheet.parts if longest in part.choices)
            what = f"{part.heading}'s list of options for all blanks"
        raise DataError(
            f"{what} has an option that is longer than a page; print it as .docx"
        ) from None
    return written.getvalue()


def _font_name(path: Path | None) -> str:
    if path is None:
        return "Times-Roman"
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    try:
        pdfmetrics.registerFont(TTFont("given", str(path)))
    except MemoryError:
        raise
    except Exception as error:  # damaged files end in errors of any type
        raise DataError(
            f"--font {path}: cannot be read as TrueType ({first_line(error)}); give another font"
        ) from None
    return "given"


def _styles(font: str) -> dict[str, Any]:
    from reportlab.lib.styles import ParagraphStyle

    plain = ParagraphStyle("plain", fontName=font, fontSize=POINTS, leading=LEADING)

    def like(name: str, **more: Any) -> Any:
        return ParagraphStyle(name, parent=plain, **more)

    return {
        "plain": plain,
        "title": like("title", fontSize=16, leading=22, spaceAfter=8),
        "heading": like("heading", fontSize=13, leading=18, spaceBefore=10, spaceAfter=4),
        "instruction": like("instruction", spaceAfter=6),
        "text": like("text", firstLineIndent=2 * POINTS, spaceAfter=2),
        "option": like("option"),
    }


def _choice(choice: Choice, style: dict[str, Any], shown: Callable[[str], str]) -> list[Any]:
    """A question's number and options, kept together on one page."""
    from reportlab.platypus import KeepTogether, Paragraph, Table

    width = (595 - 2 * MARGIN - NUMBER) / choice.columns
    rows: list[list[Any]] = []
    parts: list[Any] = []
    if choice.stem:
        parts.append(Paragraph(f"{choice.number}. {shown(choice.stem)}", style["plain"]))
    for at, row in enumerate(choice.rows()):
        number = "" if at or choice.stem or choice.number is None else f"{choice.number}."
        cells = [Paragraph(shown(option), style["option"]) for option in row]
        rows.append([number, *cells, *[""] * (choice.columns - len(cells))])
    flat = [("TOPPADDING", (0, 0), (-1, -1), 0), ("BOTTOMPADDING", (0, 0), (-1, -1), 0),
            ("LEFTPADDING", (0, 0), (-1, -1), 0), ("RIGHTPADDING", (0, 0), (-1, -1), 4),
            ("VALIGN", (0, 0), (-1, -1), "TOP"), ("LEADING", (0, 0), (0, -1), LEADING),
            ("FONT", (0, 0), (0, -1), style["plain"].fontName, POINTS)]  # fmt: skip
    parts.append(Table(rows, [NUMBER, *[width] * choice.columns], style=flat, hAlign="LEFT"))
    return [KeepTogether(parts)]


def _page_number(canvas: Any, document: Any) -> None:
    canvas.setFont("Times-Roman", 9)
    canvas.drawCentredString(595 / 2, MARGIN / 2, f"- {document.page} -")


def _similar(sheet: Sheet, font: Path | None) -> dict[int, str]:
    """Replacements of signs that the font lacks, by code point.

    Raises:
        UsageError: other characters are missing, which would be printed as boxes.
    """
    texts = [sheet.title]
    for part in sheet.parts:
        texts += part.paragraphs
        texts += [text for choice in part.choices for text in (choice.stem, *choice.options)]
    used = set("".join(texts)) - set("\n\t")
    is_known = _in_latin
    if font is not None:
        from reportlab.pdfbase import pdfmetrics

        glyphs = pdfmetrics.getFont("given").face.charToGlyph

        def is_known(letter: str) -> bool:
            return ord(letter) in glyphs

    missing = {letter for letter in used if not is_known(letter)}
    replaced = {
        sign: _SIMILAR[sign] for sign in missing & _SIMILAR.keys() if is_known(_SIMILAR[sign])
    }
    if missing := missing - replaced.keys():
        shown = " ".join(sorted(missing)[:10])
        raise UsageError(
            f"the font lacks {shown}; give a TrueType font that has these letters with --font"
        )
    return {ord(sign): other for sign, other in replaced.items()}


def _in_latin(letter: str) -> bool:
    try:
        letter.encode("cp1252")
    except UnicodeEncodeError:
        return False
    return True
