"""Options marked ①②③, ア イ ウ or 1 2 3, as in exams of Japan and Korea, with letters instead.

Circled numbers may mark blanks or underlined words as well. So a file is changed only if none of
its options have letters, and if every mark belongs to a list: in order, at the beginning of lines
or after the number of a question, at least two lists, all of one length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from albert_rc.printed.lines import Line, shadow_of, shortened, words
from albert_rc.printed.papers import Trouble
from albert_rc.printed.read.bare import has_marks

LETTERS = "ABCDE"
LEAST_OPTIONS, LEAST_LISTS = 3, 2
APART = 4
"""Most lines between two marks of a list, or between a question's number and the first mark."""
PROSE = 5
"""Words from which a line is English text, and no instruction in another language or key."""
_HEAD = r"(?:問\s*[0-9]{1,4}|[(\[]\s*[0-9]{1,4}\s*[)\]]|[0-9]{1,4}\s*[.、])\s*"
_PREFIX = re.compile(rf"\s*(?:{_HEAD})?")
_NUMBERED = re.compile(rf"\s*{_HEAD}")


@dataclass(frozen=True, slots=True)
class _Style:
    """A way to mark options."""

    marks: str
    """Its marks in order."""
    pattern: re.Pattern[str]
    """A mark within a line as printed."""
    answer: re.Pattern[str]
    """A number with its mark, in a key."""
    everywhere: bool
    """Whether its marks are nothing else, so that each of them must belong to a list."""


def _style(marks: str, before: str, behind: str, everywhere: bool) -> _Style:
    number = r"[0-9]{1,4}\s*[)\]]?" if everywhere else r"[(\[]\s*[0-9]{1,4}\s*[)\]]"
    return _Style(
        marks,
        re.compile(rf"{before}([{marks}]){behind}"),
        re.compile(rf"(?<![0-9])({number}[\s.:=、-]*)([{marks}])(?![0-9A-Za-z])"),
        everywhere,
    )


_STYLES = (
    _style("①②③④⑤", "", r"(?=\s*\S)", True),
    _style("アイウエオ", r"(?<!\S)", r"[.．、)）]?(?=\s+\S)", True),
    _style("12345", r"(?:(?<=\s\s)|(?<=\t)|(?<=^)|(?<=[)\]]\s))", r"[.)]?(?=\s+\S)", False),
)
_DIGIT = re.compile(r"(?<!\S)([1-5])[.)]?(?=\s+\S)")
_ASKED = re.compile(r"\s*(問\s*([0-9]{1,4})\s+)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark in a line."""

    at: int
    """Index of the line."""
    start: int
    end: int
    index: int


@dataclass(slots=True)
class _Found:
    """The lists of options, and the marks that belong to none, if they are nothing else."""

    lists: list[list[_Mark]] = field(default_factory=list)
    others: list[_Mark] = field(default_factory=list)


def with_letters(lines: Sequence[Line]) -> tuple[list[Line], list[str], list[Trouble]]:
    """The lines, with letters for other marks.

    Returns:
        The lines, notes on the changes, and what does not fit, so that nothing was changed.
    """
    if has_marks(lines):
        return list(lines), [], []
    for style in _STYLES:
        found = _lists(lines, style)
        lengths = {len(one) for one in found.lists}
        if len(found.lists) < LEAST_LISTS or min(lengths) < LEAST_OPTIONS:
            continue
        shown = style.marks[: max(lengths)]
        first = lines[found.lists[0][0].at].place
        if odd := _odd(lines, found, lengths):
            reason = f"options are marked {shown} from {first} on, and {odd[1]}"
            way_out = "write options as `A.`, `B.`, `C.`"
            return list(lines), [], [Trouble((), lines[odd[0]].place, reason, way_out)]
        note = (
            f"options marked {shown} (from {first} on) were read as A to {LETTERS[len(shown) - 1]}"
        )
        return _changed(lines, found, style), [note], []
    return list(lines), [], []


def key_with_letters(lines: Sequence[Line]) -> list[Line]:
    """The lines of a key, with letters for circled numbers: `31 ②`."""
    return [_answers(line, _STYLES[0]) for line in lines]


def _lists(lines: Sequence[Line], style: _Style) -> _Found:
    found = _Found()
    numbered = -APART - 1
    for at, line in enumerate(lines):
        if _NUMBERED.match(line.shadow):
            numbered = at
        prefix = _PREFIX.match(line.shadow)
        start = prefix.end() if prefix else 0
        marks = _marks(style, style.pattern, at, line.text, start)
        if not style.everywhere:
            # With single spaces, if all are there in order.
            every = _marks(style, _DIGIT, at, line.text, start)
            if [mark.index for mark in every] == list(range(max(LEAST_OPTIONS, len(every)))):
                marks = every
        if not marks or marks[0].start > start:
            found.others += marks if style.everywhere else []
            continue
        for mark in marks:
            if mark.index == 0 and (style.everywhere or at - numbered <= APART):
                found.lists.append([mark])
            elif found.lists and _follows(found.lists[-1], mark):
                found.lists[-1].append(mark)
            elif style.everywhere:
                found.others.append(mark)
    return found


def _marks(style: _Style, pattern: re.Pattern[str], at: int, text: str, start: int) -> list[_Mark]:
    """The marks of a line from a position on."""
    return [
        _Mark(at, match.start(1), match.end(), style.marks.index(match[1]))
        for match in pattern.finditer(text, start)
    ]


def _follows(one: Sequence[_Mark], mark: _Mark) -> bool:
    return mark.index == len(one) and mark.at - one[-1].at <= APART


def _odd(lines: Sequence[Line], found: _Found, lengths: set[int]) -> tuple[int, str] | None:
    """A line that does not fit, and why."""
    if len(lengths) > 1:
        short = min(found.lists, key=len)
        return short[0].at, "the lists differ in length"
    for mark in found.others:
        if len(words(lines[mark.at])) >= PROSE:
            text = shortened(lines[mark.at].text.strip())
            return mark.at, f"{text!r} has such a mark within the text"
    return None


def _changed(lines: Sequence[Line], found: _Found, style: _Style) -> list[Line]:
    result = list(lines)
    for mark in sorted((mark for one in found.lists for mark in one), key=_last_first):
        result[mark.at] = _with(result[mark.at], mark, f"{LETTERS[mark.index]}. ")
    result = [_with_number(line) for line in result]
    end = found.lists[-1][-1].at
    result[end + 1 :] = [_answers(line, style) for line in result[end + 1 :]]
    return result


def _last_first(mark: _Mark) -> tuple[int, int]:
    return mark.at, -mark.start


def _with(line: Line, mark: _Mark, letter: str) -> Line:
    rest = line.text[mark.end :]
    text = f"{line.text[: mark.start]}{letter}{rest.lstrip()}"
    return replace(line, text=text, shadow=shadow_of(text))


def _with_number(line: Line) -> Line:
    """`問1 Where` with `1.` before its question."""
    match = _ASKED.match(line.shadow)
    if match is None:
        return line
    text = f"{match[2]}. {line.text[match.end(1) :]}"
    return replace(line, text=text, shadow=shadow_of(text))


def _answers(line: Line, style: _Style) -> Line:
    """A line of a key with letters."""
    if len(words(line)) >= PROSE:
        return line
    text = style.answer.sub(
        lambda match: match[1] + LETTERS[style.marks.index(match[2])], line.text
    )
    return line if text == line.text else replace(line, text=text, shadow=shadow_of(text))
