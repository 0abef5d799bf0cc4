"""What each way to train more from the same weights is worth, over seeds.

    python -m experiments.training.recipes PAPERS MODEL WORK OUT.json [--seeds 3]
        [--rows base salience ...]

PAPERS holds train and dev of a cloze collection. Every row fine-tunes MODEL with the same steps,
learning rate and order; only what the row is about differs, or only how its model is asked. The
last weights are measured, so nothing is chosen by the papers that are measured. Rows that stand in
OUT.json are not run again; each holds its answers, so that nothing else is needed for the table.
Models and scores stay in WORK, for `ensemble`.
"""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, stdev

from albert_rc.io.json import parse_json, write_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet, gold_letters
from albert_rc.scoring.accuracy import gain
from albert_rc.scoring.evaluate import read_answers
from experiments.shared.command import command, make_stores
from experiments.shared.rows import Row, fill
from experiments.shared.scripts import parser_of

COMMON: tuple[object, ...] = ("--batch-size", 16, "--learning-rate", 5e-4, "--warmup", 0.05)


@dataclass(frozen=True)
class Recipe:
    """How a model comes to its answers."""

    train: tuple[object, ...] = ()
    hidden: float = 0.2
    """Share of further words that are hidden and asked for."""
    longer: float = 1.0
    """Times the steps of the others."""
    continued: bool = False
    """Masked-LM on the training papers comes first."""
    layers: int | None = None
    """Another depth: the layer that all share is gone through this many times."""
    asked: str | None = None
    """Another row's model, its options of several pieces read in this other way."""
    of: str = "base"
    """That row."""


ROWS = {
    "base": Recipe(),
    "masks": Recipe(asked="masks"),
    "no hidden words": Recipe(hidden=0),
    "no hidden words, masks": Recipe(asked="masks", of="no hidden words"),
    "salience": Recipe(("--option-score", "salience")),
    "dropout 0.1": Recipe(("--dropout", 0.1)),
    "masked-LM before": Recipe(continued=True),
    "no hidden words, masked-LM before": Recipe(continued=True, hidden=0),
    "no hidden words, 6 layers": Recipe(layers=6, hidden=0),
    "twice the steps": Recipe(longer=2),
    "no hidden words, twice the steps": Recipe(longer=2, hidden=0),
}
"""The dear ones last."""


def start(row: Recipe, seed: int, arguments: argparse.Namespace) -> Path:
    """What a row is fine-tuned from."""
    if row.layers is not None:
        return deeper(arguments.model, row.layers, arguments.work / f"{row.layers} layers")
    if not row.continued:
        return Path(arguments.model)
    work: Path = arguments.work
    corpus, out = work / "corpus", work / f"continued {seed}"
    if (out / "model.safetensors").is_file():  # another row's
        return out
    if not corpus.is_dir():
        command(
            "pretrain", "data", arguments.papers / "train", "--model", arguments.model,
            "--out", corpus, "--max-length", 512, "--dev", 0.01,
        )  # fmt: skip
    shutil.rmtree(out, ignore_errors=True)
    command(
        "pretrain", "--data", corpus, "--model", arguments.model, "--out", out, "--seed", seed,
        "--pair", "none", "--max-steps", arguments.steps, "--batch-size", 16,
        "--learning-rate", 5e-4, "--optimizer", "adamw",
    )  # fmt: skip
    return out


def deeper(model: Path, layers: int, out: Path) -> Path:
    """The same weights at another depth, as ALBERT's own ensembles have 12 and 24 layers."""
    shutil.copytree(model, out, dirs_exist_ok=True)
    config = parse_json((out / "config.json").read_bytes())
    write_json(out / "config.json", config | {"num_hidden_layers": layers})
    return out


def run(arguments: argparse.Namespace, gold: PaperSet, row: str, seed: int) -> Row:
    """One row and seed: fine-tune, answer, count."""
    name, recipe = row, ROWS[row]
    data, work = arguments.work / "data", arguments.work
    learned = name if recipe.asked is None else recipe.of
    trained, out = ROWS[learned], work / f"{learned} {seed}"
    if not (data / "dev.pt").is_file():
        make_stores(arguments.papers, arguments.model, data)
    started = time.perf_counter()
    if recipe.asked is None or not out.is_dir():
        model = start(trained, seed, arguments)
        shutil.rmtree(out, ignore_errors=True)
        command(
            "train", "--data", data / "train", "--model", model, "--out", out, "--seed", seed,
            "--max-steps", round(trained.longer * arguments.steps), "--mask-rate", trained.hidden,
            *COMMON, *trained.train,
        )  # fmt: skip
        shutil.rmtree(out / "states", ignore_errors=True)
    asked = () if recipe.asked is None else ("--option-score", recipe.asked)
    answers, scores = work / f"{name} {seed}.json", work / f"{name} {seed}.jsonl"
    command(
        "predict", "--data", data / "dev.pt", "--model", out, "--out", answers,
        "--scores", scores, "--temperature", 1, *asked,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    given = read_answers(answers, gold.passages)
    bits = "".join(
        str(int(a == b)) for a, b in zip(given, gold_letters(gold.passages), strict=True)
    )
    return {
        "seconds": round(seconds),
        "accuracy": bits.count("1") / len(bits),
        "right": f"{int(bits, 2):x}",
    }


def show(table: list[Row], gold: PaperSet) -> None:
    """Each row's mean and spread, and what it gains on `base` of the same seeds."""
    owners = [paper.id for paper in gold.passages for _ in paper.questions]
    right = {}
    for row in table:
        bits = f"{int(row['right'], 16):0{len(owners)}b}"
        right[row["row"], row["seed"]] = [bit == "1" for bit in bits]
    for name in ROWS:
        found = [row["accuracy"] for row in table if row["row"] == name]
        spread = f", sd {100 * stdev(found):.2f}" if len(found) > 1 else ""
        seeds = [seed for row, seed in right if row == name and ("base", seed) in right]
        if seeds:
            # All seeds' answers together: the papers are what is drawn from.
            mine = [bit for seed in seeds for bit in right[name, seed]]
            base = [bit for seed in seeds for bit in right["base", seed]]
            against = gain(mine, base, owners * len(seeds))
            print(f"{name}: {mean(found):.2%}{spread}, {len(found)} seed(s); {against}")


def main() -> None:
    """Run what is not there yet, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=288)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    arguments = parser.parse_args()
    gold = read_split(arguments.papers / "dev")
    keys = [
        {"row": name, "seed": seed} for seed in range(arguments.seeds) for name in arguments.rows
    ]
    settings = {"steps": arguments.steps}
    table = fill(arguments.out, keys, partial(run, arguments, gold), settings=settings)
    show(table, gold)


if __name__ == "__main__":
    main()
