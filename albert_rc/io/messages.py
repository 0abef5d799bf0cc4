"""What others wrote, made fit to be quoted in a message: one line, short, and nothing in disguise.

A file's name or an option may hold line breaks, escape sequences that a terminal obeys, signs that
turn the writing round, or a megabyte of text. None of that belongs into a sentence of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

QUOTED = 60
"""Characters of a text that are quoted; the rest is counted."""
LONGEST = 600
"""Characters of a whole message; those of ours are far shorter, so it is what they quote."""
_KINDS = {str: "text", list: "a list", dict: "an object", bool: "true/false", type(None): "null"}


def counted(number: int, noun: str) -> str:
    """A number of things, as in `1 paper` and `1,234 papers`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), "a number")


def one_line(text: str) -> str:
    """The text, with what cannot be seen spelt out: a line break as a backslash and an n."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def visible(text: str) -> str:
    """The text with its line breaks as they are, and all else that cannot be seen spelt out."""
    return "\n".join(map(one_line, text.split("\n")))


def shortened(text: str, longest: int = QUOTED) -> str:
    """The text in one line, its middle left out where it is long."""
    if len(text) > longest:
        head, tail = longest * 2 // 3, longest // 3
        left_out = len(text) - head - tail
        text = f"{text[:head]}...({left_out:,} characters)...{text[-tail:]}"
    return one_line(text)


def first_of(lines: Sequence[str], longest: int = 20, rest: str = "more") -> list[str]:
    """The first lines of a list, and a last one that counts the others.

    Args:
        lines: of any number.
        longest: how many are shown.
        rest: what the others are called.
    """
    left = len(lines) - longest
    return [*lines[:longest], *([f"... and {left:,} {rest}"] if left > 0 else [])]


def listed(lines: Sequence[str], longest: int = 20, rest: str = "more") -> str:
    """The same as the end of a message: each on a line of its own, and short."""
    return "".join(f"\n  {shortened(line, LONGEST)}" for line in first_of(lines, longest, rest))


def quoted(value: Any) -> str:
    """A JSON value as a message shows it: texts in quotation marks, lists and objects by name.

    Those are not spelt out: they may be large, or nested more deeply than `repr` follows.
    """
    if isinstance(value, str):
        return repr(shortened(value)) if value.isprintable() else f"'{shortened(value)}'"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return shortened(str(value)) if isinstance(value, (int, float)) else kind_of(value)
