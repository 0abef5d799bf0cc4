"""The pretraining model: words that were hidden, and the order of two segments."""

# S tokens that are read, D hidden, E embedding, B sequences, M masked tokens, V vocabulary

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albert_rc.batch import PretrainBatch
from albert_rc.config import EncoderConfig
from albert_rc.model.encoder import Encoder, initialise
from albert_rc.model.heads import ClozeHead

ROWS = 4096
"""Hidden words whose logits over the vocabulary stand in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class PretrainOutput:
    """Sums over the batch; the loop divides by the global counts."""

    masked_loss_sum: Tensor
    """Cross-entropy over the vocabulary at the hidden words, in nats."""
    masked_correct: Tensor
    pair_loss_sum: Tensor
    pair_correct: Tensor


class PretrainHead(ClozeHead):
    """The masked-LM head, and one linear unit per order of the segments on a pooled [CLS]."""

    def __init__(self, config: EncoderConfig, with_pairs: bool) -> None:
        super().__init__(config)
        self.pooler: nn.Linear | None = None
        self.pair: nn.Linear | None = None
        if with_pairs:
            self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
            self.pair = nn.Linear(config.hidden_size, 2)

    def word_losses(self, hidden_MD: Tensor, token_M: Tensor, word_VE: Tensor) -> list[Tensor]:
        """Loss sum and number of right guesses at hidden words."""
        vector_ME = self.transform(hidden_MD)
        logits_MV = F.linear(vector_ME, word_VE, self.bias).float()
        loss = F.cross_entropy(logits_MV, token_M, reduction="sum")
        return [loss, (logits_MV.detach().argmax(-1) == token_M).sum()]


class PretrainingModel(nn.Module):
    """An encoder with the pretraining head. `model(batch)` gives a `PretrainOutput`.

    Args:
        config: the encoder's shape.
        with_pairs: also tell the order of segments.
        empty: leave the encoder's weights to be loaded.
    """

    option_score = "mean"

    def __init__(self, config: EncoderConfig, with_pairs: bool = True, empty: bool = False) -> None:
        super().__init__()
        with torch.device("meta") if empty else nullcontext():
            self.encoder = Encoder(config)
        self.head = PretrainHead(config, with_pairs)
        self.task = "pretraining" if with_pairs else "cloze"
        initialise(self, config.init_range)

    @property
    def config(self) -> EncoderConfig:
        """The encoder's shape."""
        return self.encoder.config

    def forward(self, batch: PretrainBatch) -> PretrainOutput:
        hidden_SD = self.encoder(
            batch.token_T, batch.place_T, batch.lengths, batch.segment_T, batch.read_S, batch.reads
        ).float()
        word_VE = self.encoder.embeddings.word.weight
        hidden_MD = hidden_SD[batch.masked_index_M]
        sums = hidden_SD.new_zeros(2)
        pieces = list(zip(hidden_MD.split(ROWS), batch.masked_token_M.split(ROWS), strict=True))
        for rows_MD, token_M in pieces:
            given = (rows_MD, token_M, word_VE)
            if len(pieces) > 1 and torch.is_grad_enabled():
                found = checkpoint(self.head.word_losses, *given, use_reentrant=False)
            else:
                found = self.head.word_losses(*given)
            sums = sums + torch.stack([part.float() for part in found])
        pair_loss = pair_correct = sums.new_zeros(())
        if self.head.pooler is not None and self.head.pair is not None:
            pooled_BD = torch.tanh(self.head.pooler(hidden_SD[batch.cls_index_B]))
            logits_B2 = self.head.pair(pooled_BD)
            pair_loss = F.cross_entropy(logits_B2, batch.pair_B, ignore_index=-1, reduction="sum")
            pair_correct = (logits_B2.argmax(-1) == batch.pair_B).sum()
        return PretrainOutput(
            masked_loss_sum=sums[0],
            masked_correct=sums[1].detach(),
            pair_loss_sum=pair_loss,
            pair_correct=pair_correct,
        )
