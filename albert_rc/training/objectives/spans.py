"""The fine-tuning objective for questions whose answers are spans of the passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from albert_rc.answering.quality import span_quality
from albert_rc.answering.spans import find_spans
from albert_rc.batch import SpanBatch
from albert_rc.model.span_head import SpanModel
from albert_rc.runtime.devices import Processes
from albert_rc.stores.batches import BatchOrder
from albert_rc.stores.span_batches import SpanCollator
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer
from albert_rc.training.config import TrainConfig
from albert_rc.training.objective import DevScore, Objective, stores_identity


class Spans(Objective[SpanBatch]):
    """Training to find the answers of a span store.

    If some training questions have no answer, the threshold for no answer is tuned on the dev
    store and saved with the weights.

    Args:
        model: the encoder and its head.
        tokenizer: the model's.
        train_store: the training questions.
        dev_store: selects the best weights; without one the last are kept.
        settings: the recipe.
    """

    unit = "windows"
    num_sums = 2
    num_counts = 1

    def __init__(
        self,
        model: SpanModel,
        tokenizer: Tokenizer,
        train_store: Store,
        dev_store: Store | None,
        settings: TrainConfig,
    ) -> None:
        self.model: SpanModel = model
        self.tokenizer = tokenizer
        self.train_store, self.dev_store = train_store, dev_store
        self.score_name = train_store.score_name
        self.collate = SpanCollator(train_store, tokenizer)
        self.order = BatchOrder(
            lengths=train_store.lengths, batch_size=settings.batch_size, seed=settings.seed
        )
        # Where all questions have answers, a threshold of the initial weights would leave some out.
        unanswerable = bool((train_store.tensors["answer"] == 0).any())
        model.null_threshold = (model.null_threshold or 0.0) if unanswerable else None

    def batch(self, items: Sequence[int], epoch: int) -> SpanBatch:
        return self.collate(items, epoch)

    def counts(self, batch: SpanBatch) -> list[int]:
        return [int((batch.first_B >= 0).sum())]

    def losses(self, batch: SpanBatch, counts: Tensor) -> tuple[Tensor, Tensor]:
        output = self.model(batch)
        sums = [output.loss_sum.detach(), output.num_correct.float()]
        return output.loss_sum / counts[0], torch.stack(sums)

    def report(self, sums: Sequence[float], counts: Sequence[float]) -> dict[str, float]:
        windows = max(1.0, counts[0])
        return {"loss": sums[0] / windows, "accuracy": sums[1] / windows}

    def evaluate(self, processes: Processes) -> DevScore | None:
        if self.dev_store is None or not self.dev_store.has_answers:
            return None
        found = find_spans(self.model, self.tokenizer, self.dev_store, processes)
        quality = span_quality(self.dev_store, found, tuned=self.model.null_threshold is not None)
        line = f"dev F1 {quality.f1:.2%}, exact {quality.exact:.2%}"
        if quality.null_threshold is not None:
            self.model.null_threshold = quality.null_threshold
            line += f", threshold for no answer {quality.null_threshold:.2f}"
        return DevScore(
            score=quality.f1,
            values={name: round(value, 5) for name, value in quality.figures().items()},
            line=line,
        )

    def identity(self) -> dict[str, Any]:
        return super().identity() | stores_identity(self.train_store, self.dev_store)
