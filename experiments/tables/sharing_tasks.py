"""ALBERT's two ideas applied to the real weights of a BERT, each fine-tuned alike on tasks.

    python -m experiments.tables.sharing_tasks SOURCES BERT WORK OUT.json [--seeds 3]
        [--tasks mrpc ...]
        [--ways plain all ...] [--learning-rate 1e-4] [--epochs 3] [--steps 280] [--costs]
        [--words CORPUS [--word-steps 400]]

SOURCES holds ele, dream, glue/sst2, glue/mrpc and glue/nli. The rows are: nothing shared (plain,
the BERT itself, E = H), attention, feed-forward (ffn) or all shared, groups of layers shared, E
128 and 64, and fewer layers. Each has its metrics, and how far its layers move the tokens
(layer_figure.py draws that); with --costs also its parameters, milliseconds a paper, and memory and
papers a second in training.

BERT beside ALBERT: "plain" and "all" take the same time, and "all" and "1 layer" have the same
parameters, but for the projection; "1 layer, 6 times as long" trains for about as long as "all".

Layers that share weights begin with the mean of theirs, and factorised embeddings with their
projection; fine-tuning has to repair both. So this is what the ideas cost once a model has been
pretrained without them, which is not what Lan et al. 2020 measured. With --words, every row learns
masked words of CORPUS (`pretrain data` with BERT's vocabulary) between the two, for the same steps,
plain as well; its row has the share of masked dev words that are right. The last weights are
measured. A training that was stopped goes on where its state was
saved, and rows in OUT.json are not run again: the same command goes on. Other settings need another
WORK and OUT.json.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.io.json import read_json_lines
from experiments.models.conversion import as_albert, with_common
from experiments.shared.command import command
from experiments.shared.phases import resumed
from experiments.shared.rows import Row, fill
from experiments.tables.tasks import PLAIN, First, Way, run


def _common(part: str) -> Callable[[str, Path, int], Path]:
    def start(model: str, work: Path, seed: int) -> Path:
        folder = work / f"common {part}"
        if not (folder / "model.safetensors").is_file():
            loaded = load_model(model, "choice")
            save_model(with_common(as_albert(loaded.model), part), loaded.tokenizer, folder)
        return folder

    return start


WAYS = {
    **PLAIN,
    "attention": Way(start=_common("attention")),
    "ffn": Way(start=_common("ffn")),
    "3 groups": Way(("--set", "num_groups=3")),
    "2 groups": Way(("--set", "num_groups=2")),
    "all": Way(("--set", "num_groups=1")),
    "E 128": Way(("--set", "embedding_size=128")),
    "E 64": Way(("--set", "embedding_size=64")),
    "all, E 128": Way(("--set", "num_groups=1", "--set", "embedding_size=128")),
    "3 layers": Way(("--set", "num_layers=3")),
    "1 layer": Way(("--set", "num_layers=1")),
    "1 layer, 6 times as long": Way(("--set", "num_layers=1"), times=6),
}
TASKS = ("mrpc", "sst-2", "nli", "ele", "dream")


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--words", type=Path, metavar="CORPUS", help="let every row learn its masked words first"
    )
    parser.add_argument(
        "--word-steps", type=int, default=400,
        help="of 32 sequences, learning rate 4e-4 (default: 400)",
    )  # fmt: skip


def _after_words(way: str, seed: int) -> str:
    return f"words {way} {seed}"


def _learn_words(
    arguments: argparse.Namespace, ways: Mapping[str, Way], words: str, seed: int
) -> Row:
    """Make a row's model and let it learn masked words."""
    way, out = ways[words], arguments.work / _after_words(words, seed)
    start: object = arguments.model
    if way.start:
        start = way.start(arguments.model, arguments.work, seed)
    command(
        "pretrain", "--data", arguments.words, "--model", start, "--out", out, *way.train,
        "--pair", "none", "--seed", seed, "--max-steps", arguments.word_steps, "--batch-size", 32,
        "--learning-rate", 4e-4, "--set", "warmup=0.05", "--set", "optimizer=adamw",
        "--save-steps", max(1, arguments.word_steps // 10),
        "--set", f"eval_steps={arguments.word_steps}", *resumed(out),
    )  # fmt: skip
    *_, last = (line for line in read_json_lines(out / "metrics.jsonl") if line["kind"] == "dev")
    return {"steps": arguments.word_steps, "accuracy": last["accuracy"]}


def _words_first(arguments: argparse.Namespace, ways: Mapping[str, Way]) -> Mapping[str, Way]:
    """The ways, each from its model that has learned masked words, if there is a corpus."""
    if not arguments.words:
        return ways
    arguments.work.mkdir(parents=True, exist_ok=True)
    keys = [
        {"words": way, "seed": seed} for seed in range(arguments.seeds) for way in arguments.ways
    ]
    table = fill(
        arguments.out, keys, partial(_learn_words, arguments, ways), arguments.side_by_side
    )
    for row in (row for row in table if "words" in row):
        print(f"{row['words']}, seed {row['seed']}: {row['accuracy']:.1%} of masked words")
    return {name: Way(start=partial(_learned, name), times=way.times) for name, way in ways.items()}


def _learned(name: str, _model: str, work: Path, seed: int) -> Path:
    return work / _after_words(name, seed)


if __name__ == "__main__":
    run(str(__doc__), WAYS, TASKS, rate=1e-4, first=First(_add_options, _words_first))
