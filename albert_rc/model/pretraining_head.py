"""The pretraining model: heads for masked words and for the order of two segments."""

# D hidden, B sequences, M masked tokens

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert_rc.batch import PretrainBatch
from albert_rc.model.config import EncoderConfig
from albert_rc.model.encoder import initialise
from albert_rc.model.heads import ClozeHead, HeadedModel
from albert_rc.model.rows import rows_at
from albert_rc.model.word_loss import Taught


@dataclass(frozen=True, kw_only=True)
class PretrainOutput:
    """Sums over the batch; the loop divides by the global counts."""

    masked_loss_sum: Tensor
    """Cross-entropy over the vocabulary at the masked tokens, in nats, with the teacher's part."""
    plain_loss_sum: Tensor
    """`masked_loss_sum` without the teacher's part."""
    masked_correct: Tensor
    pair_loss_sum: Tensor
    pair_correct: Tensor


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A teacher's predictions for a batch."""

    words: Taught
    hidden_MD: Tensor
    """The teacher's last hidden states at the masked tokens; its D may differ."""


class PretrainHead(ClozeHead):
    """The masked-LM head, and one linear unit per order of the segments on a pooled [CLS]."""

    def __init__(self, config: EncoderConfig, with_pairs: bool) -> None:
        super().__init__(config)
        self.pooler: nn.Linear | None = None
        self.pair: nn.Linear | None = None
        if with_pairs:
            self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
            self.pair = nn.Linear(config.hidden_size, 2)


class PretrainingModel(HeadedModel):
    """An encoder with the pretraining head. `model(batch)` gives a `PretrainOutput`.

    Args:
        config: the encoder's shape.
        with_pairs: also predict the order of segments.
        empty: leave the encoder's weights to be loaded.
    """

    def __init__(self, config: EncoderConfig, with_pairs: bool = True, empty: bool = False) -> None:
        super().__init__(config, "pretraining" if with_pairs else "cloze", "mean", empty)
        self.head = PretrainHead(config, with_pairs)
        initialise(self, config.init_range)

    def teach(self, batch: PretrainBatch, weight: float) -> Lesson:
        """This model's predictions for a batch, as a teacher.

        Args:
            batch: on the model's device.
            weight: weight of its probabilities in the student's target.
        """
        with torch.no_grad():
            hidden_MD = rows_at(self.hidden(batch), batch.masked_index_M)
            words = Taught(
                vector_ME=self.head.transform(hidden_MD),
                word_VE=self.words,
                offset_V=self.head.bias,
                weight=weight,
            )
        return Lesson(words=words, hidden_MD=hidden_MD)

    def forward(self, batch: PretrainBatch, lesson: Lesson | None = None) -> PretrainOutput:
        hidden_SD = self.hidden(batch)
        hidden_MD = rows_at(hidden_SD, batch.masked_index_M)
        loss, plain, correct = self.head.word_loss(
            hidden_MD,
            batch.masked_token_M,
            self.words,
            precision=self.encoder.compute.precision,
            taught=None if lesson is None else lesson.words,
        )
        if lesson is not None and lesson.hidden_MD.shape == hidden_MD.shape:
            # With equal widths, hidden states are matched too (Jiao et al. 2020, section 3.1).
            apart = (hidden_MD - lesson.hidden_MD).square().mean(-1).sum()
            loss = loss + lesson.words.weight * apart
        pair_loss = pair_correct = loss.new_zeros(())
        if self.head.pooler is not None and self.head.pair is not None:
            pooled_BD = torch.tanh(self.head.pooler(rows_at(hidden_SD, batch.cls_index_B)))
            logits_B2 = self.head.pair(pooled_BD)
            pair_loss = F.cross_entropy(logits_B2, batch.pair_B, ignore_index=-1, reduction="sum")
            pair_correct = (logits_B2.argmax(-1) == batch.pair_B).sum()
        return PretrainOutput(
            masked_loss_sum=loss,
            plain_loss_sum=plain,
            masked_correct=correct,
            pair_loss_sum=pair_loss,
            pair_correct=pair_correct,
        )
