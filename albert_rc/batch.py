"""Batches: the named tensors that the data pipeline passes to the model.

Sequences are concatenated without padding, so that only real tokens are computed.

Axes: T tokens of all sequences concatenated, S tokens that the head reads, Q questions (blanks),
K options of the question with the most, O options of all questions concatenated, P pieces of all
options concatenated, M masked positions, B sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Input of the encoder."""

    token_T: Tensor
    place_T: Tensor
    """Position of each token in its sequence, from 0."""
    lengths: tuple[int, ...]
    """Number of tokens of each sequence. Plain ints, to avoid device synchronisation."""
    read_S: Tensor
    """Tokens (indices into T) whose hidden states the head needs, in order."""
    reads: tuple[int, ...]
    """Number of read tokens of each sequence."""
    segment_T: Tensor | None = None
    """0 or 1 for the first and second part of a pair; None for all 0."""

    def to(self, device: torch.device) -> Self:
        """A copy on `device`, made asynchronously where the memory is pinned."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Self:
        """A copy in pinned memory, for asynchronous transfer to a GPU."""
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
    """Sequences for pretraining: masked words, and two segments whose order is predicted."""

    masked_index_M: Tensor
    """Index into S of the tokens to predict."""
    masked_token_M: Tensor
    cls_index_B: Tensor
    """Index into S of each sequence's [CLS]."""
    pair_B: Tensor
    """0 if the second segment follows the first, 1 if it does not, -1 if not predicted."""


@dataclass(frozen=True, kw_only=True)
class SpanBatch(Tokens):
    """Windows with a question each. The head reads [CLS], then the window's passage."""

    window_B: Tensor
    """Index of each window in the store."""
    first_B: Tensor
    """Position of the answer's first token among the window's read tokens; 0 if it has no
    answer, -1 if that is unknown."""
    last_B: Tensor


@dataclass(frozen=True, kw_only=True)
class Batch(Tokens):
    """Input for answering some questions.

    A cloze question is read at one token, and its options are given by their pieces. A
    multiple-choice question has one sequence per option, in the order of `option_slot_O`, read at
    its [CLS].
    """

    question_Q: Tensor
    """Index of each question in the store."""
    answer_Q: Tensor
    """Index of the right option, -1 if it is not known."""
    option_slot_O: Tensor
    """question * K + option: where each option's logit goes in the Q x K table."""
    num_options: int
    """K."""
    value_Q: Tensor | None = None
    """Target of a regression task; NaN if it is unknown."""
    blank_index_Q: Tensor | None = None
    """Index into S of each blank."""
    piece_P: Tensor | None = None
    piece_option_P: Tensor | None = None
    """Which option (index into O) each piece belongs to."""
    piece_place_P: Tensor | None = None
    """Position of the piece in its option, from 0."""
    masked_index_M: Tensor | None = None
    """Index into S of the tokens masked for the auxiliary masked-LM loss."""
    masked_token_M: Tensor | None = None
    chance_O: Tensor | None = None
    """A teacher's probability of each option; NaN for questions without one."""

    @property
    def num_questions(self) -> int:
        """Q."""
        return self.question_Q.shape[0]

    @property
    def question_of_pieces(self) -> Tensor:
        """The question (row of the batch) that each piece belongs to."""
        assert self.piece_option_P is not None
        return (self.option_slot_O // self.num_options)[self.piece_option_P]

    def by_question(self, logit_O: Tensor) -> Tensor:
        """The options' logits as a table, [Q, K]; -inf if a question has fewer than K."""
        table = logit_O.new_full((self.num_questions * self.num_options,), float("-inf"))
        filled = table.index_copy(0, self.option_slot_O, logit_O)
        return filled.view(self.num_questions, self.num_options)
