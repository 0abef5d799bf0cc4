"""Sentence order alone: can a model learn the order of two segments at all, as a task of its own?

    python -m experiments.tables.order_alone CORPUS MODEL WORK OUT.json [--steps 500]
        [--learning-rate 1e-4] [--both-orders] [--seeds 3] [--first-seed 0]

CORPUS is from `pretrain data`, with MODEL's vocabulary. Its pairs of segments, half of them
swapped, are written as rows of two texts with a label, and MODEL is fine-tuned on them as on MRPC,
without masked words. Each pair is in one order, the same in every epoch; with --both-orders those
for training are in both, so that a model cannot memorise which pairs are swapped. What it gets
right on the corpus's held-out pairs is an upper bound of what SOP can be expected to reach in
pretraining (pairs.py) in as many steps; 50% is chance. The row has the accuracy after each tenth of
the steps.

A training that was stopped goes on where its state was saved, and rows in OUT.json are not run
again: the same command goes on. Other settings need another WORK and OUT.json.
"""

from __future__ import annotations

import argparse
import random
from functools import partial
from pathlib import Path

from transformers import AutoTokenizer

from albert_rc.checkpoints.hub import resolve_source
from albert_rc.corpus.shards import Corpus
from albert_rc.io.json import read_json_lines
from experiments.shared.command import command
from experiments.shared.phases import resumed
from experiments.shared.rows import Row, fill, table_parser

SHORTEST = 8
"""Pieces of a segment; shorter ones hardly say anything."""


def prepare(arguments: argparse.Namespace) -> Path:
    """The stores of both splits, in MRPC's format; made once."""
    raw: Path = arguments.work / "raw"
    data: Path = arguments.work / "data"
    if not (data / "dev.pt").is_file():
        raw.mkdir(parents=True, exist_ok=True)
        tokenizer = AutoTokenizer.from_pretrained(resolve_source(arguments.model))
        draw = random.Random(0)
        for split in ("train", "dev"):
            corpus = Corpus(arguments.corpus / split)
            rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
            for number in range(len(corpus)):
                parts = [part.tolist() for part in corpus.pair(number)]
                if min(map(len, parts)) < SHORTEST:
                    continue
                drawn = draw.random() < 0.5
                both = arguments.both_orders and split == "train"
                for in_order in (True, False) if both else (drawn,):
                    first, second = (
                        tokenizer.decode(ids) for ids in (parts if in_order else parts[::-1])
                    )
                    rows.append(f"{in_order:d}\t{number}a\t{number}b\t{first}\t{second}")
            (raw / f"{split}.tsv").write_text("\n".join([*rows, ""]), "utf-8")
        command(
            "preprocess", raw, "--model", arguments.model, "--out", data,
            "--max-length", arguments.max_length,
        )  # fmt: skip
    return data


def run(arguments: argparse.Namespace, seed: int) -> Row:
    """Fine-tune with one seed."""
    data, out = prepare(arguments), arguments.work / f"run {seed}"
    part = max(1, arguments.steps // 10)
    command(
        "train", "--data", data, "--model", arguments.model, "--out", out, "--seed", seed,
        "--max-steps", arguments.steps, "--batch-size", 32, "--set", "warmup=0.1",
        "--learning-rate", arguments.learning_rate, "--save-steps", part,
        "--set", f"eval_steps={part}", *resumed(out),
    )  # fmt: skip
    lines = [line for line in read_json_lines(out / "metrics.jsonl") if line["kind"] == "dev"]
    return {
        "steps": arguments.steps,
        "both_orders": arguments.both_orders,
        "learning_rate": arguments.learning_rate,
        "questions": lines[-1]["questions"],
        "curve": [(line["step"], line["accuracy"]) for line in lines],
    }


def main() -> None:
    """Run what is not there yet."""
    parser = table_parser(__doc__, "corpus")
    parser.add_argument("--steps", type=int, default=500, help="of 32 pairs (default: 500)")
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="default: 1e-4")
    parser.add_argument(
        "--max-length", type=int, default=128, help="tokens of a pair (default: 128)"
    )
    parser.add_argument(
        "--both-orders", action="store_true", help="learn from each pair in both orders"
    )
    parser.add_argument(
        "--first-seed", type=int, default=0,
        help="of --seeds; another one than MODEL was trained with reads the pairs in another order "
        "(default: 0)",
    )  # fmt: skip
    arguments = parser.parse_args()
    first = arguments.first_seed
    keys = [{"seed": seed} for seed in range(first, first + arguments.seeds)]
    prepare(arguments)  # before rows that are made side by side
    for row in fill(arguments.out, keys, partial(run, arguments), arguments.side_by_side):
        curve = ", ".join(f"{accuracy:.1%} after {step}" for step, accuracy in row["curve"])
        print(f"seed {row['seed']}: {curve}")


if __name__ == "__main__":
    main()
