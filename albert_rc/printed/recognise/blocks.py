"""Parts of a file: text, lists of options, answers; and removal of page numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from albert_rc.printed.lines import FINAL, Line
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.options import Item
from albert_rc.printed.recognise.prose import is_page_mark


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that does not belong to any paper."""

    place: str
    text: str
    why: str


@dataclass(slots=True)
class Block:
    """Text, the lists of options under it, and the answers that follow before further text."""

    text: list[Line] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    answers: list[key.KeyEntry] = field(default_factory=list)
    key_problems: list[key.KeyProblem] = field(default_factory=list)
    between: list[tuple[Line, list[int]]] = field(default_factory=list)
    """Text between its questions that may be a passage, each with the numbers below it."""
    papers: int = 0
    """Number of papers made from it."""


@dataclass(slots=True)
class Outline:
    """The outline of a whole file."""

    blocks: list[Block]
    left_out: list[LeftOut]
    width: float
    vocabulary: frozenset[str]
    """All words of the file, in lower case."""
    order: dict[str, int] = field(default_factory=dict)
    """Index of the line at each place."""


def without_page_marks(lines: Sequence[Line]) -> tuple[list[Line], list[LeftOut]]:
    """Lines without page numbers, and the page numbers."""
    kept: list[Line] = []
    left_out: list[LeftOut] = []
    turned = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else None
        alone = re.fullmatch(r"\s*[0-9]{1,3}\s*", line.shadow) and not line.whole
        alone = alone and (line.gap or line.turns)
        if is_page_mark(line) or (
            alone and (following is None or following.gap or following.turns)
        ):
            left_out.append(LeftOut(line.place, line.text.strip(), "page number"))
            turned = True
            continue
        if turned and kept and not FINAL.search(kept[-1].shadow):
            # White space around a page number does not separate paragraphs.
            kept.append(replace(line, gap=False))
        else:
            kept.append(line)
        turned = False
    return kept, left_out
