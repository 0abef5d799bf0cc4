"""What each way to train more from the same weights is worth, over seeds.

    python experiments/recipes.py DATA GOLD MODEL WORK OUT.json [--seeds 3] [--rows base fgm ...]

DATA holds train.pt and dev.pt of `preprocess --model MODEL`, GOLD the dev papers. Every row
fine-tunes MODEL with the same steps, learning rate and order; only what the row is about differs.
The last weights are measured, so nothing is chosen by the papers that are measured. Rows that stand
in OUT.json are not run again.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from command import command

from albert_rc.data.readers import read_split
from albert_rc.data.schema import gold_letters
from albert_rc.evaluation import read_answers
from albert_rc.files import parse_json, write_json
from albert_rc.metrics import gain

COMMON: tuple[object, ...] = ("--batch-size", 16, "--learning-rate", 5e-4, "--warmup", 0.05)
MASK = ("--mask-rate", 0.2)
ROWS: dict[str, tuple[object, ...]] = {
    "base": MASK,
    "no hidden words": (),
    "salience": (*MASK, "--option-score", "salience"),
    "label smoothing 0.1": (*MASK, "--label-smoothing", 0.1),
    "dropout 0.1": (*MASK, "--dropout", 0.1),
    "dropout 0.1, R-Drop 1": (*MASK, "--dropout", 0.1, "--r-drop", 1),
    "FGM 1": (*MASK, "--fgm", 1),
    "EMA 0.99": (*MASK, "--ema", 0.99),
}


def run(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """One row and seed: fine-tune, answer, count."""
    work: Path = arguments.work
    train, out, answers = work / "train", work / "run", work / f"{name} {seed}.json"
    if not (train / "train.pt").is_file():
        train.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(arguments.data / "train.pt", train / "train.pt")
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    command(
        "train", "--data", train, "--model", arguments.model, "--out", out, "--seed", seed,
        "--max-steps", arguments.steps, *COMMON, *ROWS[name],
    )  # fmt: skip
    seconds = time.perf_counter() - started
    command("predict", "--data", arguments.data / "dev.pt", "--model", out, "--out", answers)
    found = parse_json(command("evaluate", answers, arguments.gold, "--json").encode())
    figures = {key: found[key] for key in ("accuracy", "low", "high", "total")}
    return {"row": name, "seed": seed, "seconds": round(seconds), **figures}


def right_of(path: Path, gold: Path) -> tuple[list[bool], list[str]]:
    """Whether each question is answered rightly, and its paper."""
    papers = read_split(gold).passages
    letters, right = read_answers(path, papers), gold_letters(papers)
    owners = [paper.id for paper in papers for _ in paper.questions]
    return [a == b for a, b in zip(letters, right, strict=True)], owners


def main() -> None:
    """Run what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("gold", type=Path)
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=288)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    arguments = parser.parse_args()
    table = parse_json(arguments.out.read_bytes()) if arguments.out.is_file() else []
    for seed in range(arguments.seeds):
        for name in arguments.rows:
            if not any((row["row"], row["seed"]) == (name, seed) for row in table):
                table.append(run(name, seed, arguments))
                print(table[-1], flush=True)
                write_json(arguments.out, table)
    base: list[bool] = []
    for name in arguments.rows:
        found = [row["accuracy"] for row in table if row["row"] == name]
        spread = f", sd {100 * stdev(found):.2f}" if len(found) > 1 else ""
        # All seeds' answers together: the papers are what is drawn from.
        right, owners = [], []
        for row in table:
            if row["row"] == name:
                some = right_of(arguments.work / f"{name} {row['seed']}.json", arguments.gold)
                right += some[0]
                owners += some[1]
        base = base or right
        print(f"{name}: {mean(found):.2%}{spread}; against base {gain(right, base, owners)}")


if __name__ == "__main__":
    main()
