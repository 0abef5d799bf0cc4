"""The content of a printed sheet: passages with numbered blanks, options, and an answer key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from albert_rc.errors import UsageError
from albert_rc.papers.schema import FEWEST_BLANKS, FEWEST_OPTIONS, PaperSet, Passage, letter

LARGEST = 9999
"""Largest number of a question; `import` reads no more digits."""
NARROW, WIDE = 13, 30
"""Maximum length of an option that fits a quarter of a line, and half of one, in characters."""
_UNPRINTABLE = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""All but the characters of XML 1.0, section 2.2."""
CLOZE = "Read the passage and choose the best answer for each blank."
BANK = "Read the passage and choose an option for each blank. Use each option at most once."
LETTERS = 26
CHOICE = "Read the passage and choose the best answer to each question."


@dataclass(frozen=True)
class Choice:
    """A numbered question or blank with its options; a blank has no `stem`.

    A list of options for all blanks of a passage has no number.
    """

    number: int | None
    stem: str
    options: tuple[str, ...]
    """Each with its letter, as in `A. made`."""

    @property
    def columns(self) -> int:
        """Number of options side by side in a line."""
        longest = max(map(len, self.options)) - len("A. ")
        return 4 if longest <= NARROW else 2 if longest <= WIDE else 1

    def rows(self) -> list[list[str]]:
        """The options of each line."""
        step = self.columns
        return [list(self.options[at : at + step]) for at in range(0, len(self.options), step)]


@dataclass(frozen=True)
class Section:
    """A passage and its questions."""

    heading: str
    instruction: str
    paragraphs: list[str]
    """With blanks as `__36__`."""
    choices: list[Choice]


@dataclass(frozen=True)
class Sheet:
    """An exam."""

    title: str
    parts: list[Section]
    key: list[str] = field(default_factory=list)
    """Lines such as `36-40 DDABC`; none if no key is printed."""


def make_sheet(papers: PaperSet, title: str = "", first: int = 1, key: bool = False) -> Sheet:
    """Lay out papers; question numbers continue from one passage to the next.

    Args:
        papers: cloze or multiple choice.
        title: printed on top.
        first: the first number.
        key: print the right answers at the end.

    Raises:
        UsageError: the papers have no options, too many questions, or a key is requested and
            answers are missing.
    """
    if papers.kind not in ("cloze", "choice"):
        raise UsageError(f"{papers.format} papers have no options to print")
    last = first + sum(len(passage.questions) for passage in papers.passages) - 1
    if last > LARGEST:
        raise UsageError(
            f"the numbers {first:,} to {last:,} go beyond {LARGEST:,}, the largest that `import` "
            "reads; render fewer papers at a time, or begin at a smaller --first"
        )
    title = _printable(title)
    parts, answers, number = [], [], first
    for place, passage in enumerate(papers.passages, 1):
        questions = passage.questions
        choices = [
            Choice(number + i, _printable(q.text), _lettered([_printable(o) for o in q.options]))
            for i, q in enumerate(questions)
        ]
        cloze = passage.kind == "cloze"
        once = False
        if cloze and (shared := _shared_options(choices)):
            once = _each_once(passage, len(shared))
            choices = [Choice(None, "", shared)]
        text = _numbered(passage, number) if cloze else passage.text
        paragraphs = _printable(text).split("\n")
        heading = f"{'Cloze' if cloze else 'Passage'} {place}"
        instruction = BANK if once else CLOZE if cloze else CHOICE
        parts.append(Section(heading, instruction, paragraphs, choices))
        answers += [(number + i, passage.id, q.answer) for i, q in enumerate(questions)]
        number += len(questions)
    if not key:
        return Sheet(title, parts)
    missing = next((paper for _, paper, answer in answers if answer is None), None)
    if missing is not None:
        raise UsageError(
            f"--key: {missing} has questions without a right answer; add the answers, or leave "
            "--key out"
        )
    given = [(n, letter(answer)) for n, _, answer in answers if answer is not None]
    return Sheet(title, parts, _key_lines(given))


def _shared_options(choices: Sequence[Choice]) -> tuple[str, ...] | None:
    """The options that all blanks have in common, if they can be printed as one list."""
    lists = {choice.options for choice in choices}
    if len(choices) < 2 or len(lists) > 1:
        return None
    shared = lists.pop()
    return shared if 1 < len(shared) <= LETTERS else None


def _each_once(passage: Passage, options: int) -> bool:
    """Whether each option of a shared list may be right for one blank at most."""
    blanks = len(passage.questions)
    known = [question.answer for question in passage.questions if question.answer is not None]
    is_bank = blanks >= FEWEST_BLANKS and options >= max(FEWEST_OPTIONS, blanks)
    return is_bank and len(set(known)) == len(known)


def _printable(text: str) -> str:
    """The text with Unix line ends, and spaces for characters that XML, as in Word, cannot hold."""
    return _UNPRINTABLE.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def _lettered(options: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{letter(at)}. {option}" for at, option in enumerate(options))


def _numbered(passage: Passage, first: int) -> str:
    """The text of a cloze passage with numbered blanks."""
    segments = passage.segments()
    parts = [segments[0]]
    for number, segment in enumerate(segments[1:], first):
        parts += [f"__{number}__", segment]
    return "".join(parts)


def _key_lines(answers: Sequence[tuple[int, str]]) -> list[str]:
    """The key, five answers a line; a group with letters past Z takes one line per answer."""
    lines = []
    for at in range(0, len(answers), 5):
        group = answers[at : at + 5]
        if all(len(name) == 1 for _, name in group) and len(group) > 1:
            lines.append(f"{group[0][0]}-{group[-1][0]} {''.join(name for _, name in group)}")
        else:
            lines += [f"{number}. {name}" for number, name in group]
    return lines
