"""Packing of encoded papers into a store's columns, a chunk at a time.

The columns are flat arrays, with counts instead of the store's offsets, so that papers can be
dropped and reordered afterwards (`writer`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from albert_rc.papers.schema import Kind, Passage
from albert_rc.stores.encode import encode_choice, encode_cloze, encode_labels
from albert_rc.stores.encode_spans import encode_spans
from albert_rc.text.tokenizer import Tokenizer

TYPECODES = {"uint8": "B", "int16": "h", "int32": "i"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """One tensor of a store: its type, and how its length follows from the papers."""

    per: str
    """Unit that it has one value for: a name of `MEASURES`."""
    dtype: str = "int32"
    """uint8, int16, int32, or `id`: int16 or int32, by the size of the vocabulary."""
    counts: str = ""
    """For offsets: the unit whose counts are summed."""
    owner: bool = False
    """Whether the values are the paper's index."""


# Units counted in each paper, besides the papers.
MEASURES: dict[Kind, tuple[str, ...]] = {
    "cloze": ("window", "token", "question", "option", "piece", "long"),
    "choice": ("paper", "token", "question", "option", "piece", "kept", "cut", "token_cut"),
    "label": ("token", "question", "kept", "cut", "token_cut"),
    "span": (
        *("paper", "token", "byte", "question", "key_byte", "piece", "window", "gold"),
        *("long", "question_cut"),
    ),
}
_QUESTIONS = {
    "answer": Column(per="question", dtype="int16"),
    "piece": Column(per="piece", dtype="id"),
    "piece_offset": Column(per="option", counts="piece"),
    "option_offset": Column(per="question", counts="option"),
}
COLUMNS: dict[Kind, dict[str, Column]] = {
    "cloze": {
        "token": Column(per="token", dtype="id"),
        "token_offset": Column(per="window", counts="token"),
        "window_passage": Column(per="window", owner=True),
        "blank_position": Column(per="question"),
        "blank_offset": Column(per="window", counts="question"),
        **_QUESTIONS,
    },
    "choice": {
        "token": Column(per="token", dtype="id"),
        "token_offset": Column(per="paper", counts="token"),
        "question_passage": Column(per="question", owner=True),
        "start": Column(per="question"),
        "kept": Column(per="question"),
        **_QUESTIONS,
    },
    "label": {
        "token": Column(per="token", dtype="id"),
        "token_offset": Column(per="question", counts="token"),
        "second": Column(per="question", dtype="int16"),
        "answer": Column(per="question", dtype="int16"),
    },
    "span": {
        "token": Column(per="token", dtype="id"),
        "begin": Column(per="token"),
        "end": Column(per="token"),
        "token_offset": Column(per="paper", counts="token"),
        "text": Column(per="byte", dtype="uint8"),
        "text_offset": Column(per="paper", counts="byte"),
        "question_passage": Column(per="question", owner=True),
        "key": Column(per="key_byte", dtype="uint8"),
        "key_offset": Column(per="question", counts="key_byte"),
        "piece": Column(per="piece", dtype="id"),
        "piece_offset": Column(per="question", counts="piece"),
        "window_start": Column(per="window"),
        "window_length": Column(per="window"),
        "window_offset": Column(per="question", counts="window"),
        "gold_begin": Column(per="gold"),
        "gold_end": Column(per="gold"),
        "gold_offset": Column(per="question", counts="gold"),
        "first": Column(per="question"),
        "last": Column(per="question"),
        "answer": Column(per="question", dtype="int16"),
    },
}


def dtype_of(column: Column, vocab_size: int) -> str:
    """int16 or int32."""
    if column.dtype != "id":
        return column.dtype
    return "int16" if vocab_size <= 2**15 else "int32"


@dataclass(frozen=True, slots=True)
class Packed:
    """Some papers of one kind, encoded."""

    measures: array[int]
    """One row per paper: its number of each unit of `MEASURES`."""
    columns: dict[str, array[int]]
    """Values of each stored column; counts if the store has offsets."""

    def extend(self, other: Packed) -> None:
        """Append other papers."""
        self.measures.extend(other.measures)
        for name, values in other.columns.items():
            self.columns[name].extend(values)


def pack(kind: Kind, passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int) -> Packed:
    """Encode papers into columns.

    Raises:
        DataError: a multiple-choice question alone exceeds the window.
    """
    rows, values = ENCODERS[kind](passages, tokenizer, max_length)
    columns = {
        name: array(TYPECODES[dtype_of(COLUMNS[kind][name], tokenizer.size)], content)
        for name, content in values.items()
    }
    return Packed(array("i", chain.from_iterable(rows)), columns)


Rows = tuple[Iterable[Sequence[int]], dict[str, Iterable[int]]]
"""Measures of each paper, and the columns' values."""


