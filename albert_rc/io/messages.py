"""Safe quoting of foreign text in messages: one line, shortened, with invisible characters escaped.

A file's name or an option may hold line breaks, terminal escape sequences, characters that reverse
the writing direction, or a megabyte of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

QUOTED = 60
"""Maximum number of characters quoted of a text."""
LONGEST = 600
"""Maximum number of characters of a whole message; without quotations ours are far shorter."""
_KINDS = {str: "text", list: "a list", dict: "an object", bool: "true/false", type(None): "null"}


def counted(number: int, noun: str, several: str = "") -> str:
    """A number with its noun, as in `1 paper` and `1,234 papers`; `several` is its plural."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def kind_of(value: Any) -> str:
    """The type of a JSON value, in words."""
    return _KINDS.get(type(value), "a number")


def one_line(text: str) -> str:
    """The text with invisible characters escaped: a line break as a backslash and an n."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def visible(text: str) -> str:
    """The text with invisible characters other than line breaks escaped."""
    return "\n".join(map(one_line, text.split("\n")))


def shortened(text: str, longest: int = QUOTED) -> str:
    """The text in one line, with the middle left out if it is long."""
    if len(text) > longest:
        head, tail = longest * 2 // 3, longest // 3
        left_out = len(text) - head - tail
        text = f"{text[:head]}...({left_out:,} characters)...{text[-tail:]}"
    return one_line(text)


def first_line(error: object) -> str:
    """The first line of another library's message, which often includes a traceback."""
    return str(error).strip().partition("\n")[0][:160]


def first_of(lines: Sequence[str], longest: int = 20, rest: str = "more") -> list[str]:
    """The first `longest` lines of a list, and a last one with the number of the others."""
    left = len(lines) - longest
    return [*lines[:longest], *([f"... and {left:,} {rest}"] if left > 0 else [])]


def listed(lines: Sequence[str], longest: int = 20, rest: str = "more") -> str:
    """`first_of` as the end of a message: each on a separate line, shortened."""
    return "".join(f"\n  {shortened(line, LONGEST)}" for line in first_of(lines, longest, rest))


def quoted(value: Any) -> str:
    """A JSON value for a message: strings in quotation marks, lists and objects by type only.

    The latter may be large, or nested more deeply than `repr` supports.
    """
    if isinstance(value, str):
        return repr(shortened(value)) if value.isprintable() else f"'{shortened(value)}'"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return shortened(str(value)) if isinstance(value, (int, float)) else kind_of(value)
