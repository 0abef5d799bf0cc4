"""Blanks of a line: rules and the number between or on them, which are recognised separately."""

from __future__ import annotations

from dataclasses import replace

from albert_rc.printed.read.layout import Word
from albert_rc.printed.scan.glued import as_blank

NEAR = 0.45
"""Maximum gap between a blank's rule and its number, as a multiple of the line's height."""
LOST = 0.3, 1.1
"""Minimum and maximum gap between two rules with a missed number between them, likewise."""
SPACE = 0.2
"""Gap between two words, likewise."""


def is_number(text: str) -> bool:
    """Whether a word is a number, perhaps in brackets."""
    return text.strip("()[]._ ").isdigit()


def joined(parts: list[Word], height: float) -> list[Word]:
    """The parts, with those of a blank joined: `__`, `36`, `__` become `__36__`."""
    done: list[Word] = []
    for word in parts:
        before = done[-1] if done else None
        white = (word.left - before.right) / height if before is not None else 0.0
        joint = None if before is None else _one_blank(before.text, word.text, white)
        if before is not None and joint is not None:
            done[-1] = Word(
                joint, before.left, word.right, before.top, before.bottom,
                min(before.certainty, word.certainty),
            )  # fmt: skip
        else:
            done.append(word)
    return done


def apart(words: list[Word], height: float) -> list[Word]:
    """The words, with gaps around blanks: the end of a letter is exact only to half a letter."""
    for at, word in enumerate(words):
        if "_" not in word.text:
            continue
        if at and words[at - 1].right > word.left - SPACE * height:
            words[at - 1] = replace(words[at - 1], right=word.left - SPACE * height)
        after = words[at + 1] if at + 1 < len(words) else None
        if after is not None and after.text[0].isalnum():
            words[at + 1] = replace(after, left=max(after.left, word.right + SPACE * height))
    return words


def _one_blank(before: str, text: str, white: float) -> str | None:
    """Two parts joined into one, or None if they do not belong to one blank.

    Args:
        before: the part on the left.
        text: the part on the right.
        white: width of the gap between them, as a multiple of the line's height.
    """
    if set(before) == set(text) == {"_"} and LOST[0] < white < LOST[1]:
        return before  # the number between them was not read
    if white > NEAR:
        return None
    if set(text) == {"_"} and before.strip("_").isdigit():
        return f"{before}__" if before[-1] != "_" else before
    if set(before) == {"_"} and as_blank(text):
        return text
    if before.startswith("_") and before[-1].isdigit() and as_blank(text):
        return f"{before}{text.strip('_')}__"  # `__1` and `__2__` are `__12__`
    return f"__{text}" if set(before) == {"_"} and is_number(text) else None