def _encoded_cloze(passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int) -> Rows:
    encoded = encode_cloze(passages, tokenizer, max_length)
    windows, tokens = [0] * len(passages), [0] * len(passages)
    for number, window in zip(encoded.window_passage, encoded.window_tokens, strict=True):
        windows[number] += 1
        tokens[number] += len(window)
    rows = (
        (windows[i], tokens[i], *counts, encoded.long[i])
        for i, counts in enumerate(_question_measures(passages, encoded.option_pieces))
    )
    return rows, {
        "token": chain.from_iterable(encoded.window_tokens),
        "token_offset": map(len, encoded.window_tokens),
        "blank_position": chain.from_iterable(encoded.window_blanks),
        "blank_offset": map(len, encoded.window_blanks),
        **_question_columns(encoded.answers, encoded.option_pieces),
    }


def _encoded_choice(passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int) -> Rows:
    encoded = encode_choice(passages, tokenizer, max_length)
    sums = [[0, 0, 0] for _ in passages]
    for number, kept in zip(encoded.question_passage, encoded.question_kept, strict=True):
        cut = len(encoded.passage_tokens[number]) - kept
        for i, value in enumerate((kept, cut > 0, cut)):
            sums[number][i] += value
    rows = (
        (1, len(encoded.passage_tokens[i]), *counts, *sums[i])
        for i, counts in enumerate(_question_measures(passages, encoded.tails))
    )
    return rows, {
        "token": chain.from_iterable(encoded.passage_tokens),
        "token_offset": map(len, encoded.passage_tokens),
        "start": encoded.question_start,
        "kept": encoded.question_kept,
        **_question_columns(encoded.answers, encoded.tails),
    }


def _encoded_labels(passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int) -> Rows:
    # Positions in a row have 16 bits.
    encoded = encode_labels(passages, tokenizer, min(max_length, 2**15 - 1))
    # Each line of a table is a paper with one question.
    rows = (
        (len(tokens), 1, len(tokens), cut > 0, cut)
        for tokens, cut in zip(encoded.tokens, encoded.cut, strict=True)
    )
    return rows, {
        "token": chain.from_iterable(encoded.tokens),
        "token_offset": map(len, encoded.tokens),
        "second": encoded.seconds,
        "answer": encoded.answers,
    }


def _encoded_spans(passages: Sequence[Passage], tokenizer: Tokenizer, max_length: int) -> Rows:
    encoded = encode_spans(passages, tokenizer, max_length)
    texts = [passage.text.encode() for passage in passages]
    keys = [question.id.encode() for passage in passages for question in passage.questions]
    measures = []
    start = 0
    for number, passage in enumerate(passages):
        own = slice(start, start + len(passage.questions))
        start = own.stop
        parts = (keys, encoded.questions, encoded.windows, encoded.golds)
        counts = [sum(map(len, part[own])) for part in parts]
        several = sum(len(windows) > 1 for windows in encoded.windows[own])
        tokens = len(encoded.passage_tokens[number])
        own_measures = (1, tokens, len(texts[number]), len(passage.questions), *counts)
        measures.append((*own_measures, several, sum(encoded.question_cut[own])))
    windows = list(chain.from_iterable(encoded.windows))
    golds = list(chain.from_iterable(encoded.golds))
    return measures, {
        "token": chain.from_iterable(encoded.passage_tokens),
        "begin": chain.from_iterable(encoded.begins),
        "end": chain.from_iterable(encoded.ends),
        "token_offset": map(len, encoded.passage_tokens),
        "text": chain.from_iterable(texts),
        "text_offset": map(len, texts),
        "key": chain.from_iterable(keys),
        "key_offset": map(len, keys),
        "piece": chain.from_iterable(encoded.questions),
        "piece_offset": map(len, encoded.questions),
        "window_start": (first for first, _ in windows),
        "window_length": (length for _, length in windows),
        "window_offset": map(len, encoded.windows),
        "gold_begin": (begin for begin, _ in golds),
        "gold_end": (end for _, end in golds),
        "gold_offset": map(len, encoded.golds),
        "first": (first for first, _ in encoded.targets),
        "last": (last for _, last in encoded.targets),
        "answer": encoded.answers,
    }


ENCODERS: dict[Kind, Callable[[Sequence[Passage], Tokenizer, int], Rows]] = {
    "cloze": _encoded_cloze,
    "choice": _encoded_choice,
    "label": _encoded_labels,
    "span": _encoded_spans,
}


def _question_measures(
    passages: Sequence[Passage], options: Sequence[Sequence[Sequence[int]]]
) -> Iterator[tuple[int, int, int]]:
    """For each passage: number of questions, of their options, and of the options' pieces."""
    rest = iter(options)
    for passage in passages:
        own = list(islice(rest, len(passage.questions)))
        pieces = sum(len(option) for question in own for option in question)
        yield len(own), sum(map(len, own)), pieces


def _question_columns(
    answers: Iterable[int], options: Sequence[Sequence[Sequence[int]]]
) -> dict[str, Iterable[int]]:
    flat = list(chain.from_iterable(options))
    return {
        "answer": answers,
        "piece": chain.from_iterable(flat),
        "piece_offset": map(len, flat),
        "option_offset": map(len, options),
    }
