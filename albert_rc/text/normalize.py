"""Cleaned text, and where each of its characters stood before.

An answer is a place in the text as somebody wrote it; a vocabulary sees the text with white space
folded, accents dropped and letters made small. `Aligned` leads from the second back to the first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""First and past-last character."""


def clean_text(text: str, lower: bool = True, keep_accents: bool = False) -> str:
    """Text as ALBERT hands it to SentencePiece (google-research/albert, `preprocess_text`).

    White space is folded; then NFKD, combining marks dropped, lower case.
    """
    text = " ".join(text.split())
    if not text.isascii() and not keep_accents:
        text = text.translate(_WITHOUT_MARKS)
    return text.lower() if lower else text


class _WithoutMarks(dict[int, str]):
    """What is left of a character after NFKD without its combining marks; grows as needed.

    Character by character is enough: NFKD's only rule across characters is the order of combining
    marks, and those are what is dropped. Putting them in order takes time that grows with their
    square: a minute for a megabyte of them.
    """

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code))
        kept = "".join(c for c in decomposed if not unicodedata.combining(c))
        if len(self) < 2**16:  # no text has more, but a hostile one might
            self[code] = kept
        return kept


_WITHOUT_MARKS = _WithoutMarks()


@dataclass(frozen=True)
class Aligned:
    """A text made from another, with the span that each character comes from."""

    text: str
    origins: Sequence[Span]

    def source(self, first: int, last: int, blank: Callable[[str], bool] = str.isspace) -> Span:
        """What the characters [first, last) come from, without the blanks at both ends.

        Args:
            first: the first character.
            last: the past-last one.
            blank: whether a character is not worth a place.

        Returns:
            An empty span, just behind the blanks, where there is nothing else; but the whole
            character where they are the inside of one that became several.
        """
        while first < last and blank(self.text[first]):
            first += 1
        while first < last and blank(self.text[last - 1]):
            last -= 1
        if first < last:
            return self.origins[first][0], self.origins[last - 1][1]
        place = self.origins[first - 1][1] if first else 0
        if first < len(self.origins) and self.origins[first][0] < place:
            return self.origins[first]
        return place, place

    def spaced(self, text: str) -> Aligned:
        """The alignment of `text`, which is this text with more spaces put in."""
        origins: list[Span] = []
        taken = 0
        for character in text:
            if taken < len(self.text) and character == self.text[taken]:
                origins.append(self.origins[taken])
                taken += 1
            else:
                place = origins[-1][1] if origins else 0
                origins.append((place, place))
        return Aligned(text, origins)


def fold_aligned(text: str) -> Aligned:
    """`" ".join(text.split())`; a space comes from all the white space in its place."""
    words = text.split()
    origins: list[Span] = []
    position = 0
    for word in words:
        first = text.index(word, position)
        if origins:
            origins.append((position, first))
        position = first + len(word)
        origins += [(i, i + 1) for i in range(first, position)]
    return Aligned(" ".join(words), origins)


def clean_aligned(text: str, lower: bool = True, keep_accents: bool = False) -> Aligned:
    """`clean_text` with the origin of every character; the tests hold the two together."""
    folded = fold_aligned(text)
    cleaned, origins = folded.text, folded.origins
    if not cleaned.isascii() and not keep_accents:
        kept = [
            (part, origin)
            for character, origin in zip(cleaned, origins, strict=True)
            for part in _WITHOUT_MARKS[ord(character)]
        ]
        cleaned = "".join(part for part, _ in kept)
        origins = [origin for _, origin in kept]
    if lower:
        # A letter's length does not depend on its neighbours, but its lower case may: Σ at the
        # end of a word is another than inside.
        pairs = zip(cleaned, origins, strict=True)
        origins = [origin for character, origin in pairs for _ in character.lower()]
        cleaned = cleaned.lower()
    return Aligned(cleaned, origins)


def with_marks(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans that take along the combining marks behind them, unless these have spans themselves.

    A vocabulary without accents drops the mark of a letter and its accent written as two
    characters; cut out of the text, the word would lose it.
    """
    found: list[Span] = []
    limit = len(text)
    for first, last in reversed(spans):
        end = last
        while first < end < limit and _is_mark(text[end]):
            end += 1
        found.append((first, end))
        limit = first
    return found[::-1]


def _is_mark(character: str) -> bool:
    # By what it decomposes to: the half-width voicing marks of Japanese call themselves letters.
    decomposed = unicodedata.normalize("NFKD", character)
    return all(unicodedata.combining(part) for part in decomposed)
