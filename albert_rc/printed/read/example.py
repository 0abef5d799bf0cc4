"""The example of a cloze passage: number 0, which is not a question.

Exams of Cambridge's form begin a passage with a blank `(0) ........` whose options stand above it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from albert_rc.papers.schema import letter
from albert_rc.printed.lines import Line, Piece, shadow_of
from albert_rc.printed.recognise.blanks import Candidate, candidates
from albert_rc.printed.recognise.blocks import LeftOut
from albert_rc.printed.recognise.options import START, Mark, marks_in

_EXAMPLE = r"^\s*(?:(?i:example)\s*:?\s*)?[(\[]?\s*0\s*[)\].、:]{0,2}\s*"
_ANSWER = re.compile(rf"{_EXAMPLE}([A-J])[.)]?\s*$|^\s*(?i:answer)\s*:\s*([A-J])[.)]?\s*$")
_BOXES = re.compile(rf"{_EXAMPLE}A\s+B(\s+[C-J])*\s*$")
_WORD = re.compile(r"^\s*(?i:examples?)\s*:?\s*$")
_MENTION = re.compile(r"(?i:example)[^.!?]*$")
_SAID = re.compile(r"(?i:the\s)?(?i:answer)\b")
_INSIDE = re.compile(r"\s*[.…_]*\s*([A-Za-z][A-Za-z' -]*?)\s*(?:\.{2,}|…+|_+)")
GAP = "..."
"""What stands for its blank if its answer is not printed; a longer row of dots may be a blank."""


def without_example(lines: Sequence[Line]) -> tuple[list[Line], list[LeftOut], list[str]]:
    """Lines without the example's options, and with its answer in place of its blank.

    Nothing is changed if any example is unclear: `import` then names the blank, or the options.

    Returns:
        The lines, those taken out, and notes.
    """
    rows = [index for index, line in enumerate(lines) if len(_options(line)) > 2]
    pairs = _pairs(lines, rows)
    if not rows or pairs is None:
        return list(lines), [], []
    result = list(lines)
    left: list[LeftOut] = []
    notes = []
    for row, blank in pairs:
        around = [row, *_beside(lines, row)]
        marks = _options(lines[row])
        options = {one.letter: _text(marks, one) for one in marks}
        printed = _printed(lines[blank.line_number], blank, options)
        if printed is None or not _is_whole(lines, around, len(marks)):
            return list(lines), [], []
        end, word = printed
        word = word or options.get(_answer(lines, around[1:], marks), "") or GAP
        result[blank.line_number] = _filled(lines[blank.line_number], blank.start, end, word)
        left += [LeftOut(lines[at].place, lines[at].text.strip(), "example") for at in around]
        known = word != GAP
        said = f"was filled in: {word}" if known else f"has no answer; {GAP} stands in its place"
        notes.append(f"blank 0 ({blank.place}) is an example, and {said}")
    gone = {one.place for one in left}
    return [line for line in result if line.place not in gone], left, notes


def _pairs(lines: Sequence[Line], rows: Sequence[int]) -> list[tuple[int, Candidate]] | None:
    """Each example's row of options and its blank, which stands before the next one's row."""
    zeros = [
        one
        for one in candidates(enumerate(lines))
        if one.number == 0 and one.line_number not in rows and not _is_mention(lines, one)
    ]
    dotted = [one for one in zeros if _has_dots(lines[one.line_number], one)]
    blanks = dotted or [one for one in zeros if one.style != "bare"]
    if len(blanks) != len(rows):
        return None
    pairs = list(zip(rows, blanks, strict=True))
    apart = all(blank.line_number < row for (_, blank), row in zip(pairs, rows[1:], strict=False))
    return pairs if apart else None


def _is_mention(lines: Sequence[Line], blank: Candidate) -> bool:
    """Whether it belongs to a sentence such as `There is an example (0).`, also over two lines."""
    at = blank.line_number
    above = lines[at - 1].shadow if at and not lines[at].gap else ""
    return bool(_MENTION.search(f"{above} {lines[at].shadow[: blank.start]}"))


def _has_dots(line: Line, blank: Candidate) -> bool:
    text = line.shadow[blank.start : blank.end]
    return blank.style == "line" or bool(re.search(r"\.{3}|…", text + line.shadow[blank.end :][:4]))


def _printed(line: Line, blank: Candidate, options: dict[str, str]) -> tuple[int, str] | None:
    """Where a blank ends, and the option that is printed in it: `(0) ....A....`, `(0) went`.

    None if something else stands there.
    """
    behind = _INSIDE.match(line.shadow, blank.end)
    if behind:
        word = behind[1].strip()
        found = options.get(word) or next(
            (text for text in options.values() if text.casefold() == word.casefold()), None
        )
        return (behind.end(), found) if found else None
    if _has_dots(line, blank):
        return blank.end, ""
    for text in sorted(options.values(), key=len, reverse=True):
        if match := re.compile(rf"\s*{re.escape(text)}\b", re.IGNORECASE).match(
            line.text, blank.end
        ):
            return match.end(), text
    return None


def _is_whole(lines: Sequence[Line], around: Sequence[int], options: int) -> bool:
    """Whether all of the example stands in its row, the first index, and nothing follows it."""
    following = lines[max(around) + 1].shadow if max(around) + 1 < len(lines) else ""
    wrapped = re.match(rf"\s*[(\[]?{letter(options)}\s?[.)\]]?\s", following)
    said = _SAID.search(lines[around[0]].shadow) or _SAID.match(following.strip())
    return not wrapped and not said


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


def _answer(lines: Sequence[Line], beside: Sequence[int], options: Sequence[Mark]) -> str:
    """The letter that stands under the options, or is ticked; empty if none is."""
    ticked = [mark.letter for mark in options if mark.tick == "its"]
    for index in beside:
        if match := _ANSWER.match(lines[index].shadow):
            return match[1] or match[2]
    return ticked[0].upper() if len(ticked) == 1 else ""


def _filled(line: Line, start: int, end: int, word: str) -> Line:
    before, behind = line.text[:start].rstrip(), line.text[end:].lstrip()
    apart = " " if behind[:1].isalnum() else ""
    text = f"{before}{' ' if before else ''}{word}{apart}{behind}"
    return replace(line, text=text, shadow=shadow_of(text))
