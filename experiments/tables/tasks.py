"""Exam papers, GLUE and SQuAD, on which models are fine-tuned in several ways, all else equal."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import torch

from albert_rc.checkpoints.inspect import layer_distances
from albert_rc.checkpoints.load import load_model
from albert_rc.fields import flag_of
from albert_rc.io.json import parse_json, read_json_lines, write_json
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import choose_precision
from experiments.shared.command import Done, command, make_stores, watched
from experiments.shared.costs import costs
from experiments.shared.phases import resumed
from experiments.shared.rows import Row, fill, table_parser

SAMPLE = Path(__file__).parents[2] / "data/sample/cloze"
ROWS = 3000  # of a dev table: enough for half a point
SHORT = 20
"""Steps of the trainings whose time and memory are measured."""
SAVED = 100
"""Steps after which a training's state is saved, so that it goes on where it was stopped."""


@dataclass(frozen=True)
class Way:
    """How the rows of one name are fine-tuned."""

    train: tuple[object, ...] = ()
    """Options of `train`."""
    through: Path | None = None
    """A script that runs albert-rc in its own way; see `command`."""
    hashed: bool = False
    """With LSH attention, whose chunks and rounds are the task's."""
    start: Callable[[str, Path, int], Path] | None = None
    """Makes the model to fine-tune, of a given one, in a given folder, for a seed."""
    times: int = 1
    """How many times as long as the other ways."""
    rounds: int = 1
    """How many times as many rounds of hashing."""
    all_pairs: bool = False
    """Hashing hides nothing: two chunks hold a paper, and each token attends to every bucket."""


@dataclass(frozen=True)
class First:
    """A training that may come before the tasks."""

    add_options: Callable[[argparse.ArgumentParser], object]
    train: Callable[[argparse.Namespace, Mapping[str, Way]], Mapping[str, Way]]
    """Given the arguments and the table's ways, returns the ways that begin with its models."""


PLAIN = {"plain": Way()}
"""Part of every table, so that tables of one model may share their file."""


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
    options: Mapping[str, object] = field(
        default_factory=lambda: {"--batch-size": 32, "--learning-rate": 5e-4}
    )
    tuned: bool = False
    """Needs the dev store in training."""
    steps: int | None = None
    """In place of `epochs`, where an epoch takes long."""


def _lines(source: Path, target: Path, rows: slice = slice(None), more: Path | None = None) -> None:
    """Copy a table's header and some of its rows, and the rows past `ROWS` of another."""
    header, *found = source.read_text("utf-8-sig").splitlines()
    kept = found[rows]
    if more is not None:
        kept += more.read_text("utf-8-sig").splitlines()[1:][ROWS:]
    target.write_text("\n".join([header, *kept, ""]), "utf-8")


def _mrpc(sources: Path, raw: Path) -> None:
    for split, name in (("train", "train"), ("dev", "test")):
        _lines(sources / "glue/mrpc" / f"msr_paraphrase_{name}.txt", raw / f"{split}.tsv")


def _table(name: str) -> Callable[[Path, Path], None]:
    """Dev is the first `ROWS` of the dev table; what is left of it is learned from."""

    def write(sources: Path, raw: Path) -> None:
        train, dev = (sources / "glue" / name / f"{split}.tsv" for split in ("train", "dev"))
        _lines(train, raw / "train.tsv", more=dev)
        _lines(dev, raw / "dev.tsv", slice(ROWS))

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


def _ele(sources: Path, raw: Path) -> None:
    for split in ("train", "dev"):
        shutil.copytree(sources / "ele" / split, raw / split, dirs_exist_ok=True)


def _dream(sources: Path, raw: Path) -> None:
    for split in ("train", "dev"):
        shutil.copyfile(sources / f"dream/{split}.json", raw / f"{split}.json")


ON_WINDOWS = {"--batch-size": 16, "--learning-rate": 5e-4}
TASKS = {
    "ele": Task(_ele, 512, 32, 4, options=ON_WINDOWS, steps=280),
    "dream": Task(_dream, 320, 16, 4, epochs=1, options=ON_WINDOWS),
    "mrpc": Task(_mrpc),
    "nli": Task(_table("nli")),
    "sst-2": Task(_table("sst2")),
    "squad 1.1": Task(_squad, 384, 16, 4, options=ON_WINDOWS),
    "squad 2.0": Task(_squad_2, 384, 16, 4, options=ON_WINDOWS, tuned=True),
}


