"""Passages and questions whose answers stand in them, as windows of ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from albert_rc.errors import UsageError
from albert_rc.papers.schema import Passage
from albert_rc.stores.encode import check_max_length
from albert_rc.text.tokenizer import Tokenizer

STRIDE = 128
"""Tokens from one window's beginning to the next one's, as BERT and ALBERT were tested."""
LONGEST_QUESTION = 64
"""Tokens; what is longer is cut, likewise."""


@dataclass
class EncodedSpans:
    """Flat lists; the store turns them into tensors."""

    passage_tokens: list[list[int]] = field(default_factory=list)
    begins: list[list[int]] = field(default_factory=list)
    """Per token of a passage, the first of its characters there,"""
    ends: list[list[int]] = field(default_factory=list)
    """and the one after the last."""
    questions: list[list[int]] = field(default_factory=list)
    """Pieces of each question, in the passages' order."""
    windows: list[list[tuple[int, int]]] = field(default_factory=list)
    """Per question: first token and number of tokens of the passage in each window."""
    answers: list[int] = field(default_factory=list)
    """1 where there is one, 0 where there is none, -1 where that is not known."""
    golds: list[list[tuple[int, int]]] = field(default_factory=list)
    """Per question, where right answers stand: characters."""
    targets: list[tuple[int, int]] = field(default_factory=list)
    """Per question, first and last token of the first of them; -1 without one."""


def encode_spans(
    passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int
) -> EncodedSpans:
    """Encode passages once, and say which part of them each window of a question holds.

    A window is `[CLS] question [SEP] part of the passage [SEP]`. Windows begin `STRIDE` tokens
    one after the other, or half a window where that is less.

    Raises:
        UsageError: the window has no room for a question and a passage.
    """
    check_max_length(max_length)
    out = EncodedSpans()
    asked = tokenizer.encode([q.text for passage in passages for q in passage.questions])
    specials = 2 + tokenizer.separators_in_pair
    longest = min(LONGEST_QUESTION, (max_length - specials) // 2)
    if longest < 1:
        raise UsageError(f"--max-length {max_length}: no room for a question and a passage")
    rest = iter(asked)
    encoded = tokenizer.encode_with_offsets([passage.text for passage in passages])
    for passage, (ids, places) in zip(passages, encoded, strict=True):
        begins, ends = [begin for begin, _ in places], [end for _, end in places]
        out.passage_tokens.append(ids)
        out.begins.append(begins)
        out.ends.append(ends)
        for question in passage.questions:
            pieces = next(rest)[:longest]
            room = max_length - specials - len(pieces)
            out.questions.append(pieces)
            out.windows.append(_windows(len(ids), room))
            out.answers.append(-1 if question.answer is None else question.answer)
            out.golds.append(list(question.spans))
            target = (-1, -1)
            if question.spans:
                target = _tokens(question.spans[0], begins, ends)
            out.targets.append(target)
    return out


def _windows(length: int, room: int) -> list[tuple[int, int]]:
    step = max(1, min(STRIDE, room // 2))
    found = []
    for start in range(0, max(1, length), step):
        found.append((start, min(room, length - start)))
        if start + room >= length:
            break
    return found


def _tokens(span: tuple[int, int], begins: list[int], ends: list[int]) -> tuple[int, int]:
    """First and last token that have characters of the span; -1 where none has."""
    first, last = bisect_right(ends, span[0]), bisect_left(begins, span[1]) - 1
    return (first, last) if first <= last else (-1, -1)
