"""Recognition of blanks among the numbers in running text, by marks, order and options."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from albert_rc.printed.lines import Line

Style = Literal["line", "bracket", "bare"]
STYLES: tuple[Style, ...] = ("line", "bracket", "bare")
"""Styles of blanks, from the clearest to the least clear: `__36__`, `(36)`, `36`."""

_NUMBER = re.compile(r"(?<![0-9])(?:[0-9]{1,4}|[0-9]\s[0-9])(?![0-9])")
_RULE = r"(?:_+|[-—–─]{2,}|\.{3,}|…+)"
_RULE_BEFORE = re.compile(rf"{_RULE}\s*$")
_RULE_AFTER = re.compile(rf"(?:[.、)]\s?(?=_)|\s*){_RULE}")
_NUMBER_AND_RULE = re.compile(r"\s?[0-9]{1,4}\s?_")
_RULE_AND_NUMBER = re.compile(r"_\s?[0-9]{1,4}\s?$")
_LINE = re.compile(r"(?<![_0-9])(?<![0-9][ .、)])_{2,}(?![_0-9])(?! ?[0-9]+ ?_)")
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_DOTS = re.compile(r"\s*(?:\.{4,}|…{2,})")
_NO_BLANK_BEFORE = re.compile(r"(?:[A-Za-z0-9$£€¥#/:'’+]|[0-9][.,]|[-–]|\b[Nn]o\.\s?|\b[Pp]age\s)$")
_NO_BLANK_AFTER = re.compile(r"(?:[A-Za-z%°/+]|[.,:][0-9]|[-–]\s?[A-Za-z0-9])")
_COUNTED = re.compile(r"\b(?:Class|Grade|Room|Unit|Lesson|Year|No\.)\s?$")
LONE = {"line": 1, "bracket": 3, "bare": 5}
"""Minimum number of consecutive numbers that count as blanks without options."""


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A number in running text, with the marks around it."""

    line_number: int
    start: int
    end: int
    number: int
    style: Style
    place: str

    @property
    def position(self) -> tuple[int, int]:
        """Where it begins."""
        return self.line_number, self.start


def candidates(numbered_lines: Iterable[tuple[int, Line]]) -> list[Candidate]:
    """Every number that may be that of a blank, in the order of the text."""
    found = []
    for line_number, line in numbered_lines:
        taken = 0
        for match in _NUMBER.finditer(line.shadow):
            candidate = _candidate(line_number, line, match, taken)
            if candidate is not None:
                found.append(candidate)
                taken = candidate.end
    return found


def unnumbered(
    numbered_lines: Iterable[tuple[int, Line]], numbers: Sequence[int]
) -> list[Candidate]:
    """Blanks that are lines without a number, numbered in the order of the text.

    Args:
        numbered_lines: of the passage.
        numbers: those with options, ascending; lines beyond them get the numbers that follow.
    """
    runs = [
        (line_number, line, match)
        for line_number, line in numbered_lines
        for match in _LINE.finditer(line.shadow)
    ]
    names = [*numbers, *range(numbers[-1] + 1, numbers[-1] + 1 + len(runs))]
    return [
        Candidate(line_number, match.start(), match.end(), number, "line", line.place)
        for number, (line_number, line, match) in zip(names, runs, strict=False)
    ]


