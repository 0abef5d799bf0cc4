"""Answer keys: `36-40 ABCDA`, `36. A 37. B`, tables, with or without a heading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from albert_rc.io.messages import counted
from albert_rc.printed.lines import HAN, Line, words
from albert_rc.printed.recognise.labels import HEADING_WORDS, tells

DASH = r"\s*(?:[-‐‑–—―~]{1,2}|至|to)\s*"
_ITEMS = r"(?:小?题\s*(?:的?\s*答案)?\s*[为是]?\s*)?"
"""What may stand between a range and its letters in Chinese: `1-5小题答案为ACBAA`."""
_RANGE = re.compile(
    rf"[(\[]?\s*([0-9]{{1,4}}){DASH}([0-9]{{1,4}})\s*[)\]]?\s*{_ITEMS}[.:、)]?\s*"
    r"((?:[A-Z][\s,;、.]*)+|(?:[a-g][\s,;、.]*)+)(?![A-Za-z])"
)
_SINGLE = re.compile(
    r"[(\[]?\s*([0-9]{1,4})\s*[)\]]?\s*[.,:、)=\-–—]?\s*"
    r"(?:[(\[]\s*)?(?:\[?答案\]?\s*:?\s*)?([A-Z]|[a-g](?=[\s,;.)/|]|$))(?:\s*[)\]])?(?![A-Za-z])"
)
_START = re.compile(r"(?<![0-9A-Za-z])[(\[]?\s*[0-9]")
_ANSWERS = re.compile(
    rf"[0-9]\s*(?:{DASH}[0-9]{{1,4}})?\s*[)\]]?\s*[.:)=、(\[]*\s*[A-G](?![A-Za-z'’])"
    r"|[0-9]\s*[.、)]\s*[A-Za-z].*[0-9]\s*[.、)]\s*[A-Za-z]"
)
"""Pattern of answers that may not be skipped as a label: `36-38 DDA`, `1. found 2. own`."""
_POINTS = re.compile(r"[\s(\[]+(?:每|共|合计|(?i:each|total)\b).{0,24}$|(?<=[A-G])[(\[]每.{0,24}$")
"""What a key's line may end with: `(2 points each)` in other words."""
_BEFORE = re.compile(r"(?:\b(?i:q(?:uestion)?\s*\.?|no\.)\s*|#)(?=[0-9])")
"""What may stand before each number of a key: `Q1: A Q2: C`."""
_WORD = re.compile(r"\s*\([^()0-9_]{1,40}\)")
"""The option's words after its letter: `1. A (take)`."""
ROWS = re.compile(r"(?<![A-Za-z])[A-G](?:[\s,;、.]*[A-G])+(?![A-Za-z])")
"""Pattern of several letters of options in a row."""
LABEL = 40  # maximum length of a label before answers
_BETWEEN = re.compile(r"[\s,;|/。.、]*")
_RANGE_ENDS = re.compile(rf"(?<![0-9A-Za-z])[0-9]{{1,4}}{DASH}[0-9]{{1,4}}\s*[)\]]?\s*[.:、)]?\s*$")
WHY = re.compile(
    r"(?i)[\s,;.、]*(?:\[?\s*(?:解析|详解|分析|考点|点评|句意|解题)|"
    r"[(\[]?\s*(?:explanation|explained|reason|because|rationale)\b)"
)
"""Pattern of the beginning of an explanation."""
# `36. B. The verb ...`: only under a heading, since options may begin like this.
_EXPLAINED = re.compile(
    r"\s*[(\[]?\s*([0-9]{1,4})\s*[)\]]?\s*[.、:)]?\s*(?:\[?答案\]?\s*:?\s*)?"
    r"[(\[]?([A-G]|[H-O](?=\s*[)\].、:])|[a-g](?=[)\]]))[)\]]?\s*(?:[.、:,)。]\s*|\s)\S"
)
UNDER = re.compile(
    rf"(?i:\W*(?:the\s+)?(?:(?:correct|right)\s+)?(?:answers?|ans|key|solution)\b|\W*[{HAN}]{{0,3}}答案)"
    rf"[\s:=.\])-]*(?:(?i:is)\s+)?[(\[]?\s*([A-G]|[a-g](?=\s*(?:[)\].,;]|$)))\s*[)\]]?"
    rf"(?![A-Za-z'’])"
)
_ROW = re.compile(
    r"(?P<label>|[^0-9/&,]{0,24}?[0-9]{0,2}[\s:.、)]+)(?P<row>(?<![A-Za-z])(?:[A-G][\s,;.、]*){2,})"
)
_HEADING = re.compile(rf"(?i)(?:^|[\s(])(?:{HEADING_WORDS})[\s:)*=_-]*$")
_TITLE = re.compile(r"[A-Z0-9(][\w'’.]*[),:]?|to|the|and|of|for|&|[-–—:]")
_NUMBERS = re.compile(
    r"^(?P<label>[^0-9]{0,16}?)(?P<row>[0-9]{1,4}(?:[\s|,.、]+[0-9]{1,4})+)[\s|,.、]*$"
)
_LETTERS = re.compile(
    r"^(?P<label>[^0-9]{0,16}?)(?P<row>(?:(?:^|[\s|,、:])[\s|,、]*[A-Za-z](?![A-Za-z]))+)[\s|,、]*$"
)
_CHOSEN = re.compile(
    rf"[(\[]?\s*([0-9]{{1,4}})\s*[)\]]?\s*[.、:)]?\s*[^_]*[{HAN}][^_]*选\s*(?:择|答案)?\s*([A-O])\s*项?\W*"
)
EXPLAINS = re.compile(
    rf"[(\[]\s*(?:[0-9]{{1,4}}\s*题?\s*)?(?!答案|阅读|完形|语法|写作|书面|听力)[{HAN}]{{2,8}}\s*[)\]]|"
    r"故选|句意|可知|考查|(?:解析|详解|分析|点评)\s*(?:[:.]|$)"
)
"""Pattern of what only explanations have, under the answers of a passage: `[1题详解]`, `故选A`."""
_SHEET = re.compile(
    r"(?:[^0-9A-Za-z]*[0-9]{1,4}\s*[.、)]?\s*(?:[(\[]\s*[A-O]\s*[)\]]\s*|[A-O]\s*[(\[□○]\s*[)\]]?\s*){2,})+"
)


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One entry of a key."""

    number: int
    letter: str
    place: str
    labels: tuple[str, ...] = ()
    """The label of its part of the key, such as `Passage 2:`, if it is the first under it."""


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """An entry that cannot be read."""

    numbers: tuple[int, ...]
    place: str
    reason: str
    way_out: str = ""
    """A solution, given only if nothing of the entry could be read."""
    in_words: bool = False
    """Whether the answer is not a letter, as to a question without options."""


def is_key_heading(line: Line) -> bool:
    """`Answers`, `Key to Part II`, `参考答案` and the like, alone on their line."""
    shadow = line.shadow.strip()
    if re.match(r"[(\[]?\s*(?:[0-9]|[A-Za-z]\s?[.)\]、])", shadow):
        return False  # an option, or a question
    if re.search(f"[{HAN}]", shadow):
        bare = re.sub(r"[\s\W_]", "", shadow)
        return (
            len(bare) <= 24
            and bool(re.search("答案|解析$", bare))
            and not re.search("[写涂填选]", bare)
            and not re.search("答案.*[0-9].*[A-Za-z]", bare)  # a key by itself: `答案:1-5 ACBAA`
        )
    match = _HEADING.search(shadow) if len(words(line)) <= 7 and len(shadow) < 100 else None
    # Only words of titles may precede it: a sentence may end with "answers" too.
    return match is not None and all(map(_TITLE.fullmatch, shadow[: match.start()].split()))


def read_key_line(line: Line) -> tuple[list[KeyEntry], list[KeyProblem]] | None:
    """The answers of a line with nothing else but labels before them, else None."""
    shadow = _BEFORE.sub("", _POINTS.sub("", line.shadow.rstrip()))
    line = replace(line, shadow=shadow)
    answers: list[KeyEntry] = []
    problems: list[KeyProblem] = []
    end = 0
    while end < len(shadow):
        for match in _START.finditer(shadow, end):
            label = shadow[end : match.start()]
            # What looks like answers must not become a label, nor other words between answers.
            if len(label) > LABEL or _ANSWERS.search(label):
                return None
            if end and not (tells(label) and re.search(rf"[A-Za-z]{{2}}|[{HAN}]", label)):
                continue
            found, wrong, reached = _entries(line, match.start())
            if found or wrong:
                break
        else:
            return None
        answers += labelled(found, label)
        problems += wrong
        # A single answer may begin an option's text, which says nothing about other passages.
        if reached < len(shadow) and len(found) + len(wrong) < 2:
            return None
        end = reached
    return answers, problems


def is_key(line: Line) -> bool:
    """Whether a line contains only letters, for consecutive numbers: `1. (A) 2. (C) 3. (B)`.

    An A after a number is then an answer, and does not begin a list of options.
    """
    found = read_key_line(line)
    if found is None or found[1] or len(found[0]) < 2:
        return False
    return all(b.number == a.number + 1 for a, b in pairwise(found[0]))


def is_answer_sheet(line: Line) -> bool:
    """Whether a line is to be marked by the candidate: `1. [A] [B] [C] [D]  2. [A] ...`."""
    return _SHEET.fullmatch(line.shadow) is not None


def labelled(answers: list[KeyEntry], *labels: str) -> list[KeyEntry]:
    """Answers, with the text before or above them added to the labels of the first."""
    new = tuple(label.strip() for label in labels if label.strip())
    if not answers or not new:
        return answers
    return [replace(answers[0], labels=(*new, *answers[0].labels)), *answers[1:]]


def _entries(line: Line, position: int) -> tuple[list[KeyEntry], list[KeyProblem], int]:
    """The answers from a position on, and the position after them."""
    shadow = line.shadow.rstrip()
    answers: list[KeyEntry] = []
    problems: list[KeyProblem] = []
    while position < len(shadow):
        if match := _RANGE.match(shadow, position):
            first, last = int(match[1]), int(match[2])
            letters = re.findall("[A-Za-z]", match[3])
            numbers = range(min(first, last), max(first, last) + 1)
            if first > last:
                reason = f"the key {first}-{last} counts down"
                problems.append(KeyProblem(tuple(numbers), line.place, reason))
            elif first == last or len(letters) != len(numbers):
                reason = (
                    f"the key {first}-{last} has {counted(len(letters), 'letter')} "
                    f"for {counted(len(numbers), 'number')}"
                )
                problems.append(KeyProblem(tuple(numbers), line.place, reason))
            else:
                answers += [
                    KeyEntry(n, c.upper(), line.place)
                    for n, c in zip(numbers, letters, strict=True)
                ]
        elif match := _SINGLE.match(shadow, position):
            answers.append(KeyEntry(int(match[1]), match[2].upper(), line.place))
            if len(answers) == 1 and WHY.match(shadow, match.end()):
                return answers, problems, len(shadow)
            match = _WORD.match(shadow, match.end()) or match
        else:
            break
        between = _BETWEEN.match(shadow, match.end())
        position = between.end() if between else match.end()
    return answers, problems, position


def read_explained(line: Line) -> KeyEntry | None:
    """`36. B. The verb ...`, which is an answer if it is in a key."""
    match = _EXPLAINED.match(line.shadow)
    return KeyEntry(int(match[1]), match[2].upper(), line.place) if match else None


def read_chosen(line: Line) -> KeyEntry | None:
    """`36. 考查动词。A. take拿; B. make做。故选A。`, an explanation that ends with the answer."""
    match = _CHOSEN.fullmatch(line.shadow.strip())
    return KeyEntry(int(match[1]), match[2].upper(), line.place) if match else None


def read_under(line: Line, start: int = 0, end: int | None = None) -> tuple[str, bool] | None:
    """The letter of `Answer: B` under a question, and whether an explanation follows.

    None for any other line, or part of a line from `start` to `end`.
    """
    match = UNDER.match(line.shadow, start, len(line.shadow) if end is None else end)
    if match is None:
        return None
    rest = line.shadow[match.end() : end]
    explained = WHY.match(rest) is not None
    return (match[1].upper(), explained) if explained or not rest.strip(" \t.,;。)]") else None


def read_row(line: Line) -> tuple[str, list[KeyEntry]] | None:
    """Letters without numbers, as in `Passage One: BAD`: the label, and answers numbered from 1."""
    match = _ROW.fullmatch(line.shadow.strip())
    if match is None or re.search("[0-9]", match["row"]):
        return None
    if ROWS.search(match["label"]):
        return None  # answers of another passage, as in `Cloze: DDA Reading: BBC`
    letters = re.findall("[A-G]", match["row"])
    if letters == list("ABCDEFG")[: len(letters)] and len(letters) > 2:
        return None  # the head of a table
    return match["label"], [KeyEntry(n, c, line.place) for n, c in enumerate(letters, 1)]


def read_broken(above: Line, below: Line) -> tuple[list[KeyEntry], list[KeyProblem]] | None:
    """A key whose line was wrapped between a range and its letters, else None."""
    if not _RANGE_ENDS.search(above.shadow) or not re.fullmatch(r"[A-O\s,;.]+", below.shadow):
        return None
    return read_key_line(replace(above, shadow=f"{above.shadow.rstrip()} {below.shadow}"))


def read_key_pair(above: Line, below: Line) -> KeyEntry | None:
    """A number alone with its letter alone under it, else None."""
    number = re.fullmatch(r"\W*([0-9]{1,4})\W*", above.shadow)
    letter = re.fullmatch(r"\W*([A-O])\W*", below.shadow)
    return KeyEntry(int(number[1]), letter[1], below.place) if number and letter else None


def read_key_table(above: Line, below: Line) -> tuple[list[KeyEntry], list[KeyProblem]] | None:
    """A row of numbers with a row of letters under it, else None."""
    numbers, letters = _NUMBERS.match(above.shadow.strip()), _LETTERS.match(below.shadow.strip())
    if numbers is None or letters is None:
        return None
    found = [int(number) for number in re.findall("[0-9]+", numbers["row"])]
    given = re.findall("[A-Za-z]", letters["row"])
    if len(found) != len(given):
        reason = f"the key's table has {len(found)} numbers but {len(given)} letters"
        return [], [KeyProblem(tuple(found), above.place, reason)]
    answers = [KeyEntry(n, c.upper(), below.place) for n, c in zip(found, given, strict=True)]
    return labelled(answers, numbers["label"]), []


def groups(answers: Sequence[KeyEntry], by_label: bool = False) -> list[list[KeyEntry]]:
    """The parts of a key: a new one begins where the numbers restart.

    Args:
        answers: the answers, in the key's order.
        by_label: also begin a new part at each label.
    """
    found: list[list[KeyEntry]] = []
    for answer in answers:
        goes_on = found and answer.number > found[-1][-1].number
        if goes_on and not (by_label and answer.labels):
            found[-1].append(answer)
        else:
            found.append([answer])
    return found
