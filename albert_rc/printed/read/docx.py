"""Lines of a Word document: its paragraphs and tables, with automatic numbering.

python-docx opens the package. The elements are read here as plain XML, because schools' documents
come from many programs, and an invalid attribute is no reason to reject a paper.
"""

from __future__ import annotations

import errno
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import counted, first_of
from albert_rc.printed.lines import Line, clean, make_line, shortened
from albert_rc.printed.read.numbering import WORD, Numbering, attribute, child, circled, whole
from albert_rc.printed.read.package import unpack
from albert_rc.printed.recognise.key import is_key_heading

FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""Fallback content for older readers, a duplicate of the content next to it."""
_GONE = (f"{WORD}del", f"{WORD}moveFrom", FALLBACK)
MOST_CHARACTERS = 10_000_000
"""Limits of a document's text; a book has a million characters. Merged cells repeat theirs."""
MOST_LINES = 200_000  # paragraphs, rows of tables, lines
MOST_BOXES = 20  # text boxes quoted in the notes
_WRITTEN = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "-"}
_PICTURES = ("blip", "imagedata")
"""Local names of the elements of pictures."""
_SYMBOLS = {
    ("wingdings", 0xFC): "✓", ("wingdings", 0xFE): "✓", ("wingdings 2", 0x50): "✓",
    ("wingdings 2", 0x52): "✓", ("wingdings", 0xFB): "✗", ("wingdings", 0xFD): "✗",
    ("wingdings 2", 0x4F): "✗", ("wingdings 2", 0x51): "✗",
}  # fmt: skip
"""Characters of Word's symbol fonts that papers use, by font and code."""
_ENCLOSED = re.compile(r"(?i)\s*eq\s*\\o\s*(?:\\a[clr]\s*)?\(\s*○\s*[,;，]\s*([0-9]{1,2})\s*\)\s*")
"""A field that draws a circle around a number, as Word does in China for ① and the like."""


def read_docx(path: Path) -> tuple[list[Line], list[str]]:
    """A document's paragraphs and the rows of its tables, in order, with cells separated by tabs.

    Underlined numbers and spaces, which authors use for blanks, become underscores. Tracked
    changes are read as accepted.

    Returns:
        The lines, and notes on parts of the document that were not read.

    Raises:
        UsageError: python-docx is not installed.
        DataError: not a Word document, or too large.
    """
    try:
        import docx
    except ImportError:
        raise UsageError(
            f'{path}: Word documents need python-docx; pip install "albert-rc[import]"'
        ) from None
    try:
        reader = _Reader(docx.Document(unpack(path)).part, path)
        return reader.lines(), reader.unread()
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a damaged package, or XML in a strange order, can raise anything
        # EINVAL: a wrong offset in the file
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise DataError(f"{path}: cannot be read ({error.strerror})") from None
        told = isinstance(error, (zipfile.BadZipFile, ValueError, KeyError, SyntaxError))
        said = f" ({shortened(str(error), 80)})" if told else ""
        raise DataError(
            f"{path}: not a complete Word document{said}; save it again as .docx"
        ) from None


