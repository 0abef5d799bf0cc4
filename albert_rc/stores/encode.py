"""Encoding of passages: blanks as [MASK], long passages as windows, pairs with whole options."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import shortened
from albert_rc.papers.schema import Passage
from albert_rc.stores.excerpt import excerpt_start
from albert_rc.text.tokenizer import Tokenizer

# Text that belongs to the word before it, although papers have a space after a blank: closing
# punctuation, a straight closing quote, the end of a contraction or a compound.
_GLUED = re.compile(
    r"""\s*(?:
        [,.!?;:%)\]}”’…]                      # closing punctuation
      | ["'](?=\s*(?:[,.!?;:)\]}]|$)|\s+\S)   # a straight quote before space or punctuation
      | '(?:s|t|d|m|re|ve|ll)\b               # he 's
      | -(?=\w)                               # ten -year-old
    )""",
    re.VERBOSE | re.IGNORECASE,
)


SHORTEST = 8
"""Minimum length of a window, in tokens."""
_GAP = re.compile(r"(?<!\w)_+(?!_)|(?<!_)_+(?!\w)|(?<!_)__+(?!_)")
"""Pattern of a blank in a question: underscores, unless it is a single one inside a word."""


@dataclass
class EncodedCloze:
    """Cloze papers as windows of ids. Flat lists; the store turns them into tensors."""

    window_tokens: list[list[int]] = field(default_factory=list)
    """[CLS] ... [SEP] of each window."""
    window_passage: list[int] = field(default_factory=list)
    window_blanks: list[list[int]] = field(default_factory=list)
    """Positions, in each window, of the blanks that are scored there."""
    option_pieces: list[list[list[int]]] = field(default_factory=list)
    """Pieces of each option of each blank, in the passages' order."""
    answers: list[int] = field(default_factory=list)
    long: list[bool] = field(default_factory=list)
    """Whether each passage needed more than one window."""


