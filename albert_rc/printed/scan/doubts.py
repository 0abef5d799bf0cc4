"""Which words of a picture may have been read wrong."""

from __future__ import annotations

import re

from albert_rc.papers.words import is_word
from albert_rc.printed.read.layout import Word

SURE = 0.4
"""Least certainty of an English word's least certain letter."""
SURE_OF_OTHERS = 0.8
"""Likewise of names and numbers."""
SURE_OF_SIGNS = 0.6
_CHECKED = re.compile(r"[(\[]?[A-Ga-g][.)\],:]?|_+\d*_*|\d{1,3}[.)]")
"""Marks of options and numbers of blanks, which must go on from those before."""
_SHORT = re.compile(r"['’](?:s|ll|re|ve|d|m|t)\b")
_LETTERS = re.compile(r"[A-Za-z]+")


def is_doubtful(word: Word) -> bool:
    """Whether a person must look at a word, as it may have been read wrong."""
    if _CHECKED.fullmatch(word.text):
        return False
    if not any(char.isalnum() for char in word.text):
        return word.certainty < SURE_OF_SIGNS
    parts = _LETTERS.findall(_SHORT.sub("", word.text))
    known = bool(parts) and all(len(part) == 1 or is_word(part) for part in parts)
    return word.certainty < (SURE if known else SURE_OF_OTHERS)
