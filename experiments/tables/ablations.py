"""ALBERT's own ablations (Lan et al. 2020, section 4) at a scale that 2 cores carry.

    python -m experiments.tables.ablations CORPUS STORES VOCABULARY OUT.json
        [--tables pair sharing ...]

CORPUS is what `pretrain data` wrote, STORES what `preprocess` wrote with the same VOCABULARY. Each
variant is pretrained for a few minutes and then fine-tuned on the papers, all alike but for what
the table is about. Variants that stand in OUT.json already are not run again, so the command goes
on where it was stopped.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.io.json import parse_json, write_json
from albert_rc.model.config import SHARING
from albert_rc.runtime.devices import Processes, processes
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.store import load_store
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.pretraining import Pretraining
from albert_rc.training.objectives.reading import Reading
from experiments.shared.rows import require_same
from experiments.shared.scripts import parser_of


@dataclass(frozen=True)
class Variant:
    """One row of a table."""

    table: str
    name: str
    shape: dict[str, Any] = field(default_factory=dict)
    pair: str = "sop"
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    """Pretrain for so long instead of for a number of steps."""
    start: str | None = None
    """Begin with the weights of this variant of the same table, or of a model that ships."""
    corpus_share: float = 1.0

    def made(self) -> str:
        """All that decides what comes out, but for the seed."""
        shape = dict(sorted({**BASE, "sharing": "all", **self.shape}.items()))
        rest = (self.pair, self.settings, self.seconds, self.start, self.corpus_share)
        return f"{shape} {rest}"

    def folder(self, seed: int) -> str:
        """Where its weights are, whichever table asked for them."""
        return f"{zlib.crc32(self.made().encode()):08x} {seed}"


SHIPPED = "albert-rc-tiny-pretrained"
BASE: dict[str, Any] = {
    "hidden_size": 256, "embedding_size": 128, "num_layers": 4, "num_heads": 4, "ffn_size": 1024,
}  # fmt: skip


VARIANTS = [
    *(Variant("pairs", name, pair=name) for name in ("none", "nsp", "sop")),
    # From random weights the words take all of so short a run. Here they are known already.
    *(
        Variant("pairs, words known", name, pair=name, start=SHIPPED)
        for name in ("none", "nsp", "sop")
    ),
    *(
        Variant("embeddings", f"E {size}, {sharing}", {"embedding_size": size, "sharing": sharing})
        for sharing in ("all", "none")
        for size in (64, 128, 256)
    ),
    *(Variant("sharing", sharing, {"sharing": sharing}) for sharing in SHARING),
    *(
        Variant("depth", f"{layers} layers", {"num_layers": layers})
        for layers in (1, 2, 4, 8)
    ),
    Variant("depth", "8 layers, from 4", {"num_layers": 8}, start="4 layers"),
    *(
        Variant("width", f"H {hidden}", {"hidden_size": hidden, "ffn_size": 4 * hidden})
        for hidden in (128, 256, 384)
    ),
    Variant("dropout", "none"),
    Variant("dropout", "0.1", {"dropout": 0.1, "attention_dropout": 0.1}),
    Variant("data", "a tenth of the corpus", corpus_share=0.1),
    Variant("data", "all of it"),
    Variant("same time", "shared, H 384", {"hidden_size": 384, "ffn_size": 1536}, seconds=240),
    Variant(
        "same time", "unshared, H 256, E = H", {"sharing": "none", "embedding_size": 256},
        seconds=240,
    ),
]  # fmt: skip
"""Rows by table. What Lan et al. found stands beside them in docs/experiments-small.md."""


class Part:
    """A share of a corpus, spread evenly over it so that all kinds of text are in it."""

    def __init__(self, corpus: Corpus, share: float) -> None:
        self._corpus = corpus
        count = int(share * len(corpus))
        self.items = torch.linspace(0, len(corpus) - 1, count).long()
        self.lengths = corpus.lengths[self.items]
        self.hash = f"{corpus.hash} x {share}"

    def __len__(self) -> int:
        return len(self.items)

    def pair(self, item: int) -> tuple[torch.Tensor, torch.Tensor]:
        """See `Corpus.pair`."""
        return self._corpus.pair(int(self.items[item]))

    def same_document(self, one: int, other: int) -> bool:
        """See `Corpus.same_document`."""
        return self._corpus.same_document(int(self.items[one]), int(self.items[other]))


def pretrain(
    variant: Variant, arguments: argparse.Namespace, seed: int, out: Path, group: Processes
) -> dict[str, Any]:
    """Pretrain a variant into `out`; what it came to on held-out sequences."""
    shape = {**BASE, **variant.shape}
    source: Path = arguments.vocabulary
    scratch: str | None = "tiny"
    if variant.start == SHIPPED:
        source, scratch, shape = Path(SHIPPED), None, {}
    elif variant.start is not None:
        before = next(
            v for v in VARIANTS if (v.table, v.name) == (variant.table, variant.start)
        )  # fmt: skip
        source, scratch = arguments.work / before.folder(seed), None
        shape = {"num_layers": shape["num_layers"]}
    loaded = load_model(
        source,
        "pretraining",
        scratch=scratch,
        shape=shape,
        with_pairs=variant.pair != "none",
        seed=seed,
    )
    settings = TrainConfig(
        learning_rate=5e-4 if variant.start == SHIPPED else 1e-3,
        batch_size=32,
        max_steps=arguments.steps if variant.seconds is None else 100_000,
        warmup=0.05,
        eval_steps=10**6,
        save_steps=10**6,
        precision="bf16",
        seed=seed,
        **variant.settings,
    )
    corpus: Any = Corpus(arguments.corpus / "train")
    if variant.corpus_share < 1:
        corpus = Part(corpus, variant.corpus_share)
    objective = Pretraining(
        loaded.model, loaded.tokenizer, corpus, None, settings, MaskConfig(), variant.pair
    )
    result = Trainer(objective, settings, out, group).run(seconds=variant.seconds)
    save_model(loaded.model, loaded.tokenizer, out)
    found: dict[str, Any] = {
        "steps": result.steps,
        "seconds": round(result.seconds),
        "sequences_per_second": round(result.steps * settings.batch_size / result.seconds, 2),
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
    }
    objective.dev = Corpus(arguments.corpus / "dev")
    for asked in ("sop", "nsp") if variant.pair != "none" else ("none",):
        objective.pair = asked
        evaluation = objective.evaluate(group)
        assert evaluation is not None
        found[f"words_{asked}"] = evaluation.values["accuracy"]
        if asked != "none":
            found[asked] = evaluation.values["pair_accuracy"]
    return found


def tune(arguments: argparse.Namespace, seed: int, start: Path, group: Processes) -> float:
    """Fine-tune on the papers; dev accuracy."""
    loaded = load_model(start, "cloze", option_score="salience")
    settings = TrainConfig(
        learning_rate=5e-4,
        batch_size=16,
        max_steps=arguments.tune_steps,
        warmup=0.1,
        mask_rate=0.2,
        precision="bf16",
        seed=seed,
    )
    train, dev = (load_store(arguments.stores / name) for name in ("train.pt", "dev.pt"))
    objective = Reading(loaded.model, loaded.tokenizer, train, dev, settings)
    with tempfile.TemporaryDirectory() as folder:
        result = Trainer(objective, settings, Path(folder), group).run()
    assert result.best_score is not None
    return result.best_score


def main() -> None:
    """Run what is not there yet, row by row."""
    tables = list(dict.fromkeys(variant.table for variant in VARIANTS))
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("stores", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tables", nargs="+", default=tables, choices=tables)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--tune-steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("build/ablations"))
    arguments = parser.parse_args()
    keep_freed_memory()
    table = parse_json(arguments.out.read_bytes()) if arguments.out.is_file() else []
    require_same(arguments.out, table, {"tune_steps": arguments.tune_steps})
    there = {(row["table"], row["name"], row["seed"]) for row in table}
    with processes() as group:
        for seed in range(arguments.seeds):
            for variant in VARIANTS:
                key = (variant.table, variant.name, seed)
                if variant.table not in arguments.tables or key in there:
                    continue
                row = {"table": variant.table, "name": variant.name, "seed": seed}
                made = variant.made()
                twin = [old for old in table if old["made"] == made and old["seed"] == seed]
                # What two tables have in common is run once.
                row = {**twin[0], **row} if twin else row | run(variant, arguments, seed, group)
                row |= {"made": made, "tune_steps": arguments.tune_steps}
                print(row, flush=True)
                table.append(row)
                write_json(arguments.out, table)


def run(
    variant: Variant, arguments: argparse.Namespace, seed: int, group: Processes
) -> dict[str, Any]:
    """Pretrain and fine-tune a variant."""
    started = time.perf_counter()
    folder = arguments.work / variant.folder(seed)
    found = pretrain(variant, arguments, seed, folder, group)
    found["cloze_dev"] = tune(arguments, seed, folder, group)
    found["total_seconds"] = round(time.perf_counter() - started)
    return found


if __name__ == "__main__":
    main()
