"""Words from a line's characters: corrected spaces, and numbers joined with their blanks' rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from statistics import median

from albert_rc.printed.read.layout import Word
from albert_rc.printed.scan.blanks import SPACE, apart, is_number, joined
from albert_rc.printed.scan.engine import Char
from albert_rc.printed.scan.glued import (
    STRETCHED,
    USUAL_SPACE,
    advance,
    as_blank,
    cuts,
    is_space,
    may_be_two,
)
from albert_rc.printed.scan.rules import Rule
from albert_rc.printed.scan.second import with_usual_case
from albert_rc.printed.scan.strips import STRIP, Strip

UNDERSCORE, LONGEST_RULE = 0.4, 20
"""Width of an underscore, as a multiple of the line's height, and most underscores for a rule."""
LONG = 4
"""Minimum length of words whose advance is compared with the line's usual one, in characters."""
Letters = list[tuple[float, Char]]
"""Characters of a word, each with its x coordinate on the page."""


def words_of(strip: Strip, rules: Sequence[Rule]) -> list[Word]:
    """A line's words; rules become blanks if nothing but a number is above or between them."""
    height = strip.height
    edges = [edge for rule in rules for edge in (rule.left, rule.right)]
    parts = _spaced(_split(strip, edges), strip, height)
    for rule in rules:
        above = [word for word in parts if rule.left < (word.left + word.right) / 2 < rule.right]
        if any(not is_number(word.text) for word in above):
            continue  # an underlined word
        for word in above:
            parts.remove(word)
        number = "".join(word.text for word in above)
        wide = max(2, round((rule.right - rule.left) / (UNDERSCORE * height)))
        text = f"__{number}__" if number else "_" * min(wide, LONGEST_RULE)
        certainty = min((word.certainty for word in above), default=1.0)
        y = rule.middle - 0.3 * height
        parts.append(Word(text, rule.left, rule.right, y - height / 2, y + height / 2, certainty))
    return apart(joined(sorted(parts, key=lambda word: word.left), height), height)


def _split(strip: Strip, edges: Sequence[float]) -> list[Letters]:
    """A line's characters and their positions, grouped into words; an empty word marks a space."""
    words: list[Letters] = [[]]
    for char in strip.chars:
        x, _ = strip.at(char.place)
        if char.text == " ":
            words += [[], []]
            continue
        if words[-1] and any(words[-1][-1][0] < edge < x for edge in edges):
            words += [[], []]
        words[-1].append((x, char))
    words = [letters for letters in words if letters]
    spaces = [strip.white(a[-1][1], b[0][1]) for a, b in pairwise(words)]
    space = median(spaces) if len(spaces) > 2 else USUAL_SPACE * STRIP
    space = min(max(space, 0.6 * USUAL_SPACE * STRIP), 2 * USUAL_SPACE * STRIP)
    joint = words[:1]
    for letters, white in zip(words[1:], spaces, strict=True):
        if not is_space(_text(joint[-1]), _text(letters), white / space):
            joint[-1] = joint[-1] + letters
        else:
            joint.append(letters)
    found: list[Letters] = []
    for letters in joint:
        text = _text(letters)
        between = [strip.white(a, b) for (_, a), (_, b) in pairwise(letters)]
        sure = letters
        if may_be_two(text, between, space):
            sure = [(x, replace(char, certainty=0.0)) for x, char in letters]
        for start, end in pairwise([0, *cuts(text, between, space), len(letters)]):
            found += [sure[start:end], []]
    return found


def _text(letters: Letters) -> str:
    return "".join(char.text for _, char in letters)


def _advance(letters: Letters) -> float:
    return advance(_text(letters), [x for x, _ in letters])


def _usual_advance(split: Sequence[Letters]) -> float:
    """The median advance of a line's words; infinite if too few words are long enough."""
    found = [_advance(letters) for letters in split if len(letters) >= LONG]
    return median(found) if len(found) > 4 else inf


def _spaced(split: Sequence[Letters], strip: Strip, height: float) -> list[Word]:
    """Words with a gap between two of them if a space was recognised there, and none otherwise."""
    edge, end = strip.ends
    found: list[Word] = []
    is_apart = False
    usual = _usual_advance(split)
    for letters in split:
        if not letters:
            is_apart = True
            continue
        first, last = letters[0][0], letters[-1][0]
        half = (last - first) / (len(letters) - 1) / 2 if len(letters) > 1 else 0.2 * height
        left, right = first - half, last + half
        _, y = strip.at(((first + last) / 2 - edge) / max(1.0, end - edge))
        if found:
            white = SPACE * height if is_apart else 0.0
            before = found[-1]
            middle = (before.right + left) / 2
            if left - before.right < white or not is_apart:
                found[-1] = replace(before, right=middle - white / 2)
                left = middle + white / 2
        text = _text(letters)
        text = as_blank(text) or with_usual_case(text)
        certainty = min(char.certainty for _, char in letters)
        if len(letters) >= LONG and _advance(letters) > STRETCHED * usual:
            certainty = 0.0  # so wide that letters must be missing
        found.append(Word(text, left, right, y - height / 2, y + height / 2, certainty))
        is_apart = False
    return found