@dataclass
class EncodedChoice:
    """Multiple choice: each passage once, and per option the tail `question option`."""

    passage_tokens: list[list[int]] = field(default_factory=list)
    question_passage: list[int] = field(default_factory=list)
    question_start: list[int] = field(default_factory=list)
    """First passage token that is read with each question."""
    question_kept: list[int] = field(default_factory=list)
    """Number of passage tokens that are read with each question, for all its options."""
    tails: list[list[list[int]]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


def split_at_blanks(passage: Passage) -> list[tuple[str, bool]]:
    """The text segments between blanks, each with whether it is attached to the blank before it."""
    head, *rest = passage.segments()
    parts = [(head, False)]
    for segment in rest:
        # Without white space the text is attached anyway: `fixed._ some` is the opposite case.
        glued = bool(_GLUED.match(segment)) or bool(segment[:1].strip())
        parts.append((segment.lstrip() if glued else segment, glued))
    return parts


def encode_segments(parts: Sequence[tuple[str, bool]], tokenizer: Tokenizer) -> list[list[int]]:
    """Ids of text segments, some of which continue a word; two batched calls for all of them."""
    plain = iter(tokenizer.encode([text for text, glued in parts if not glued]))
    tails = iter(tokenizer.encode([text for text, glued in parts if glued], glued=True))
    return [next(tails) if glued else next(plain) for _, glued in parts]


def windows(length: int, budget: int, overlap: float = 0.5) -> list[int]:
    """Starts of evenly spaced windows of `budget` tokens that cover `length` tokens.

    Args:
        length: tokens of the passage.
        budget: tokens of a window.
        overlap: minimum share of a window that overlaps with the next.
    """
    if length <= budget:
        return [0]
    step = max(1, int(budget * (1 - overlap)))
    count = -(-(length - budget) // step) + 1
    return [round(i * (length - budget) / (count - 1)) for i in range(count)]


def most_central(position: int, starts: Sequence[int], budget: int) -> int:
    """The window whose middle is nearest to a position, for most context on both sides.

    Of two equally near ones, the first.
    """
    # A book has many blanks and thousands of windows, but only two can be nearest to a blank.
    after = bisect_left(starts, position - (budget - 1) / 2)
    near = range(max(0, after - 1), min(after + 1, len(starts)))
    return min(near, key=lambda i: abs(position - (starts[i] + (budget - 1) / 2)))


def _unique_pieces(texts: Iterable[str], tokenizer: Tokenizer) -> dict[str, list[int]]:
    # Options repeat ("to", "with"): each is tokenised once.
    distinct = list(dict.fromkeys(texts))
    encoded = tokenizer.encode(distinct)
    return {text: ids or [tokenizer.unk_id] for text, ids in zip(distinct, encoded, strict=True)}


def encode_cloze(
    passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int
) -> EncodedCloze:
    """Encode cloze papers into windows of at most `max_length` ids.

    Every blank is one [MASK]. A passage longer than the window becomes overlapping windows, and
    each blank belongs to the window in which it is most central; windows that own no blank are
    dropped.
    """
    check_max_length(max_length)
    out = EncodedCloze()
    budget = max_length - 2  # [CLS] and [SEP]
    parts = [split_at_blanks(passage) for passage in passages]
    segments = iter(encode_segments(list(chain.from_iterable(parts)), tokenizer))
    pieces = _unique_pieces(
        (option for p in passages for q in p.questions for option in q.options), tokenizer
    )
    for number, (passage, passage_parts) in enumerate(zip(passages, parts, strict=True)):
        ids = list(next(segments))
        blanks = []
        for _ in passage_parts[1:]:
            blanks.append(len(ids))
            ids.append(tokenizer.mask_id)
            ids += next(segments)
        starts = windows(len(ids), budget)
        out.long.append(len(starts) > 1)
        members: dict[int, list[int]] = {}
        for position in blanks:
            members.setdefault(most_central(position, starts, budget), []).append(position)
        for index, positions in members.items():
            start = starts[index]
            body = ids[start : start + budget]
            out.window_tokens.append([tokenizer.cls_id, *body, tokenizer.sep_id])
            out.window_passage.append(number)
            # Positions shift by one for [CLS].
            out.window_blanks.append([position - start + 1 for position in positions])
        for question in passage.questions:
            out.option_pieces.append([pieces[option] for option in question.options])
            out.answers.append(-1 if question.answer is None else question.answer)
    return out


class UnfitError(DataError):
    """A paper has a question that does not fit into the window.

    Args:
        paper: its id.
        fault: what is wrong.
    """

    def __init__(self, paper: str, fault: str) -> None:
        self.passage_id = paper
        self.fault = fault
        self.said = f"{fault}; shorten it, or raise --max-length as far as the model allows"
        super().__init__(f"{shortened(paper)}: {self.said}")


def question_with_option(question: str, option: str) -> str:
    """The second part of a pair: the option in the question's `_`, or after the question.

    A single underscore inside a word, as in an e-mail address, is not a blank, and a blank attached
    to a word is separated from it. If an option has as many parts (`lost; went`) as the question
    has blanks, each blank gets one of them.
    """
    blanks = len(_GAP.findall(question))
    if not blanks:
        return f"{question} {option}"
    parts = next((p for sign in ";," if len(p := option.split(sign)) == blanks), None)
    fillings = iter(part.strip() for part in parts) if parts and blanks > 1 else repeat(option)

    def fill(gap: re.Match[str]) -> str:
        before, after = question[: gap.start()][-1:], question[gap.end() :][:1]
        return f"{' ' * before.isalnum()}{next(fillings)}{' ' * after.isalnum()}"

    return _GAP.sub(fill, question)


def encode_choice(
    passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int
) -> EncodedChoice:
    """Encode multiple choice as `[CLS] passage [SEP] question option [SEP]`, one per option.

    Question and option are never truncated. Of a passage that does not fit with the longest
    option, the excerpt that shares most with the question and its options is read, the same for all
    options of the question.

    Raises:
        UnfitError: a question with its option alone exceeds the window.
    """
    check_max_length(max_length)
    out = EncodedChoice()
    specials = 2 + tokenizer.separators_in_pair
    out.passage_tokens = tokenizer.encode([passage.text for passage in passages])
    tails = iter(
        tokenizer.encode(
            [
                question_with_option(question.text, option)
                for passage in passages
                for question in passage.questions
                for option in question.options
            ]
        )
    )
    for number, passage in enumerate(passages):
        tokens = out.passage_tokens[number]
        for place, question in enumerate(passage.questions, 1):
            question_tails = [next(tails) or [tokenizer.unk_id] for _ in question.options]
            room = max_length - specials - max(map(len, question_tails))
            if room < 0:
                raise UnfitError(
                    passage.id,
                    f"question {place} with its longest option has {max_length - room} tokens, and "
                    f"a window {max_length}",
                )
            out.question_passage.append(number)
            out.question_start.append(excerpt_start(tokens, question_tails, room, tokenizer))
            out.question_kept.append(min(room, len(tokens)))
            out.tails.append(question_tails)
            out.answers.append(-1 if question.answer is None else question.answer)
    return out


def check_max_length(max_length: int) -> None:
    """Refuse a window with no room for text.

    Raises:
        UsageError: fewer than `SHORTEST` tokens.
    """
    if max_length < SHORTEST:
        raise UsageError(f"--max-length {max_length}: at least {SHORTEST} tokens are needed")


@dataclass
class EncodedLabels:
    """One or two sentences per row, for classification or regression."""

    tokens: list[list[int]] = field(default_factory=list)
    """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""
    seconds: list[int] = field(default_factory=list)
    """Start of the second sentence; the length if there is none."""
    cut: list[int] = field(default_factory=list)
    """Number of truncated tokens."""
    answers: list[int] = field(default_factory=list)
    """Index of the label, or the number in steps of 1 / `VALUE_STEPS`; -1 if unknown."""


VALUE_STEPS = 1000  # STS-B's scores have three decimals


def encode_labels(
    passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int
) -> EncodedLabels:
    """Encode sentences and pairs of them, truncating the longer one at its end."""
    check_max_length(max_length)
    out = EncodedLabels()
    questions = [question for passage in passages for question in passage.questions]
    firsts = tokenizer.encode([passage.text for passage in passages for _ in passage.questions])
    seconds = tokenizer.encode([question.text for question in questions])
    between = [tokenizer.sep_id] * tokenizer.separators_in_pair
    for question, first, second in zip(questions, firsts, seconds, strict=True):
        room = max_length - 2 - (len(between) if question.text else 0)
        kept = _longest_first(len(first), len(second), room)
        row = [tokenizer.cls_id, *first[: kept[0]]]
        if question.text:
            row += between
        out.seconds.append(len(row) if question.text else len(row) + 1)
        row += [*second[: kept[1]], tokenizer.sep_id]
        out.tokens.append(row)
        out.cut.append(len(first) + len(second) - sum(kept))
        answer = -1 if question.answer is None else question.answer
        if question.value is not None:
            answer = round(VALUE_STEPS * question.value)
        out.answers.append(answer)
    return out


def _longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths kept of two sentences, truncating the longer one first (as BERT does)."""
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        return first, room - first
    if second <= half:
        return room - second, second
    return room - half, half
