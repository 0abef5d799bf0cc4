"""Multiple choice with and without the passage: what questions and options alone give away.

    python -m experiments.answering.no_passage PAPERS MODEL WORK OUT.json [--seeds 3] [--epochs 3]
        [--learning-rate 8e-5] [--max-length 512]

PAPERS holds train and dev of a choice format, such as DREAM's files. MODEL is fine-tuned on them
twice in the same way, once with every passage cut to nothing, in training and on dev. MODEL may be
WORK/runs/inference of `reader.py questions`, with which the model of the package was made. The last
weights are measured, so nothing is chosen by the papers that are measured.

A training that was stopped goes on where its state was saved, and rows in OUT.json are not run
again: the same command goes on. Other settings need another WORK and OUT.json.
"""

from __future__ import annotations

import argparse
import shutil
from functools import partial
from pathlib import Path
from statistics import mean

from albert_rc.io.atomic import write_together
from albert_rc.io.json import parse_json
from albert_rc.stores.store import load_store
from experiments.shared.command import command, make_stores
from experiments.shared.phases import resumed
from experiments.shared.rows import Row, fill, table_parser


def prepare(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The stores as they are, and without passages; made once."""
    whole, without = arguments.work / "whole", arguments.work / "without"
    if not (without / "dev.pt").is_file():
        make_stores(arguments.papers, arguments.model, whole, "--max-length", arguments.max_length)
        names = ("train/train.pt", "dev.pt")
        stores = {name: load_store(whole / name) for name in names}
        for store in stores.values():
            store.tensors["kept"] = store.tensors["kept"] * 0
        (without / "train").mkdir(parents=True, exist_ok=True)
        write_together({without / name: store.save for name, store in stores.items()})
    return whole, without


def run(arguments: argparse.Namespace, passage: bool, seed: int) -> Row:
    """Train, answer dev, and count."""
    data = prepare(arguments)[0 if passage else 1]
    out = arguments.work / f"{'with' if passage else 'without'} passage {seed}"
    how = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate}
    command(
        "train", "--data", data / "train", "--model", arguments.model, "--out", out,
        "--epochs", how["epochs"], "--learning-rate", how["learning_rate"], "--batch-size", 16,
        "--set", "warmup=0.06", "--seed", seed, "--save-steps", 60, *resumed(out),
    )  # fmt: skip
    answers = arguments.work / f"{out.name}.json"
    command("predict", "--data", data / "dev.pt", "--model", out, "--out", answers)
    gold = next(arguments.papers.glob("dev*"))
    found = parse_json(command("evaluate", answers, gold, "--json").encode())
    shutil.rmtree(out)
    return {"accuracy": found["accuracy"], "interval": [found["low"], found["high"]], **how}


def main() -> None:
    """Run what is not there yet, and print the table."""
    parser = table_parser(__doc__, "papers", seeds=3)
    parser.add_argument("--epochs", type=int, default=3, help="default: 3")
    parser.add_argument("--learning-rate", type=float, default=8e-5, help="default: 8e-5")
    parser.add_argument("--max-length", type=int, default=512, help="window (default: 512 tokens)")
    arguments = parser.parse_args()
    keys = [
        {"passage": passage, "seed": seed}
        for seed in range(arguments.seeds)
        for passage in (True, False)
    ]
    prepare(arguments)  # before rows that are made side by side
    table = fill(arguments.out, keys, partial(run, arguments), arguments.side_by_side)
    for passage in (True, False):
        found = [row["accuracy"] for row in table if row["passage"] is passage]
        each = ", ".join(f"{value:.2%}" for value in found)
        if found:
            name = "with passages" if passage else "without"
            print(f"{name}: {each}; mean of {len(found)} seed(s) {mean(found):.2%}")


if __name__ == "__main__":
    main()
