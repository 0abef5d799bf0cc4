"""Division of the text above a list of options into passages and the text around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from albert_rc.printed.lines import FINAL, OTHER_LETTERS, Line, words
from albert_rc.printed.recognise.blanks import Candidate
from albert_rc.printed.recognise.blocks import LeftOut
from albert_rc.printed.recognise.prose import Role, join_lines, paragraphs, role_of

ENOUGH = 60
"""Minimum number of words of a separate text; a shorter one is a title or heading."""
SENTENCE = 12
"""Minimum number of words of a sentence that is neither a title nor a heading."""
BLANKS = 3
"""Minimum number of marked blanks of a paragraph that is a passage, whatever its first sentence."""
_SPEAKER = re.compile(r"((?:[A-Z][A-Za-z.'’-]*\s+){0,2}[A-Z][A-Za-z.'’-]*)\s*:\s*\S")
_NAME = re.compile(
    r"(?i)\b(?:passage|text|article|story|sign|notice|message|dialogue|conversation)\b"
    r"|[A-H]\s*篇|第.{1,3}篇"
)
"""Pattern of a heading that says that a passage is below it."""
_OTHER = re.compile(f"[{OTHER_LETTERS}]")
_LETTER = re.compile(r"\W*[A-H]\W*")
_BLANK = re.compile(r"_\s*[0-9]{1,4}\s*_")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph: lines that belong together."""

    lines: list[tuple[int, Line]]
    """The lines with their indices in the block."""
    role: Role

    @property
    def shadow(self) -> str:
        """The normalised text, for recognition."""
        return " ".join(line.shadow.strip() for _, line in self.lines)

    @property
    def speaker(self) -> str | None:
        """Who says it, if it begins like a turn of a dialogue, as in `Captain Duroset: Here`."""
        found = _SPEAKER.match(self.shadow)
        return None if found is None else found[1]

    @property
    def is_prose(self) -> bool:
        """Whether it is more than a title: a sentence, or several."""
        if self.role != "text" or self.shadow.rstrip().endswith(":"):
            return False
        # The end of a page may cut a sentence off.
        least = SENTENCE if FINAL.search(self.shadow) else 2 * SENTENCE
        return len(words(self.shadow)) >= least

    def left_out(self, why: str) -> LeftOut:
        """The printed text, for messages."""
        text = " ".join(line.text.strip() for _, line in self.lines)
        return LeftOut(self.lines[0][1].place, text, why)


def split_paragraphs(lines: Sequence[Line], width: float) -> list[Paragraph]:
    """A block's text as paragraphs, each with its probable role."""
    found = []
    number = 0
    for group in paragraphs(lines, width):
        numbered = list(enumerate(group, number))
        number += len(group)
        text = " ".join(line.shadow.strip() for line in group)
        role = role_of(text)
        if role == "instruction" and len(_BLANK.findall(text)) >= BLANKS:
            role = "text"  # an instruction in one paragraph with the passage below it
        found.append(Paragraph(numbered, role))
    return [
        replace(paragraph, role="text") if _is_said(found, at) else paragraph
        for at, paragraph in enumerate(found)
    ]


def _is_said(found: Sequence[Paragraph], at: int) -> bool:
    """Whether a foreign paragraph is what somebody says in a dialogue, and so belongs to it.

    It stands between two turns, or its speaker says something in English, too; and a speaker of the
    dialogue says something twice, unlike the labels of an e-mail or a glossary.
    """
    paragraph = found[at]
    if paragraph.role != "foreign" or paragraph.speaker is None or _OTHER.search(paragraph.shadow):
        return False
    speakers = [other.speaker if other.role == "text" else None for other in found]
    turns = [speaker for speaker in speakers if speaker is not None]
    between = 0 < at < len(found) - 1 and None not in (speakers[at - 1], speakers[at + 1])
    return len(set(turns)) < len(turns) and (between or paragraph.speaker in turns)


def text_lines(found: Sequence[Paragraph]) -> list[tuple[int, Line]]:
    """The numbered lines of paragraphs that are text."""
    return [pair for paragraph in found if paragraph.role == "text" for pair in paragraph.lines]


