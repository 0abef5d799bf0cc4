"""Smaller ALBERTs made of a model that reads, trained alike with and without its teaching.

    python experiments/sizes.py PAPERS MODEL WORK OUT.json [--steps 140] [--seeds 1]
        [--rows "3 groups" ...]

PAPERS holds train and dev of a cloze collection, MODEL is the teacher. Every row is MODEL made
smaller by `train --set`, fine-tuned for the same steps from the answers alone, and from the answers
and MODEL's probabilities of the training papers. The last weights are measured, so nothing is
chosen by the papers that are measured. Milliseconds a paper are those of `predict`'s model on the
dev papers in one process, without its start. Rows that stand in OUT.json are not run again.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from command import command

from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import parse_json, write_json
from albert_rc.runtime.devices import Processes, choose_precision
from albert_rc.stores.store import load_store

ROWS: dict[str, dict[str, int]] = {
    "3 groups": {"num_groups": 3},
    "2 groups": {"num_groups": 2},
    "1 group": {"num_groups": 1},
    "E 64": {"embedding_size": 64},
    "3 layers": {"num_layers": 3},
    "3 layers, 1 group, E 64": {"num_layers": 3, "num_groups": 1, "embedding_size": 64},
}
TEACHER = "the teacher itself"


def prepare(arguments: argparse.Namespace) -> Path:
    """The stores, a folder of the training store alone, and the teacher's scores; made once."""
    data: Path = arguments.work / "data"
    if not (data / "scores.jsonl").is_file():
        command("preprocess", arguments.papers, "--model", arguments.model, "--out", data)
        (data / "train").mkdir(exist_ok=True)
        shutil.copyfile(data / "train.pt", data / "train" / "train.pt")
        command(
            "predict", "--data", data / "train.pt", "--model", arguments.model, "--temperature", 1,
            "--out", data / "answers.json", "--scores", data / "scores.jsonl",
        )  # fmt: skip
    return data


def milliseconds(folder: Path | str, data: Path) -> tuple[float, int]:
    """Time to score a dev paper with two runs' median, and the number of parameters."""
    alone = Processes(torch.device("cpu"))
    precision = choose_precision(None, alone.device)
    loaded = load_model(folder, "cloze", precision=precision)
    compute = loaded.model.encoder.compute
    loaded.model.encoder.compute = type(compute)(precision=precision)
    loaded.model.encoder.freeze()
    store = load_store(data / "dev.pt")
    times = []
    for _ in range(3):
        started = time.perf_counter()
        score(loaded.model, loaded.tokenizer, store, alone)
        times.append(time.perf_counter() - started)
    parameters = sum(p.numel() for p in load_model(folder, "cloze").model.parameters())
    return 1000 * sorted(times)[1] / len(store.meta["ids"]), parameters


def measure(folder: Path | str, data: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Accuracy on dev, time and size."""
    answers = arguments.work / "answers.json"
    command("predict", "--data", data / "dev.pt", "--model", folder, "--out", answers)
    gold = arguments.papers / "dev"
    found = parse_json(command("evaluate", answers, gold, "--json").encode())
    spent, parameters = milliseconds(folder, data)
    return {
        "accuracy": found["accuracy"],
        "interval": [found["low"], found["high"]],
        "milliseconds": round(spent, 2),
        "parameters": parameters,
    }


def run(name: str, taught: bool, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the student, train it, and measure it before and after."""
    data = prepare(arguments)
    out = arguments.work / f"{name} {'taught' if taught else 'alone'} {seed}"
    shape = [word for item in ROWS[name].items() for word in ("--set", "{}={}".format(*item))]
    teacher = ["--teacher", data / "scores.jsonl"] if taught else []
    command(
        "train", "--data", data / "train", "--model", arguments.model, "--out", out, *shape,
        *teacher, "--max-steps", arguments.steps, "--batch-size", 16, "--seed", seed,
        "--learning-rate", arguments.learning_rate, "--set", "warmup=0.1",
    )  # fmt: skip
    row = measure(out, data, arguments)
    shutil.rmtree(out)
    return row


def show(table: list[dict[str, Any]]) -> None:
    """The table, means over seeds."""
    print("| | parameters | ms a paper | answers alone | and the teacher |\n|---|---|---|---|---|")
    for name in (TEACHER, *ROWS):
        rows = [row for row in table if row["name"] == name]
        if not rows:
            continue
        cells = []
        for taught in (False, True):
            found = [row["accuracy"] for row in rows if row["taught"] is taught]
            cells.append(f"{mean(found):.2%}" if found else "")
        size, spent = rows[0]["parameters"] / 1e6, mean(row["milliseconds"] for row in rows)
        print(f"| {name} | {size:.1f} M | {spent:.1f} | {' | '.join(cells)} |")


def main() -> None:
    """Run what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    table = parse_json(arguments.out.read_bytes()) if arguments.out.is_file() else []
    if not table:
        first = {"name": TEACHER, "taught": False, "seed": None}
        table.append(first | measure(arguments.model, prepare(arguments), arguments))
        write_json(arguments.out, table)
    there = {(row["name"], row["taught"], row["seed"]) for row in table}
    for seed in range(arguments.seeds):
        for name in arguments.rows:
            for taught in (False, True):
                if (name, taught, seed) in there:
                    continue
                row: dict[str, Any] = {"name": name, "taught": taught, "seed": seed}
                row |= {"steps": arguments.steps, "learning_rate": arguments.learning_rate}
                row |= run(name, taught, seed, arguments)
                print(row, flush=True)
                table.append(row)
                write_json(arguments.out, table)
    show(table)


if __name__ == "__main__":
    main()