class _Reader:
    def __init__(self, part: Any, path: Path) -> None:
        from docx.opc.constants import RELATIONSHIP_TYPE as TYPE

        self.path = path
        self.body = child(part.element, "body")
        if self.body is None:
            raise ValueError("it has no body")
        self.numbering = Numbering(_root(part, TYPE.NUMBERING), _root(part, TYPE.STYLES))
        self.room = MOST_CHARACTERS
        self.rows = 0

    def lines(self) -> list[Line]:
        found: list[Line] = []
        gap = False
        for number, (text, place) in enumerate(self._texts(self.body), 1):
            for part in text.split("\n"):
                if clean(part).strip():
                    place_ = place or f"paragraph {number}"
                    found.append(make_line(part, place_, gap=gap, whole=True))
                    gap = False
                else:
                    gap = True
            if len(found) > MOST_LINES:
                raise self._too_long()
        return found

    def unread(self) -> list[str]:
        """Notes on parts that are not read, if they have text."""
        boxes = {
            "".join(text.text or "" for text in box.iter(f"{WORD}t"))
            for box in self.body.iter(f"{WORD}txbxContent")
        } - {""}
        said = [f"the text box {shortened(text)!r} was not read" for text in sorted(boxes)]
        notes = first_of(said, MOST_BOXES, "more text boxes")
        pictures = sum(_is_picture(element) for element in self.body.iter())
        if pictures:
            notes.append(
                f"{counted(pictures, 'picture')} in it {'was' if pictures == 1 else 'were'} not "
                "read; if text of the paper is in a picture, save the document as PDF and import "
                "pictures of its pages"
            )
        return notes

    def _spend(self, text: str) -> str:
        self.room -= len(text)
        self.rows += 1
        if self.room < 0 or self.rows > MOST_LINES:
            raise self._too_long()
        return text

    def _too_long(self) -> DataError:
        most = f"{MOST_CHARACTERS:,} characters or {MOST_LINES:,} lines"
        return DataError(f"{self.path}: more than {most}; give it in parts")

    def _texts(self, holder: Any) -> Iterator[tuple[str, str]]:
        tables = 0
        for element in _within(holder, (f"{WORD}p", f"{WORD}tbl")):
            if element.tag == f"{WORD}tbl":
                tables += 1
                yield from self._rows(element, tables)
            else:
                yield self._spend(self._paragraph(element)), ""

    def _rows(self, table: Any, number: int) -> Iterator[tuple[str, str]]:
        header: list[str] = []
        above: dict[int, str] = {}
        for row_number, row in enumerate(_within(table, (f"{WORD}tr",)), 1):
            place = f"table {number}, row {row_number}"
            above = self._cells(row, above)
            cells = list(above.values())
            if row_number == 1 and _is_header(cells):
                header = [cell.strip().strip(".、．") for cell in cells]
                continue
            if header and len(cells) == len(header):
                cells[1:] = [
                    f"{name}. {cell}" for name, cell in zip(header[1:], cells[1:], strict=True)
                ]
            # A cell of several paragraphs is read before the next one.
            between = "\n" if any("\n" in cell for cell in cells) else "\t"
            yield self._spend(between.join(cells)), place

    def _cells(self, row: Any, above: dict[int, str]) -> dict[int, str]:
        """The texts of a row's cells by their first column, including those in content controls.

        Args:
            row: a row of a table.
            above: the row before; a cell that is merged with one there repeats its text.
        """
        found: dict[int, str] = {}
        column = whole(child(child(row, "trPr"), "gridBefore"), 0)
        for cell in _within(row, (f"{WORD}tc",)):
            properties = child(cell, "tcPr")
            merged = child(properties, "vMerge")
            goes_on = merged is not None and attribute(merged) in ("", "continue")
            if goes_on and column in above:
                found[column] = above[column]
            else:
                found[column] = "\n".join(text for text, _ in self._texts(cell)).strip()
            column += max(1, whole(child(properties, "gridSpan"), 1))
        return found

    def _paragraph(self, paragraph: Any) -> str:
        runs: list[tuple[list[str], bool]] = []
        for run in _within(paragraph, (f"{WORD}r",)):
            line = child(child(run, "rPr"), "u")
            underlined = attribute(line) not in ("", "none")
            if not runs or runs[-1][1] != underlined:
                runs.append(([], underlined))
            runs[-1][0].append(_text(run))
        parts = [_ruled("".join(own)) if lined else "".join(own) for own, lined in runs]
        return self.numbering.number(paragraph) + "".join(parts)


def _root(part: Any, kind: str) -> Any:
    """The XML of a part that belongs to the document, or None if there is none."""
    found = next((rel for rel in part.rels.values() if rel.reltype == kind), None)
    return (
        None if found is None or found.is_external else getattr(found.target_part, "element", None)
    )


def _is_picture(element: Any) -> bool:
    """Whether an element is a picture; one that is repeated for older readers counts once."""
    if not isinstance(element.tag, str) or element.tag.rpartition("}")[2] not in _PICTURES:
        return False
    return not any(above.tag in _GONE for above in element.iterancestors())


def _symbol(element: Any) -> str:
    """The character of `w:sym`, or a space for one that is not known."""
    font = (element.get(f"{WORD}font") or "").strip().lower()
    try:
        code = int(element.get(f"{WORD}char") or "", 16)
    except ValueError:
        return " "
    # Codes of symbol fonts are in the private area, from F000 on.
    return _SYMBOLS.get((font, code - 0xF000 if code >= 0xF000 else code), " ")


def _text(run: Any) -> str:
    """The text of a run, with tabs and line breaks."""
    said = []
    for element in run:
        if element.tag == f"{WORD}t":
            said.append(element.text or "")
        elif element.tag == f"{WORD}sym":
            said.append(_symbol(element))
        elif element.tag == f"{WORD}instrText":
            enclosed = _ENCLOSED.fullmatch(element.text or "")
            said.append(circled(int(enclosed[1])) if enclosed else "")
        elif element.tag == f"{WORD}br":  # of a line, column or page
            said.append("\n")
        elif isinstance(element.tag, str) and element.tag.startswith(WORD):
            said.append(_WRITTEN.get(element.tag.removeprefix(WORD), ""))
    return "".join(said)


def _is_header(cells: list[str]) -> bool:
    """Whether a table's first row has the letters of options as column names: A, B, C.

    A row with a single letter, or with a number or a word like `Answers` before the letters,
    belongs to a key: `1 | A`, `1-4 | A | B | C | D`.
    """
    if not cells:
        return False
    first, *names = [cell.strip().strip(".、．") for cell in cells]
    if len(names) < 2 or names != list("ABCDEFG")[: len(names)]:
        return False
    return not re.search("[0-9０-９]", first) and not is_key_heading(make_line(first, ""))


def _within(holder: Any, wanted: tuple[str, ...]) -> Iterator[Any]:
    """Elements of some kinds, including those in links, content controls, tags and insertions."""
    for element in holder:
        if element.tag in wanted:
            yield element
        elif element.tag not in _GONE:
            yield from _within(element, wanted)


def _ruled(text: str) -> str:
    """Underlined text with its blank as underscores: `  36  ` becomes `__36__`."""
    if re.fullmatch(r"\s*[(\[（]?\s*[0-9０-９]{1,3}\s*[)\]）]?\s*[.．]?\s*", text):
        return f" __{text.strip()}__ "
    if not text.strip():
        return "____" if len(text) > 1 else text
    return text