def _candidate(line_number: int, line: Line, match: re.Match[str], taken: int) -> Candidate | None:
    shadow = line.shadow
    start, end = match.span()
    number = int("".join(match[0].split()))
    style: Style = "bare"
    before = shadow[taken:start].rstrip()
    after = re.compile(r"\s*(.?)").match(shadow, end)
    if before and before[-1] in _PAIRS and after and after[1] == _PAIRS[before[-1]]:
        style, start, end = "bracket", taken + len(before) - 1, after.end()
    rule_before = _RULE_BEFORE.search(shadow, taken, start)
    rule_after = _RULE_AFTER.match(shadow, end)
    if rule_after and not rule_before and _COUNTED.search(shadow, max(0, start - 9), start):
        return None  # `I am in Class 3. ______`, to be written
    if rule_before and rule_after and re.match(r"[.、)](?!\.)", rule_after[0]):
        rule_after = None  # the full stop before another blank
    # `in 1890 __36__ he`: the rule belongs to the number inside it.
    if rule_after and _NUMBER_AND_RULE.match(shadow, rule_after.end()):
        rule_after = None
    if rule_before and _RULE_AND_NUMBER.search(shadow, 0, rule_before.start()):
        rule_before = None
    if any(rule and "_" not in rule[0] for rule in (rule_before, rule_after)):
        # Dashes and dots belong to the sentence, unless they are on both sides.
        sides = [rule[0].strip()[0] for rule in (rule_before, rule_after) if rule]
        if len(sides) < 2 or "_" in sides:
            rule_before = rule_before if rule_before and "_" in rule_before[0] else None
            rule_after = rule_after if rule_after and "_" in rule_after[0] else None
    if rule_before or rule_after:
        style = "line"
        start = rule_before.start() if rule_before else start
        end = rule_after.end() if rule_after else end
    if style != "line" and (dots := _DOTS.match(shadow, end)):  # as FCE prints blanks
        end = dots.end()
    if style == "bare" and (
        _NO_BLANK_BEFORE.search(shadow[max(0, start - 8) : start])
        or _NO_BLANK_AFTER.match(shadow, end)
    ):
        return None
    return Candidate(line_number, start, end, number, style, line.place)


@dataclass(frozen=True, slots=True)
class Placement:
    """The result of finding blanks among candidates."""

    placed: dict[int, Candidate]
    problems: dict[int, tuple[str, str]]
    """Places and reasons for each number that could not be placed."""
    passed_over: list[Candidate]
    """Candidates that share a blank's number and were read as text."""


def place(found: Sequence[Candidate], numbers: Sequence[int]) -> Placement:
    """Find the blanks of the numbers that have options.

    A passage marks all blanks in the same style, the one in which most of its numbers are found,
    and they are in ascending order. A number with several possible places, or none, is a problem.

    Args:
        found: all candidates of the passage.
        numbers: the numbers with options, ascending.
    """
    style = _style(found, numbers)
    problems: dict[int, tuple[str, str]] = {}
    places: dict[int, list[Candidate]] = {}
    for number in numbers:
        alike = [c for c in found if c.number == number and c.style == style]
        if not alike:
            problems[number] = _nowhere(found, number, style)
        elif len(alike) > 1 and style == "line":
            problems[number] = (_places(alike), f"blank {number} occurs {_times(alike)}")
        else:
            places[number] = alike
    kept, unordered = _in_order(places)
    for number in unordered:
        first = places[number][0]
        problems[number] = (
            first.place,
            f"blank {number} is not in the order of the others",
        )
    placed = {}
    for number, left in kept.items():
        if len(left) > 1:
            problems[number] = (_places(left), f"{number} occurs {_times(left)}")
        else:
            placed[number] = left[0]
    problems |= _without_options(found, numbers, placed, style)
    blanks = set(placed.values())
    passed_over = [c for c in found if c.number in placed and c not in blanks]
    return Placement(placed, problems, passed_over)


def _times(found: Sequence[Candidate]) -> str:
    return "twice" if len(found) == 2 else f"{len(found)} times"


def _places(found: Sequence[Candidate]) -> str:
    return ", ".join(dict.fromkeys(candidate.place for candidate in found))


def _style(found: Sequence[Candidate], numbers: Sequence[int]) -> Style | None:
    there: dict[Style, set[int]] = defaultdict(set)
    for candidate in found:
        if candidate.number in numbers:
            there[candidate.style].add(candidate.number)
    return max(there, key=lambda s: (len(there[s]), -STYLES.index(s)), default=None)


