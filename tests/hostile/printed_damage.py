"""Word and PDF files as papers come in, and damage to what is inside of them, for `fuzz.py`."""

from __future__ import annotations

import io
import re
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

import docx
from damage import mangle
from docx.oxml import OxmlElement
from exam import KEY, LISTS, OPTIONS, QUESTIONS, STORY, TEXT
from hostile_papers import NASTY
from lxml import etree
from pdfs import objects_of, page_of, pdf_of

ODD = (
    "", "x", "²", "-1", "0", "1", "8", "9", "63", "300000000", "9" * 400, "1e9", "0x10", "1.5",
    "true", "none", "bogus", "continue", "restart", " 2 ", "٣", "Ω", "%1%1%1", "w:p", "\u202e",
)  # fmt: skip
"""Where a number or one of a few words should stand."""
NUMBERS = (b"0", b"-1", b"1", b"2", b"3", b"65536", b"99999999999", b"-0.5", b"1e9", b"null", b"[]")
Parts = dict[str, bytes]


def _word() -> Any:
    """A document with all that is read: numbers, underlines, tables, merged cells, tags."""
    found = docx.Document()
    names = found.add_table(rows=3, cols=4)
    names.cell(0, 0).merge(names.cell(1, 0)).text = "Name"
    names.cell(2, 1).merge(names.cell(2, 3)).text = "Class"
    found.add_heading("Section A", 1)
    for part in STORY.replace("\n    ", "\0").split("\0"):
        paragraph = found.add_paragraph()
        for number, piece in enumerate(" ".join(part.split()).split("__")):
            paragraph.add_run(f"  {piece}  " if number % 2 else piece).underline = bool(number % 2)
    table = found.add_table(rows=4, cols=5)
    rows = [["No.", *"ABCD"], *([f"{n}.", *own] for n, own in enumerate(OPTIONS, 36))]
    for row, texts in zip(table.rows, rows, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    for line in (TEXT + QUESTIONS).splitlines():
        number, _, text = line.partition(". ")
        numbered = number.isdigit()
        paragraph = found.add_paragraph(text if numbered else line)
        if numbered:
            paragraph.style = "List Number"
            run, control = paragraph.runs[0]._r, OxmlElement("w:sdt")
            run.addprevious(control)
            control.append(OxmlElement("w:sdtContent"))
            control[0].append(run)
            paragraph.add_run().add_break()
    box = found.add_paragraph().add_run()._r
    for kind in ("w:pict", "w:txbxContent", "w:p", "w:r", "w:t"):
        box.append(OxmlElement(kind))
        box = box[-1]
    box.text = "36-38 DDA"
    found.add_paragraph("Answers")
    key = found.add_table(rows=1, cols=1).cell(0, 0).add_table(rows=2, cols=1)
    key.cell(0, 0).text, key.cell(1, 0).text = "36-38 DDA", "1-2 BA"
    return found


@cache
def _sound_word() -> tuple[tuple[str, bytes], ...]:
    made = io.BytesIO()
    _word().save(made)
    with zipfile.ZipFile(made) as archive:
        return tuple((name, archive.read(name)) for name in archive.namelist())


def zipped(parts: Parts) -> bytes:
    """The archive of some parts."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def word_with(change: Callable[[Parts], None]) -> bytes:
    """A sound document, changed."""
    parts = dict(_sound_word())
    change(parts)
    return zipped(parts)


def _spoil_element(root: Any, rng: Random) -> None:
    """One element or attribute of XML becomes another, goes, or comes many times."""
    every = [element for element in root.iter() if isinstance(element.tag, str)]
    element = rng.choice(every)
    named = [other for other in every if other.attrib]
    match rng.randrange(8):
        case 0 | 1 | 2 if named:
            element = rng.choice(named)
            element.set(rng.choice(sorted(element.attrib)), rng.choice(ODD))
        case 3 if named:
            element = rng.choice(named)
            del element.attrib[rng.choice(sorted(element.attrib))]
        case 4 if element is not root:
            element.getparent().remove(element)
        case 5 if element is not root:
            for _ in range(rng.choice((1, 1, 2, 200))):
                element.addnext(deepcopy(element))
        case 6:
            # Anywhere else, perhaps inside of itself.
            rng.choice(every).append(deepcopy(element))
        case _:
            if rng.random() < 0.5:
                element.tag = rng.choice(every).tag
            else:
                element.text = "".join(filter(_is_xml, rng.choice((*NASTY, *ODD))))


def _is_xml(char: str) -> bool:
    return char in "\t\n\r" or (char >= " " and char not in "\ufffe\uffff")


def damaged_word(rng: Random) -> bytes:
    """A document with a few elements, parts or bytes of its own changed."""
    parts = dict(_sound_word())
    for _ in range(rng.choice((1, 1, 2, 5))):
        telling = ("word/document.xml",) * 6 + ("word/numbering.xml", "word/styles.xml")
        name = rng.choice((*telling, *sorted(parts)))
        if name not in parts:
            continue
        how = rng.random()
        if how < 0.85:
            try:
                root = etree.fromstring(parts[name])
            except etree.XMLSyntaxError:
                continue
            for _ in range(rng.choice((1, 2, 5, 20))):
                _spoil_element(root, rng)
            parts[name] = etree.tostring(root)
        elif how < 0.9:
            parts[name] = mangle(parts[name], parts[rng.choice(sorted(parts))], rng)
        elif how < 0.95:
            parts[name] = parts[rng.choice(sorted(parts))]
        else:
            del parts[name]
    content = zipped(parts)
    return mangle(content, content, rng) if rng.random() < 0.1 else content


def _sound_pdf(rng: Random) -> list[bytes]:
    lines = [*(STORY + LISTS).splitlines(), *(TEXT + QUESTIONS + KEY).splitlines()]
    count = rng.choice((1, 2, 3))
    step = -(-len(lines) // count)
    contents = [page_of(lines[i : i + step]) for i in range(0, len(lines), step)]
    return objects_of(contents, times=rng.choice((1, 1, 3)))


def damaged_pdf(rng: Random) -> bytes:
    """A PDF whose numbers, names, objects or bytes are changed, its table mostly made anew."""
    objects = _sound_pdf(rng)
    for _ in range(rng.choice((1, 2, 5, 20))):
        at = rng.randrange(len(objects))
        part = objects[at]
        match rng.randrange(7):
            case 0 | 1:
                objects[at] = _swapped(part, rb"-?\d+(?:\.\d+)?", rng.choice(NUMBERS), rng)
            case 2:
                names = re.findall(rb"/\w+", b"".join(objects))
                objects[at] = _swapped(part, rb"/\w+", rng.choice(names), rng)
            case 3:
                objects[at] = rng.choice(objects)
            case 4:
                objects[at] = _swapped(part, rb"<<|>>|\[|\]|\(|\)|stream\n", b"", rng)
            case 5:
                objects[at] = mangle(part, rng.choice(objects), rng)
            case _:
                objects[at] = _packed(part, rng)
    content = pdf_of(objects)
    return mangle(content, content, rng) if rng.random() < 0.3 else content


def _swapped(part: bytes, pattern: bytes, other: bytes, rng: Random) -> bytes:
    found = list(re.finditer(pattern, part))
    if not found:
        return part
    match = rng.choice(found)
    return part[: match.start()] + other + part[match.end() :]


def _packed(part: bytes, rng: Random) -> bytes:
    """A stream, compressed, and perhaps torn or said to be packed otherwise."""
    match = re.search(rb"stream\n(.*)\nendstream", part, re.DOTALL)
    if match is None:
        return part
    content = zlib.compress(match[1] * rng.choice((1, 1, 1, 100)))
    content = mangle(content, content, rng) if rng.random() < 0.5 else content
    how = rng.choice((b"FlateDecode", b"FlateDecode", b"LZWDecode", b"ASCII85Decode", b"DCTDecode"))
    return b"<</Length %d/Filter/%s>>stream\n%s\nendstream" % (len(content), how, content)


def damaged(form: str, rng: Random) -> bytes:
    """A file of either kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names that come twice
        return damaged_word(rng) if form == "docx" else damaged_pdf(rng)
