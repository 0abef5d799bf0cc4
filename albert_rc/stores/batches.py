"""Batches from a store: order, length buckets and collation."""

# B sequences, T tokens of all sequences concatenated, S read tokens, Q questions,
# K options of a question, O options of all, P pieces of all options, M masked positions

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from albert_rc.batch import Batch
from albert_rc.runtime.seeds import mix
from albert_rc.stores.encode import VALUE_STEPS
from albert_rc.stores.masking import WordHider
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

BUCKET_BATCHES = 50  # batches sorted by length together: similar lengths, but random order


def ragged(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Flat indices of the slices `starts[i] : starts[i] + lengths[i]`.

    Returns:
        Index into the flat tensor, the slice of each element, and its position in that slice.
    """
    lengths = lengths.long()
    owner = torch.arange(lengths.shape[0]).repeat_interleave(lengths)
    first = lengths.cumsum(0) - lengths
    place = torch.arange(owner.shape[0]) - first[owner]
    return starts.long()[owner] + place, owner, place


class Slices(NamedTuple):
    """Some slices of a flat tensor of ids."""

    id_X: Tensor
    start_B: Tensor
    length_B: Tensor


class Pairs(NamedTuple):
    """Sequences of two parts each, with their special tokens, concatenated."""

    token_T: Tensor
    place_T: Tensor
    segment_T: Tensor
    lengths: tuple[int, ...]
    first_B: Tensor
    """Index of each sequence's [CLS]."""
    second_X: Tensor
    """Indices of the tokens of the second parts."""


def paired(first: Slices, second: Slices, tokenizer: Tokenizer) -> Pairs:
    """Sequences `[CLS] first [SEP] second [SEP]`; RoBERTa has two separators in the middle."""
    middle = tokenizer.separators_in_pair
    length_B = first.length_B + second.length_B + 2 + middle
    first_B = length_B.cumsum(0) - length_B
    token_T = torch.full((int(length_B.sum()),), tokenizer.sep_id)
    token_T[first_B] = tokenizer.cls_id
    source, row, column = ragged(first.start_B, first.length_B)
    token_T[first_B[row] + 1 + column] = first.id_X[source].long()
    second_B = first.length_B + 1 + middle
    source, row, column = ragged(second.start_B, second.length_B)
    second_X = first_B[row] + second_B[row] + column
    token_T[second_X] = second.id_X[source].long()
    _, row_T, place_T = ragged(first_B, length_B)
    segment_T = (place_T >= second_B[row_T]).long()
    return Pairs(token_T, place_T, segment_T, tuple(length_B.tolist()), first_B, second_X)


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """Which items make up each batch: a pure function of (seed, epoch), the same on every rank.

    A global batch is the input of one optimiser step; each rank takes its share of it.
    """

    lengths: Tensor
    batch_size: int
    """Items of a global batch, over all ranks."""
    seed: int = 0

    def epoch(self, epoch: int) -> list[list[int]]:
        """The global batches of an epoch, each with its longest item first."""
        generator = torch.Generator().manual_seed(mix(self.seed, epoch))
        shuffled = torch.randperm(self.lengths.shape[0], generator=generator)
        batches = []
        for pool in torch.split(shuffled, BUCKET_BATCHES * self.batch_size):
            by_length = pool[self.lengths[pool].argsort(descending=True, stable=True)]
            batches += [batch.tolist() for batch in torch.split(by_length, self.batch_size)]
        order = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[i] for i in order]

    @property
    def batches_per_epoch(self) -> int:
        """Optimiser steps of an epoch."""
        count = self.lengths.shape[0]
        pool = BUCKET_BATCHES * self.batch_size
        full, rest = divmod(count, pool)
        return full * BUCKET_BATCHES + -(-rest // self.batch_size)


def share(batch: Sequence[int], rank: int, world: int, micro_batches: int) -> list[list[int]]:
    """A rank's part of a global batch, split into at most `micro_batches` parts (maybe none)."""
    mine = list(batch[rank::world])
    size = max(1, -(-len(mine) // micro_batches))
    return [mine[i : i + size] for i in range(0, len(mine), size)]


def batches_by_length(lengths: Tensor, token_budget: int, items_budget: int) -> Iterator[list[int]]:
    """Batches for prediction: longest first, as many items as fit into the budgets.

    Args:
        lengths: tokens of each item, summed over its sequences.
        token_budget: tokens of a batch, padding included.
        items_budget: maximum number of items of a batch.
    """
    order = lengths.argsort(descending=True, stable=True).tolist()
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = max(1, min(items_budget, token_budget // max(1, longest)))
        yield order[start : start + size]
        start += size


class Collator:
    """Collates a store's items into a `Batch`.

    Args:
        store: the store.
        tokenizer: provides the special ids that join pairs; None for cloze.
        hider: masks further words of cloze windows for the auxiliary masked-LM loss.
    """

    def __init__(
        self, store: Store, tokenizer: Tokenizer | None, hider: WordHider | None = None
    ) -> None:
        self.store = store
        self.tokenizer = tokenizer
        self.hider = hider

    def __call__(self, items: Sequence[int], epoch: int = 0) -> Batch:
        """The batch of these items; `epoch` determines which words are masked."""
        index = torch.tensor(items, dtype=torch.int64)
        if self.store.kind == "cloze":
            return self._cloze(index, epoch)
        return self._choice(index) if self.store.kind == "choice" else self._label(index)

    def _options(self, question_Q: Tensor) -> tuple[Tensor, Tensor, int]:
        """Indices of the questions' options, their slots in the Q x K table, and K."""
        offset = self.store.tensors["option_offset"]
        count_Q = offset[question_Q + 1] - offset[question_Q]
        option_O, owner_O, place_O = ragged(offset[question_Q], count_Q)
        num_options = int(count_Q.max()) if len(count_Q) else 1
        return option_O, owner_O * num_options + place_O, num_options

    def _cloze(self, item_B: Tensor, epoch: int) -> Batch:
        tensors = self.store.tensors
        start_B = tensors["token_offset"][item_B]
        length_B = tensors["token_offset"][item_B + 1] - start_B
        source, _, place_T = ragged(start_B, length_B)
        lengths = tuple(length_B.tolist())
        token_T = tensors["token"][source].long()

        blank_start_B = tensors["blank_offset"][item_B]
        blank_count_B = tensors["blank_offset"][item_B + 1] - blank_start_B
        question_Q, row_Q, _ = ragged(blank_start_B, blank_count_B)
        first_B = length_B.long().cumsum(0) - length_B
        asked_X = first_B[row_Q] + tensors["blank_position"][question_Q].long()

        option_O, slot_O, num_options = self._options(question_Q)
        piece_start_O = tensors["piece_offset"][option_O]
        piece_count_O = tensors["piece_offset"][option_O + 1] - piece_start_O
        piece, piece_option_P, piece_place_P = ragged(piece_start_O, piece_count_O)

        masked_token = None
        if self.hider is not None:
            token_T, masked_index, masked_token = self.hider(token_T, item_B, lengths, epoch)
            # Blanks also count as masked words if their answer is one piece.
            answer_Q = tensors["answer"][question_Q].long()
            option_Q = tensors["option_offset"][question_Q].long() + answer_Q.clamp(min=0)
            first_Q = tensors["piece_offset"][option_Q]
            single_Q = (answer_Q >= 0) & (tensors["piece_offset"][option_Q + 1] - first_Q == 1)
            asked_X = torch.cat([asked_X, masked_index, asked_X[single_Q]])
            answer_token = tensors["piece"][first_Q[single_Q].long()].long()
            masked_token = torch.cat([masked_token, answer_token])
        read_S, place_X = asked_X.unique(return_inverse=True)
        row_S = torch.bucketize(read_S, first_B, right=True) - 1
        num_blanks = len(question_Q)
        return Batch(
            token_T=token_T,
            place_T=place_T,
            lengths=lengths,
            read_S=read_S,
            reads=tuple(row_S.bincount(minlength=len(lengths)).tolist()),
            question_Q=question_Q,
            answer_Q=tensors["answer"][question_Q].long(),
            option_slot_O=slot_O,
            num_options=num_options,
            blank_index_Q=place_X[:num_blanks],
            piece_P=tensors["piece"][piece].long(),
            piece_option_P=piece_option_P,
            piece_place_P=piece_place_P,
            masked_index_M=None if masked_token is None else place_X[num_blanks:],
            masked_token_M=masked_token,
        )

    def _choice(self, question_Q: Tensor) -> Batch:
        tensors = self.store.tensors
        assert self.tokenizer is not None
        option_O, slot_O, num_options = self._options(question_Q)
        owner_O = slot_O // num_options
        passage_O = tensors["question_passage"][question_Q].long()[owner_O]
        begin_O = (
            tensors["token_offset"][passage_O] + tensors["start"][question_Q][owner_O]
        ).long()
        kept_O = tensors["kept"][question_Q].long()[owner_O]
        tail_start_O = tensors["piece_offset"][option_O]
        tail_O = (tensors["piece_offset"][option_O + 1] - tail_start_O).long()
        pairs = paired(
            Slices(tensors["token"], begin_O, kept_O),
            Slices(tensors["piece"], tail_start_O, tail_O),
            self.tokenizer,
        )
        return Batch(
            token_T=pairs.token_T,
            place_T=pairs.place_T,
            lengths=pairs.lengths,
            read_S=pairs.first_B,
            reads=(1,) * len(option_O),
            question_Q=question_Q,
            answer_Q=tensors["answer"][question_Q].long(),
            option_slot_O=slot_O,
            num_options=num_options,
            segment_T=pairs.segment_T,
        )

    def _label(self, question_Q: Tensor) -> Batch:
        tensors = self.store.tensors
        start_Q = tensors["token_offset"][question_Q]
        length_Q = (tensors["token_offset"][question_Q + 1] - start_Q).long()
        source, row_T, place_T = ragged(start_Q, length_Q)
        count = len(question_Q)
        num_options = max(1, len(self.store.labels))
        answer_Q = tensors["answer"][question_Q].long()
        value_Q = None
        if not self.store.labels:
            value_Q = torch.where(answer_Q < 0, torch.nan, answer_Q / VALUE_STEPS)
        return Batch(
            token_T=tensors["token"][source].long(),
            place_T=place_T,
            lengths=tuple(length_Q.tolist()),
            read_S=length_Q.cumsum(0) - length_Q,
            reads=(1,) * count,
            segment_T=(place_T >= tensors["second"][question_Q][row_T]).long(),
            question_Q=question_Q,
            answer_Q=answer_Q,
            value_Q=value_Q,
            option_slot_O=torch.arange(count * num_options),
            num_options=num_options,
        )
