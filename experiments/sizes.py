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
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean

import torch
from command import command, make_stores
from rows import Row, fill, table_parser

from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import parse_json
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
        make_stores(arguments.papers, arguments.model, data)
        command(
            "predict", "--data", data / "train.pt", "--model", arguments.model, "--temperature", 1,
            "--out", data / "answers.json", "--scores", data / "scores.jsonl",
        )  # fmt: skip
    return data


def milliseconds(folder: Path | str, data: Path) -> tuple[float, int]:
    """Milliseconds to score a dev paper, the median of three runs; and the parameters."""
    alone = Processes(torch.device("cpu"))
    precision = choose_precision(None, alone.device)
    loaded = load_model(folder, "cloze", precision=precision)
    parameters = sum(p.numel() for p in loaded.model.parameters())
    encoder = loaded.model.encoder
    encoder.compute = replace(encoder.compute, precision=precision)
    encoder.freeze()
    store = load_store(data / "dev.pt")
    times = []
    for _ in range(3):
        started = time.perf_counter()
        score(loaded.model, loaded.tokenizer, store, alone)
        times.append(time.perf_counter() - started)
    return 1000 * sorted(times)[1] / len(store.meta["ids"]), parameters


def measure(folder: Path | str, data: Path, arguments: argparse.Namespace) -> Row:
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


def run(arguments: argparse.Namespace, name: str, taught: bool, seed: int | None) -> Row:
    """Make the student, train it and measure it; or measure the teacher."""
    data = prepare(arguments)
    if name == TEACHER:
        return measure(arguments.model, data, arguments)
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
    return row | {"steps": arguments.steps, "learning_rate": arguments.learning_rate}


def show(table: list[Row]) -> None:
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
    parser = table_parser(__doc__, "papers")
    parser.add_argument("--steps", type=int, default=140)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    keys: list[Row] = [{"name": TEACHER, "taught": False, "seed": None}]
    keys += [
        {"name": name, "taught": taught, "seed": seed}
        for seed in range(arguments.seeds)
        for name in arguments.rows
        for taught in (False, True)
    ]
    show(fill(arguments.out, keys, partial(run, arguments)))


if __name__ == "__main__":
    main()
