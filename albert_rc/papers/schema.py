"""The output of all readers: passages with questions, and the problems found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from albert_rc.io.messages import one_line

Kind = Literal["cloze", "choice", "label", "span"]
"""Blanks with options; questions with options; sentences to classify or rate; questions whose
answers are spans of the passage."""
Severity = Literal["error", "warning"]
FEWEST_BLANKS, FEWEST_OPTIONS = 3, 5
"""Minimum size of a word bank, in which each option of a common list is used at most once. Fewer
may be an exercise in which one word is right several times: `a`, `an`, `the`, none."""


@dataclass(frozen=True, slots=True)
class Question:
    """One blank, or one multiple-choice question."""

    options: tuple[str, ...]
    answer: int | None = None
    """Index of the right option; None if unknown, as in a test paper."""
    text: str = ""
    """Text of the question, or a second sentence; empty for a blank."""
    id: str = ""
    """Id of a question whose answer is a span."""
    spans: tuple[tuple[int, int], ...] = ()
    """Spans of the right answers in the passage: first and past-last character. `answer` is 1 if
    there is one, 0 if there is none, and None if that is unknown."""
    value: float | None = None
    """The right number, for regression."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One paper: a text and its questions."""

    id: str
    """The competition's id of the paper: its file name, or an id in the file."""
    text: str
    questions: tuple[Question, ...]
    kind: Kind
    blanks: tuple[tuple[int, int], ...] = ()
    """Position of each blank in `text`: first and past-last character."""
    level: str | None = None
    """`middle` or `high`, if known."""

    @property
    def is_answered(self) -> bool:
        """Whether the right answer to some question is known."""
        return any(question.answer is not None for question in self.questions)

    def segments(self) -> list[str]:
        """The texts between the blanks, one more than blanks."""
        edges = [0, *(edge for blank in self.blanks for edge in blank), len(self.text)]
        return [self.text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]

    def filled(self) -> str:
        """The text with blanks filled by the right options; blanks without an answer stay `_`."""
        parts = self.segments()
        words = [parts[0]]
        for i, part in enumerate(parts[1:]):
            question = self.questions[i]
            known = question.answer is not None
            words += [question.options[question.answer or 0].strip() if known else "_", part]
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a paper."""

    file: str
    message: str
    """The problem, its position in the file, and a solution."""
    severity: Severity = "error"

    def __str__(self) -> str:
        return one_line(f"{self.file}: {self.message}")


@dataclass(frozen=True, slots=True)
class PaperSet:
    """All papers of one split, in natural order of their ids."""

    name: str
    """train, dev, test, or the name of the file or folder."""
    kind: Kind
    format: str
    passages: Sequence[Passage]
    problems: Sequence[Problem] = field(default_factory=tuple)
    num_rejected: int = 0
    """Number of papers left out because of an error."""
    source_hash: str = ""
    """SHA-256 over the names and bytes of the files read."""
    labels: tuple[str, ...] = ()
    """The labels, if all papers share them."""
    metrics: tuple[str, ...] = ("accuracy",)
    """Names of the metrics."""

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
        """Number of usable papers."""
        return len(self.passages)

    @property
    def num_questions(self) -> int:
        """Total number of blanks or questions."""
        return sum(len(p.questions) for p in self.passages)


class Checked(Protocol):
    """A split that was read and checked; its passages need not be in memory."""

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
    """The letter of an option: A for 0; Z is followed by AA, AB, ..."""
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(65 + rest) + name
    return name


def letter_index(name: str) -> int | None:
    """The index of the option with this letter, or None if it is not a letter."""
    # No option has a longer one; a megabyte of letters would become a huge number.
    if len(name) > 3 or not (name.isascii() and name.isalpha() and name.isupper()):
        return None
    index = 0
    for char in name:
        index = index * 26 + ord(char) - 64
    return index - 1


def gold_letters(papers: Sequence[Passage]) -> list[str | None]:
    """The right letter of every question; None if it is unknown."""
    return [
        None if question.answer is None else letter(question.answer)
        for passage in papers
        for question in passage.questions
    ]
