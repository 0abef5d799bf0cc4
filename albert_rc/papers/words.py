"""Distinction of English words from parts of words, by a list of frequent ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

WORDS = Path(__file__).parent / "words.txt"
"""Frequent words and parts of words, in lower case, a line each: BERT's pieces that exam papers and
novels use. They cover 97% of the words of exam papers. The list belongs to no model, so papers are
read the same way for every model."""
ENDINGS = ("s", "es", "ed", "d", "ing", "er", "ers", "est", "ly", "y", "ness", "r", "ful", "less")
BOUND = {
    "al", "ance", "ant", "ary", "ate", "bi", "co", "de", "dis", "ed", "em", "en", "ence", "ent",
    "er", "est", "ful", "ible", "ic", "il", "ing", "ir", "ish", "ism", "ist", "ity", "ive", "ll",
    "ly", "ment", "mis", "nd", "ness", "non", "ous", "pre", "rd", "re", "sion", "st", "th", "tion",
    "tri", "ty", "un", "ve",
}  # fmt: skip
"""Parts of words that are not words, although some are in the list."""
PREFIXES = {
    "a", "an", "ante", "anti", "any", "auto", "be", "down", "every", "ex", "fore", "im", "in",
    "inter", "mid", "multi", "no", "out", "over", "post", "pro", "self", "semi", "some", "sub",
    "super", "trans", "under", "up",
}  # fmt: skip
"""Words that may also be the beginning of a word completed by a blank."""
SUFFIXES = {
    "able", "an", "body", "hood", "ion", "less", "like", "man", "men", "one", "or", "self",
    "selves", "ship", "some", "thing", "time", "times", "ward", "wards", "where", "wise",
}  # fmt: skip
"""Words that may also be the end of a word begun by a blank."""


@cache
def _known() -> frozenset[str]:
    return frozenset({"a", "i", *WORDS.read_text("utf-8").split()} - BOUND)


def is_word(text: str, compound: bool = True) -> bool:
    """Whether a text is an English word: a known, inflected or compound word.

    Args:
        text: letters.
        compound: whether compounds such as `doorway` count.
    """
    word, known = text.lower(), _known()
    if word in known:
        return True
    for ending in ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 3:
            continue
        stems = [stem, stem + "e"]
        if stem.endswith("i"):  # carried
            stems.append(stem[:-1] + "y")
        if stem[-1] == stem[-2]:  # stopped
            stems.append(stem[:-1])
        if not known.isdisjoint(stems):
            return True
    if not compound:
        return False
    pairs = ((word[:at], word[at:]) for at in range(3, len(word) - 2))
    return any(a in known and (b in known or b.removesuffix("s") in known) for a, b in pairs)


def is_whole(before: str, after: str) -> bool:
    """Whether the texts attached to a blank are separate words, not parts of the missing word.

    Args:
        before: the letters directly before the blank, if any.
        after: the letters directly after it, if any.
    """
    if before and (before.lower() in PREFIXES or not is_word(before)):
        return False
    if after and (after.lower() in SUFFIXES or not is_word(after)):
        return False
    return not (before and after and (before + after).lower() in _known())
