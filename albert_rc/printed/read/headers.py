"""Headers and footers of pages: lines that are repeated, or differ by the page number only."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from albert_rc.printed.lines import Line, shortened
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.labels import tells
from albert_rc.printed.recognise.lookahead import heads_in
from albert_rc.printed.recognise.options import START, first_mark

DEPTH = 3  # maximum number of lines of a header
DIGITS = 4  # maximum of a page number
MOST_NUMBERS = 8  # in a header that differs by its page number
OPTIONS = 7  # A to G; a header may begin with a name's initial
_PART = re.compile(
    r"(?i)(?<![a-z])(?:questions?|passages?|text[eos]?|parts?|sections?|tasks?|exercises?|units?|"
    r"lessons?|chapters?|story|aufgabe|frage|teil|partie|parte|exercice|pregunta)\s?[.:#(]?\s?$"
)
"""Words whose number is not that of a page: `Question 5`, `Passage 2`."""
_PAGE = re.compile(r"(?i)(?<![a-z])(?:page|p|of|seite|von|página|de|sur)(?![a-z])|[第页頁共]")
_ROW = re.compile(r"\s*[0-9]{1,4}(?:\s+[0-9]{1,4})+\s*")  # numbers, as above the letters of a key
_LETTER = re.compile(r"\W*[A-Ga-g]\W*")  # an answer alone on its line


def without_headers(pages: Sequence[Sequence[Line]]) -> tuple[list[Line], list[str]]:
    """The lines of pages without headers and footers, and notes on those.

    A header or footer is equal on several pages, or differs in one number, by exactly as much as
    the pages do. It may have several lines: those next to its first one must be on the same pages.
    Lone page numbers are left out without a note.

    Args:
        pages: the lines of each page, including pages without any.
    """
    tops, said = _edges(pages, "top")
    bottoms, more = _edges([page[::-1] for page in pages], "bottom")
    kept: list[Line] = []
    for page, top, bottom in zip(pages, tops, bottoms, strict=True):
        left = page[: len(page) - bottom][top:]
        if left and top:
            # White space under a header does not separate paragraphs.
            kept.append(replace(left[0], gap=False, turns=True))
            left = left[1:]
        kept += left
    return kept, said + more


def _edges(pages: Sequence[Sequence[Line]], edge: str) -> tuple[list[int], list[str]]:
    """The number of lines of each page's header or footer, and notes on these lines.

    Args:
        pages: the lines of each page, from the edge on.
        edge: its name.
    """
    counts = [0] * len(pages)
    notes: list[str] = []
    for depth in range(DEPTH):
        lines = {
            at: page[depth]
            for at, page in enumerate(pages)
            if counts[at] == depth and len(page) > depth
        }
        found, said = _repeated(lines, edge)
        if depth and len(found) < len(lines):
            break
        for at in found:
            counts[at] += 1
        notes += said
    return counts, notes


def _repeated(lines: Mapping[int, Line], edge: str) -> tuple[set[int], list[str]]:
    """The pages whose line at one edge is a header or footer, and notes on these lines."""
    same: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for page, line in lines.items():
        for form in [] if _is_content(line) else _forms(line, page):
            same[form].append(page)
    found: set[int] = set()
    notes = []
    for pages in sorted(same.values(), key=len, reverse=True):
        if len(pages) > 1 and not found.issuperset(pages):
            found.update(pages)
            first = lines[pages[0]]
            if not _is_page_number(first) or all(lines[at].text == first.text for at in pages):
                said = f"{shortened(first.text.strip())!r}, at the {edge} of {len(pages)} pages"
                notes.append(f"{said}, was left out")
    return found, notes


def _forms(line: Line, page: int) -> list[tuple[str, ...]]:
    """A line's texts and numbers; also with each number that may be its page's relative to that."""
    parts = re.split("([0-9]+)", line.shadow)
    # White space may depend on the width of the numbers.
    form = tuple("".join(part.split()) for part in parts)
    forms = [form]
    if len(parts) // 2 <= MOST_NUMBERS:
        for at in range(1, len(parts), 2):
            if len(parts[at]) <= DIGITS and not _is_of_part(parts[at - 1], parts[at + 1]):
                relative = f"page {int(parts[at]) - page:+}"
                forms.append((*form[:at], relative, *form[at + 1 :]))
    return forms


def _is_of_part(before: str, after: str) -> bool:
    """Whether a number is that of a question or of a part of the paper."""
    if before.rstrip().endswith("第"):
        return not after.lstrip().startswith(("页", "頁"))
    return _PART.search(before) is not None


def _is_page_number(line: Line) -> bool:
    """Whether a line has no other words, as in `- 3 -` and `Page 3 of 8`."""
    return not re.search(r"[^\W\d_]", _PAGE.sub("", line.shadow))


def _is_content(line: Line) -> bool:
    """Whether a line looks like a question, an option or an answer, which may occur twice."""
    shadow = line.shadow
    number = START.match(shadow)
    if number and number["sep"] and re.match(r"\W*[^\W\d]", shadow[number.end() :]):
        return True
    mark = first_mark(line)
    if (mark is not None and mark.index < OPTIONS) or heads_in(line):
        return True
    if _ROW.fullmatch(shadow) or _LETTER.fullmatch(shadow) or key.read_under(line):
        return True
    row = key.read_row(line)
    if row is not None and (not row[0].strip() or tells(row[0])):
        return True
    # `Grade 7 A` is the name of a class.
    answers = key.read_key_line(line)
    return answers is not None and (number is not None or len(answers[0] + answers[1]) > 1)