def _nowhere(found: Sequence[Candidate], number: int, style: Style | None) -> tuple[str, str]:
    others = [c for c in found if c.number == number]
    if others:
        reason = f"{number} occurs in the text, but without the marks of the other blanks"
        return others[0].place, reason
    return "", f"the options of {number} have no blank"


def _in_order(
    places: dict[int, list[Candidate]],
) -> tuple[dict[int, list[Candidate]], list[int]]:
    """For each number, the candidates that are between its neighbours in some complete order."""
    unordered: list[int] = []
    while True:
        numbers = sorted(set(places) - set(unordered))
        forward: dict[int, list[Candidate]] = {}
        earliest = (-1, -1)
        for number in numbers:
            forward[number] = [c for c in places[number] if c.position > earliest]
            if forward[number]:
                earliest = forward[number][0].position
        kept: dict[int, list[Candidate]] = {}
        latest = (10**9, 0)
        for number in reversed(numbers):
            kept[number] = [c for c in forward[number] if c.position < latest]
            if kept[number]:
                latest = kept[number][-1].position
        lost = [number for number in numbers if not kept[number]]
        if not lost:
            return kept, unordered
        # It is unclear which are out of order: leave out the fewest, but report the others too.
        unordered += _outside_longest(places, numbers)


def _outside_longest(places: dict[int, list[Candidate]], numbers: Sequence[int]) -> list[int]:
    """Numbers that are not in every longest ascending chain."""
    firsts = [(number, places[number][0].position) for number in numbers]
    positions = [position for _, position in firsts]
    ahead = _lengths(positions)
    backwards = _lengths([(-a, -b) for a, b in reversed(positions)])[::-1]
    longest = max(ahead)
    through = [a + b - 1 == longest for a, b in zip(ahead, backwards, strict=True)]
    alone = Counter(a for a, good in zip(ahead, through, strict=True) if good)
    outside = [
        number
        for (number, _), a, good in zip(firsts, ahead, through, strict=True)
        if not good or alone[a] > 1
    ]
    return outside or list(numbers)


def _lengths(positions: Sequence[tuple[int, int]]) -> list[int]:
    """For each element, the length of the longest ascending chain that ends with it."""
    tails: list[tuple[int, int]] = []
    lengths = []
    for position in positions:
        at = bisect_left(tails, position)
        tails[at : at + 1] = [position]
        lengths.append(at + 1)
    return lengths


def _without_options(
    found: Sequence[Candidate],
    numbers: Sequence[int],
    placed: dict[int, Candidate],
    style: Style | None,
) -> dict[int, tuple[str, str]]:
    """Numbers that look like blanks of this passage and have no options."""
    problems = {}
    known = sorted(placed)
    positions = [placed[number].position for number in known]
    wanted = set(numbers)
    for candidate in found:
        number = candidate.number
        if number in wanted:
            continue
        fits = candidate.style == "line"
        if not fits and candidate.style == style and known:
            # In its place between its neighbours, or the next one at either end.
            at = bisect_right(known, number)
            near = known[0] - 1 <= number <= known[-1] + 1
            fits = near and bisect_right(positions, candidate.position) == at
        if fits:
            problems[number] = (candidate.place, f"blank {number} has no options")
    return problems


def lone_blanks(found: Sequence[Candidate]) -> list[Candidate]:
    """Numbers that look like blanks in a text without options for them.

    Underlined numbers always do; others only if enough of them are consecutive.
    """
    blanks = {c for c in found if c.style == "line"}
    for style in ("bracket", "bare"):
        ending: dict[int, list[Candidate]] = {}
        for candidate in found:
            if candidate.style == style:
                run = [*ending.pop(candidate.number - 1, []), candidate]
                ending[candidate.number] = run
                if len(run) >= LONE[style]:
                    blanks.update(run)
    return sorted(blanks)
