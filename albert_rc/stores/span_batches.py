"""Batches of span windows, each with a question and a part of its passage."""

# W windows of a store, B windows of a batch, T tokens of all of them concatenated, S read
# tokens: of each window [CLS], then the passage's

from __future__ import annotations

from collections.abc import Sequence

import torch

from albert_rc.batch import SpanBatch
from albert_rc.stores.batches import Slices, paired
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer


class SpanCollator:
    """Collates a span store's windows into a `SpanBatch`."""

    def __init__(self, store: Store, tokenizer: Tokenizer) -> None:
        self.store = store
        self.question_W = store.question_of_window
        self.tokenizer = tokenizer

    def __call__(self, items: Sequence[int], epoch: int = 0) -> SpanBatch:
        """The batch of these windows."""
        tensors = self.store.tensors
        window_B = torch.tensor(items, dtype=torch.int64)
        question_B = self.question_W[window_B]
        asked_start_B = tensors["piece_offset"][question_B].long()
        asked_B = tensors["piece_offset"][question_B + 1].long() - asked_start_B
        part_B = tensors["window_length"][window_B].long()
        begin_B = tensors["window_start"][window_B].long()
        passage_B = tensors["question_passage"][question_B].long()
        part_start_B = tensors["token_offset"][passage_B].long() + begin_B
        pairs = paired(
            Slices(tensors["piece"], asked_start_B, asked_B),
            Slices(tensors["token"], part_start_B, part_B),
            self.tokenizer,
        )
        targets = [self._target(name, question_B, begin_B, part_B) for name in ("first", "last")]
        inside_B = (targets[0] > 0) & (targets[1] > 0)
        answer_B = tensors["answer"][question_B]
        # The target is [CLS] for a window that holds only a part of the answer, or none of it.
        chosen = [
            torch.where(answer_B < 0, -1, torch.where(inside_B, target_B, 0))
            for target_B in targets
        ]
        return SpanBatch(
            token_T=pairs.token_T,
            place_T=pairs.place_T,
            lengths=pairs.lengths,
            read_S=torch.cat([pairs.first_B, pairs.second_X]).sort().values,
            reads=tuple((part_B + 1).tolist()),
            segment_T=pairs.segment_T,
            window_B=window_B,
            first_B=chosen[0],
            last_B=chosen[1],
        )

    def _target(
        self, name: str, question_B: torch.Tensor, begin_B: torch.Tensor, part_B: torch.Tensor
    ) -> torch.Tensor:
        """Target position among the window's read tokens; 0 if the answer is not in it."""
        token_B = self.store.tensors[name][question_B].long()
        place_B = token_B - begin_B
        there_B = (token_B >= 0) & (place_B >= 0) & (place_B < part_B)
        return torch.where(there_B, place_B + 1, 0)
