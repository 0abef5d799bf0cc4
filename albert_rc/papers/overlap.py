"""Detection of passages that occur twice: the same text, possibly with other blanks.

About a tenth of the dev and test passages of ELE are also training passages. A model may answer
these from memory, so they are evaluated separately.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from albert_rc.papers.grams import GramIndex, Grams, hashed_grams
from albert_rc.papers.schema import Passage

N_GRAM = 5
SHARE = 0.3
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*|_")


@dataclass(frozen=True)
class Overlap:
    """A passage, and the reference passage that shares most 5-grams with it."""

    passage: str
    other: str
    share: float
    """Share of the passage's distinct 5-grams."""


class OverlapIndex:
    """The word 5-grams of reference passages, with blanks filled by the right options."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.ids = [passage.id for passage in passages]
        self._words: dict[str, int] = {}
        self._complete = False
        grams = [self._grams(passage.filled()) for passage in passages]
        self._complete = True
        self._index = GramIndex(grams)

    def _grams(self, text: str) -> Grams:
        """Hashes of the distinct 5-grams without an open blank."""
        # A kind of quotation mark must not hide an overlap.
        words = _WORD.findall(text.lower().replace("’", "'"))
        known = self._words
        # Words of no reference passage are numbered anew in each text, or they would pile up.
        new, first = ({}, len(known) + 1) if self._complete else (known, 1)
        numbers = (known.get(w) or new.setdefault(w, first + len(new)) for w in words)
        ids = np.fromiter(numbers, dtype=np.int64, count=len(words))
        grams = hashed_grams(ids, N_GRAM)
        open_blank = np.zeros(len(grams), dtype=bool)
        is_blank = np.array([w == "_" for w in words], dtype=bool)
        for place in range(N_GRAM):
            open_blank |= is_blank[place : place + len(grams)]
        return np.unique(grams[~open_blank])

    def best(self, passage: Passage, skip: int | None = None) -> Overlap | None:
        """The reference passage with most of this passage's 5-grams, if it has more than 30%.

        Args:
            passage: its blanks stay open, so that other blanks do not hide the same text.
            skip: index of a reference passage to ignore (the passage itself).
        """
        grams = self._grams(passage.text)
        shared = self._index.shared(grams)
        if shared is None:
            return None
        if skip is not None:
            shared[skip] = 0
        other = int(shared.argmax())
        share = float(shared[other] / len(grams))
        return Overlap(passage.id, self.ids[other], share) if share > SHARE else None

    def touches(self, text: str) -> bool:
        """Whether a text and a reference passage share over 30% of the 5-grams of either."""
        grams = self._grams(text)
        shared = self._index.shared(grams)
        if shared is None:
            return False
        return bool((shared > SHARE * np.minimum(len(grams), self._index.sizes)).any())

    def all(self, passages: Sequence[Passage], within: bool = False) -> dict[str, Overlap]:
        """The overlapping passages by id; with `within`, duplicates inside the reference itself."""
        found = {}
        for number, passage in enumerate(passages):
            overlap = self.best(passage, skip=number if within else None)
            if overlap is not None:
                found[passage.id] = overlap
        return found
