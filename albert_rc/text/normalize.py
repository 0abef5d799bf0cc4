"""Text normalisation with character alignment.

An answer is a span of the original text; a tokenizer sees the text with collapsed white space,
without accents and in lower case. `Aligned` maps positions of the second to the first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Span = tuple[int, int]
"""Index of the first character, and index after the last one."""


def clean_text(text: str, lower: bool = True, keep_accents: bool = False) -> str:
    """Text as ALBERT passes it to SentencePiece (google-research/albert, `preprocess_text`).

    White space is collapsed; then NFKD, combining marks dropped, lower case.
    """
    text = " ".join(text.split())
    if not text.isascii() and not keep_accents:
        text = text.translate(_WITHOUT_MARKS)
    return text.lower() if lower else text


class _WithoutMarks(dict[int, str]):
    """Cache of each character's NFKD form without combining marks.

    Character by character is enough: NFKD's only rule across characters is the order of combining
    marks, and those are dropped. Sorting them takes quadratic time: a minute for a megabyte of
    them.
    """

    def __missing__(self, code: int) -> str:
        decomposed = unicodedata.normalize("NFKD", chr(code))
        kept = "".join(c for c in decomposed if not unicodedata.combining(c))
        if len(self) < 2**16:  # only a malicious text has more
            self[code] = kept
        return kept


_WITHOUT_MARKS = _WithoutMarks()


@dataclass(frozen=True)
class Aligned:
    """A text derived from another, with the source span of each character."""

    text: str
    origins: Sequence[Span]

    def source(self, first: int, last: int, blank: Callable[[str], bool] = str.isspace) -> Span:
        """Source span of the characters [first, last), without blanks at both ends.

        Args:
            first: index of the first character.
            last: index after the last one.
            blank: whether to strip a character.

        Returns:
            The span. If there are only blanks, it is empty, just after them; if these came from the
            inside of one character that became several, it is that character.
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
        """The alignment of `text`, which is this text with inserted spaces."""
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
    """`" ".join(text.split())`, aligned: a space maps to all the white space it replaces."""
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
    """`clean_text` with the source of every character; tests compare the two."""
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
        # A letter's length does not depend on its neighbours, but its lower case may: Σ differs
        # at the end of a word.
        pairs = zip(cleaned, origins, strict=True)
        origins = [origin for character, origin in pairs for _ in character.lower()]
        cleaned = cleaned.lower()
    return Aligned(cleaned, origins)


def with_marks(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans extended by the combining marks after them, unless these have their own spans.

    A vocabulary without accents drops a combining accent; the span of the word would otherwise
    exclude it.
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
    # By decomposition: Unicode classifies the half-width voicing marks of Japanese as letters.
    decomposed = unicodedata.normalize("NFKD", character)
    return all(unicodedata.combining(part) for part in decomposed)
