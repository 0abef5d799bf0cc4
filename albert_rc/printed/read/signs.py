"""Correction of missing or unusual marks that follow from the rest of the line.

`42. A condition  B. broken` lacks a full stop, `3 A: across  B: under` has colons, a number may
stand alone above its options, and a row of a table may have no letters at all. Circled numbers from
10 on have no single-character plain form, and `Question 1:` is the number 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from albert_rc.printed.lines import Line, Piece, shadow_of
from albert_rc.printed.papers import Trouble
from albert_rc.printed.read.bare import missing_full_stops
from albert_rc.printed.recognise.options import PRINTED_NUMBER, first_mark, marks_in

LETTERS = "ABCDEFG"
LEAST_ROWS = 3
"""Minimum number of rows of options without letters; fewer may be anything."""
_CIRCLED = re.compile("[\u2469-\u2473]")  # 10 to 20
_WORD = re.compile(r"\s*((?i:question|q)[.]?\s?)(?=[0-9]{1,4}\s?[.、:)]\s*\S)")
_HEAD = re.compile(rf"\s*{PRINTED_NUMBER}\s*")
_SIGNED = re.compile(r"(?<![A-Za-z0-9])[(\[]?\s?([A-G])\s?[.、)\]](?![A-Za-z]\.)")
_COLON = re.compile(r"(?<![A-Za-z0-9])([A-G])\s?:")
_STEM = re.compile(r"\s*[0-9]{1,4}\s?[.、)]\s*(?=[^\W\d_]|_)")
_LONE = re.compile(r"\s*([0-9]{1,4})\s*$")
_DOTS = re.compile(r"\s*(?:\.{4,}|…{2,})\s*")
_ENDING = re.compile(r"[(\[]\s?[0-9]{1,4}\s?[)\]]\s*$")
_CELL = re.compile(r"\S+(?: \S+)*")
_WORDS_OF_A_CELL = 6


def repair_signs(lines: Sequence[Line]) -> tuple[list[Line], list[str], list[Trouble]]:
    """Lines whose options have the usual marks.

    Returns:
        The lines, notes on the corrections, and what is too unclear to be corrected.
    """
    notes: list[str] = []
    plain = [_without_word(_with_plain_numbers(line)) for line in _with_whole_blanks(lines)]
    signed = [_with_full_stops(line, notes) for line in plain]
    bare = missing_full_stops(signed)
    notes += [bare.note] if bare.note else []
    for index, after in bare.places.items():
        for place in reversed(after):
            signed[index] = _changed(signed[index], place, place, ".")
    whole = _with_lone_numbers(_with_letters(signed, notes))
    return whole, notes, [bare.trouble] if bare.trouble else []


def _changed(line: Line, start: int, end: int, text: str) -> Line:
    """A line with the characters at one position replaced."""
    return replace(
        line,
        text=line.text[:start] + text + line.text[end:],
        shadow=line.shadow[:start] + shadow_of(text) + line.shadow[end:],
    )


def _with_whole_blanks(lines: Sequence[Line]) -> list[Line]:
    """Move the dots of a blank `(3) ........` to the line that ends with its number."""
    result: list[Line] = []
    for line in lines:
        dots = _DOTS.match(line.shadow)
        if not dots or not result or not _ENDING.search(result[-1].shadow):
            result.append(line)
            continue
        before = result[-1]
        end = len(before.shadow.rstrip())
        result[-1] = _changed(before, end, len(before.text), f" {dots[0].strip()}")
        rest = _changed(line, 0, dots.end(), "")
        if rest.text:
            result.append(rest)
    return result


def _with_plain_numbers(line: Line) -> Line:
    for match in reversed(list(_CIRCLED.finditer(line.text))):
        number = ord(match[0]) - 0x2469 + 10
        before = " " if line.shadow[: match.start()][-1:].isalnum() else ""
        behind = " " if line.shadow[match.end() :][:1].isalnum() else ""
        line = _changed(line, match.start(), match.end(), f"{before}{number}{behind}")
    return line


def _without_word(line: Line) -> Line:
    """A line whose number is not preceded by `Question` or `Q`; its text stays as printed."""
    word = _WORD.match(line.shadow)
    if word is None:
        return line
    start, end = word.span(1)
    shadow = line.shadow[:start] + " " * (end - start) + line.shadow[end:]
    return replace(line, shadow=shadow)


def _with_full_stops(line: Line, notes: list[str]) -> Line:
    """A list of options in one line, with colons replaced and missing full stops added."""
    head = _HEAD.match(line.shadow)
    if head is None:
        return line
    colons = list(_COLON.finditer(line.shadow, head.end()))
    letters = "".join(match[1] for match in colons)
    if len(letters) > 2 and LETTERS.startswith(letters) and colons[0].start() == head.end():
        for match in colons:
            line = _changed(line, match.end() - 1, match.end(), ".")
        return line
    there = {match[1]: match.start() for match in _SIGNED.finditer(line.shadow, head.end())}
    if len(there) < 2:
        return line
    last = max(LETTERS.index(letter) for letter in there)
    missing = [letter for letter in LETTERS[: last + 1] if letter not in there]
    if len(missing) != 1:
        return line
    index = LETTERS.index(missing[0])
    first = head.end() if index == 0 else there[LETTERS[index - 1]] + 2
    bare = re.compile(rf"(?<![A-Za-z0-9.]){missing[0]}(?=\s+[^\s.,;:!?])")
    found = list(bare.finditer(line.shadow, first, there[LETTERS[index + 1]]))
    if index == 0:
        found = [match for match in found if match.start() == head.end()]
    if len(found) != 1:
        return line
    at = found[0].end()
    was = line.text[found[0].start() : at + 12].strip()
    notes.append(f"{head[1]}: {was!r} ({line.place}) was read as option {missing[0]}")
    return _changed(line, at, at, ".")


def _with_lone_numbers(lines: list[Line]) -> list[Line]:
    """Add a full stop to numbers that stand alone above their options, several of them in order."""
    lone: list[tuple[int, int]] = []
    for index, (line, following) in enumerate(pairwise(lines)):
        match = _LONE.match(line.shadow)
        mark = first_mark(following) if match and not following.gap else None
        if match and mark and mark.index == 0 and not (index and _is_stem(lines[index - 1])):
            lone.append((int(match[1]), index))
    numbers = {number for number, _ in lone}
    result = list(lines)
    for number, index in lone:
        if number - 1 in numbers or number + 1 in numbers:
            end = len(lines[index].shadow.rstrip())
            result[index] = _changed(lines[index], end, end, ".")
    return result


def _is_stem(line: Line) -> bool:
    """Whether a line is a question with a number, so that a number below it is something else."""
    head = _STEM.match(line.shadow)
    return head is not None and not marks_in(Piece(line, head.end(), len(line.shadow)))


def _with_letters(lines: list[Line], notes: list[str]) -> list[Line]:
    """Add the letters of their columns to the rows of a table of options."""
    result = list(lines)
    at = 0
    while at < len(lines):
        rows = _rows_from(lines, at)
        if len(rows) >= LEAST_ROWS:
            numbers = [number for number, _ in rows]
            for place, (_, cells) in enumerate(rows, at):
                for letter, (start, _) in reversed(list(zip(LETTERS, cells, strict=False))):
                    result[place] = _changed(result[place], start, start, f"{letter}. ")
            last = LETTERS[len(rows[0][1]) - 1]
            notes.append(
                f"options of {numbers[0]}-{numbers[-1]} have no letters ({lines[at].place}); "
                f"their columns were read as A to {last}"
            )
        at += max(1, len(rows))
    return result


def _rows_from(lines: Sequence[Line], at: int) -> list[tuple[int, list[tuple[int, int]]]]:
    """Consecutive numbered rows with the same columns, and the positions of their cells."""
    rows: list[tuple[int, list[tuple[int, int]]]] = []
    for line in lines[at:]:
        row = _row(line)
        if row is None:
            break
        if rows and (row[0] != rows[-1][0] + 1 or len(row[1]) != len(rows[0][1])):
            break
        rows.append(row)
    return rows


def _row(line: Line) -> tuple[int, list[tuple[int, int]]] | None:
    head = re.match(r"\s*[(\[]?\s*([0-9]{1,4})\s*[)\].、]{1,2}\s*(?=\S)", line.shadow)
    if head is None:
        return None
    cells = [match.span() for match in _CELL.finditer(line.shadow, head.end())]
    texts = [line.shadow[start:end] for start, end in cells]
    wordy = all(re.match(r"[A-Za-z'’-]{2}|[aI]\b", text) for text in texts)
    short = all(len(text.split()) <= _WORDS_OF_A_CELL for text in texts)
    signed = any(_SIGNED.match(text) or text.endswith((".", "?", "!")) for text in texts)
    if not 3 <= len(cells) <= len(LETTERS) or not wordy or not short or signed:
        return None
    return int(head[1]), cells
