"""What pretraining is worth: random and pretrained weights of one shape, fine-tuned alike.

    python -m experiments.tables.pretraining_gain SOURCES MODEL WORK OUT.json [--seeds 2]

SOURCES holds ele/{train,dev} and dream/{train,dev}.json; MODEL is a pretrained checkpoint. The
random weights have its shape and vocabulary. Both get the same steps, learning rate and order, and
what counts are the last weights, so nothing is chosen by the papers that are measured. Rows that
stand in OUT.json are not run again.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from functools import partial
from pathlib import Path

from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.io.json import parse_json
from experiments.shared.command import command
from experiments.shared.rows import Row, fill
from experiments.shared.scripts import parser_of

TASKS: dict[str, tuple[tuple[str, ...], tuple[object, ...]]] = {
    "ele": (
        ("ele/train", "ele/dev"),
        ("--max-steps", 576, "--batch-size", 16, "--learning-rate", 5e-4, "--warmup", 0.05,
         "--mask-rate", 0.2, "--option-score", "salience"),
    ),
    "dream": (
        ("dream/train.json", "dream/dev.json"),
        ("--max-steps", 576, "--batch-size", 16, "--learning-rate", 3e-4, "--warmup", 0.1),
    ),
}  # fmt: skip
"""Where the papers are, and how they are learned."""


def random_twin(model: Path, folder: Path, seed: int) -> Path:
    """Random weights of a checkpoint's shape, saved once with its vocabulary."""
    if not (folder / "model.safetensors").is_file():
        config, _ = read_config(model)
        names = ("embedding_size", "hidden_size", "num_layers", "num_heads", "ffn_size")
        shape = {name: getattr(config, name) for name in names}
        twin = load_model(
            model, "pretraining", scratch="tiny", shape=shape, with_pairs=False, seed=seed
        )
        save_model(twin.model, twin.tokenizer, folder)
    return folder


def run(arguments: argparse.Namespace, task: str, weights: str, seed: int) -> Row:
    """One row: fine-tune and measure on dev."""
    work: Path = arguments.work
    places, options = TASKS[task]
    data = work / task
    if not (data / "dev.pt").is_file():
        raw = work / f"{task}_raw"
        raw.mkdir(parents=True, exist_ok=True)
        for split, place in zip(("train", "dev"), places, strict=True):
            source = arguments.sources / place
            target = raw / (split if source.is_dir() else f"{split}{source.suffix}")
            copy = shutil.copytree if source.is_dir() else shutil.copyfile
            copy(source, target)
        command("preprocess", raw, "--model", arguments.model, "--out", data)
        (data / "train").mkdir()
        (data / "train.pt").rename(data / "train" / "train.pt")
    model = arguments.model
    if weights == "random":
        model = random_twin(arguments.model, work / f"random {seed}", seed)
    out, answers = work / "run", work / "answers.json"
    shutil.rmtree(out, ignore_errors=True)
    # No dev papers in training: the last weights count.
    command(
        "train", "--data", data / "train", "--model", model, "--out", out, *options, "--seed", seed
    )
    command("predict", "--data", data / "dev.pt", "--model", out, "--out", answers)
    gold = arguments.sources / places[1]
    found = parse_json(command("evaluate", answers, gold, "--json").encode())
    figures: Row = {name: found[name] for name in ("accuracy", "low", "high", "total", "chance")}
    return figures


def main() -> None:
    """Run what is not there yet."""
    parser = parser_of(__doc__)
    for name in ("sources", "model", "work", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    keys = [
        {"task": task, "weights": weights, "seed": seed}
        for seed in range(arguments.seeds)
        for task in TASKS
        for weights in ("random", "pretrained")
    ]
    table = fill(arguments.out, keys, partial(run, arguments))
    for task in TASKS:
        for weights in ("random", "pretrained"):
            found = [r["accuracy"] for r in table if (r["task"], r["weights"]) == (task, weights)]
            spread = max(found) - min(found)
            print(f"{task} {weights}: {statistics.mean(found):.2%}, spread {spread:.2%}")


if __name__ == "__main__":
    main()
