"""Dense attention, Reformer's hashing and ours, fine-tuned alike on five tasks.

    python experiments/lsh_tasks.py SOURCES MODEL WORK OUT.json [--seeds 3] [--tasks mrpc ...]
        [--attention faithful ...] [--learning-rate 1e-4] [--epochs 6] [--rounds 8]

SOURCES holds glue/mrpc, glue/sst2, glue/nli and squad/xquad.en.json. Every row fine-tunes MODEL
with the same settings and seed; only the attention differs. The last weights are measured, so
nothing is chosen by the questions that are measured (but for SQuAD 2.0's threshold, which is tuned
on them for every row alike). Rows that stand in OUT.json are not run again; other settings want
another WORK and OUT.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from command import command
from rows import fill

from albert_rc.io.json import parse_json, write_json

ROWS = 3000  # of a dev table: enough for half a point
ATTENTION: dict[str, tuple[str, ...]] = {
    "dense": ("--attention", "dense"),
    "faithful": ("--attention", "lsh", "--lsh-form", "faithful"),
    "ours": ("--attention", "lsh", "--lsh-form", "ours"),
}


@dataclass(frozen=True)
class Task:
    """Where a task's papers come from, and how it is fine-tuned."""

    raw: Callable[[Path, Path], None]
    """Writes train and dev of some sources into a folder."""
    length: int = 128
    chunk: int = 8
    rounds: int = 2
    """Small, so that hashing hides something: with chunks of 64 it would be dense attention."""
    epochs: int = 3
    options: tuple[object, ...] = field(default=("--batch-size", 32, "--learning-rate", 5e-4))
    tuned: bool = False
    """Needs the dev store in training."""


def _lines(source: Path, target: Path, most: int | None = None) -> None:
    lines = source.read_text("utf-8-sig").splitlines()[: None if most is None else most + 1]
    target.write_text("\n".join([*lines, ""]), "utf-8")


def _mrpc(sources: Path, raw: Path) -> None:
    for split, name in (("train", "train"), ("dev", "test")):
        _lines(sources / "glue/mrpc" / f"msr_paraphrase_{name}.txt", raw / f"{split}.tsv")


def _table(name: str) -> Callable[[Path, Path], None]:
    def write(sources: Path, raw: Path) -> None:
        _lines(sources / "glue" / name / "train.tsv", raw / "train.tsv")
        _lines(sources / "glue" / name / "dev.tsv", raw / "dev.tsv", ROWS)

    return write


def _squad(sources: Path, raw: Path) -> None:
    articles = json.loads((sources / "squad/xquad.en.json").read_bytes())["data"]
    cut = 3 * len(articles) // 4
    for split, part in (("train", articles[:cut]), ("dev", articles[cut:])):
        write_json(raw / f"{split}.json", {"version": "1.1", "data": part})


def _squad_2(sources: Path, raw: Path) -> None:
    """Every second question is also asked of a paragraph of another article, in vain."""
    _squad(sources, raw)
    for split in ("train", "dev"):
        content = parse_json((raw / f"{split}.json").read_bytes())
        paragraphs = [p for article in content["data"] for p in article["paragraphs"]]
        owners = [i for i, article in enumerate(content["data"]) for _ in article["paragraphs"]]
        asked = [list(paragraph["qas"]) for paragraph in paragraphs]
        for number, questions in enumerate(asked):
            shift = next(
                k for k in range(1, len(paragraphs))
                if owners[(number + k) % len(paragraphs)] != owners[number]
            )  # fmt: skip
            other = paragraphs[(number + shift) % len(paragraphs)]
            other["qas"] += [
                {**question, "id": f"{question['id']}-x", "answers": [], "is_impossible": True}
                for question in questions[::2]
            ]
        write_json(raw / f"{split}.json", content | {"version": "v2.0"})


ON_WINDOWS = ("--batch-size", 16, "--learning-rate", 5e-4)
TASKS = {
    "mrpc": Task(_mrpc),
    "nli": Task(_table("nli")),
    "sst-2": Task(_table("sst2")),
    "squad 1.1": Task(_squad, 384, 16, 4, options=ON_WINDOWS),
    "squad 2.0": Task(_squad_2, 384, 16, 4, options=ON_WINDOWS, tuned=True),
}


def prepare(name: str, task: Task, arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The task's raw papers and its stores, made once."""
    raw, data = arguments.work / name / "raw", arguments.work / name / "data"
    if not (data / "dev.pt").is_file():
        raw.mkdir(parents=True, exist_ok=True)
        task.raw(arguments.sources, raw)
        command(
            "preprocess",
            raw,
            "--model",
            arguments.model,
            "--out",
            data,
            "--max-length",
            task.length,
        )
        (data / "train").mkdir(exist_ok=True)
        shutil.copyfile(data / "train.pt", data / "train" / "train.pt")
        if task.tuned:
            shutil.copyfile(data / "dev.pt", data / "train" / "dev.pt")
    return raw, data


def run(arguments: argparse.Namespace, task: str, attention: str, seed: int) -> dict[str, Any]:
    """Fine-tune, answer, and count."""
    about = TASKS[task]
    raw, data = prepare(task, about, arguments)
    out, started = arguments.work / task / f"{attention} {seed}", time.perf_counter()
    how = [*ATTENTION[attention]]
    if attention != "dense":
        rounds = arguments.rounds or about.rounds
        how += ["--lsh-chunk", str(about.chunk), "--lsh-rounds", str(rounds)]
    epochs = arguments.epochs or about.epochs
    options = dict(zip(about.options[::2], about.options[1::2], strict=True))
    if arguments.learning_rate:
        options["--learning-rate"] = arguments.learning_rate
    chosen = [word for pair in options.items() for word in pair]
    command(
        "train", "--data", data / "train", "--model", arguments.model, "--out", out, "--seed", seed,
        "--epochs", epochs, "--warmup", 0.1, *chosen, *how,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    answers = out / "answers.json"
    command("predict", "--data", data / "dev.pt", "--model", out, "--out", answers)
    gold = next(raw.glob("dev.*"))
    metrics = parse_json(command("evaluate", answers, gold, "--json").encode())["metrics"]
    shutil.rmtree(out)
    return {
        "metrics": {k: v["value"] for k, v in metrics.items()},
        "train_seconds": round(seconds),
        "epochs": epochs,
        "learning_rate": options["--learning-rate"],
    }


def show(table: list[dict[str, Any]]) -> None:
    """Each task's metrics by attention: the mean over seeds, and their spread."""
    for name in dict.fromkeys(row["task"] for row in table):
        for attention in ATTENTION:
            rows = [row for row in table if (row["task"], row["attention"]) == (name, attention)]
            said = [f"{name}, {attention}, {len(rows)} seed(s)"]
            for metric in rows[0]["metrics"] if rows else ():
                found = [row["metrics"][metric] for row in rows]
                spread = f" (sd {stdev(found):.4f})" if len(found) > 1 else ""
                said.append(f"{metric} {mean(found):.4f}{spread}")
            print("; ".join(said))


def main() -> None:
    """Run what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--attention", nargs="+", choices=ATTENTION, default=list(ATTENTION))
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rounds", type=int)
    arguments = parser.parse_args()
    keys = (
        {"task": name, "attention": attention, "seed": seed}
        for seed in range(arguments.seeds)
        for name in arguments.tasks
        for attention in arguments.attention
    )
    show(fill(arguments.out, keys, partial(run, arguments)))


if __name__ == "__main__":
    main()
