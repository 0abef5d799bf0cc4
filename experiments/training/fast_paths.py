"""Each fast path on and off: does the accuracy stay?

    python -m experiments.training.fast_paths STORES MODEL OUT.json [--seeds 3] [--steps 60]

STORES holds train.pt and dev.pt of cloze papers; MODEL is a run to start from. For each variant:
dev accuracy of MODEL as it is and the answers that differ from the reference's, then the dev
accuracy after a few steps of training with it, over seeds. The reference is fp32 with every fast
path off.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.answering.quality import quality
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import write_json
from albert_rc.model import attention_cpu, feed_forward
from albert_rc.model import linear as products
from albert_rc.model.config import Compute
from albert_rc.model.dropout import Dropout
from albert_rc.model.encoder import Encoder
from albert_rc.model.layout import Layout
from albert_rc.runtime.devices import processes
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.store import Store, load_store
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import Reading
from experiments.shared.scripts import parser_of


def torchs_attention(
    q_SNH: Tensor, kv_T2NH: Tensor, table: None, layout: Layout, dropout: Dropout, *_: Any
) -> Tensor:
    """Torch's fused kernel, a sequence at a time; without position biases."""
    parts = []
    asked_count, key_count = sum(layout.queries), sum(layout.keys)
    asked = q_SNH[:asked_count].split(layout.queries)
    answering = kv_T2NH[:key_count].split(layout.keys)
    for some_SNH, some_T2NH in zip(asked, answering, strict=True):
        k_NTH, v_NTH = some_T2NH.permute(1, 2, 0, 3)
        mixed = F.scaled_dot_product_attention(
            some_SNH.transpose(0, 1), k_NTH, v_NTH, dropout_p=dropout.rate
        )
        parts.append(mixed.transpose(0, 1))
    return torch.cat([*parts, torch.zeros_like(q_SNH[asked_count:])])


Patch = tuple[Any, str, Callable[..., Any]]
_forward = Encoder.forward


def _reads_everywhere(self: Encoder, *given: Any, **named: Any) -> Tensor:
    """The last layer computed for all tokens, of which the head takes its own."""
    token_T, place_T, lengths, segment_T, read_S, _ = given
    hidden_TD = _forward(self, token_T, place_T, lengths, segment_T)
    return hidden_TD[read_S]


SDPA: Patch = (attention_cpu, "_Dense", type("Torchs", (), {"apply": torchs_attention}))
UNPACKED: Patch = (products, "has_packing", lambda dtype, device: False)
TANH: Patch = (feed_forward, "quick_activation", lambda name, dtype, device: name)
EVERYWHERE: Patch = (Encoder, "forward", _reads_everywhere)


@dataclass(frozen=True)
class Variant:
    """Settings, and what is put in the place of a fast path."""

    name: str
    precision: str = "bf16"
    patches: tuple[Patch, ...] = ()
    recompute: str = "nothing"


VARIANTS = (
    Variant("fp32, all off", "fp32", (SDPA, UNPACKED, EVERYWHERE, TANH)),
    Variant("fp32, all on", "fp32"),
    Variant("bf16, all off", patches=(SDPA, UNPACKED, EVERYWHERE, TANH)),
    Variant("bf16, all on"),
    Variant("bf16, GELU's tanh form", patches=(TANH,)),
    Variant("bf16, torch's attention", patches=(SDPA,)),
    Variant("bf16, matrices as they are", patches=(UNPACKED,)),
    Variant("bf16, last layer everywhere", patches=(EVERYWHERE,)),
    Variant("bf16, layers recomputed", recompute="layers"),
    Variant("int8", "int8"),
)


@contextmanager
def patched(patches: tuple[Patch, ...]) -> Iterator[None]:
    """Put the replacements in place for a while."""
    originals = [getattr(owner, name) for owner, name, _ in patches]
    for owner, name, replacement in patches:
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(patches, originals, strict=True):
            setattr(owner, name, original)


def main() -> None:
    """Run every variant and write the table."""
    parser = parser_of(__doc__)
    parser.add_argument("stores", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of variants; the first is the reference")
    arguments = parser.parse_args()
    variants = [v for v in VARIANTS if not arguments.only or v.name in arguments.only]
    keep_freed_memory()
    train, dev = (load_store(arguments.stores / f"{name}.pt") for name in ("train", "dev"))
    table: list[dict[str, Any]] = []
    reference: Tensor | None = None
    for variant in variants:
        with patched(variant.patches), processes("cpu") as group:
            compute = Compute(precision=variant.precision, recompute=variant.recompute)
            loaded = load_model(arguments.model, "cloze")
            loaded.model.encoder.compute = compute
            started = time.perf_counter()
            scored_QK = score(loaded.model, loaded.tokenizer, dev, group)
            chosen_Q = scored_QK.argmax(-1)
            reference = chosen_Q if reference is None else reference
            row: dict[str, Any] = {
                "variant": variant.name,
                "predicted": round(quality(dev, scored_QK).score, 5),
                "answers_changed": int((chosen_Q != reference).sum()),
                "seconds_to_predict": round(time.perf_counter() - started, 2),
            }
            if arguments.seeds and variant.precision != "int8":
                row["trained"] = [
                    round(accuracy_after_training(arguments, variant, seed, train, dev, group), 5)
                    for seed in range(arguments.seeds)
                ]
                row["trained_mean"] = round(statistics.mean(row["trained"]), 5)
        table.append(row)
        print(row, flush=True)
        write_json(
            arguments.out,
            {
                "answers": dev.num_questions,
                "steps": arguments.steps,
                "batch_size": arguments.batch_size,
                "learning_rate": arguments.learning_rate,
                "torch": torch.__version__,
                "table": table,
            },
        )


def accuracy_after_training(
    arguments: argparse.Namespace,
    variant: Variant,
    seed: int,
    train: Store,
    dev: Store,
    group: Any,
) -> float:
    """Dev accuracy after the steps."""
    loaded = load_model(arguments.model, "cloze")
    settings = TrainConfig(
        learning_rate=arguments.learning_rate,
        batch_size=arguments.batch_size,
        max_steps=arguments.steps,
        mask_rate=0.25,
        precision=variant.precision,
        recompute=variant.recompute,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        objective = Reading(loaded.model, loaded.tokenizer, train, None, settings)
        Trainer(objective, settings, Path(folder), group).run()
    scored_QK = score(loaded.model, loaded.tokenizer, dev, group)
    return quality(dev, scored_QK).score


if __name__ == "__main__":
    main()
