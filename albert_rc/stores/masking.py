"""Masking of further words for an auxiliary masked-LM loss in fine-tuning.

A cloze paper has a blank for one word in seventeen. Masking and predicting some of the others
multiplies what a small model learns from the same papers.
"""

# B sequences, T tokens of all sequences concatenated, M masked positions

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from albert_rc.runtime.seeds import mix
from albert_rc.text.tokenizer import Tokenizer


class WordHider:
    """Replaces whole words by [MASK]; a pure function of (seed, epoch, item).

    Args:
        tokenizer: determines where words begin.
        rate: share of the words to mask.
        seed: the run's seed.
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
        """Mask words in a batch of items of the store.

        Args:
            token_T: ids of all items, concatenated.
            item_B: indices of the items.
            lengths: tokens of each item.
            epoch: each epoch masks other words.

        Returns:
            The ids with [MASK] for masked pieces, [T]; their positions, [M]; their original ids,
            [M].
        """
        chances = []
        for item, length in zip(item_B.tolist(), lengths, strict=True):
            generator = torch.Generator().manual_seed(mix(self.seed, epoch, item))
            chances.append(torch.rand(length, generator=generator))
        special_T = torch.isin(token_T, self.special)
        begins_T = self.begins_V[token_T] | special_T
        # Every piece of a word uses the random number of its first piece; each sequence begins
        # with a special token, so no word crosses its edge.
        first_T = torch.where(begins_T, torch.arange(len(token_T)), 0).cummax(0).values
        hidden_T = (torch.cat(chances)[first_T] < self.rate) & ~special_T
        index_M = hidden_T.nonzero()[:, 0]
        return token_T.masked_fill(hidden_T, self.mask_id), index_M, token_T[index_M]


def begins_word(tokenizer: Tokenizer) -> Tensor:
    """Whether each piece of the vocabulary begins a word, [V].

    Punctuation is a separate word: masking "dog" must not mask its full stop.
    """
    pieces = tokenizer.pieces(range(tokenizer.size))
    # WordPiece marks continuations of words, the others beginnings. The other signs may occur as
    # text, such as the ## of headings.
    mark = max("##", "▁", "Ġ", key=lambda sign: sum(piece.startswith(sign) for piece in pieces))
    if mark == "##":
        return torch.tensor([not piece.startswith(mark) for piece in pieces])
    spelt = pieces
    if mark == "Ġ":  # a byte-level piece such as `âĢĻ`, which is ’, is not readable as it is
        from tokenizers.decoders import ByteLevel

        decoder = ByteLevel()
        spelt = [decoder.decode([piece]) for piece in pieces]
    return torch.tensor(
        [
            piece.startswith(mark) or not any(char.isalnum() for char in said)
            for piece, said in zip(pieces, spelt, strict=True)
        ]
    )
