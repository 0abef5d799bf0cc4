"""Words hidden beside the blanks, for an auxiliary masked-LM loss while fine-tuning.

A cloze paper asks about one word in seventeen. Hiding some of the others and asking for them too
multiplies what a small model learns from the same papers.
"""

# B sequences, L tokens, M masked positions

from __future__ import annotations

import torch
from torch import Tensor

from albert_rc.seeds import mix
from albert_rc.tokenizer import Tokenizer


class WordHider:
    """Replaces whole words by [MASK]; a pure function of (seed, epoch, item).

    Args:
        tokenizer: tells where words begin.
        rate: share of the words to hide.
        seed: the run's.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, seed: int) -> None:
        pieces = tokenizer.pieces(range(tokenizer.size))
        self.rate = rate
        self.seed = seed
        self.mask_id = tokenizer.mask_id
        # Punctuation is a word of its own: hiding "dog" must not hide its full stop.
        # WordPiece marks what continues a word, the others what begins one.
        marks_rest = not any(piece.startswith(("▁", "Ġ")) for piece in pieces)
        self.begins_V = torch.tensor([_begins_word(piece, marks_rest) for piece in pieces])
        self.special = torch.tensor(
            [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
        )

    def __call__(
        self, token_BL: Tensor, item_B: Tensor, epoch: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Hide words in a batch of these items of the store.

        Returns:
            the ids with [MASK] for hidden pieces, [B, L]; where they are (row * L + position),
            [M]; and what they were, [M].
        """
        length = token_BL.shape[1]
        chance_BL = torch.empty(token_BL.shape)
        for row, item in enumerate(item_B.tolist()):
            generator = torch.Generator().manual_seed(mix(self.seed, epoch, item))
            chance_BL[row] = torch.rand(length, generator=generator)
        begins_BL = self.begins_V[token_BL]
        special_BL = torch.isin(token_BL, self.special)
        begins_BL = begins_BL | special_BL
        # Every piece of a word takes the chance drawn for its first piece.
        first_BL = torch.where(begins_BL, torch.arange(length), 0).cummax(1).values
        hidden_BL = (chance_BL.gather(1, first_BL) < self.rate) & ~special_BL
        index_M = hidden_BL.flatten().nonzero()[:, 0]
        target_M = token_BL.flatten()[index_M]
        return token_BL.masked_fill(hidden_BL, self.mask_id), index_M, target_M


def _begins_word(piece: str, marks_rest: bool) -> bool:
    if marks_rest:
        return not piece.startswith("##")
    return piece.startswith(("▁", "Ġ")) or not any(char.isalnum() for char in piece)
