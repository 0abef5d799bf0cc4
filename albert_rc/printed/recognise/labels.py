"""Labels of passages and of the parts of a key, such as `Passage 2` or `B`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from albert_rc.printed.lines import HAN

HEADING_WORDS = (
    r"answers?(?:\s+keys?|\s+sheets?|\s+(?:and|with)\s+explanations?)?|keys?(?:\s+to\b.*)?|solutions?|corrigés?|réponses|"
    r"lösung(?:en|sschlüssel)?|schlüssel|soluciones|respuestas|clave|ответы|ключи|정답|解答"
)
"""Pattern of the words of a key's heading."""
HEADING = 40  # characters of a line above a passage that may hold its label
_SPOKEN = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"),
    *("tenth", "1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th"),
)
_ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
_HAN_TEN = "一二三四五六七八九十"
_NUMBER = rf"[0-9]{{1,2}}|[IVX]{{1,4}}|[A-H]|(?i:{'|'.join(_SPOKEN)})|[{_HAN_TEN}]{{1,2}}"
# Not 36-40, nor A, B, C, nor 20 points.
_END = r"(?![0-9A-Za-z'’])(?!\s*[-~–—]\s*[0-9])(?!\s*,)(?!\s*(?i:points?|marks?|min|pts|[分题小%]))"
_NAMED = re.compile(
    rf"第\s*(?P<before>{_NUMBER})\s*(?P<unit>部分|大题|单元|[{HAN}])"
    rf"|(?<![A-Za-z])(?P<word>[A-Za-z]{{2,}})[\s.:#(（-]*(?<![A-Za-z])(?P<after>{_NUMBER}){_END}"
    rf"|(?<![A-Za-z])(?P<glued>[A-Za-z]+)(?P<digits>[0-9]{{1,2}}){_END}"
    rf"|(?<![A-Za-z0-9])(?P<ordinal>(?i:{'|'.join(_ORDINALS)}))\s+(?P<named>[A-Za-z]+)"
    rf"|(?P<han>[{HAN}]+?)\s*[(（]?(?P<last>{_NUMBER})(?![{HAN}A-Za-z0-9])"
)
_BARE = re.compile(rf"[\W_]*(?P<number>{_NUMBER})\s*(?:\W*$|[.、):：)]|篇)")
_NO_TITLE = rf"(?i:{HEADING_WORDS})|[{HAN}]*答案[{HAN}]*|no|number|题号"
KINDS = {
    "cloze": re.compile(r"(?i)\bcloze\b|\bgaps?\b|完形|填空"),
    "choice": re.compile(r"(?i)\bread(?:ing)?\b|\bcomprehension\b|阅读"),
}
"""Words for each kind of passage."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label: a word and a number (`Passage 2`), a number or letter (`B`), or a word (`Cloze`)."""

    word: str
    number: int | None
    """The value of a number in digits, letters, words or other numerals."""
    level: Literal["", "section", "passage"] = ""
    """Of a label without a word: 一 and II number sections, B passages within them; 2 either."""

    def is_other_level(self, other: Label) -> bool:
        """Whether one numbers sections and the other passages, so that equal numbers mean nothing.

        As in a paper with 一 Cloze and 二 Reading, whose passages are A and B.
        """
        return {self.level, other.level} == {"section", "passage"}


def labels_in(text: str) -> list[Label]:
    """All labels in a heading that distinguish its passage from others, outermost first.

    Args:
        text: normalised text, as in a line's shadow.
    """
    found = []
    for match in _NAMED.finditer(text):
        word = match["unit"] or match["word"] or match["glued"] or match["named"] or match["han"]
        written = match["before"] or match["after"] or match["digits"] or match["last"]
        number = _value(match["ordinal"] or written)
        if number is not None:
            found.append(Label(word.lower(), number))
    bare = _BARE.match(text) if not found else None
    if bare is not None and (number := _value(bare["number"])) is not None:
        found.append(Label("", number, _level(bare["number"])))
    if not found:
        found += [Label(kind, None) for kind, sign in KINDS.items() if sign.search(text)]
    title = title_of(text)
    if not found and title and not re.fullmatch(_NO_TITLE, title):
        found.append(Label(title, None))
    return found


def labels_in_all(texts: Sequence[str]) -> list[Label]:
    """The labels of several headings."""
    return [label for text in texts for label in labels_in(text)]


def tells(text: str) -> bool:
    """Whether a heading identifies its passage, by a number or by its kind."""
    return any(label.number is not None or label.word in KINDS for label in labels_in(text))


def title_of(text: str) -> str:
    """The words of a heading, in lower case, without its punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def _level(written: str) -> Literal["", "section", "passage"]:
    if written in "ABCDEFGH":
        return "passage"
    return "section" if written[0] in f"IVX{_HAN_TEN}" else ""


def _value(written: str) -> int | None:
    if written.isdigit():
        return int(written)
    for names in (_SPOKEN, _ROMAN, _ORDINALS):
        if written.lower() in map(str.lower, names):
            return [name.lower() for name in names].index(written.lower()) % 10 + 1
    if written in "ABCDEFGH":
        return ord(written) - 64
    if written[0] == "十" and len(written) == 2:
        return 11 + _HAN_TEN.index(written[1])
    return _HAN_TEN.index(written) + 1 if written in _HAN_TEN else None
