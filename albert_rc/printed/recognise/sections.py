"""Recognition of sections without a passage, such as grammar or listening."""

from __future__ import annotations

import re
from typing import Literal

from albert_rc.printed.lines import FINAL, words

MOST_WORDS = 25
"""Maximum number of words of a section's heading with its task."""
# Not `3.`, which is more often the number of a question.
_LABEL = re.compile(
    r"\W*(?:(?i:section|part|exercise|task|practice|unit)\s+"
    r"(?:[0-9]{1,2}|[IVX]{1,4}|[A-H]|(?i:one|two|three|four|five|six|seven|eight))\b[\s.:)、,–—-]*"
    r"|[IVX]{1,4}\s*[.:)、]\s*|[一二三四五六七八九十]{1,3}\s*[.、]\s*)"
)
_NAMES = (
    r"grammar|vocabulary|(?:use\ of|general|everyday|functional)\ english|listening|writing|"
    r"speaking|translation|pronunciation|phonetics|spelling|word\ formation|error\ correction|"
    r"sentence\ (?:structures?|patterns?)|multiple[\s-]choice"
)
_SUBJECT = re.compile(
    rf"(?ix)(?=.*\b(?:{_NAMES})\b)"
    rf"(?:\W*\b(?:{_NAMES}|comprehension|tests?|exercises?|sections?|questions?|and)\b)+\W*"
)
_POINTS = re.compile(
    r"(?i)\W*(?:[0-9.x×*=+]+\s*)+(?:points?|marks?|minutes?|pts|items?|questions?)?(?:\s+each)?\W*"
)
_TASK = re.compile(
    r"""(?ix)\W*(?:now\s+|please\s+)?(?:
        (?:choose|select|pick|circle|tick|mark|underline|find|write|give|put|use|supply|fill\s+in)\b(?!.*\byou\b)[^.!?]*?
            \b(?:best|correct|right|proper|suitable|appropriate|missing|odd|wrong)\s+(?:\w+\s+){0,2}?
            (?:words?|forms?|answers?|options?|box(?:es)?|letters?|verbs?|tenses?|phrases?|one|
               sentences?|alternatives?|responses?|reply|replies|prepositions?|pronouns?|articles?)\b
      | (?:complete|finish|rewrite|correct|translate)\s+(?:each|these|the(?:\s+following)?)\s+
            (?:sentences?|conversations?|dialogues?|exchanges?)\b
      | (?:fill\s+in|complete)\s+the\s+(?:gaps?|blanks?)\b
      | listen\b[^.!?]*\b(?:recordings?|dialogues?|conversations?|choose|tick|circle|complete)\b
      | you\s+(?:will|are\s+going\s+to)\s+hear\b
    )"""
)
"""Pattern of a sentence that only an exam says."""


def role_of_section(shadow: str) -> Literal["heading", "instruction"] | None:
    """The role of `Grammar (10 points)` or `II. Choose the best word.`, and None of other text.

    Every sentence must be a task of an exam: an article may give advice, `Choose the right words`,
    but it goes on, or the advice is a title, without a full stop.

    Args:
        shadow: a paragraph's normalised text.
    """
    if len(words(shadow)) > MOST_WORDS or "__" in shadow:
        return None
    label = _LABEL.match(shadow)
    parts = re.split(r"(?<=[.!?:])\s+|\s+(?=\([0-9])", shadow[label.end() if label else 0 :])
    parts = [part for part in parts if re.search(r"\w", part) and not _POINTS.fullmatch(part)]
    tasks = [part for part in parts if not _SUBJECT.fullmatch(part)]
    if not tasks:
        return "heading" if parts else None
    if not all(map(_TASK.match, tasks)):
        return None
    named = label is not None or len(tasks) < len(parts)
    return "instruction" if named or FINAL.search(tasks[-1]) else None
