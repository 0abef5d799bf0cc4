"""Our own training and prediction, one batch at a time, as the commands do it."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from albert_rc.bench.jobs import Job
from albert_rc.config import Compute, EncoderConfig, TrainConfig, parse_size, size_config
from albert_rc.costs import forward_flops
from albert_rc.data.batches import Collator, share
from albert_rc.data.shards import Store
from albert_rc.devices import Processes, limit_memory
from albert_rc.heap import keep_freed_memory
from albert_rc.loading import loaded_dtype, put_weight
from albert_rc.model.encoder import initialise
from albert_rc.model.heads import ReadingModel
from albert_rc.train.footprint import task_of
from albert_rc.train.optim import make_optimizer
from albert_rc.train.planner import Levers, Plan, make_plan

NO_LIMIT = 2**60


class Ours:
    """Does jobs with albert-rc.

    Args:
        job: what to do.
        store: the passages.
        device: where.
    """

    def __init__(self, job: Job, store: Store, device: torch.device) -> None:
        torch.manual_seed(job.seed)
        config = size_config(job.size, vocab_size=store.meta["vocab_size"])
        self.device, self.collate = device, Collator(store, None)
        compute = Compute(precision=job.precision, join=job.join, in_place=True)
        self.plan: Plan | None = None
        if job.work == "train":
            with torch.device(device):
                self.model = ReadingModel(config, "cloze").train()
            self.plan = self._plan(job, store)
            self.model.encoder.compute = replace(compute, recompute=self.plan.recompute)
            self.parameters = list(self.model.parameters())
            self.optimizer = make_optimizer(self.model, 1e-5, 0.01, self.plan.states)
        else:
            self.model = _loaded(config, job.precision, device).eval()
            self.model.encoder.compute = compute
            self.model.encoder.freeze()
            if job.keep_freed:
                keep_freed_memory()

    def _plan(self, job: Job, store: Store) -> Plan:
        """What the planner chooses for a budget, or predicts for the settings of the job."""
        levers = Levers(1, job.recompute, job.optimizer_states or "fp32")
        budget = NO_LIMIT
        if job.memory is not None:
            levers = Levers(None, job.recompute, job.optimizer_states)
            budget = parse_size("--memory", job.memory)
            limit_memory(self.device, budget)
        settings = TrainConfig(batch_size=job.batch_size, precision=job.precision, join=job.join)
        task = task_of(self.model.config, store, settings, Processes(self.device))
        plan = make_plan(task, budget, levers)
        if job.keep_freed and self.device.type == "cpu":
            keep_freed_memory(plan.is_tight(budget))
        return plan

    def flops(self, items: list[int]) -> float:
        """Operations of the encoder's products for a batch."""
        batch = self.collate(items)
        factor = 1 if self.plan is None else 3
        return factor * forward_flops(self.model.config, batch.lengths, batch.reads)

    def step(self, items: list[int]) -> None:
        """One batch."""
        if self.plan is None:
            with torch.inference_mode():
                self.model(self.collate(items).to(self.device)).logits_QK.cpu()
            return
        micro = [self.collate(part) for part in share(items, 0, 1, self.plan.micro_batches)]
        questions = sum(batch.num_questions for batch in micro)
        with self.model.encoder.unchanged():
            for batch in micro:
                (self.model(batch.to(self.device)).loss_sum / questions).backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def _loaded(config: EncoderConfig, precision: str, device: torch.device) -> ReadingModel:
    """A model as `predict` loads it, its matrices never in fp32: of random weights."""
    model = ReadingModel(config, "cloze", empty=True)
    for name, waiting in list(model.named_parameters()):
        dtype = loaded_dtype(name, waiting, precision)
        put_weight(model, name, torch.empty(waiting.shape, dtype=dtype, device=device))
    initialise(model, config.init_range)
    return model
