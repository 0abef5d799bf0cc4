"""Word's automatic numbers of paragraphs, which are not part of their text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""Namespace of Word's elements and attributes."""
LEVELS = 9
"""Word's maximum number of levels of a list."""
LONGEST = 100
"""Maximum number of characters around a number; Word allows 255."""
_FORMS: dict[str, Callable[[int], str]] = {
    "decimal": str,
    "upperLetter": lambda number: chr(64 + number) if 1 <= number <= 26 else "?",
    "lowerLetter": lambda number: chr(96 + number) if 1 <= number <= 26 else "?",
}
Level = tuple[str, str, int]
"""Number format, text and first number of a level."""


class Numbering:
    """Counter of a document's numbered paragraphs.

    Attributes with invalid numbers are ignored, as in Word.

    Args:
        lists: the root of the part that describes lists, or None.
        styles: the root of the part that describes styles, or None.
    """

    def __init__(self, lists: Any, styles: Any) -> None:
        self._levels = {} if lists is None else dict(_levels(lists))
        self._styles = {} if styles is None else _styles(styles)
        self._counts: dict[str, Counter[int]] = {}

    def number(self, paragraph: Any) -> str:
        """The automatic number of the next paragraph, followed by a space; usually empty."""
        properties = child(paragraph, "pPr")
        style = attribute(child(properties, "pStyle"))
        own = child(properties, "numPr")
        given = own if own is not None else self._styles.get(style, self._styles.get(""))
        name, level = attribute(child(given, "numId")), whole(child(given, "ilvl"), 0)
        if not name or level not in self._levels.get(name, {}):
            return ""
        form, text, first = self._levels[name][level]
        counts = self._counts.setdefault(name, Counter())
        for deeper in range(level + 1, LEVELS):
            counts.pop(deeper, None)
        counts[level] += 1
        write = _FORMS.get(form)
        if write is None:
            return ""
        return f"{text.replace(f'%{level + 1}', write(first + counts[level] - 1))} "


def child(element: Any, name: str) -> Any:
    """The first child with a name in Word's namespace; None if there is none, or no parent."""
    return None if element is None else element.find(WORD + name)


def attribute(element: Any, name: str = "val") -> str:
    """An attribute in Word's namespace; empty if missing."""
    return "" if element is None else element.get(WORD + name, "")


def whole(element: Any, default: int, name: str = "val") -> int:
    """The value of an attribute that is a number of up to nine digits, else the default."""
    given = attribute(element, name)
    return int(given) if re.fullmatch("[0-9]{1,9}", given) else default


def _levels(root: Any) -> Iterator[tuple[str, dict[int, Level]]]:
    """The levels of each list by its id; lists share formats, but have their own first numbers."""
    forms: dict[str, dict[int, Level]] = {}
    for element in root.findall(f"{WORD}abstractNum"):
        levels = forms.setdefault(attribute(element, "abstractNumId"), {})
        for level in element.findall(f"{WORD}lvl"):
            number = whole(level, 0, "ilvl")
            if number < LEVELS:
                levels[number] = (
                    attribute(child(level, "numFmt")),
                    attribute(child(level, "lvlText"))[:LONGEST],
                    whole(child(level, "start"), 1),
                )
    for element in root.findall(f"{WORD}num"):
        starts = {
            whole(other, 0, "ilvl"): child(other, "startOverride")
            for other in element.findall(f"{WORD}lvlOverride")
        }
        levels = forms.get(attribute(child(element, "abstractNumId")), {})
        yield (
            attribute(element, "numId"),
            {
                level: (form, text, whole(starts.get(level), first))
                for level, (form, text, first) in levels.items()
            },
        )


def _styles(root: Any) -> dict[str, Any]:
    """The list and level of each style; under the empty name, those of the default style."""
    found: dict[str, Any] = {}
    for style in root.findall(f"{WORD}style"):
        if attribute(style, "type") in ("paragraph", ""):
            given = child(child(style, "pPr"), "numPr")
            found.setdefault(attribute(style, "styleId"), given)
            if attribute(style, "default") in ("1", "true", "on"):
                found[""] = given
    return found
