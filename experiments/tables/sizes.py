"""Smaller ALBERTs made of a model that reads, trained alike with and without its teaching.

    python -m experiments.tables.sizes PAPERS MODEL WORK OUT.json [--seeds 3] [--steps 140]
        [--learning-rate 3e-4] [--rows "3 groups" ...] [--words CORPUS] [--figure FIGURE.png]

PAPERS holds train and dev of a cloze collection, MODEL is the teacher. Every row is MODEL made
smaller by `train --set`, fine-tuned for the same steps from the answers alone, and from the answers
and MODEL's probabilities of the training papers. With --words, every smaller row stands a third
time: between the two, the model made smaller learns masked words of CORPUS (`pretrain data` with
MODEL's vocabulary) from the texts and from MODEL, once with seed 0 for all seeds. The last weights
are measured, so nothing is chosen by the papers that are measured. Milliseconds a paper are those
of `predict`'s model on the dev papers in one process, without its start. Rows that MODEL is too
small for are left out. The figure, as PNG and SVG, shows accuracy against size and against
milliseconds.

A training that was stopped goes on where its state was saved, and rows in OUT.json are not run
again: the same command goes on. Other settings need another WORK and OUT.json.
"""

from __future__ import annotations

import argparse
import shutil
from functools import partial
from pathlib import Path
from statistics import mean

from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.smaller import smaller_shape
from albert_rc.errors import UsageError
from albert_rc.io.json import parse_json
from albert_rc.report.plots import lines, save
from experiments.shared.command import command, make_stores
from experiments.shared.costs import costs
from experiments.shared.phases import resumed
from experiments.shared.rows import Row, fill, table_parser

ROWS: dict[str, dict[str, int]] = {
    "the same shape": {},
    "3 groups": {"num_groups": 3},
    "2 groups": {"num_groups": 2},
    "1 group": {"num_groups": 1},
    "E 128": {"embedding_size": 128},
    "3 groups, E 128": {"num_groups": 3, "embedding_size": 128},
    "2 groups, E 128": {"num_groups": 2, "embedding_size": 128},
    "1 group, E 128": {"num_groups": 1, "embedding_size": 128},
    "E 64": {"embedding_size": 64},
    "3 groups, E 64": {"num_groups": 3, "embedding_size": 64},
    "2 groups, E 64": {"num_groups": 2, "embedding_size": 64},
    "1 group, E 64": {"num_groups": 1, "embedding_size": 64},
    "3 layers": {"num_layers": 3},
    "3 layers, 1 group, E 64": {"num_layers": 3, "num_groups": 1, "embedding_size": 64},
}
TEACHER = "the teacher itself"
WORDS = ", masked words first"
"""Added to the name of a row that learns them in between."""


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


def measure(folder: Path | str, data: Path, arguments: argparse.Namespace) -> Row:
    """Accuracy on dev, time and size."""
    answers = arguments.work / f"{Path(folder).name} answers.json"
    command("predict", "--data", data / "dev.pt", "--model", folder, "--out", answers)
    gold = arguments.papers / "dev"
    found = parse_json(command("evaluate", answers, gold, "--json").encode())
    alone = arguments.side_by_side == 1
    spent, parameters = costs(folder, data / "dev.pt", timed=alone)
    return {
        "accuracy": found["accuracy"],
        "interval": [found["low"], found["high"]],
        **({"milliseconds": spent} if alone else {}),
        "parameters": parameters,
    }


def possible(model: str, rows: list[str]) -> list[str]:
    """The rows that are smaller than a model, or as large as it where that is what they say."""
    config, _ = read_config(resolve_source(model))
    found = []
    for name in rows:
        try:
            smaller_shape(config, ROWS[name])
        except UsageError as error:
            print(f"{name}: left out ({error})")
            continue
        if any(getattr(config, setting) == value for setting, value in ROWS[name].items()):
            print(f"{name}: left out, as {model} has some of it already")
            continue
        found.append(name)
    return found


