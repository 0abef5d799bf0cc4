"""Lines of a printed paper: the text as printed, and a normalised copy for recognition."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

SOFT_HYPHEN = "\u00ad"
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
_LIGATURES = {code: unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_BRACKETS = {"〔": "(", "〕": ")", "【": "[", "】": "]"}
LEAST_WIDTH = 40  # characters; shorter lines say nothing about where the page ends
UNBROKEN = 100  # characters; few pages have longer lines, and those show their edge
SLACK = 3  # tolerance of an edge, in characters
EDGE = 6  # characters from the edge that many full lines end in
HAN = r"\u3400-\u9fff\uf900-\ufaff"
OTHER_LETTERS = rf"{HAN}\u3040-\u30ff\uac00-\ud7af\u0400-\u04ff\u0600-\u06ff"
"""Letters that are not Latin, for a character class: Chinese, kana, Korean, Cyrillic, Arabic."""
FINAL = re.compile(r"""[.!?。！？…:：]["'”’)\]]*\s*$""")

LONGEST_RUN = 100  # of spaces or underscores in a row that make a difference
_LONG_RUN = re.compile(r"\s{100,}|[_\uff3f]{100,}")
_FIRST = re.compile(r"\s*(?:[_(\[]+\s*[0-9]{1,4}\s*[_)\]]+\S*|\S+)")  # a word, or a blank


@dataclass(frozen=True, slots=True)
class Doubt:
    """Part of a picture that was read with low certainty, or not at all."""

    text: str
    """As read; empty for a line that could not be read."""
    picture: bytes
    """Picture of its line, as JPEG."""
    place: str = ""
    """Its position, for messages; empty if it is that of its line."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a page, or one whole paragraph of a document."""

    text: str
    """The text as printed, without invisible characters."""
    shadow: str
    """The same text with full-width characters replaced by narrow ones; of the same length."""
    place: str
    """Its position, for messages: `line 12`, `page 3, line 4`."""
    gap: bool = False
    """Whether white space separates it from the line before."""
    indent: float = 0
    """Its indent, in characters."""
    width: float = 0
    """Its width, in characters; on a page, as printed."""
    whole: bool = False
    """Whether it is a complete paragraph, which does not continue in the next line."""
    turns: bool = False
    """Whether it is the first of its page."""
    doubts: tuple[Doubt, ...] = ()
    """Its words that may have been misread from a picture."""

    @property
    def empty(self) -> bool:
        """Whether the line is empty."""
        return not self.shadow.strip()


@dataclass(frozen=True, slots=True)
class PrintedText:
    """The text read from a file."""

    lines: list[Line]
    notes: list[str]
    """Notes on how it was read."""
    unread: Sequence[Doubt] = ()
    """Lines of a picture that could not be read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a line."""

    line: Line
    start: int
    end: int

    @property
    def text(self) -> str:
        """As printed."""
        return self.line.text[self.start : self.end]


@cache
def _narrow(char: str) -> str:
    if char in _BRACKETS:
        return _BRACKETS[char]
    folded = unicodedata.normalize("NFKC", char)
    if len(folded) != 1:
        return char
    return "\t" if char == "\t" else " " if folded.isspace() else folded


def shadow_of(text: str) -> str:
    """The text with each character in its NFKC form, if that is a single character."""
    return text if text.isascii() else "".join(map(_narrow, text))


def clean(text: str) -> str:
    """A line without invisible characters; soft hyphens are kept only at its end."""
    text = text.translate(_INVISIBLE).translate(_LIGATURES).rstrip()
    text = _LONG_RUN.sub(lambda match: match[0][:LONGEST_RUN], text)
    if SOFT_HYPHEN in text:
        text = text[:-1].replace(SOFT_HYPHEN, "") + text[-1]
    return text


def make_line(text: str, place: str, *, gap: bool = False, whole: bool = False) -> Line:
    """A line of running text, as wide as its number of characters."""
    text = clean(text)
    shadow = shadow_of(text)
    bare = shadow.expandtabs(4)
    lead = len(bare) - len(bare.lstrip())
    # A full-width space is as wide as two letters.
    lead += sum(char == "\u3000" for char in text[: len(shadow) - len(shadow.lstrip())])
    return Line(text, shadow, place, gap, lead, len(bare), whole)


def make_lines(texts: Iterable[str], where: str = "line") -> list[Line]:
    """Lines of a text file; empty lines are recorded as the `gap` of the next one.

    If nearly every line follows an empty one, the text is double-spaced, and only more than one
    empty line is a gap.
    """
    found: list[tuple[int, str, int]] = []
    empty = 0
    for number, text in enumerate(texts, 1):
        if clean(text).strip():
            found.append((number, text, empty))
            empty = 0
        else:
            empty += 1
    spaced = sum(above > 0 for _, _, above in found[1:]) >= 0.8 * max(1, len(found) - 1)
    needed = 2 if spaced and len(found) > 8 and any(above > 1 for *_, above in found) else 1
    return [
        make_line(text, f"{where} {number}", gap=above >= needed) for number, text, above in found
    ]


def wraps(line: Line, following: Line, width: float) -> bool:
    """Whether a line is full, so that the next one may continue its paragraph; width in characters.

    A line was wrapped if the first word of the next line would not have fitted on it.
    """
    if line.whole or following.whole or following.gap:
        return False
    found = _FIRST.match(following.shadow)
    word = len(found[0].lstrip()) if found else 0
    return line.width + 1 + word > width - SLACK


def words(line: Line | str) -> list[str]:
    """Words in Latin letters."""
    shadow = line if isinstance(line, str) else line.shadow
    return re.findall(r"[A-Za-zÀ-ÿ]+(?:['’][A-Za-z]+)?", shadow)


def vocabulary(lines: Iterable[Line]) -> frozenset[str]:
    """All words of lines, in lower case; hyphenated words whole and in parts."""
    found: set[str] = set()
    for line in lines:
        for word in re.findall(r"[A-Za-z]+(?:-[A-Za-z]+)*", line.text):
            found.update((word.lower(), *word.lower().split("-")))
    return frozenset(found)


def shortened(text: str, length: int = 40) -> str:
    """The beginning of a text, in one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 3].rstrip()}..."


def column_width(lines: Sequence[Line]) -> float:
    """The width at which running lines were wrapped: many of them end near it.

    Without such an edge it is the width of the longest line; or infinite if that is too wide for a
    page, because then every line is a paragraph.
    """
    wide = sorted((line.width for line in lines if line.width >= LEAST_WIDTH), reverse=True)
    needed = max(3, 0.2 * len(wide))
    end = 0
    for start, edge in enumerate(wide):
        while end < len(wide) and wide[end] > edge - EDGE:
            end += 1
        if end - start >= needed:
            return edge
    longest = max((line.width for line in lines), default=0)
    return inf if longest > UNBROKEN else longest