def prepare(name: str, arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The task's raw papers and its stores, made once."""
    task = TASKS[name]
    raw, data = arguments.work / name / "raw", arguments.work / name / "data"
    if not (data / "done").is_file():
        raw.mkdir(parents=True, exist_ok=True)
        task.raw(arguments.sources, raw)
        make_stores(raw, arguments.model, data, "--max-length", task.length)
        if task.tuned:
            shutil.copyfile(data / "dev.pt", data / "train" / "dev.pt")
        (data / "done").touch()
    return raw, data


def prepare_all(arguments: argparse.Namespace, ways: Mapping[str, Way]) -> None:
    """What rows made at the same time would otherwise make at the same time."""
    if arguments.side_by_side > 1:
        for task in arguments.tasks:
            prepare(task, arguments)
        for way in ways.values():
            for seed in range(arguments.seeds):
                if way.start:
                    way.start(arguments.model, arguments.work, seed)


def _settings(
    arguments: argparse.Namespace, ways: Mapping[str, Way], task: str, way: str
) -> tuple[dict[str, object], Row]:
    """Options of `train`, without its length, and its length: epochs or max_steps."""
    about, chosen = TASKS[task], ways[way]
    options = dict(about.options)
    if arguments.learning_rate:
        options["--learning-rate"] = arguments.learning_rate
    steps = arguments.task_steps or (None if arguments.epochs else about.steps)
    name, value = ("max_steps", steps) if steps else ("epochs", arguments.epochs or about.epochs)
    return options, {name: chosen.times * value}


def _train(
    arguments: argparse.Namespace, ways: Mapping[str, Way], task: str, way: str, seed: int,
    out: Path, *more: object,
) -> Done:  # fmt: skip
    """Fine-tune in a way."""
    about, chosen = TASKS[task], ways[way]
    _, data = prepare(task, arguments)
    options, _ = _settings(arguments, ways, task, way)
    how = [word for pair in options.items() for word in pair]
    if chosen.hashed:
        rounds = chosen.rounds * (arguments.rounds or about.rounds)
        found: tuple[str, ...] = (f"lsh.chunk={about.chunk}", f"lsh.rounds={rounds}")
        if chosen.all_pairs:
            found = (f"lsh.chunk={about.length // 2}", "lsh.rounds=1", "lsh.probes=8")
        how += [word for setting in found for word in ("--set", setting)]
    model: object = arguments.model
    if chosen.start:
        model = chosen.start(arguments.model, arguments.work, seed)
    return watched(
        "train", "--data", data / "train", "--model", model, "--out", out, "--seed", seed,
        "--set", "warmup=0.1", *how, *chosen.train, *more, through=chosen.through,
    )  # fmt: skip


def fine_tune(
    arguments: argparse.Namespace, ways: Mapping[str, Way], task: str, way: str, seed: int
) -> Row:
    """Fine-tune, answer, and count."""
    raw, data = prepare(task, arguments)
    out = arguments.work / task / f"{way} {seed}"
    options, limit = _settings(arguments, ways, task, way)
    (name, value), *_ = limit.items()
    _train(
        arguments, ways, task, way, seed, out,
        flag_of(name), value, "--save-steps", SAVED, *resumed(out),
    )  # fmt: skip
    answers = out / "answers.json"
    command("predict", "--data", data / "dev.pt", "--model", out, "--out", answers)
    found = parse_json(command("evaluate", answers, next(raw.glob("dev*")), "--json").encode())
    metrics = found.get("metrics") or {"accuracy": {"value": found["accuracy"]}}
    layers = [] if ways[way].hashed else layers_of(out)
    shutil.rmtree(out)
    return {
        "metrics": {name: metric["value"] for name, metric in metrics.items()},
        "layers": layers,
        **limit,
        "learning_rate": options["--learning-rate"],
    }


def measure(arguments: argparse.Namespace, ways: Mapping[str, Way], task: str, way: str) -> Row:
    """Time and memory, of a short training and of answering dev papers with its model."""
    _, data = prepare(task, arguments)
    out = arguments.work / task / f"{way} costs"
    trained = _train(
        arguments, ways, task, way, 0, out, "--max-steps", SHORT, "--save-steps", 10 * SHORT
    )
    lines = [line for line in read_json_lines(out / "metrics.jsonl") if line["kind"] == "train"]
    milliseconds, parameters = costs(out, data / "dev.pt")
    shutil.rmtree(out)
    return {
        "parameters": parameters,
        "milliseconds": milliseconds,
        "train_mebibytes": trained.mebibytes,
        "train_speed": next(v for k, v in lines[-1].items() if k.endswith("_per_second")),
    }


def layers_of(folder: Path | str) -> list[tuple[float, float]]:
    """L2 distance and degrees between the input and output of each layer, on the sample's papers.

    See Lan et al. 2020, section 3.1, Figure 1.
    """
    loaded = load_model(folder, "choice")  # the encoder is what counts
    texts = [paper.filled() for paper in read_split(SAMPLE / "dev").passages]
    found = layer_distances(loaded.model.encoder, loaded.tokenizer, texts)
    return [(round(layer.distance, 3), round(layer.degrees, 2)) for layer in found]


def show(table: list[Row], ways: Mapping[str, Way]) -> None:
    """Each task's metrics and costs in each way: means over seeds, and the metrics' spread."""
    for task in dict.fromkeys(row["task"] for row in table if "task" in row):
        found = {
            way: [row for row in table if (row.get("task"), row.get("way")) == (task, way)]
            for way in ways
        }
        counted = {way: [row for row in rows if "metrics" in row] for way, rows in found.items()}
        metrics = next((list(rows[0]["metrics"]) for rows in counted.values() if rows), [])
        head = ("", "seeds", *metrics, *COSTS.values())
        print(f"\n**{task}**\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for way, rows in found.items():
            if rows:
                values = [
                    _spread([row["metrics"][name] for row in counted[way]]) for name in metrics
                ]
                values += [_mean([row[cost] for row in rows if cost in row]) for cost in COSTS]
                print(f"| {way} | {len(counted[way])} | {' | '.join(values)} |")


COSTS = {
    "parameters": "parameters",
    "milliseconds": "ms a paper",
    "train_mebibytes": "MiB in training",
    "train_speed": "windows, questions or rows/s in training",
}


def _spread(values: list[float]) -> str:
    """A metric in percent: the mean, and the standard deviation between seeds."""
    spread = f" (sd {100 * stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{spread}" if values else ""


def _mean(values: list[float]) -> str:
    return f"{mean(values):,.{0 if mean(values) > 100 else 2}f}" if values else ""


def add_options(
    parser: argparse.ArgumentParser,
    tasks: Sequence[str],
    rate: float | None,
    steps: str = "--steps",
) -> None:
    """The options of every table of tasks.

    Args:
        parser: gets the options.
        tasks: the default of --tasks.
        rate: the default of --learning-rate; None for each task's own.
        steps: name of the option for steps.
    """
    parser.add_argument(
        "--tasks", nargs="+", choices=TASKS, default=list(tasks),
        help=f"tasks to fine-tune on (default: {', '.join(tasks)})",
    )  # fmt: skip
    parser.add_argument(
        "--learning-rate", type=float, default=rate,
        help=f"of fine-tuning (default: {rate or 'as the task has it, 5e-4'})",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, help="epochs instead of the task's (3; DREAM: 1)")
    parser.add_argument(
        steps, dest="task_steps", type=int,
        help="steps instead of epochs (ELE has 280 unless --epochs is given)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, help="rounds of hashing instead of the task's 2 or 4")


def run(
    description: str,
    ways: Mapping[str, Way],
    tasks: Sequence[str] = tuple(TASKS),
    rate: float | None = None,
    first: First | None = None,
) -> None:
    """The command line of a table: run what is not there yet, and print it.

    Args:
        description: the script's docstring.
        ways: the rows of each task.
        tasks: those that are run by default.
        rate: the default learning rate; None for each task's own.
        first: a training that may come before the tasks.
    """
    parser = table_parser(description, "sources", seeds=3)
    add_options(parser, tasks, rate)
    if first:
        first.add_options(parser)
    parser.add_argument(
        "--ways", nargs="+", choices=ways, default=list(ways), help="rows to make (default: all)"
    )
    parser.add_argument(
        "--costs", action="store_true",
        help=f"then measure parameters, time and memory: {SHORT} steps of training in each way, "
        "and the dev papers; nothing else should be running",
    )  # fmt: skip
    arguments = parser.parse_args()
    prepare_all(arguments, {way: ways[way] for way in arguments.ways})
    if first:
        ways = first.train(arguments, ways)
    keys = (
        {"task": task, "way": way, "seed": seed}
        for seed in range(arguments.seeds)
        for task in arguments.tasks
        for way in arguments.ways
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = {"precision": choose_precision(None, device, learning=True)}
    table = fill(
        arguments.out, keys, partial(fine_tune, arguments, ways), arguments.side_by_side, settings
    )
    if arguments.costs:
        measured = [
            {"task": task, "way": way, "costs": True}
            for task in arguments.tasks
            for way in arguments.ways
        ]
        table = fill(
            arguments.out, measured,
            lambda task, way, **_: measure(arguments, ways, task, way),
        )  # fmt: skip
    show(table, ways)