def run(arguments: argparse.Namespace, name: str, taught: bool, seed: int | None) -> Row:
    """Make the student, train it and measure it; or measure the teacher."""
    data = prepare(arguments)
    if name == TEACHER:
        return measure(arguments.model, data, arguments)
    out = arguments.work / f"{name} {'taught' if taught else 'alone'} {seed}"
    shape = ROWS[name.removesuffix(WORDS)]
    start, made = arguments.model, [f"--set={key}={value}" for key, value in shape.items()]
    if name.endswith(WORDS):
        words, done = arguments.work / name, arguments.work / f"{name}.done"
        if not done.is_file():
            command(
                "pretrain", "--data", arguments.words, "--model", start, "--out", words, *made,
                "--teacher", start, "--pair", "none", "--max-ngram", 1, "--optimizer", "adamw",
                "--batch-size", 32, "--max-steps", arguments.word_steps, "--learning-rate", 4e-4,
                "--warmup", 0.05, "--teacher-weight", 0.7, "--save-steps", 50, *resumed(words),
            )  # fmt: skip
            done.touch()
        start, made = words, []
    teacher = ["--teacher", data / "scores.jsonl"] if taught else []
    command(
        "train", "--data", data / "train", "--model", start, "--out", out, *made,
        *teacher, "--max-steps", arguments.steps, "--batch-size", 16, "--seed", seed,
        "--learning-rate", arguments.learning_rate, "--set", "warmup=0.1",
        "--save-steps", 50, *resumed(out),
    )  # fmt: skip
    row = measure(out, data, arguments)
    shutil.rmtree(out)
    if name.endswith(WORDS):
        row["word_steps"] = arguments.word_steps
    return row | {"steps": arguments.steps, "learning_rate": arguments.learning_rate}


def show(table: list[Row]) -> None:
    """The table, means over seeds."""
    head = ("", "seeds", "parameters", "ms a paper", "answers alone", "and the teacher", WORDS[2:])
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in (TEACHER, *ROWS):
        rows = [row for row in table if row["name"] == name]
        if not rows:
            continue
        cells = []
        after = [row for row in table if row["name"] == name + WORDS]
        alone, taught = ([row for row in rows if row["taught"] is way] for way in (False, True))
        for found in (alone, taught, after):
            cells.append(f"{mean(row['accuracy'] for row in found):.2%}" if found else "")
        seeds = len({row["seed"] for row in rows})
        size = rows[0]["parameters"] / 1e6
        times = [row["milliseconds"] for row in rows if "milliseconds" in row]
        spent = f"{mean(times):.1f}" if times else ""
        print(f"| {name} | {seeds} | {size:.1f} M | {spent} | {' | '.join(cells)} |")


def draw(table: list[Row], path: Path) -> None:
    """Accuracy against size and against time, a point a row of the table."""
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    labels = {"parameters": "million parameters", "milliseconds": "ms a paper"}
    for cost, label in labels.items():
        for names, taught, label_of in (
            ((TEACHER,), False, TEACHER),
            (ROWS, False, "from the answers alone"),
            (ROWS, True, "and from the teacher"),
            ([name + WORDS for name in ROWS], True, "with masked words first"),
        ):
            points = []
            for name in names:
                rows = [
                    row
                    for row in table
                    if (row["name"], row["taught"]) == (name, taught) and cost in row
                ]
                if rows:
                    accuracy = 100 * mean(row["accuracy"] for row in rows)
                    points.append((mean(row[cost] for row in rows), accuracy))
            scale = 1e6 if cost == "parameters" else 1
            found = [x / scale for x, _ in points], [y for _, y in points]
            panels.setdefault(f"accuracy, % (by {label})", {})[label_of] = found
    figure = lines(panels, list(labels.values()), "Smaller models made of one that reads")
    for axis in figure.axes:
        for line in axis.get_lines():
            line.set_linestyle("none")
    print(*save(figure, path))


def main() -> None:
    """Run what is not there yet, and print the table."""
    parser = table_parser(__doc__, "papers", seeds=3)
    parser.add_argument("--steps", type=int, default=140, help="of training (default: 140)")
    parser.add_argument("--learning-rate", type=float, default=3e-4, help="default: 3e-4")
    parser.add_argument(
        "--rows", nargs="+", choices=ROWS, default=list(ROWS), help="rows to make (default: all)"
    )
    parser.add_argument("--words", type=Path, help="texts for masked words, by `pretrain data`")
    parser.add_argument("--word-steps", type=int, default=400, help="of them (default: 400)")
    parser.add_argument("--figure", type=Path, help="also draw the table")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    rows = possible(arguments.model, arguments.rows)
    keys: list[Row] = [{"name": TEACHER, "taught": False, "seed": None}]
    keys += [
        {"name": name, "taught": taught, "seed": seed}
        for seed in range(arguments.seeds)
        for name in rows
        for taught in (False, True)
    ]
    if arguments.words:
        keys += [
            {"name": name + WORDS, "taught": True, "seed": seed}
            for seed in range(arguments.seeds)
            for name in rows
            if ROWS[name]
        ]
    if arguments.side_by_side > 1:
        prepare(arguments)
    table = fill(arguments.out, keys, partial(run, arguments), arguments.side_by_side)
    show(table)
    if arguments.figure:
        draw(table, arguments.figure)


if __name__ == "__main__":
    main()
