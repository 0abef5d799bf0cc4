"""Batches from a store: their order, their length buckets, and the padding of one batch."""

# B sequences, L tokens, Q questions, K options of one, O options of all, P pieces of all options

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from albert_rc.batch import Batch
from albert_rc.data.masking import WordHider
from albert_rc.data.shards import Store
from albert_rc.seeds import mix
from albert_rc.tokenizer import Tokenizer

BUCKET_BATCHES = 50  # batches sorted by length together: even lengths, and still a random order


def ragged(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Flat indices of the slices `starts[i] : starts[i] + lengths[i]`.

    Returns:
        index into the flat tensor, the slice each belongs to, and the place in that slice.
    """
    lengths = lengths.long()
    owner = torch.arange(lengths.shape[0]).repeat_interleave(lengths)
    first = lengths.cumsum(0) - lengths
    place = torch.arange(owner.shape[0]) - first[owner]
    return starts.long()[owner] + place, owner, place


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """Which items make up each batch: a pure function of (seed, epoch), the same on every rank.

    A global batch is what one optimiser step sees; each rank takes its share of it.
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
    """A rank's part of a global batch, cut into at most `micro_batches` pieces (maybe none)."""
    mine = list(batch[rank::world])
    size = max(1, -(-len(mine) // micro_batches))
    return [mine[i : i + size] for i in range(0, len(mine), size)]


def batches_by_length(lengths: Tensor, token_budget: int, items_budget: int) -> Iterator[list[int]]:
    """Batches for prediction: longest first, as many items as fit into the budgets.

    Args:
        lengths: tokens of each item, all its sequences together.
        token_budget: tokens of a batch, padding included.
        items_budget: items of a batch at most.
    """
    order = lengths.argsort(descending=True, stable=True).tolist()
    start = 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = max(1, min(items_budget, token_budget // max(1, longest)))
        yield order[start : start + size]
        start += size


class Collator:
    """Makes a `Batch` of a store's items.

    Args:
        store: where the items are.
        tokenizer: the vocabulary's special ids.
        hider: hides further words of cloze windows for the auxiliary masked-LM loss.
    """

    def __init__(self, store: Store, tokenizer: Tokenizer, hider: WordHider | None = None) -> None:
        self.store = store
        self.tokenizer = tokenizer
        self.hider = hider

    def __call__(self, items: Sequence[int], epoch: int = 0) -> Batch:
        """The batch of these items; `epoch` chooses which words are hidden."""
        index = torch.tensor(items, dtype=torch.int64)
        if self.store.kind == "cloze":
            return self._cloze(index, epoch)
        return self._choice(index)

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
        source, row, column = ragged(start_B, length_B)
        width = int(length_B.max())
        token_BL = torch.full((len(item_B), width), self.tokenizer.pad_id)
        token_BL[row, column] = tensors["token"][source].long()

        blank_start_B = tensors["blank_offset"][item_B]
        blank_count_B = tensors["blank_offset"][item_B + 1] - blank_start_B
        question_Q, row_Q, _ = ragged(blank_start_B, blank_count_B)
        blank_index_Q = row_Q * width + tensors["blank_position"][question_Q].long()

        option_O, slot_O, num_options = self._options(question_Q)
        piece_start_O = tensors["piece_offset"][option_O]
        piece_count_O = tensors["piece_offset"][option_O + 1] - piece_start_O
        piece, piece_option_P, piece_place_P = ragged(piece_start_O, piece_count_O)

        masked_index = masked_token = None
        if self.hider is not None:
            token_BL, masked_index, masked_token = self.hider(token_BL, item_B, epoch)
            # The blanks are hidden words too, where their answer is one piece.
            answer_Q = tensors["answer"][question_Q].long()
            option_Q = tensors["option_offset"][question_Q].long() + answer_Q.clamp(min=0)
            first_Q = tensors["piece_offset"][option_Q]
            single_Q = (answer_Q >= 0) & (tensors["piece_offset"][option_Q + 1] - first_Q == 1)
            masked_index = torch.cat([masked_index, blank_index_Q[single_Q]])
            answer_token = tensors["piece"][first_Q[single_Q].long()].long()
            masked_token = torch.cat([masked_token, answer_token])
        return Batch(
            token_BL=token_BL,
            length_B=length_B.long(),
            question_Q=question_Q,
            answer_Q=tensors["answer"][question_Q].long(),
            option_slot_O=slot_O,
            num_options=num_options,
            padded=bool((length_B < width).any()),
            blank_index_Q=blank_index_Q,
            piece_P=tensors["piece"][piece].long(),
            piece_option_P=piece_option_P,
            piece_place_P=piece_place_P,
            masked_index_M=masked_index,
            masked_token_M=masked_token,
        )

    def _choice(self, question_Q: Tensor) -> Batch:
        tensors, special = self.store.tensors, self.tokenizer
        option_O, slot_O, num_options = self._options(question_Q)
        owner_O = slot_O // num_options
        passage_Q = tensors["question_passage"][question_Q].long()
        kept_O = tensors["kept"][question_Q].long()[owner_O]
        tail_start_O = tensors["piece_offset"][option_O]
        tail_O = (tensors["piece_offset"][option_O + 1] - tail_start_O).long()
        # [CLS] passage [SEP] tail [SEP]; RoBERTa sets two separators in the middle.
        middle = special.separators_in_pair
        length_O = kept_O + tail_O + 2 + middle
        width = int(length_O.max())
        rows = torch.arange(len(option_O))
        token_BL = torch.full((len(option_O), width), special.pad_id)
        token_BL[:, 0] = special.cls_id
        source, row, column = ragged(tensors["token_offset"][passage_Q[owner_O]], kept_O)
        token_BL[row, column + 1] = tensors["token"][source].long()
        for extra in range(middle):
            token_BL[rows, kept_O + 1 + extra] = special.sep_id
        second_O = kept_O + 1 + middle
        source, row, column = ragged(tail_start_O, tail_O)
        token_BL[row, column + second_O[row]] = tensors["piece"][source].long()
        token_BL[rows, length_O - 1] = special.sep_id
        place_L = torch.arange(width)
        in_second = (place_L >= second_O[:, None]) & (place_L < length_O[:, None])
        return Batch(
            token_BL=token_BL,
            length_B=length_O,
            question_Q=question_Q,
            answer_Q=tensors["answer"][question_Q].long(),
            option_slot_O=slot_O,
            num_options=num_options,
            padded=bool((length_O < width).any()),
            segment_BL=in_second.long(),
        )
