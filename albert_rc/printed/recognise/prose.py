"""Recognition of headings, instructions and page numbers, and of paragraphs of a passage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from math import isinf
from typing import Literal

from albert_rc.papers.words import is_word
from albert_rc.printed.lines import FINAL, OTHER_LETTERS, SOFT_HYPHEN, Line, words, wraps
from albert_rc.printed.recognise.sections import role_of_section

INSTRUCTION_LINES = 12
ENGLISH = 0.6
"""Share of known words from which a text in Latin letters is English."""
ENGLISH_WITH_ACCENTS, PERHAPS = 0.9, 0.52
"""Likewise if letters have accents; and the share from which it may be English with many names."""
Role = Literal["text", "heading", "instruction", "foreign"]

_ORDINAL = r"(?:[0-9]{1,2}|[IVXivx]{1,4}|[A-H]|one|two|three|four|five|six|seven|eight|nine|ten)"
_HEADING = re.compile(
    rf"""^[\W_]*(?:
        (?:passage|text|part|section|test|paper|unit|task|exercise|cloze|reading|article|story|
           texte|partie|teil|texto|parte|aufgabe)
            (?:\s+(?:test|comprehension|passage|text|exercise|cloze|[0-9]+))*
            (?: \W*$ | [\W_]*\b{_ORDINAL}\b (?!['’]) )
      | [IVX]{{1,4}}\s*[.、]  | \([IVXA-H]\) | [A-H] (?=\W*$) | [A-H]\s*篇
      | 第?\s*[一二三四五六七八九十]{{1,3}}\s*(?:部分|节|大题|篇|[、.)，])
      | 第\s*[0-9IVX]+\s*(?:部分|节|篇)
      | (?:sign|notice|message|dialogue|conversation)\s+[0-9]{{1,2}} (?=\W*$)
      | (?:(?:reading\s+)?comprehension\s+)?questions? (?=\W*$)
      | multiple[\s-]choice(?:\s+questions?)? (?=\W*$)
      | fragen(?:\s+zum\s+text)? (?=\W*$) | aufgaben (?=\W*$)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_HINTS = re.compile(
    r"(?i)\b(?:passages?|texts?|articles?|blanks?|gaps?|spaces?|options?|choices?|answers?|"
    r"questions?|alternatives|letters?|words? in the box|numbered|"
    r"enough information|(?:sentences|statements)(?=\s+[0-9])|read|choose|fill|"
    r"complete|select|mark|pick|circle|decide|blacken|look at|use)\b"
)
_OPENS = re.compile(
    r"(?i)^\W*(?:[0-9IVX]{1,4}\s*[.)、]\s*)?"
    r"(?:(?:section|part|exercise|task|practice)\s+\w{1,3}\s*[.:]?\s*)?(?:please\s+)?(?:directions?|instructions?|note|read|choose|fill|complete|select|mark|"
    r"pick|look at|use|decide|answer|circle|for (?:each|every|questions?)|questions?\s+[0-9]+|"
    r"there (?:is|are)|in this (?:section|part)|after reading|cloze|write|tick|"
    r"(?:the following|this|each|every) (?:passage|text|article)s? (?:is|are) followed by|"
    r"if there is not enough information|are (?:the |these )?(?:sentences|statements)\b|"
    r"you (?:should|are going to|will)|(?:according to|based on) the (?:passage|text|article))\b"
)
_NAMED = re.compile(r"(?i)\W*(?:directions?|instructions?)\s*[:.]")
_EXAM = re.compile(
    r"(?i)\b(?:exam(?:s|ination)?|test papers?|paper\s+(?:[0-9]|[IVX]+\b)|mid-?term|final term|"
    r"grade\s+[0-9]|semester|mock|quiz|worksheet)\b"
)
_LETTERS = re.compile(
    r"\bA\b(?:\W+(?:B\b\W+(?:(?:and|or)\s+)?C\b|(?:and|or)\s+B\b|(?:to|through)\s+[C-O]\b)"
    r"|\s*[-–—~]\s*[C-O]\b)"
)
_OPTIONS = re.compile(
    rf"""(?:^|[(\["'“‘:,/]|\b(?i:from|choose|mark(?:ed)?|letters?|options?|choices?|answers?|either|
    write|of|by|is|are|alternatives|statements?|paragraphs?|people|texts?|items?|sentences?|in|the|
    best|one|correct|right|with|for|tick|circle|select)\b)\W*(?-x:{_LETTERS.pattern})""",
    re.VERBOSE,
)
"""Letters of a paper's options, and not of what it is about, as in `Tours A, B and C`."""
_SPAN = re.compile(r"\b[0-9]{1,3}\s*(?:[-~–—]|to)\s*[0-9]{1,3}\b")
_POINTS = re.compile(r"(?i)\b[0-9.]+\s*(?:points?|marks?|minutes?|pts)\b")
_HEADER = re.compile(
    r"(?i)^\W*(?:(?:full )?name|class|school|date|student(?: (?:no|number|name))?|candidate|score)"
    r"\W*(?:[:_]|$)|^\W*time(?: allowed)?\s*:"
)
# `Date: 12 May` in an e-mail or on a poster. `Time: 90 minutes` is about the exam.
_DETAIL = re.compile(
    r"(?i)^\W*(?:date|time|class|school|(?:full )?name)\s*:\s*(?!.*(?:__|\.{4}))"
    r"(?!.*\b(?:name|class|school|date|score|marks?|student|candidate|number|no)\W*[:_])"
    r"(?!\s*(?:about\s+)?[0-9.]+\s*(?:minutes?|mins?|hours?|hrs?|h)\W*$)(?=.*\w)"
)
# A turn of a dialogue: `Student: Thank you very much.` `Student: Li Lei` is about the exam.
_SPOKEN = re.compile(r"(?i)^\W*(?:student|candidate)\s*:\s*(?!.*(?:__|\.{4})).*\w\W*[.!?]\W*$")
_CHINESE = re.compile(
    "短文|选项|选出|填入|空白|完形|阅读|小题|满分|部分|第.节|答题|单词|姓名|班级|试卷|试题"
)
_HAN_SECTION = re.compile(
    r"\W*(?:第\s*)?[一二三四五六七八九十]{1,3}\s*(?:部分|节|大题|[、.,])[^A-Za-z]{0,30}$"
)
_PAGE = re.compile(
    r"(?i)^\W*(?:[-–—~·]+\s*[0-9]{1,3}\s*[-–—~·]+"
    r"|page\s*[0-9]+(?:\s*(?:of|/)\s*[0-9]+)?|p\.?\s*[0-9]+(?:\s*(?:of|/)\s*[0-9]+)?"
    r"|[0-9]{1,3}\s*/\s*[0-9]{1,3}"
    r"|第\s*[0-9]+\s*页.{0,12}|[^A-Za-z]{0,24}第\s*[0-9]+\s*页[^A-Za-z]{0,12}"
    r"|seite\s*[0-9]+.{0,9}|página\s*[0-9]+.{0,9})\W*$"
)
# A header that ends with the number of its page: `Grade 9 English Test     Page 3 of 8`.
_PAGED = re.compile(
    r"(?=.{0,70}$)[^.!?_]*(?:\b(?:Page|PAGE)\s*[0-9]+\s*(?:of|/)\s*[0-9]+|\s{2,}(?:Page|PAGE)\s*[0-9]+)"
    r"\W*$"
)
_TURN = re.compile(
    r"(?i)^\W*(?:please\s+)?(?:turn over|go on to the next page|end of (?:the )?(?:test|paper))\W*$"
)
_COMMON = frozenset(
    [
        *("the", "of", "to", "and", "a", "is", "was", "it", "that", "he", "she", "they", "you"),
        *("for", "with", "as", "at", "be", "had", "have", "not", "his", "her", "but", "from"),
        *("are", "this", "by", "who", "which", "what", "their", "we", "there", "my", "were"),
        *("when", "your", "would", "if", "about", "can", "out", "up", "them", "then", "how"),
    ]
)


def is_page_mark(line: Line) -> bool:
    """A page number or the like: `- 3 -`, `Page 3 of 8`, `第3页 共8页`."""
    shadow = line.shadow.strip()
    return bool(_PAGE.match(shadow) or _PAGED.match(shadow) or _TURN.match(shadow))


def is_foreign(shadow: str) -> bool:
    """Whether a text is not English: it has other letters, or few English words."""
    han = len(re.findall(f"[{OTHER_LETTERS}]", shadow))
    found = words(shadow)
    if han:
        return han > len(found)
    if len(found) < 7 or any(word.lower() in _COMMON for word in found):
        return False
    # Dialogue may have none of the commonest words: `Oh, hi Dave. Long time, no see!`
    accents = any(not word.replace("’", "'").isascii() for word in found)
    return _english(found) < (ENGLISH_WITH_ACCENTS if accents else ENGLISH)


def _english(found: Sequence[str]) -> float:
    """Share of words that are known English words."""
    parts = [part for word in found for part in re.split("['’]", word) if len(part) > 1]
    known = sum(part.isascii() and is_word(part, compound=False) for part in parts)
    share: float = known / max(1, len(parts))
    return share


def has_english(shadow: str) -> bool:
    """Whether a text that counts as foreign contains an English sentence, or most of one."""
    found = words(shadow)
    if len(found) >= 5 and any(word.lower() in _COMMON for word in found):
        return True
    return len(found) >= 7 and _english(found) > PERHAPS


def is_field(shadow: str) -> bool:
    """Whether a text begins like `Name: ____` or `Time: 9:00`."""
    shadow = shadow.strip()
    told = _DETAIL.match(shadow) or _SPOKEN.match(shadow)
    return _HEADER.match(shadow) is not None and not told


def begins_section(line: Line) -> bool:
    """Whether a line begins like the heading of a section or passage: `三、`, `Part II`, `B`."""
    return _HEADING.match(line.shadow.strip()) is not None


def role_of(shadow: str) -> Role:  # noqa: PLR0911 - one case, one answer
    """The probable role of a paragraph that is neither options nor key."""
    shadow = shadow.strip()
    found = words(shadow)
    if is_foreign(shadow):
        signs = (_CHINESE.search(shadow), _LETTERS.search(shadow), _HAN_SECTION.match(shadow))
        return "instruction" if any(signs) else "foreign"
    if is_field(shadow) and len(found) <= 14:
        return "heading"
    short = len(found) <= 8 and not re.search(r"[.!?,;]\W*$", shadow[2:])
    if short and (_HEADING.match(shadow) or _EXAM.search(shadow)) and "__" not in shadow:
        return "heading"
    if (section := role_of_section(shadow)) is not None:
        return section
    letters = bool(_OPTIONS.search(shadow))
    if _OPENS.match(shadow) or letters:
        parts = [part for part in re.split(r"(?<=[.!?:])\s+", shadow) if words(part)]
        hits = [_hints(part) for part in parts]
        said = sum(number >= 2 for number in hits)
        first = max(hits[:2], default=0)
        if _NAMED.match(shadow) and (said or first):
            return "instruction"
        if said * 2 >= len(hits) and first >= 2:
            return "instruction"
    return "text"


def _hints(sentence: str) -> int:
    return (
        len(set(map(str.lower, _HINTS.findall(sentence))))
        + 2 * bool(_OPTIONS.search(sentence))
        + bool(_SPAN.search(sentence))
        + bool(_POINTS.search(sentence))
    )


def paragraphs(lines: Sequence[Line], width: float) -> list[list[Line]]:
    """Lines of running text, which were wrapped at this width, grouped into paragraphs."""
    pairs = list(pairwise(lines))
    close = [(a, b) for a, b in pairs if not (a.whole or b.gap or b.indent >= a.indent + 1.5)]
    full = sum(wraps(a, b, width) for a, b in close)
    filled = (len(close) >= 4 and full >= 0.6 * len(close)) or isinf(width)
    margin = min((line.indent for line in lines), default=0) if filled else 0
    found: list[list[Line]] = []
    for number, line in enumerate(lines):
        if (
            number
            and not _starts_paragraph(*pairs[number - 1], width, filled, margin)
            and not _ends_instruction(found[-1], line)
        ):
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _starts_paragraph(before: Line, line: Line, width: float, filled: bool, margin: float) -> bool:
    """Whether a new paragraph begins with a line.

    Args:
        before: the line above it.
        line: the line.
        width: width of the column.
        filled: whether nearly all lines reach its edge, so that a shorter one ends a paragraph.
        margin: the smallest indent of all lines.
    """
    if before.whole or line.whole or _is_han(before) != _is_han(line):
        return True
    full = wraps(before, line, width)
    if not full and any(role_of(each.shadow) == "heading" for each in (before, line)):
        return True
    ends = bool(FINAL.search(before.shadow))
    if line.gap:
        # A page may end in the middle of a sentence.
        return ends or not line.shadow.lstrip()[:1].islower()
    if line.indent >= margin + 1.5:
        return ends or not full
    return not full and (ends or filled)


def _ends_instruction(paragraph: Sequence[Line], line: Line) -> bool:
    """Whether a paragraph is a complete heading or instruction, without the line under it."""
    if len(paragraph) > INSTRUCTION_LINES:
        return False
    text = " ".join(line.shadow.strip() for line in paragraph)
    if not FINAL.search(text):
        # A long heading may look like a full line.
        return len(paragraph) == 1 and role_of(text) == "heading" and line.shadow[:1].isupper()
    if is_foreign(text) and not is_foreign(line.shadow):
        return True
    return role_of(text) == "instruction" and _hints(line.shadow[:80]) < 2


def _is_han(line: Line) -> bool:
    return len(re.findall(f"[{OTHER_LETTERS}]", line.shadow)) > len(words(line))


def join_lines(parts: Sequence[str], vocabulary: frozenset[str], notes: list[str]) -> str:
    """Lines of one paragraph as running text, with one space where there were several.

    A hyphen at the end of a line belongs to the word if the word is hyphenated elsewhere in the
    paper; otherwise it is removed, with a note.
    """
    lines = [" ".join(part.split()) for part in parts]
    lines = [line for line in lines if line]
    text = []
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        if not below:
            text.append(line.rstrip(SOFT_HYPHEN))
        elif line.endswith(SOFT_HYPHEN):
            text.append(line[:-1])
        elif re.search(r"[A-Za-z][-\u2010]$", line[-2:]) and below[0].islower():
            text.append(_mended(line, below, vocabulary, notes))
        else:
            text.append(f"{line} ")
    return "".join(text)


def _mended(line: str, below: str, vocabulary: frozenset[str], notes: list[str]) -> str:
    """A line that ends with a hyphen, joined with the one below it."""
    first = re.search(r"[A-Za-z-]+$", line[-60:-1])
    rest = re.match(r"[A-Za-z]+", below)
    if first is None or rest is None:
        return line
    if rest[0] in ("and", "or", "to", "but"):  # long- and short-term
        return f"{line} "
    joined = first[0] + rest[0]
    if f"{first[0]}-{rest[0]}".lower() in vocabulary:
        return line
    if joined.lower() not in vocabulary:
        notes.append(f"{first[0]}- at the end of a line was read as {joined}")
    return line[:-1]