def cloze_parts(
    found: Sequence[Paragraph], blank_lines: set[int], left_out: list[LeftOut]
) -> list[list[Paragraph]]:
    """The passages that have blanks; headings and instructions separate them.

    Args:
        found: all paragraphs.
        blank_lines: indices of the lines with blanks.
        left_out: collects lines that belong to no passage.
    """
    parts: list[list[Paragraph]] = []
    current: list[Paragraph] = []
    open_ = False

    def has_blank(paragraph: Paragraph) -> bool:
        return any(number in blank_lines for number, _ in paragraph.lines)

    for paragraph in found:
        blank = has_blank(paragraph)
        if paragraph.role == "text" or blank:
            current.append(paragraph)
            open_ = open_ or blank
            continue
        left_out.append(paragraph.left_out(paragraph.role))
        if paragraph.role == "foreign" and (open_ or any(p.is_prose for p in current)):
            continue
        if open_:
            parts.append(current)
        else:
            left_out += [p.left_out("before the passage") for p in current]
        current = []
        open_ = False
    if open_:
        parts.append(current)
    else:
        left_out += [p.left_out("no blank in it") for p in current]
    return parts


def choice_parts(found: Sequence[Paragraph], left_out: list[LeftOut]) -> list[list[Paragraph]]:
    """The texts above questions: the last one is theirs; longer ones before have no questions."""
    parts: list[list[Paragraph]] = [[]]
    for paragraph in found:
        if paragraph.role == "text":
            parts[-1].append(paragraph)
            continue
        left_out.append(paragraph.left_out(paragraph.role))
        length = sum(len(words(p.shadow)) for p in parts[-1])
        prose = length >= ENOUGH or any(p.is_prose for p in parts[-1])
        if paragraph.role == "foreign" and prose:
            continue  # an explained word, or a speaker with little English
        if length >= ENOUGH:
            parts.append([])
        else:
            left_out += [p.left_out("before the passage") for p in parts[-1]]
            parts[-1] = []
    if len(parts) > 1 and not parts[-1]:
        parts.pop()  # a heading or an instruction between the text and its questions
    return parts


def is_announced(part: Sequence[Paragraph], found: Sequence[Paragraph]) -> bool:
    """Whether a heading such as `Passage 2` or `B` is above a passage, or above its instruction.

    A letter below other text may be that of an option.
    """
    above = found[: found.index(part[0])]
    labels = list(takewhile(lambda paragraph: paragraph.role != "text", reversed(above)))
    headings = [label.shadow for label in labels if label.role == "heading"]
    lettered = len(labels) == len(above) and any(map(_LETTER.fullmatch, headings))
    return lettered or any(map(_NAME.search, headings))


def article(
    part: Sequence[Paragraph],
    blanks: Sequence[Candidate],
    vocabulary: frozenset[str],
    notes: list[str],
) -> str:
    """A passage's text, a line for each paragraph, with `_` for its blanks."""
    at: dict[int, list[Candidate]] = {}
    for blank in blanks:
        at.setdefault(blank.line_number, []).append(blank)
    texts = []
    for paragraph in part:
        texts.append(
            join_lines(
                [with_blanks(line.text, at.get(number, [])) for number, line in paragraph.lines],
                vocabulary,
                notes,
            )
        )
    return "\n".join(texts)


def with_blanks(text: str, blanks: Sequence[Candidate]) -> str:
    """A line with `_` for each blank, separated from letters and digits."""
    parts = []
    start = 0
    for blank in blanks:
        parts.append(text[start : blank.start])
        start = blank.end
    parts.append(text[start:])
    joined = parts[0]
    for part in parts[1:]:
        before = " " if joined[-1:].isalnum() or joined.endswith("_") else ""
        after = " " if part[:1].isalnum() else ""
        joined += f"{before}_{after}{part}"
    return joined


def as_gap(text: str) -> str:
    """A question's text with `_` for its underscores, and without the brackets for a tick."""
    text = re.sub(r"^\s*[(（]\s*[)）]\s*|\s*[(（]\s*[)）]\s*$", "", text)
    text = re.sub(r"(?<=[^\W_])[_＿]+", " _", text)
    text = re.sub(r"[_＿]+(?=[^\W_])", "_ ", text)
    return re.sub(r"[_＿]+", "_", text).strip()
