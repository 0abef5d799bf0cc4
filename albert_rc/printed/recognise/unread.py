"""Reports of text that looks like a key but cannot be read, so that no answers are lost."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from albert_rc.printed.lines import HAN, Line, make_line, shortened, words
from albert_rc.printed.papers import Trouble
from albert_rc.printed.recognise.blocks import LeftOut
from albert_rc.printed.recognise.key import DASH, ROWS, UNDER, KeyProblem, read_row
from albert_rc.printed.recognise.labels import HEADING_WORDS, tells
from albert_rc.printed.recognise.prose import role_of

WAY_OUT = "write it as 36-40 ABCDA, or give it with --key"
_BETWEEN = r"[\s,;、./|&()\[\]]*"
_ROW = rf"{_BETWEEN}(?:[A-G]{_BETWEEN}){{2,}}|{_BETWEEN}(?:[a-g][\s,;、./|&]+)+[a-g]{_BETWEEN}"
_LABELLED = rf"(?:\W*[^\W\d_][^\d_:]{{0,20}}:\s*{ROWS.pattern}[\s;,、]*){{2,}}"
_HEADED = re.compile(rf"(?:(?i:{HEADING_WORDS})|[{HAN}]{{0,8}}答案)[\s:)*=_-]*(?P<rest>.*)")
_RANGE = re.compile(
    rf"(?<![0-9A-Za-z])(?P<first>[0-9]{{1,4}}){DASH}(?P<last>[0-9]{{1,4}})\s*[)\]]?\s*[.:、)]?\s*"
    rf"(?P<rest>.*)"
)
_LETTERS = re.compile(rf"(?:[A-G]{_BETWEEN}){{2,}}(?![A-Za-z])")
_SINGLE = re.compile(r"(?<![0-9A-Za-z.])([0-9]{1,4})\s*[.:、)]?\s*[(\[]?([A-G])(?![A-Za-z'’])")
_EXPLAINED = re.compile(rf"[(\[]?([0-9]{{1,4}})\s*[)\].、:]?\s*\[?[A-G]\]?\s*\[\s*[{HAN}]")
_WORD = re.compile(r"([0-9]{1,4})\s*[.、]\s*([^0-9_]+)")
# `36. Answer: D`, `36/D`, `36 found D`, `36 选D`; only where other lines look alike.
_NUMBERED = re.compile(
    r"(?<![0-9])([0-9]{1,4})(?![0-9])\s*题?[^0-9A-Za-z_]{0,6}"
    r"(?:(?i:the\s+)?(?i:(?:correct\s+)?answer|ans|key)\W*(?:is\W*)?|(?:故?选)\s*|"
    r"[a-z][a-z'’ -]{0,24}[^0-9A-Za-z_]{1,4})?[(\[]?\s*"
    r"(?:[A-G]|[a-g](?=\s*(?:[)\].,;、/|]|$)))(?![A-Za-z'’])"
)
_SPANNED = re.compile(
    rf"([0-9]{{1,4}}){DASH}([0-9]{{1,4}})[^0-9A-Za-z_]{{0,6}}[A-G]{{2,}}(?![A-Za-z])"
)
# `Answers: 1: 64, 2: next year`, `(Key: b, b)`, `Correct answers are 1 b and 2 b.`
_ANNOUNCED = re.compile(
    r"(?i)\W*(?:the\s+)?(?:(?:correct|right)\s+)?(?:answers?(?:\s+key)?|keys?|solutions?)"
    r"(?:\W*$|\s*[:=]|\s+(?:are|to)\b|\s+[(\[]?[0-9])"
)
_NO_ANSWERS = (
    "instruction", "page number", "heading of a key", "looks like a key", "answer sheet",
)  # fmt: skip
"""Kinds of left-out lines in which no answer is lost."""
MOST_WORDS = 24  # of such a line; and numbers of a range
START = 16  # maximum number of characters before the numbers of a key
FEW = 3  # maximum number of words of a written-out answer
HEADED = 6  # likewise, under or after a heading


def unread_key(line: Line, in_key: bool = False) -> KeyProblem | None:
    """A problem for a line that looks like a key, else None.

    Args:
        line: a line that could not be read as a key, and is not a list of options.
        in_key: whether it is under a key's heading.
    """
    shadow = line.shadow.strip()
    explained = _EXPLAINED.match(shadow)  # `21. A [解析] ...`
    headed = _HEADED.match(shadow)
    mentioned = [int(number) for number in _NUMBERED.findall(headed["rest"])] if headed else []
    if explained:
        numbers: list[int] | None = [int(explained[1])]
    else:
        numbers = mentioned if len(mentioned) > 1 else _numbers(shadow, in_key)
    if numbers is None:
        return None
    bare = explained or _is_bare(shadow)
    if not bare and role_of(shadow) == "instruction":
        return None
    return problem_at(line, numbers)


def problem_at(line: Line, numbers: Sequence[int] = ()) -> KeyProblem:
    """The message for a line that looks like a key."""
    named = f" {'-'.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))}" if numbers else ""
    reason = f"what looks like a key{named} cannot be read"
    return KeyProblem(tuple(numbers), line.place, reason, WAY_OUT)


def lost_answers(left_out: Sequence[LeftOut], unanswered: Collection[int] = ()) -> list[Trouble]:
    """Lines that belong to no passage but seem to contain answers.

    Args:
        left_out: the lines, in order.
        unanswered: numbers of the file's blanks and questions that have no answer.
    """
    found = _unread_forms(left_out, unanswered)
    for line in left_out:
        if line.why in _NO_ANSWERS:
            continue
        printed = make_line(line.text, line.place)
        row = read_row(printed)
        alone = line.why in ("in the key", "no questions", "between options")
        labelled = row is not None and (tells(row[0]) or (alone and not row[0].strip()))
        quoted = repr(shortened(line.text, 40))
        if labelled or (line.why != "explanation" and UNDER.match(printed.shadow)):
            reason = f"{quoted} looks like an answer, but belongs to no question"
        elif unanswered and announces(line.text):
            bare = not re.search(r"[:=]\s*\w|[0-9]", printed.shadow)
            below = "announces a key, but the lines below it cannot be read"
            reason = f"{quoted} {below if bare else 'looks like a key, but cannot be read'}"
        else:
            continue
        found.append(Trouble((), line.place, reason, WAY_OUT))
    return found


def announces(text: str) -> bool:
    """Whether a line says that it, or what follows, is a key."""
    return _ANNOUNCED.match(make_line(text, "").shadow) is not None


def key_in_text(article: str, place: str) -> list[Trouble]:
    """A key that could not be read, and was taken for the beginning of the next passage."""
    first = article.partition("\n")[0]
    if not announces(first):
        return []
    reason = f"the text begins with {shortened(first)!r}, which looks like a key"
    return [Trouble((), place, reason, f"{WAY_OUT}, or remove it")]


def _unread_forms(left_out: Sequence[LeftOut], unanswered: Collection[int]) -> list[Trouble]:
    """Several numbers of unanswered questions, each with a letter, in a form that is not read."""
    places: dict[int, str] = {}
    for line in left_out:
        shadow = make_line(line.text, line.place).shadow
        if line.why in ("instruction", "looks like a key", "answer sheet"):
            continue
        if len(words(shadow)) > MOST_WORDS:
            continue
        numbers = [int(number) for number in _NUMBERED.findall(shadow)]
        for match in _SPANNED.finditer(shadow):
            numbers += range(int(match[1]), min(int(match[2]), int(match[1]) + MOST_WORDS) + 1)
        for number in numbers:
            if number in unanswered:
                places.setdefault(number, line.place)
    if len(places) < 2:
        return []
    problem = problem_at(make_line("", next(iter(places.values()))), sorted(places))
    return [Trouble((), problem.place, problem.reason, WAY_OUT)]


def letters_below(lines: Sequence[Line], at: int) -> int:
    """The number of consecutive lines with one letter each; fewer than 3 are headings."""
    end = at
    while end < len(lines) and re.fullmatch(r"\W*[A-Ga-g]\W*", lines[end].shadow):
        end += 1
    return end - at if end - at >= 3 else 0


def _numbers(shadow: str, in_key: bool) -> list[int] | None:
    headed = _HEADED.match(shadow)
    rest = headed["rest"] if headed else shadow
    if (headed or in_key) and (re.fullmatch(_ROW, rest) or len(ROWS.findall(rest)) > 1):
        return []
    if re.fullmatch(_LABELLED, rest):
        return []
    if re.fullmatch(r"(?:[A-D]\s*){5,}", shadow) and not shadow.startswith(("ABCD", "A B C D")):
        return []
    found = _RANGE.search(shadow)
    if found and found.start() <= START and _is_row(found["rest"]):
        first, last = sorted((int(found["first"]), int(found["last"])))
        pieces = [part for part in re.split(r"[,;、]", found["rest"]) if part.strip()]
        written = not shadow[: found.start()].strip() and len(pieces) == last - first + 1
        short = all(1 <= len(words(part)) <= FEW for part in pieces)
        if _LETTERS.match(found["rest"]) or (written and last > first and short):
            return list(range(first, last + 1))
    singles = [(int(number), letter) for number, letter in _SINGLE.findall(shadow)]
    match = _SINGLE.search(shadow)
    if match and match.start() <= START and {letter for _, letter in singles} - {"A"}:
        numbers = [number for number, _ in singles]
        if len(numbers) >= 3 and all(b == a + 1 for a, b in pairwise(numbers)):
            return numbers
    return _written_out(rest if headed else shadow, HEADED if headed or in_key else FEW)


def _is_bare(shadow: str) -> bool:
    """Whether a heading or a range of numbers is followed by letters only."""
    if re.fullmatch(_LABELLED, shadow):
        return True
    begins = _HEADED.match(shadow) or _RANGE.match(shadow)
    return begins is not None and re.fullmatch(_ROW, begins["rest"]) is not None


def _is_row(rest: str) -> bool:
    """Whether the text after a range is not a sentence."""
    return sum(word[0].islower() for word in words(rest)) <= 2 * FEW and "_" not in rest


def _written_out(shadow: str, few: int) -> list[int] | None:
    """`21. glad 22. left 23. tea`, each of a few words."""
    found = _WORD.findall(shadow)
    if len(found) < 3 or "".join(f"{n}{w}" for n, w in found) != re.sub(
        r"([0-9]{1,4})\s*[.、]\s*", r"\1", shadow
    ):
        return None
    numbers = [int(number) for number, _ in found]
    if any(b != a + 1 for a, b in pairwise(numbers)):
        return None
    return numbers if all(1 <= len(words(text)) <= few for _, text in found) else None
