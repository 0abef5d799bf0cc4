"""Detection of words in a picture that may have been misread."""

from __future__ import annotations

import re

from albert_rc.papers.words import is_word
from albert_rc.printed.read.layout import Word

SURE = 0.4
"""Certainty of an English word's least certain letter below which the word is doubtful."""
SURE_OF_OTHERS = 0.8
"""Likewise for names and numbers."""
SURE_OF_SIGNS = 0.6
_CHECKED = re.compile(r"[(\[]?[A-Ga-g][.)\],:]?|_+\d*_*|\d{1,3}[.)]")
"""Marks of options and numbers of blanks, which must continue those before them."""
_SHORT = re.compile(r"['’](?:s|ll|re|ve|d|m|t)\b")
_LETTERS = re.compile(r"[A-Za-z]+")


def is_doubtful(word: Word) -> bool:
    """Whether a person must check a word because it may have been misread."""
    if _CHECKED.fullmatch(word.text):
        return False
    if not any(char.isalnum() for char in word.text):
        return word.certainty < SURE_OF_SIGNS
    parts = _LETTERS.findall(_SHORT.sub("", word.text))
    known = bool(parts) and all(len(part) == 1 or is_word(part) for part in parts)
    return word.certainty < (SURE if known else SURE_OF_OTHERS)
