"""Answers on the paper itself: `( B ) 36.`, ticks behind options, `Answer: B` under a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from albert_rc.papers.schema import letter
from albert_rc.printed.papers import Paper, spans
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.answers import give, must_agree
from albert_rc.printed.recognise.options import SIGN, Item, marks_in

# Before an option only where words follow: `√2` is not a tick.
_TICK = re.compile(rf"\s*[(\[（]?\s*{SIGN}\s*[)\]）]?\s*$|^{SIGN}\s*(?=[^\W\d_])")
_BEHIND = re.compile(r"\s*[(\[（【]\s*([A-Z])\s*[)\]）】]\s*$")
# Before `Answer: B`, but not before `in the key B`.
_SAID = re.compile(r"\s+(?=[^:=\]]{0,30}[:=\]])")
BRACKETS, TICKS = "letters at its numbers", "ticks at its options"
BELOW = "answers next to its questions"


def without_ticks(texts: Sequence[str]) -> tuple[list[str], str]:
    """Options without their ticks, and the letters of the ticked ones.

    An option that consists only of the sign stays.
    """
    bare, ticked = [], ""
    for number, text in enumerate(texts):
        found = _TICK.sub("", text)
        if found and found != text:
            ticked += letter(number)
        bare.append(found or text)
    return bare, ticked


def take_answer_behind(item: Item) -> None:
    """Move `Answer: B` from the end of an item's options to its answers, as if below them.

    To be called before the item is cut into options: `A)` in `(Answer: A)` is none of them.
    """
    if not item.body:
        return
    piece = item.body[-1]
    for space in _SAID.finditer(piece.line.shadow, piece.start, piece.end):
        found = key.read_under(piece.line, space.end(), piece.end)
        if found is None:
            continue
        before = replace(piece, end=space.start())
        starts = [mark.end for mark in marks_in(before)]
        # An option may consist of such words: `D. Answer: B`.
        if piece.line.shadow[max(starts, default=piece.start) : before.end].strip():
            item.below += found[0]
            item.body[-1] = before
        return


def take_letters_behind(items: Sequence[Item], questions: Sequence[str]) -> list[str]:
    """Questions without the letters in brackets after them, which are their answers.

    Unless every question has one, the letters stay and are not used, as a single one may be part
    of its question.

    Args:
        items: the questions' items, to which the letters are added.
        questions: their text, as printed.
    """
    found = [_BEHIND.search(question) for question in questions]
    if any(match is None for match in found) or any(item.answer for item in items):
        return list(questions)
    bare = []
    for item, question, match in zip(items, questions, found, strict=True):
        assert match is not None
        item.answer = match[1]
        bare.append(question[: match.start()])
    return bare


def collect_marks(papers: Sequence[Paper], items: Sequence[Item]) -> None:
    """Copy the answers marked at lists of options to the papers made from them."""
    ticked, doubtful = _ticked(items)
    for paper in papers:
        numbered = [
            (item.number, item)
            for item in items
            if item.number is not None and item.number in paper.numbers
        ]
        for name, of in (
            (BRACKETS, {id(item): item.answer for item in items}),
            (BELOW, {id(item): item.below for item in items}),
            (TICKS, ticked),
        ):
            found = [
                key.KeyEntry(number, letter_, item.place)
                for number, item in numbered
                for letter_ in of[id(item)]
            ]
            if found:
                paper.marked[name] = found
        unsure = [number for number, item in numbered if doubtful and _doubtful(item)]
        if unsure:
            paper.notes.append(
                f"the ticks at {spans(unsure)} may belong to the option before or after them"
            )


def _ticked(items: Sequence[Item]) -> tuple[dict[int, str], bool]:
    """The letters ticked in each item, by its identity, and whether they are uncertain.

    A tick as near to the option before it as to the one after it is read like the others.
    """
    behind = any(set(item.ticks) - set(_before(_doubtful(item))) for item in items)
    before = any(item.ticks_before for item in items)
    ticked = {}
    for item in items:
        letters = set(item.ticks) | set(item.ticks_before)
        if not behind or before:
            letters |= set(_doubtful(item))
        if before and not behind:
            letters -= set(_before(_doubtful(item)))
        ticked[id(item)] = "".join(sorted(letters))
    return ticked, behind == before


def _doubtful(item: Item) -> str:
    """The letters whose tick may belong to the option before.

    If that option consists only of the sign, it is not a tick.
    """
    return "".join(x for x in item.ticks_doubtful if _before(x) in item.ticks)


def _before(letters: str) -> str:
    """Each letter's predecessor: A for B."""
    return "".join(chr(ord(letter_) - 1) for letter_ in letters)


def use_marks(papers: Sequence[Paper]) -> None:
    """Use the marks of a paper as its key if each number has one; another key must agree.

    To be called after the papers have received the answers of their keys.
    """
    for paper in papers:
        for name, found in paper.marked.items():
            numbers = [answer.number for answer in found]
            single = [answer for answer in found if numbers.count(answer.number) == 1]
            if paper.answers is not None:
                others = [(answer.number, answer.letter, answer.place) for answer in single]
                must_agree(paper, others, f"by the {name}", "in the key")
            elif len(single) == len(paper.numbers) and len(found) == len(single):
                give(paper, single)
                paper.notes.append(f"its answers were taken from the {name}")
            else:
                lacking = sorted(set(paper.numbers) - {answer.number for answer in single})
                paper.notes.append(
                    f"the {name} were not read as answers: not exactly one at "
                    f"{spans(lacking)}; mark one answer for every number, or give a key"
                )
