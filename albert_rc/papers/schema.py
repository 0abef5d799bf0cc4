"""What every reader produces: passages with questions, and the problems found on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from albert_rc.io.messages import one_line

Kind = Literal["cloze", "choice", "label", "span"]
"""Blanks with options; questions with options; sentences to be sorted or valued; questions whose
answers stand in the passage."""
Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Question:
    """One blank, or one multiple-choice question."""

    options: tuple[str, ...]
    answer: int | None = None
    """Index of the right option; None in a test paper."""
    text: str = ""
    """The question's words, or a second sentence; empty for a blank."""
    id: str = ""
    """Of a question about a span."""
    spans: tuple[tuple[int, int], ...] = ()
    """Where right answers stand in the passage: first character, and the one after the last.
    `answer` is 1 if there is one, 0 if there is none, None if that is not known."""
    value: float | None = None
    """The right number, where a number is asked for."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One paper: a text and what is asked about it."""

    id: str
    """The competition's name for it: its file name, or the id that the file gives."""
    text: str
    questions: tuple[Question, ...]
    kind: Kind
    blanks: tuple[tuple[int, int], ...] = ()
    """Where each blank stands in `text`: first character, and the one after the last."""
    level: str | None = None
    """`middle` or `high`, where the source tells."""

    def segments(self) -> list[str]:
        """The text between the blanks: one more than there are blanks."""
        edges = [0, *(edge for blank in self.blanks for edge in blank), len(self.text)]
        return [self.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]

    def filled(self) -> str:
        """The text with the right options in its blanks; unanswered blanks stay `_`."""
        parts = self.segments()
        words = [parts[0]]
        for i, part in enumerate(parts[1:]):
            question = self.questions[i]
            known = question.answer is not None
            words += [question.options[question.answer or 0].strip() if known else "_", part]
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a paper."""

    file: str
    message: str
    """What is wrong, where in the file, and the way out."""
    severity: Severity = "error"

    def __str__(self) -> str:
        return one_line(f"{self.file}: {self.message}")


@dataclass(frozen=True, slots=True)
class PaperSet:
    """All papers of one split, in natural order of their ids."""

    name: str
    """train, dev, test, or what the file or folder is called."""
    kind: Kind
    format: str
    passages: Sequence[Passage]
    problems: Sequence[Problem] = field(default_factory=tuple)
    num_rejected: int = 0
    """Papers left out because of an error."""
    source_hash: str = ""
    """SHA-256 over the names and bytes of the files read."""
    labels: tuple[str, ...] = ()
    """What a paper may be, where all may be the same."""
    metrics: tuple[str, ...] = ("accuracy",)
    """What answers are measured by."""

    @property
    def errors(self) -> list[Problem]:
        """The problems that make a paper unusable."""
        return [p for p in self.problems if p.severity == "error"]

    @property
    def ids(self) -> list[str]:
        """The passages' ids."""
        return [passage.id for passage in self.passages]

    @property
    def levels(self) -> list[str | None]:
        """The passages' levels."""
        return [passage.level for passage in self.passages]

    @property
    def num_papers(self) -> int:
        """Papers that can be used."""
        return len(self.passages)

    @property
    def num_questions(self) -> int:
        """Blanks or questions in all."""
        return sum(len(p.questions) for p in self.passages)


class Checked(Protocol):
    """A split that was read and checked, whether or not its passages are at hand."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def format(self) -> str: ...
    @property
    def ids(self) -> list[str]: ...
    @property
    def levels(self) -> list[str | None]: ...
    @property
    def errors(self) -> list[Problem]: ...
    @property
    def num_papers(self) -> int: ...
    @property
    def num_rejected(self) -> int: ...
    @property
    def source_hash(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def metrics(self) -> tuple[str, ...]: ...


def question_keys(paper_id: str, count: int) -> list[str]:
    """Ids of a multiple-choice passage's questions, counted from 1: `high29.txt#1`."""
    return [f"{paper_id}#{number}" for number in range(1, count + 1)]


def letter(index: int) -> str:
    """The letter of an option: A for 0. Past Z it goes on as AA, AB, ..."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(65 + rest) + name
    return name


def letter_index(name: str) -> int | None:
    """The option that a letter stands for, or None if it is not a letter."""
    # No option has a longer one, and a megabyte of letters would make a number as long.
    if len(name) > 3 or not (name.isascii() and name.isalpha() and name.isupper()):
        return None
    index = 0
    for char in name:
        index = index * 26 + ord(char) - 64
    return index - 1


def gold_letters(papers: Sequence[Passage]) -> list[str | None]:
    """The right letter of every question; None where the papers do not tell."""
    return [
        None if question.answer is None else letter(question.answer)
        for passage in papers
        for question in passage.questions
    ]
