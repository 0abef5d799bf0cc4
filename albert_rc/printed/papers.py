"""Results of an import: papers, numbers that could not be placed, lines left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from albert_rc.papers.schema import letter
from albert_rc.printed.lines import Doubt, shortened
from albert_rc.printed.recognise.blocks import LeftOut
from albert_rc.printed.recognise.key import KeyEntry

FOLDERS = {"cloze": "cloze", "choice": "race"}
"""Folder for each kind of papers, since a split has only one format."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem: one or several numbers that could not be placed."""

    numbers: tuple[int, ...]
    place: str
    reason: str
    way_out: str

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place else ""
        return f"{self.reason}{where}; {self.way_out}"


@dataclass(slots=True)
class Paper:
    """A passage with its options, as it is written."""

    kind: Literal["cloze", "choice"]
    numbers: list[int]
    """The printed numbers, in order."""
    article: str
    questions: list[str]
    """Texts of the questions; empty for blanks."""
    options: list[list[str]]
    place: str
    answers: list[str] | None = None
    answered_at: dict[int, str] = field(default_factory=dict)
    """The place of each number's answer, for messages."""
    name: str = ""
    """The name of the file to write."""
    marked: dict[str, list[KeyEntry]] = field(default_factory=dict)
    """Answers marked on the paper itself, by the name of the kind of mark."""
    headings: list[str] = field(default_factory=list)
    """The headings above it, which may contain its label."""
    notes: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether every number was placed."""
        return not self.troubles

    def content(self) -> dict[str, Any]:
        """The paper's JSON; see docs/formats.md."""
        if self.kind == "cloze":
            answers = {} if self.answers is None else {"answers": self.answers}
            return {"article": self.article, "options": self.options, **answers}
        return {
            "answers": self.answers or [],
            "options": self.options,
            "questions": self.questions,
            "article": self.article,
            "id": self.name,
        }

    def summary(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "kind": self.kind,
            "numbers": self.numbers,
            "options": [len(options) for options in self.options],
            "answers": self.answers,
            "begins": shortened(self.article, 60),
            "place": self.place,
            "whole": self.whole,
            "notes": self.notes,
        }


@dataclass(slots=True)
class Import:
    """The papers of one file."""

    source: str
    papers: list[Paper]
    troubles: list[Trouble]
    """Problems that do not belong to any paper."""
    left_out: list[LeftOut]
    notes: list[str]
    text: list[str] = field(default_factory=list)
    """The lines of the file, as read."""
    doubts: list[Doubt] = field(default_factory=list)
    """Words of a picture that may have been misread, and unreadable lines."""
    doubt_notes: list[str] = field(default_factory=list)
    """Those of them that are in no paper, or were accepted as read."""

    def all_troubles(self) -> list[Trouble]:
        """All problems, of the file and its papers."""
        return [*(trouble for paper in self.papers for trouble in paper.troubles), *self.troubles]


def spans(numbers: Sequence[int]) -> str:
    """Numbers in short: `36-40, 43`."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def letters_of(count: int) -> str:
    """`A-D`."""
    return f"A-{letter(count - 1)}"
