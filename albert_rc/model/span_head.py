"""The span model: predicts an answer's first and last token in a passage."""

# S read tokens, D hidden, B windows, L read tokens of the longest window

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from albert_rc.batch import SpanBatch
from albert_rc.model.config import EncoderConfig
from albert_rc.model.encoder import initialise
from albert_rc.model.heads import HeadedModel


@dataclass(frozen=True, kw_only=True)
class SpanOutput:
    """Result of a forward pass. Losses are sums: the loop divides by the global count."""

    logits_BL2: Tensor
    """Logits of start and end at [CLS] (no answer here) and at each token of the passage; -inf
    after a window's last."""
    loss_sum: Tensor
    """Mean of both cross-entropies, summed over the windows whose answer is known, in nats."""
    num_correct: Tensor
    """Number of those windows where both are right."""


class SpanHead(nn.Module):
    """Two logits per token."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.span = nn.Linear(config.hidden_size, 2)


class SpanModel(HeadedModel):
    """An encoder and the head for spans. `model(batch)` gives a `SpanOutput`.

    Args:
        config: the encoder's shape.
        null_threshold: minimum score difference to the best answer for giving none; None if every
            question has an answer.
        empty: leave the encoder's weights to be loaded.
    """

    def __init__(
        self, config: EncoderConfig, null_threshold: float | None = None, empty: bool = False
    ) -> None:
        super().__init__(config, "span", "mean", empty)
        self.null_threshold = null_threshold
        self.head = SpanHead(config)
        initialise(self, config.init_range)

    def forward(self, batch: SpanBatch) -> SpanOutput:
        logits_S2 = self.head.span(self.hidden(batch)).float()
        rows = list(logits_S2.split(list(batch.reads)))
        logits_BL2 = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-float("inf"))
        losses = [
            F.cross_entropy(logits_BL2[..., i], target_B, ignore_index=-1, reduction="sum")
            for i, target_B in enumerate((batch.first_B, batch.last_B))
        ]
        marked_B2 = logits_BL2.argmax(1)
        right_B = (marked_B2[:, 0] == batch.first_B) & (marked_B2[:, 1] == batch.last_B)
        return SpanOutput(
            logits_BL2=logits_BL2,
            loss_sum=(losses[0] + losses[1]) / 2,
            num_correct=right_B.sum(),
        )
