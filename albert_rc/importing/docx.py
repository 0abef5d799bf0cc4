"""Lines of a Word document: its paragraphs and tables, with the numbers that Word itself writes."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from albert_rc.errors import DataError, UsageError
from albert_rc.importing.key import is_key_heading
from albert_rc.importing.lines import Line, make_line, shortened

FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""What older readers show in the place of what stands beside it."""
MOST_BYTES = 200_000_000  # of a document when it is unpacked
_FORMS: dict[str, Callable[[int], str]] = {
    "decimal": str,
    "upperLetter": lambda number: chr(64 + number) if number <= 26 else "?",
    "lowerLetter": lambda number: chr(96 + number) if number <= 26 else "?",
}


def read_docx(path: Path) -> tuple[list[Line], list[str]]:
    """A document's paragraphs and the rows of its tables, in order, cells parted by tabs.

    Underlined numbers and spaces, as Word's users draw blanks, become underscores. Changes that
    are tracked are read as accepted.

    Returns:
        the lines, and what of the document was not read.

    Raises:
        UsageError: python-docx is not installed.
        DataError: no Word document.
    """
    try:
        import docx
        from docx.opc.exceptions import PackageNotFoundError
    except ImportError:
        raise UsageError(
            f'{path}: Word documents need python-docx; pip install "albert-rc[import]"'
        ) from None
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > MOST_BYTES:
            raise DataError(f"{path}: {size / 1e6:,.0f} MB when unpacked; give it in parts")
        document = docx.Document(str(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (zipfile.BadZipFile, PackageNotFoundError, KeyError, ValueError, SyntaxError) as error:
        raise DataError(
            f"{path}: no whole Word document ({error}); save it again as .docx"
        ) from None
    reader = _Reader(document)
    return reader.lines(), reader.unread()


class _Reader:
    def __init__(self, document: Any) -> None:
        self.document = document
        self.counts: Counter[tuple[str, int]] = Counter()
        self.levels = self._levels()

    def lines(self) -> list[Line]:
        found: list[Line] = []
        gap = False
        for number, (text, place) in enumerate(self._texts(self.document), 1):
            for part in text.split("\n"):
                if part.strip():
                    place_ = place or f"paragraph {number}"
                    found.append(make_line(part, place_, gap=gap, whole=True))
                    gap = False
                else:
                    gap = True
        return found

    def unread(self) -> list[str]:
        """What is not read, if it has text."""
        from docx.oxml.ns import qn

        boxes = {
            "".join(text.text or "" for text in box.iter(qn("w:t")))
            for box in self.document.element.body.iter(qn("w:txbxContent"))
        } - {""}
        return [f"the text box {shortened(text)!r} was not read" for text in sorted(boxes)]

    def _texts(self, holder: Any) -> Iterator[tuple[str, str]]:
        from docx.oxml.ns import qn
        from docx.table import Table
        from docx.text.paragraph import Paragraph

        tables = 0
        inside = holder._tc if hasattr(holder, "_tc") else holder.element.body
        for element in _within(inside, (qn("w:p"), qn("w:tbl"))):
            if element.tag == qn("w:tbl"):
                tables += 1
                yield from self._rows(Table(element, holder), tables)
            else:
                yield self._paragraph(Paragraph(element, holder)), ""

    def _rows(self, table: Any, number: int) -> Iterator[tuple[str, str]]:
        from docx.oxml.ns import qn

        header: list[str] = []
        for row_number, row in enumerate(_within(table._tbl, (qn("w:tr"),)), 1):
            place = f"table {number}, row {row_number}"
            cells = [
                "\n".join(text for text, _ in self._texts(cell)).strip()
                for cell in _cells(row, table)
            ]
            if row_number == 1 and _is_header(cells):
                header = [cell.strip().strip(".、．") for cell in cells]
                continue
            if header and len(cells) == len(header):
                cells[1:] = [
                    f"{name}. {cell}" for name, cell in zip(header[1:], cells[1:], strict=True)
                ]
            if any("\n" in cell for cell in cells):
                # A cell of several paragraphs is read before the next one.
                yield "\n".join(cells), place
            else:
                yield "\t".join(cells), place

    def _paragraph(self, paragraph: Any) -> str:
        text = ""
        runs: list[tuple[str, bool]] = []
        for run in _runs(paragraph):
            underlined = bool(run.underline)
            if runs and runs[-1][1] == underlined:
                runs[-1] = (runs[-1][0] + run.text, underlined)
            else:
                runs.append((run.text, underlined))
        for part, underlined in runs:
            text += _ruled(part) if underlined else part
        return self._number(paragraph) + text

    def _levels(self) -> dict[tuple[str, int], tuple[str, str, int]]:
        """What numbered paragraphs are numbered with: form, text and first number."""
        from docx.oxml.ns import qn

        try:
            root = self.document.part.numbering_part.element
        except (KeyError, NotImplementedError, AttributeError):
            return {}
        abstract: dict[str, dict[int, tuple[str, str, int]]] = {}
        for element in root.findall(qn("w:abstractNum")):
            levels = abstract.setdefault(element.get(qn("w:abstractNumId"), ""), {})
            for level in element.findall(qn("w:lvl")):
                values = {
                    name: child.get(qn("w:val"), "")
                    for name in ("numFmt", "lvlText", "start")
                    if (child := level.find(qn(f"w:{name}"))) is not None
                }
                start = values.get("start", "1")
                levels[int(level.get(qn("w:ilvl"), 0))] = (
                    values.get("numFmt", ""),
                    values.get("lvlText", ""),
                    int(start) if start.isdigit() else 1,
                )
        found = {}
        for element in root.findall(qn("w:num")):
            name = element.get(qn("w:numId"), "")
            of = element.find(qn("w:abstractNumId"))
            starts = {
                int(o.get(qn("w:ilvl"), 0)): s.get(qn("w:val"), "")
                for o in element.findall(qn("w:lvlOverride"))
                if (s := o.find(qn("w:startOverride"))) is not None
            }
            for level, (form, text, first) in abstract.get(
                of.get(qn("w:val"), "") if of is not None else "", {}
            ).items():
                given = starts.get(level, "")
                found[name, level] = (form, text, int(given) if given.isdigit() else first)
        return found

    def _number(self, paragraph: Any) -> str:
        """The number that Word writes before a paragraph, which is not part of its text."""
        properties = paragraph._p.pPr
        style = paragraph.style.element.pPr if paragraph.style is not None else None
        numbering = next(
            (p.numPr for p in (properties, style) if p is not None and p.numPr is not None), None
        )
        if numbering is None or numbering.numId is None:
            return ""
        name = str(numbering.numId.val)
        level = numbering.ilvl.val if numbering.ilvl is not None else 0
        if (name, level) not in self.levels:
            return ""
        form, text, first = self.levels[name, level]
        for deeper in [other for other in self.counts if other[0] == name and other[1] > level]:
            del self.counts[deeper]
        self.counts[name, level] += 1
        write = _FORMS.get(form)
        if write is None:
            return ""
        shown = write(first + self.counts[name, level] - 1)
        return f"{text.replace(f'%{level + 1}', shown)} "


def _is_header(cells: list[str]) -> bool:
    """Whether a table's first row names the columns of its options: A, B, C.

    A row of one letter, or with a number or a word like `Answers` before it, is one of a key:
    `1 | A`, `1-4 | A | B | C | D`.
    """
    first, *names = [cell.strip().strip(".、．") for cell in cells]
    if len(names) < 2 or names != list("ABCDEFG")[: len(names)]:
        return False
    return not re.search("[0-9０-９]", first) and not is_key_heading(make_line(first, ""))


def _cells(row: Any, table: Any) -> Iterator[Any]:
    """A row's cells, each once; also those inside of content controls."""
    from docx.oxml.ns import qn
    from docx.table import _Cell, _Row

    if any(element.tag == qn("w:sdt") for element in row):
        yield from (_Cell(element, table) for element in _within(row, (qn("w:tc"),)))
        return
    seen: list[Any] = []
    for cell in _Row(row, table).cells:  # one that spans several columns comes several times
        if not any(cell._tc is other for other in seen):
            seen.append(cell._tc)
            yield cell


def _runs(paragraph: Any) -> Iterator[Any]:
    from docx.oxml.ns import qn
    from docx.text.run import Run

    for element in _within(paragraph._p, (qn("w:r"),)):
        yield Run(element, paragraph)


def _within(holder: Any, wanted: tuple[str, ...]) -> Iterator[Any]:
    """Elements of some kinds, also those in links, content controls, tags and insertions."""
    from docx.oxml.ns import qn

    gone = (qn("w:del"), qn("w:moveFrom"), FALLBACK)
    for element in holder:
        if element.tag in wanted:
            yield element
        elif element.tag not in gone:
            yield from _within(element, wanted)


def _ruled(text: str) -> str:
    """Underlined text with its blank made visible: `  36  ` as `__36__`."""
    if re.fullmatch(r"\s*[(\[（]?\s*[0-9０-９]{1,3}\s*[)\]）]?\s*[.．]?\s*", text):
        return f" __{text.strip()}__ "
    if not text.strip():
        return "____" if len(text) > 1 else text
    return text
