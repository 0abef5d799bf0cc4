"""The checks of `doctor`: problems, lengths, options, answers and overlap of papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from albert_rc.papers.overlap import Overlap, OverlapIndex
from albert_rc.papers.schema import Kind, PaperSet, Passage, Question, letter
from albert_rc.stores.encode import (
    SHORTEST,
    UnfitError,
    encode_choice,
    encode_cloze,
    encode_labels,
    question_with_option,
)
from albert_rc.stores.encode_spans import encode_spans
from albert_rc.text.tokenizer import Tokenizer

NO_WINDOW = 10**6  # in tokens; longer than any text
PERCENTILES = (0, 50, 90, 99, 100)
CHARACTER_TOKENS = 4
"""Number of tokens that a character may become, such as a fraction written out."""


@dataclass(frozen=True)
class TokenCheck:
    """Statistics that need a vocabulary."""

    percentiles: dict[str, int]
    """Percentiles of a sequence's (passage's or pair's) length in tokens, with special tokens."""
    longer_than_window: list[str]
    """Papers with a sequence longer than the window, longest first, `id (tokens)`."""
    questions_cut: int
    """Questions of SQuAD that are longer than `LONGEST_QUESTION` and lose their end."""
    options_of_several_pieces: int
    unspellable: list[str]
    """Options with characters missing from the vocabulary."""


@dataclass(frozen=True)
class Scores:
    """Statistics of numeric right answers."""

    least: float
    mean: float
    most: float
    known: int
    """Number of rows that have one."""


@dataclass(frozen=True)
class SplitCheck:
    """Statistics of one split."""

    name: str
    format: str
    papers: int
    rejected: int
    questions: int
    options: int
    errors: list[str]
    warnings: list[str]
    options_per_question: dict[str, int]
    answers: dict[str, int]
    """How often each letter or label is the right answer; for SQuAD, `answerable` and `no answer`;
    `none` for questions without a given answer."""
    scores: Scores | None
    """Statistics of the scores of a regression task (STS-B), if some are known."""
    options_of_several_words: int
    overlaps: dict[str, list[Overlap]]
    """The passages that also occur in each reference split (or twice in this one)."""
    tokens: TokenCheck | None

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
        return asdict(self)


def check_split(
    papers: PaperSet,
    indexes: dict[str, OverlapIndex],
    tokenizer: Tokenizer | None,
    max_length: int,
) -> SplitCheck:
    """Check one split.

    Args:
        papers: as read, problems included.
        indexes: 5-grams of the splits to compare with, this one included.
        tokenizer: the model's; without it there are no token statistics.
        max_length: the model's window.
    """
    questions = [q for p in papers.passages for q in p.questions]
    answers = Counter(_answer_name(papers, q) for q in questions)
    # Labels are the same for all rows, and spans are not options: nothing to count.
    asked = questions if papers.kind in ("cloze", "choice") else []
    sizes = Counter(str(len(q.options)) for q in asked)
    values = [q.value for q in questions if q.value is not None]
    scores = Scores(min(values), fmean(values), max(values), len(values)) if values else None
    overlaps = {
        name: list(index.all(papers.passages, within=name == papers.name).values())
        for name, index in indexes.items()
    }
    unfit = [] if tokenizer is None else _unfit(papers, tokenizer, max_length)
    return SplitCheck(
        name=papers.name,
        format=papers.format,
        papers=len(papers.passages) - len(unfit),
        rejected=papers.num_rejected + len(unfit),
        questions=len(questions),
        options=sum(len(q.options) for q in asked),
        errors=[str(p) for p in papers.problems if p.severity == "error"] + unfit,
        warnings=[str(p) for p in papers.problems if p.severity == "warning"],
        options_per_question=dict(sorted(sizes.items(), key=lambda item: int(item[0]))),
        answers=dict(sorted(answers.items())),
        scores=scores,
        options_of_several_words=sum(" " in option for q in asked for option in q.options),
        overlaps={name: found for name, found in overlaps.items() if found},
        tokens=None if tokenizer is None else _check_tokens(papers, tokenizer, max_length),
    )


def _answer_name(papers: PaperSet, question: Question) -> str:
    """The name of a question's right answer."""
    if question.answer is None:
        return "none" if question.value is None else "a score"
    if papers.kind == "span":
        return "answerable" if question.answer else "no answer"
    return papers.labels[question.answer] if papers.labels else letter(question.answer)


