"""Our own training and prediction, one batch at a time, as the commands do it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from albert_rc.bench.jobs import Job
from albert_rc.config import Compute, albert_config
from albert_rc.costs import forward_flops
from albert_rc.data.batches import Collator
from albert_rc.data.shards import Store
from albert_rc.devices import keep_freed_memory
from albert_rc.model.heads import ReadingModel
from albert_rc.train.optim import make_optimizer


class Ours:
    """Does jobs with albert-rc.

    Args:
        job: what to do.
        store: the passages.
        device: where.
    """

    def __init__(self, job: Job, store: Store, device: torch.device) -> None:
        if device.type == "cpu":
            keep_freed_memory()
        torch.manual_seed(job.seed)
        config = albert_config(job.size, vocab_size=store.meta["vocab_size"])
        with torch.device(device):
            self.model = ReadingModel(config, "cloze")
        self.model.train(job.work == "train")
        join = job.join or 1
        self.model.encoder.compute = Compute(
            precision=job.precision, recompute=job.recompute, join=join
        )
        self.device, self.training = device, job.work == "train"
        self.collate = Collator(store, None)
        self.parameters = list(self.model.parameters())
        if self.training:
            self.optimizer = make_optimizer(self.model, 1e-5, 0.01)
        else:
            self.model.requires_grad_(False)

    def session(self) -> AbstractContextManager[None]:
        """What stays open around all batches."""
        return nullcontext() if self.training else self.model.encoder.unchanged()

    def flops(self, items: list[int]) -> float:
        """Operations of the encoder's products for a batch."""
        batch = self.collate(items)
        factor = 3 if self.training else 1
        return factor * forward_flops(self.model.config, batch.lengths, batch.reads)

    def step(self, items: list[int]) -> None:
        """One batch."""
        batch = self.collate(items)
        if not self.training:
            with torch.inference_mode():
                self.model(batch.to(self.device)).logits_QK.cpu()
            return
        output = self.model(batch.to(self.device))
        (output.loss_sum / batch.num_questions).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
