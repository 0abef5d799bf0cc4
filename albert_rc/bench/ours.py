"""Benchmark of our own training and prediction, one batch at a time, as in the commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from albert_rc.bench.job import Job
from albert_rc.bench.jobs import Workload
from albert_rc.bench.made_up import made_up_vocabulary
from albert_rc.checkpoints.load import loaded_dtype, put_weight
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.io.sizes import parse_size
from albert_rc.model.config import Compute, EncoderConfig
from albert_rc.model.cost import forward_flops, word_flops
from albert_rc.model.encoder import initialise
from albert_rc.model.heads import ReadingModel
from albert_rc.model.pretraining_head import PretrainingModel
from albert_rc.runtime.devices import Processes, limit_memory
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.batches import Collator
from albert_rc.stores.store import Store
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.memory.footprint import task_of
from albert_rc.training.memory.planner import Levers, MemoryPlan, make_plan
from albert_rc.training.objective import Objective
from albert_rc.training.objectives.pretraining import Pretraining
from albert_rc.training.objectives.reading import Reading

NO_LIMIT = 2**60
RATE = 1e-5
MASKING = MaskConfig()
"""Masking in pretraining: the default of `pretrain`."""


class Predicting:
    """Predicts with albert-rc."""

    def __init__(self, job: Job, work: Workload, device: torch.device) -> None:
        assert isinstance(work.source, Store)
        self.plan: MemoryPlan | None = None
        self.cut: dict[str, Any] = {}
        torch.manual_seed(job.seed)
        self.device, self.collate = device, Collator(work.source, None)
        self.model = _loaded(work.config, job.precision, device).eval()
        self.model.encoder.compute = Compute(precision=job.precision)
        self.model.encoder.freeze()
        if job.keep_freed:
            keep_freed_memory()

    def flops(self, items: list[int], number: int) -> float:
        """Operations of the encoder's products for a batch."""
        batch = self.collate(items)
        return forward_flops(self.model.config, batch.lengths, batch.reads)

    def step(self, items: list[int], number: int) -> None:
        """One batch."""
        with torch.inference_mode():
            self.model(self.collate(items).to(self.device)).logits_QK.cpu()


class Training:
    """Trains or pretrains with albert-rc: its objectives, and the steps of its trainer.

    Nothing is kept in the run's folder.
    """

    def __init__(self, job: Job, work: Workload, device: torch.device, folder: Path) -> None:
        torch.manual_seed(job.seed)
        config, source = work.config, work.source
        settings = TrainConfig(batch_size=job.batch_size, precision=job.precision, seed=job.seed)
        processes = Processes(device)
        self.plan: MemoryPlan = _plan(job, work, settings, processes)
        settings = replace(
            settings,
            accumulation=self.plan.micro_batches,
            recompute=self.plan.recompute,
            optimizer_states=self.plan.states,
        )
        vocabulary = made_up_vocabulary(config.vocab_size)
        self.objective: Objective[Any]
        if isinstance(source, Corpus):
            # Without pairs, so that a peer's masked-LM class does the same.
            with torch.device(device):
                words = PretrainingModel(config, with_pairs=False)
            self.objective = Pretraining(words, vocabulary, source, None, settings, MASKING, "none")
        else:
            with torch.device(device):
                reading = ReadingModel(config, "cloze")
            self.objective = Reading(reading, vocabulary, source, None, settings)
        self.trainer: Trainer[Any] = Trainer(self.objective, settings, folder, processes)
        self.trainer.model.train()

    @property
    def cut(self) -> dict[str, Any]:
        """How micro-batches were split for lack of memory."""
        return self.trainer.stepper.cut

    def flops(self, items: list[int], number: int) -> float:
        """Operations of a step's products: of the encoder, and of masked tokens' logits."""
        batch = self.objective.batch(items, number)
        forward = forward_flops(self.objective.model.config, batch.lengths, batch.reads)
        if isinstance(self.objective, Pretraining):
            forward += word_flops(self.objective.model.config, self.objective.counts(batch)[0])
        return 3 * forward

    def step(self, items: list[int], number: int) -> None:
        """One optimiser step; the masks depend on its number."""
        self.trainer.stepper.take(items, epoch=number, step=number, rate=RATE)


def _plan(job: Job, work: Workload, settings: TrainConfig, processes: Processes) -> MemoryPlan:
    """The planner's choice for a budget, or its prediction for the job's settings."""
    levers = Levers(1, job.recompute, job.optimizer_states or "fp32")
    budget = NO_LIMIT
    if job.memory is not None:
        levers = Levers(None, job.recompute, job.optimizer_states)
        budget = parse_size("--memory", job.memory)
        limit_memory(processes.device, budget)
    hidden = MASKING.rate if isinstance(work.source, Corpus) else 0.0
    plan = make_plan(task_of(work.config, work.source, settings, processes, hidden), budget, levers)
    if job.keep_freed and processes.device.type == "cpu":
        keep_freed_memory(plan.is_tight(budget), plan.total, plan.varying)
    return plan


def _loaded(config: EncoderConfig, precision: str, device: torch.device) -> ReadingModel:
    """A model with random weights, loaded as in `predict`, with matrices never in fp32."""
    model = ReadingModel(config, "cloze", empty=True)
    for name, waiting in list(model.named_parameters()):
        dtype = loaded_dtype(name, waiting, precision)
        put_weight(model, name, torch.empty(waiting.shape, dtype=dtype, device=device))
    initialise(model, config.init_range)
    return model
