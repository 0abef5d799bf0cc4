"""Training settings, each with its help and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from albert_rc.errors import UsageError
from albert_rc.fields import LARGEST_BATCH, LAST_SEED, MOST, Setting, check
from albert_rc.model.config import FFN_CHUNK, RECOMPUTE

COLLAPSE = {
    "warn": "warn and continue",
    "stop": "end the run; its best weights and last saved states are kept",
    "restart": "return to an earlier state, with half the learning rate and a different data order",
}
STATES = {
    "fp32": "the optimiser's moments in fp32",
    "8bit": "AdamW's moments in 8 bits (torchao)",
}
_OPTIMIZERS = ("adamw", "lamb", "lamb-albert", "adafactor")  # of `training.optim`
SCHEDULE, MEMORY = "Schedule", "Memory and speed"


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Training settings. The defaults are the recipe of the ASC20-21 report."""

    epochs: Annotated[int, Setting("Number of passes over the data.", low=1, high=MOST)] = 4
    batch_size: Annotated[
        int,
        Setting(
            "Passages (cloze), questions or sequences per optimiser step, summed over all "
            "processes.",
            low=1,
            high=LARGEST_BATCH,
        ),
    ] = 2
    learning_rate: Annotated[float, Setting("Peak learning rate.", low=0, above=True)] = 1e-5
    seed: Annotated[
        int, Setting("Random seed for new weights, data order and dropout.", low=0, high=LAST_SEED)
    ] = 0
    max_steps: Annotated[
        int | None,
        Setting(
            "Number of optimiser steps, instead of --epochs.", low=1, high=MOST, panel=SCHEDULE
        ),
    ] = None
    eval_steps: Annotated[
        int | None,
        Setting(
            "Evaluate every N steps (default: after each epoch).", low=1, high=MOST, panel=SCHEDULE
        ),
    ] = None
    save_steps: Annotated[
        int | None,
        Setting(
            "Save the training state every N steps (default: after each epoch), and with each new "
            "best score.",
            low=1, high=MOST, panel=SCHEDULE,
        ),
    ] = None  # fmt: skip
    warmup: Annotated[
        float,
        Setting("Share of the steps used for learning-rate warm-up.", low=0, high=1, below=True),
    ] = 0.1
    patience: Annotated[
        int | None,
        Setting(
            "Stop early after N evaluations without improvement (default: never); to continue, use "
            "--resume with a larger N.", low=1, high=MOST,
        ),
    ] = None  # fmt: skip
    precision: Annotated[
        str,
        Setting(
            "Precision of matrix products: fp32, bf16 or fp16 (default: bf16 if the hardware "
            "supports it).",
            choices=("fp32", "bf16", "fp16"), panel=MEMORY,
        ),
    ] = "fp32"  # fmt: skip
    accumulation: Annotated[
        int,
        Setting(
            "Micro-batches per step (default: chosen to fit memory).", low=1, high=LARGEST_BATCH
        ),
    ] = 1
    recompute: Annotated[
        str,
        Setting(
            "What to recompute in the backward pass to save memory: nothing, activations or layers "
            "(default: chosen to fit memory; activations if that saves much).",
            choices=tuple(RECOMPUTE),
        ),
    ] = "nothing"
    optimizer_states: Annotated[
        str,
        Setting(
            "Precision of the optimiser's moments: fp32 or 8bit (default: chosen to fit memory).",
            choices=tuple(STATES),
        ),
    ] = "fp32"
    ffn_chunk: Annotated[int | None, FFN_CHUNK] = None
    optimizer: Annotated[
        str, Setting("Optimiser: adamw, lamb, lamb-albert or adafactor.", choices=_OPTIMIZERS)
    ] = "adamw"
    frozen_layers: Annotated[
        int,
        Setting(
            "Number of layers, from the first, that stay as they are, and the embeddings with "
            "them: steps take less time and memory (0: everything is trained).",
            low=0, high=1000,
        ),
    ] = 0  # fmt: skip
    weight_decay: Annotated[
        float, Setting("Weight decay of matrices; vectors such as biases are not decayed.", low=0)
    ] = 0.01
    clip: Annotated[
        float, Setting("Maximum norm for gradient clipping; 0 for no clipping.", low=0)
    ] = 1.0
    keep: Annotated[
        int,
        Setting(
            "Number of training states to keep; older ones are deleted, except up to two that "
            "--on-collapse restart may need.", low=1, high=1000,
        ),
    ] = 2  # fmt: skip
    mask_rate: Annotated[
        float,
        Setting(
            "Cloze: share of the words outside the blanks that are masked and predicted too.",
            low=0, high=1, below=True,
        ),
    ] = 0.0  # fmt: skip
    mask_weight: Annotated[
        float, Setting("Weight of the loss on the words masked by --mask-rate.", low=0)
    ] = 1.0
    pair_weight: Annotated[
        float,
        Setting(
            "Pretraining: weight of the loss of --pair. At the start, the gradient of masked words "
            "is tens of times as large as that of sentence order; 30 makes them about equal.",
            low=0, above=True,
        ),
    ] = 1.0  # fmt: skip
    teacher_weight: Annotated[
        float,
        Setting(
            "Weight of the teacher's probabilities in the loss; the answers get 1 minus this.",
            low=0,
            above=True,
            high=1,
        ),
    ] = 0.5
    teacher_precision: Annotated[
        str,
        Setting(
            "Precision of the teacher's matrix products: same (as the student's) or int8 (faster "
            "on CPUs with AVX-512 but without AMX).",
            choices=("same", "int8"),
        ),
    ] = "same"
    on_collapse: Annotated[
        str,
        Setting(
            "What to do if training collapses (loss at chance level, constant answers, or "
            "spikes of loss or gradient): warn, stop, or restart from the last good state (or "
            "the start) with half the learning rate and a different data order.",
            choices=tuple(COLLAPSE),
        ),
    ] = "warn"  # fmt: skip
    max_restarts: Annotated[
        int, Setting("Maximum number of restarts with --on-collapse restart.", low=1, high=100)
    ] = 2

    def __post_init__(self) -> None:
        check(self)
        if self.mask_weight != 1 and not self.mask_rate:
            raise UsageError(f"--mask-weight {self.mask_weight} needs --mask-rate")
        if self.optimizer_states != "fp32" and self.optimizer != "adamw":
            raise UsageError(f"--optimizer-states {self.optimizer_states} needs --optimizer adamw")
