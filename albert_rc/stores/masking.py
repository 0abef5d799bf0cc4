"""Words hidden next to the blanks, for an auxiliary masked-LM loss while fine-tuning.

A cloze paper asks about one word in seventeen. Hiding some of the others and asking for them too
multiplies what a small model learns from the same papers.
"""

# B sequences, T tokens of all of them in a row, M masked positions

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from albert_rc.runtime.seeds import mix
from albert_rc.text.tokenizer import Tokenizer


class WordHider:
    """Replaces whole words by [MASK]; a pure function of (seed, epoch, item).

    Args:
        tokenizer: tells where words begin.
        rate: share of the words to hide.
        seed: the run's.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, seed: int) -> None:
        self.rate = rate
        self.seed = seed
        self.mask_id = tokenizer.mask_id
        self.begins_V = begins_word(tokenizer)
        self.special = torch.tensor(
            [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
        )

    def __call__(
        self, token_T: Tensor, item_B: Tensor, lengths: Sequence[int], epoch: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Hide words in a batch of these items of the store.

        Args:
            token_T: ids of all items in a row.
            item_B: which items they are.
            lengths: tokens of each.
            epoch: chooses other words each time.

        Returns:
            the ids with [MASK] for hidden pieces, [T]; where they are, [M]; and what they were,
            [M].
        """
        chances = []
        for item, length in zip(item_B.tolist(), lengths, strict=True):
            generator = torch.Generator().manual_seed(mix(self.seed, epoch, item))
            chances.append(torch.rand(length, generator=generator))
        special_T = torch.isin(token_T, self.special)
        begins_T = self.begins_V[token_T] | special_T
        # Every piece of a word takes the chance drawn for its first piece; each sequence begins
        # with a special token, so no word reaches over its edge.
        first_T = torch.where(begins_T, torch.arange(len(token_T)), 0).cummax(0).values
        hidden_T = (torch.cat(chances)[first_T] < self.rate) & ~special_T
        index_M = hidden_T.nonzero()[:, 0]
        return token_T.masked_fill(hidden_T, self.mask_id), index_M, token_T[index_M]


def begins_word(tokenizer: Tokenizer) -> Tensor:
    """Whether each piece of the vocabulary begins a word, [V].

    Punctuation is a word of its own: hiding "dog" must not hide its full stop.
    """
    pieces = tokenizer.pieces(range(tokenizer.size))
    # WordPiece marks what continues a word, the others what begins one.
    marks_rest = not any(piece.startswith(("▁", "Ġ")) for piece in pieces)
    return torch.tensor([_begins_word(piece, marks_rest) for piece in pieces])


def _begins_word(piece: str, marks_rest: bool) -> bool:
    if marks_rest:
        return not piece.startswith("##")
    return piece.startswith(("▁", "Ġ")) or not any(char.isalnum() for char in piece)
