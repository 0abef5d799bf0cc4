"""What an import understood: papers, numbers that could not be placed, lines left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from albert_rc.papers.schema import letter
from albert_rc.printed.lines import Doubt, shortened
from albert_rc.printed.recognise.blocks import LeftOut
from albert_rc.printed.recognise.key import KeyEntry

FOLDERS = {"cloze": "cloze", "choice": "race"}
"""Where papers of each kind go: a split holds one format."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A number, or several, that could not be placed."""

    numbers: tuple[int, ...]
    place: str
    reason: str
    way_out: str

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place else ""
        return f"{self.reason}{where}; {self.way_out}"


@dataclass(slots=True)
class Paper:
    """A passage with its options, as it will be written."""

    kind: Literal["cloze", "choice"]
    numbers: list[int]
    """As printed, in order."""
    article: str
    questions: list[str]
    """Empty texts for blanks."""
    options: list[list[str]]
    place: str
    answers: list[str] | None = None
    name: str = ""
    """Of its file."""
    marked: dict[str, list[KeyEntry]] = field(default_factory=dict)
    """Answers that are marked on the paper itself, each kind by what it is called."""
    headings: list[str] = field(default_factory=list)
    """What stands above it, and may be its label."""
    notes: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether every number has its place."""
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
    """One file's papers."""

    source: str
    papers: list[Paper]
    troubles: list[Trouble]
    """Those that belong to no paper."""
    left_out: list[LeftOut]
    notes: list[str]
    text: list[str] = field(default_factory=list)
    """Its lines, as read."""
    doubts: list[Doubt] = field(default_factory=list)
    """What may have been read wrong in a picture, and what could not be read."""
    doubt_notes: list[str] = field(default_factory=list)
    """Of these, what is in no paper or was taken as it is."""

    def all_troubles(self) -> list[Trouble]:
        """Everything that could not be placed."""
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
