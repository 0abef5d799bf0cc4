"""Batch: the contract between data and model. Named tensors, nothing else.

Sequences stand one after the other, without padding: a token is computed if it is there.

Axes: T tokens of all sequences in a row, S tokens that the head reads, Q questions (blanks),
K options of the question that has most, O options of all questions in a row, P pieces of all
options in a row, M masked positions, B sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What the encoder reads."""

    token_T: Tensor
    place_T: Tensor
    """Place of each token in its sequence, from 0."""
    lengths: tuple[int, ...]
    """Tokens of each sequence. Plain numbers, so that the device is never asked."""
    read_S: Tensor
    """Tokens (indices into T) whose hidden states the head needs, in order."""
    reads: tuple[int, ...]
    """How many of them each sequence has."""
    segment_T: Tensor | None = None
    """0 or 1 for the first and second part of a pair; None for all 0."""

    def to(self, device: torch.device) -> Self:
        """The same on `device`, copied without waiting where the memory is pinned."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """The same in memory that a GPU copies from without waiting."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed: dict[str, Any] = {
            field.name: change(value)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
        }
        return replace(self, **changed)


@dataclass(frozen=True, kw_only=True)
class PretrainBatch(Tokens):
    """Sequences with words hidden, and with two segments whose order is asked for."""

    masked_index_M: Tensor
    """Index into S of the tokens to predict."""
    masked_token_M: Tensor
    cls_index_B: Tensor
    """Index into S of each sequence's [CLS]."""
    pair_B: Tensor
    """0 where the second segment follows the first, 1 where it does not, -1 where not asked."""


@dataclass(frozen=True, kw_only=True)
class SpanBatch(Tokens):
    """Windows with a question each. What is read of a window: [CLS], then its passage."""

    window_B: Tensor
    """Index of each window in the store."""
    first_B: Tensor
    """Place, among what is read of the window, of the answer's first token; 0 where there is no
    answer in it, -1 where that is not known."""
    last_B: Tensor


@dataclass(frozen=True, kw_only=True)
class Batch(Tokens):
    """What the model needs to answer some questions.

    A cloze question is read at one token, and its options are given by their pieces. A
    multiple-choice question has one sequence per option, in the order of `option_slot_O`, read at
    its [CLS].
    """

    question_Q: Tensor
    """Index of each question in the store: where its answer goes."""
    answer_Q: Tensor
    """Index of the right option, -1 where it is not known."""
    option_slot_O: Tensor
    """question * K + option: where each option's logit goes in the Q x K table."""
    num_options: int
    """K."""
    value_Q: Tensor | None = None
    """The right number, where a number is asked for; NaN where it is not known."""
    blank_index_Q: Tensor | None = None
    """Index into S of each blank."""
    piece_P: Tensor | None = None
    piece_option_P: Tensor | None = None
    """Which option (index into O) each piece belongs to."""
    piece_place_P: Tensor | None = None
    """Place of the piece in its option, from 0."""
    masked_index_M: Tensor | None = None
    """Index into S of the words hidden for the auxiliary masked-LM loss."""
    masked_token_M: Tensor | None = None
    chance_O: Tensor | None = None
    """A teacher's probability of each option; NaN at those of questions that it was not asked."""

    @property
    def num_questions(self) -> int:
        """Q."""
        return self.question_Q.shape[0]

    @property
    def question_of_pieces(self) -> Tensor:
        """The question (row of the batch) that each piece is an option's of."""
        assert self.piece_option_P is not None
        return (self.option_slot_O // self.num_options)[self.piece_option_P]

    def by_question(self, logit_O: Tensor) -> Tensor:
        """The options' logits as a table, [Q, K]; -inf where a question has fewer than K."""
        table = logit_O.new_full((self.num_questions * self.num_options,), float("-inf"))
        filled = table.index_copy(0, self.option_slot_O, logit_O)
        return filled.view(self.num_questions, self.num_options)
