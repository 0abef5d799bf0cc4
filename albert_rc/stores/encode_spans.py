"""Encoding of span tasks: passages and questions as windows of ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from albert_rc.errors import UsageError
from albert_rc.papers.schema import Passage
from albert_rc.stores.encode import check_max_length
from albert_rc.text.tokenizer import Tokenizer

STRIDE = 128
"""Tokens between the starts of windows, as in BERT's and ALBERT's evaluation."""
LONGEST_QUESTION = 64
"""Maximum length of a question in tokens, as in the same evaluation; longer ones are truncated."""


@dataclass
class EncodedSpans:
    """Encoded passages, questions and windows as flat lists, which the store turns into tensors."""

    passage_tokens: list[list[int]] = field(default_factory=list)
    begins: list[list[int]] = field(default_factory=list)
    """Index of the first character of each token of a passage."""
    ends: list[list[int]] = field(default_factory=list)
    """Index after the last character of each token of a passage."""
    questions: list[list[int]] = field(default_factory=list)
    """Pieces of each question, in the passages' order."""
    question_cut: list[bool] = field(default_factory=list)
    """Whether the end of the question is missing, since it is too long."""
    windows: list[list[tuple[int, int]]] = field(default_factory=list)
    """First token and number of passage tokens of each window, per question."""
    answers: list[int] = field(default_factory=list)
    """1 for questions with an answer, 0 without, -1 if unknown."""
    golds: list[list[tuple[int, int]]] = field(default_factory=list)
    """Character spans of each question's right answers."""
    targets: list[tuple[int, int]] = field(default_factory=list)
    """First and last token of each question's first right answer; -1 without one."""


def encode_spans(
    passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int
) -> EncodedSpans:
    """Encode passages once, with the part of them in each window of a question.

    A window is `[CLS] question [SEP] part of the passage [SEP]`. Windows start `STRIDE` tokens
    apart, or half a window if that is less.

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
            whole = next(rest)
            pieces = whole[:longest]
            room = max_length - specials - len(pieces)
            out.questions.append(pieces)
            out.question_cut.append(len(whole) > longest)
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
    """First and last token with characters of the span; -1 if there is none."""
    first, last = bisect_right(ends, span[0]), bisect_left(begins, span[1]) - 1
    return (first, last) if first <= last else (-1, -1)
