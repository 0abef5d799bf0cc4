"""Word's automatic numbers of paragraphs, which are not part of their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
"""Namespace of Word's elements and attributes."""
LEVELS = 9
"""Word's maximum number of levels of a list."""
LONGEST = 100
"""Maximum number of characters around a number; Word allows 255."""
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_CHINESE = "〇一二三四五六七八九"


def _letter(number: int) -> str:
    return chr(96 + number) if 1 <= number <= 26 else "?"


def _roman(number: int) -> str:
    if not 1 <= number < 4000:
        return "?"
    written = ""
    for value, letters in _ROMAN:
        written += number // value * letters
        number %= value
    return written


def circled(number: int) -> str:
    """A number in a circle, up to 20: `①`."""
    return chr(0x245F + number) if 1 <= number <= 20 else str(number)


def _ideographs(number: int) -> str:
    return "".join(_CHINESE[int(digit)] for digit in str(number))


def _counted(number: int) -> str:
    """As in Chinese: 十, 十一, 二十; from 100 on digit by digit, as Word does."""
    if not 10 <= number < 100:
        return _ideographs(number)
    tens, ones = divmod(number, 10)
    return (_CHINESE[tens] if tens > 1 else "") + "十" + (_CHINESE[ones] if ones else "")


_FORMS: dict[str, Callable[[int], str]] = {
    "decimal": str,
    "decimalZero": "{:02}".format,
    "decimalFullWidth": str,
    "decimalEnclosedCircle": circled,
    "decimalEnclosedCircleChinese": circled,
    "decimalEnclosedParen": "({})".format,
    "decimalEnclosedFullstop": "{}.".format,
    "upperLetter": lambda number: _letter(number).upper(),
    "lowerLetter": _letter,
    "upperRoman": lambda number: _roman(number).upper(),
    "lowerRoman": _roman,
    "ideographDigital": _ideographs,
    **dict.fromkeys(
        (
            "chineseCounting",
            "chineseCountingThousand",
            "japaneseCounting",
            "taiwaneseCounting",
            "taiwaneseCountingThousand",
        ),
        _counted,
    ),
}
_EMPTY = ("bullet", "none")


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a list."""

    form: str
    """Format of its number."""
    text: str
    """Text with the placeholders `%1` to `%9` for the numbers of levels."""
    first: int
    restart: int
    """It begins again after a number of a level above this one."""
    legal: bool
    """Whether all numbers in its text are decimal."""


@dataclass(frozen=True, slots=True)
class List:
    """A list; those with the same base continue each other's numbers."""

    base: str
    levels: Mapping[int, Level]
    restarted: frozenset[int]
    """The levels that begin with their own first number, whatever the base has counted."""


class Numbering:
    """Counter of a document's numbered paragraphs.

    Attributes with invalid numbers are ignored, as in Word.

    Args:
        lists: the root of the part that describes lists, or None.
        styles: the root of the part that describes styles, or None.
    """

    def __init__(self, lists: Any, styles: Any) -> None:
        self._lists = {} if lists is None else dict(_lists(lists))
        self._styles = {} if styles is None else _styles(styles)
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[tuple[str, int]] = set()

    def number(self, paragraph: Any) -> str:
        """The automatic number of the next paragraph, followed by a space; usually empty."""
        properties = child(paragraph, "pPr")
        style = attribute(child(properties, "pStyle"))
        own = child(properties, "numPr")
        given = own if own is not None else self._styles.get(style, self._styles.get(""))
        name, level = attribute(child(given, "numId")), whole(child(given, "ilvl"), 0)
        if name not in self._lists or level not in self._lists[name].levels:
            return ""
        counts = self._count(name, level)
        form = self._lists[name].levels[level]
        if form.form not in _FORMS:
            return ""
        return f"{_written(form, self._lists[name].levels, counts)} "

    def _count(self, name: str, level: int) -> Mapping[int, int]:
        """The numbers of all levels of a list, with the next one at a level."""
        mine = self._lists[name]
        counts = self._counts.setdefault(mine.base, {})
        for deeper in [deeper for deeper in counts if deeper > level]:
            if deeper not in mine.levels or level < mine.levels[deeper].restart:
                del counts[deeper]
        begins = level in mine.restarted and (name, level) not in self._begun
        self._begun.add((name, level))
        if begins or level not in counts:
            counts[level] = mine.levels[level].first
        else:
            counts[level] += 1
        return counts


def _written(form: Level, levels: Mapping[int, Level], counts: Mapping[int, int]) -> str:
    """The text of a number, with the numbers of the levels above it in their own formats."""

    def number(match: re.Match[str]) -> str:
        other = levels.get(int(match[1]) - 1)
        if other is None or other.form in _EMPTY:
            return ""
        write = str if form.legal else _FORMS.get(other.form, str)
        return write(counts.get(int(match[1]) - 1, other.first))

    return re.sub("%([1-9])", number, form.text)


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


def _lists(root: Any) -> Iterator[tuple[str, List]]:
    """The lists by their ids."""
    bases: dict[str, dict[int, Level]] = {}
    links: dict[str, str] = {}
    named: dict[str, str] = {}
    for element in root.findall(f"{WORD}abstractNum"):
        base = attribute(element, "abstractNumId")
        bases.setdefault(base, {}).update(_levels(element))
        # A base without levels may name a style, which another one describes.
        links[base] = attribute(child(element, "numStyleLink"))
        named.setdefault(attribute(child(element, "styleLink")), base)
    for element in root.findall(f"{WORD}num"):
        base = attribute(child(element, "abstractNumId"))
        if links.get(base) and not bases[base]:
            base = named.get(links[base], base)
        levels = dict(bases.get(base, {}))
        restarted = set()
        for other in element.findall(f"{WORD}lvlOverride"):
            levels.update(_levels(other))
            number, start = whole(other, 0, "ilvl"), child(other, "startOverride")
            if start is not None and number in levels:
                levels[number] = replace(levels[number], first=whole(start, levels[number].first))
                restarted.add(number)
        yield attribute(element, "numId"), List(base, levels, frozenset(restarted))


def _levels(holder: Any) -> Iterator[tuple[int, Level]]:
    for element in holder.findall(f"{WORD}lvl"):
        number = whole(element, 0, "ilvl")
        legal = child(element, "isLgl")
        if number < LEVELS:
            yield (
                number,
                Level(
                    attribute(child(element, "numFmt")),
                    attribute(child(element, "lvlText"))[:LONGEST],
                    whole(child(element, "start"), 1),
                    whole(child(element, "lvlRestart"), number),
                    legal is not None and attribute(legal) not in ("0", "false", "off"),
                ),
            )


def _styles(root: Any) -> dict[str, Any]:
    """The list and level of each style; under the empty name, those of the default style."""
    own: dict[str, Any] = {}
    base: dict[str, str] = {}
    default = ""
    for element in root.findall(f"{WORD}style"):
        if attribute(element, "type") in ("paragraph", ""):
            name = attribute(element, "styleId")
            own.setdefault(name, child(child(element, "pPr"), "numPr"))
            base.setdefault(name, attribute(child(element, "basedOn")))
            if attribute(element, "default") in ("1", "true", "on"):
                default = name
    found: dict[str, Any] = {}
    for style in own:
        name, path = style, []
        while name in own and name not in found:
            path.append(name)
            found[name] = given = own[name]  # which also ends a circle
            name = base[name] if given is None else name
        found.update(dict.fromkeys(path, found.get(name)))
    return {**found, "": found.get(default)}
