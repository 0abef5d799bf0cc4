"""The example of a cloze passage, number 0, which is no question.

Exams of Cambridge's form begin a passage with a blank `(0) ........` whose options stand above it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from albert_rc.printed.lines import Line, Piece, shadow_of
from albert_rc.printed.recognise.blanks import Candidate, candidates
from albert_rc.printed.recognise.blocks import LeftOut
from albert_rc.printed.recognise.options import START, Mark, marks_in

_EXAMPLE = r"^\s*(?:(?i:example)\s*:?\s*)?[(\[]?\s*0\s*[)\].、:]{0,2}\s*"
_ANSWER = re.compile(rf"{_EXAMPLE}([A-J])[.)]?\s*$|^\s*(?i:answer)\s*:\s*([A-J])[.)]?\s*$")
_BOXES = re.compile(rf"{_EXAMPLE}A\s+B(\s+[C-J])*\s*$")
_WORD = re.compile(r"^\s*(?i:examples?)\s*:?\s*$")
_MENTION = re.compile(r"(?i:example)[^.!?]*$")
GAP = "..."
"""What stands for its blank if its answer is not printed; a longer row of dots may be a blank."""


def without_example(lines: Sequence[Line]) -> tuple[list[Line], list[LeftOut], list[str]]:
    """Lines without the example's options, and with its answer in place of its blank.

    Nothing is changed if the example is unclear: `import` then names the blank.

    Returns:
        The lines, those taken out, and notes.
    """
    rows = [index for index, line in enumerate(lines) if len(_options(line)) > 2]
    blanks = [
        one
        for one in candidates(enumerate(lines))
        if one.number == 0
        and one.style != "bare"
        and one.line_number not in rows
        # `There is an example at the beginning (0).`
        and not _MENTION.search(lines[one.line_number].shadow, 0, one.start)
    ]
    if not rows or len(rows) != len(blanks):
        return list(lines), [], []
    result = list(lines)
    left: list[LeftOut] = []
    notes = []
    for row, blank in zip(rows, blanks, strict=True):
        around = [row, *_beside(lines, row)]
        answer = _answer(lines, around)
        options = _options(lines[row])
        known = [one for one in options if one.letter == answer]
        word = _text(options, known[0]) if known else GAP
        result[blank.line_number] = _filled(lines[blank.line_number], blank, word)
        left += [LeftOut(lines[at].place, lines[at].text.strip(), "example") for at in around]
        said = f"was filled in: {word}" if known else f"has no answer; {GAP} stands in its place"
        notes.append(f"blank 0 ({blank.place}) is an example, and {said}")
    gone = {one.place for one in left}
    return [line for line in result if line.place not in gone], left, notes


def _options(line: Line) -> list[Mark]:
    """The marks A, B, C, ... of a line that number 0 begins; none if it is another line."""
    head = START.match(line.shadow)
    if head is None or int(head["number"]) != 0:
        return []
    marks = marks_in(Piece(line, head.end(), len(line.shadow)))
    ordered = [mark.index for mark in marks] == list(range(len(marks)))
    return marks if ordered else []


def _text(options: Sequence[Mark], chosen: Mark) -> str:
    following = options[chosen.index + 1 : chosen.index + 2]
    end = following[0].start if following else len(chosen.line.text)
    return chosen.line.text[chosen.end : end].strip()


def _beside(lines: Sequence[Line], row: int) -> list[int]:
    """The lines next to the options that belong to the example: its heading, and its answer."""
    found = [row - 1] if row and _WORD.match(lines[row - 1].shadow) else []
    for index in range(row + 1, min(row + 3, len(lines))):
        shadow = lines[index].shadow
        if not (_ANSWER.match(shadow) or _BOXES.match(shadow)):
            break
        found.append(index)
    return found


def _answer(lines: Sequence[Line], around: Sequence[int]) -> str:
    """The letter that stands under the options, or is ticked; empty if none is."""
    ticked = [mark.letter for mark in _options(lines[around[0]]) if mark.tick == "its"]
    for index in around[1:]:
        if match := _ANSWER.match(lines[index].shadow):
            return match[1] or match[2]
    return ticked[0].upper() if len(ticked) == 1 else ""


def _filled(line: Line, blank: Candidate, word: str) -> Line:
    before, behind = line.text[: blank.start].rstrip(), line.text[blank.end :].lstrip()
    apart = " " if behind[:1].isalnum() else ""
    text = f"{before}{' ' if before else ''}{word}{apart}{behind}"
    return replace(line, text=text, shadow=shadow_of(text))