class Lengths(NamedTuple):
    """What encoding without a window tells about a split."""

    tokens: list[int]
    """Of each sequence."""
    papers: Sequence[int]
    """The paper that each belongs to."""
    options: Sequence[list[list[int]]] = ()
    """The pieces of the options of each question."""
    questions_cut: int = 0


def _cloze_lengths(passages: Sequence[Passage], tokenizer: Tokenizer) -> Lengths:
    cloze = encode_cloze(passages, tokenizer, NO_WINDOW)
    tokens = [len(ids) for ids in cloze.window_tokens]
    return Lengths(tokens, cloze.window_passage, cloze.option_pieces)


def _choice_lengths(passages: Sequence[Passage], tokenizer: Tokenizer) -> Lengths:
    choice = encode_choice(passages, tokenizer, NO_WINDOW)
    specials = 2 + tokenizer.separators_in_pair
    lengths = [
        kept + specials + max(map(len, tails))
        for kept, tails in zip(choice.question_kept, choice.tails, strict=True)
    ]
    # Tails include the question; only options alone are counted in pieces.
    return Lengths(lengths, choice.question_passage)


def _label_lengths(passages: Sequence[Passage], tokenizer: Tokenizer) -> Lengths:
    rows = encode_labels(passages, tokenizer, NO_WINDOW).tokens
    return Lengths([len(ids) for ids in rows], range(len(rows)))


def _span_lengths(passages: Sequence[Passage], tokenizer: Tokenizer) -> Lengths:
    encoded = encode_spans(passages, tokenizer, NO_WINDOW)
    owners = [number for number, p in enumerate(passages) for _ in p.questions]
    specials = 2 + tokenizer.separators_in_pair
    lengths = [
        len(encoded.passage_tokens[number]) + len(pieces) + specials
        for number, pieces in zip(owners, encoded.questions, strict=True)
    ]
    return Lengths(lengths, owners, questions_cut=sum(encoded.question_cut))


LENGTHS_OF: dict[Kind, Callable[[Sequence[Passage], Tokenizer], Lengths]] = {
    "cloze": _cloze_lengths,
    "choice": _choice_lengths,
    "label": _label_lengths,
    "span": _span_lengths,
}


def _check_tokens(papers: PaperSet, tokenizer: Tokenizer, max_length: int) -> TokenCheck:
    lengths, owners, options, cut = LENGTHS_OF[papers.kind](papers.passages, tokenizer)
    longest: dict[int, int] = {}
    for number, length in zip(owners, lengths, strict=True):
        longest[number] = max(length, longest.get(number, 0))
    values = np.percentile(lengths, PERCENTILES) if lengths else [0] * len(PERCENTILES)
    too_long = sorted(
        ((length, number) for number, length in longest.items() if length > max_length),
        reverse=True,
    )
    distinct = list(
        dict.fromkeys(o for p in papers.passages for q in p.questions for o in q.options)
    )
    spelled = tokenizer.encode(distinct)
    return TokenCheck(
        percentiles={f"{p}%": int(v) for p, v in zip(PERCENTILES, values, strict=True)},
        longer_than_window=[f"{papers.passages[n].id} ({length})" for length, n in too_long],
        questions_cut=cut,
        options_of_several_pieces=sum(len(o) > 1 for question in options for o in question),
        unspellable=[
            text
            for text, ids in zip(distinct, spelled, strict=True)
            if text and tokenizer.unk_id in ids
        ],
    )


def _unfit(papers: PaperSet, tokenizer: Tokenizer, max_length: int) -> list[str]:
    """A message for each paper that `preprocess` refuses because of a question's length."""
    found = []
    for passage in papers.passages if papers.kind == "choice" else ():
        texts = (question_with_option(q.text, o) for q in passage.questions for o in q.options)
        # What surely fits, as nearly everything does, is not encoded again.
        if max(map(len, texts), default=0) * CHARACTER_TOKENS + SHORTEST < max_length:
            continue
        try:
            encode_choice([passage], tokenizer, max_length)
        except UnfitError as error:
            found.append(str(error))
    return found


def check_collection(
    splits: Sequence[PaperSet], tokenizer: Tokenizer | None, max_length: int
) -> list[SplitCheck]:
    """Check every split, also for overlap with the training split and itself."""
    indexes = {split.name: OverlapIndex(split.passages) for split in splits}
    checks = []
    for split in splits:
        names = dict.fromkeys(("train", split.name))
        others = {name: indexes[name] for name in names if name in indexes}
        checks.append(check_split(split, others, tokenizer, max_length))
    return checks
