"""Pretraining goes on from real weights with SOP, with NSP, or with neither; then tasks.

    python -m experiments.tables.pairs SOURCES MODEL WORK OUT.json [--seeds 3] [--steps 1000]
        [--pairs none nsp sop] [--corpus CORPUS] [--head MODEL] [--max-length 256]
        [--pretraining-rate 2e-4] [--pair-weight 30] [--tasks mrpc nli ...] [--learning-rate 1e-4]
        [--epochs 3] [--task-steps 280] [--first-seed 0] [--task-seeds 3]

Every model is asked both questions in the end, with words hidden as in training and without, and
then fine-tuned on tasks (Lan et al. 2020, Table 5), next to MODEL without more pretraining (plain).
A row of pretraining also has the share of pairs that were right in training, step by step (curve),
which says whether SOP is learned.

SOURCES holds the texts and papers that reader.py names, and glue/mrpc, glue/nli and glue/sst2. The
corpus is made of the texts in WORK/corpus, without what overlaps with dev or test
papers, unless CORPUS, from `pretrain data` with MODEL's vocabulary, is given. The pretrained models
stay in WORK. A MODEL that was fine-tuned has no head for masked words any more; --head takes that
of another model of its shape and vocabulary.

A training that was stopped goes on where its state was saved, and rows in OUT.json are not run
again: the same command goes on. Other settings need another WORK and OUT.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.io.json import read_json_lines
from albert_rc.runtime.devices import processes
from albert_rc.training.config import TrainConfig
from albert_rc.training.objectives.pretraining import Pretraining
from experiments.models.reader import APART, FAR, NEAR, readable
from experiments.shared.command import command
from experiments.shared.phases import resumed
from experiments.shared.rows import Row, fill, table_parser
from experiments.tables.tasks import PLAIN, Way, add_options, fine_tune, prepare_all, show

PAIRS = ("none", "nsp", "sop")
NOTHING_HIDDEN = MaskConfig(masked=0, random=0)
TASKS = ("mrpc", "nli", "sst-2", "ele", "dream")


def prepare(arguments: argparse.Namespace) -> Path:
    """The corpus; shards that are there already are kept."""
    if arguments.corpus:
        given: Path = arguments.corpus
        return given
    corpus: Path = arguments.work / "corpus"
    if not (corpus / "done").is_file():
        sources, text = arguments.sources, arguments.work / "text"
        places = [readable(sources / place, text) for place in (*NEAR, *FAR)]
        exclude = [part for place in APART for part in ("--exclude", sources / place)]
        command(
            "pretrain", "data", *places, "--model", arguments.model, "--out", corpus,
            "--max-length", arguments.max_length, "--on-error", "skip", *exclude,
        )  # fmt: skip
        (corpus / "done").touch()
    return corpus


def start(arguments: argparse.Namespace) -> Path | str:
    """The model to begin with, with the head of another one if that is given."""
    folder: Path = arguments.work / "start"
    if not arguments.head:
        model: str = arguments.model
        return model
    if not (folder / "model.safetensors").is_file():
        loaded = load_model(arguments.model, "pretraining")
        other = load_model(arguments.head, "pretraining", with_pairs=False)
        if other.tokenizer.fingerprint != loaded.tokenizer.fingerprint:
            raise SystemExit(f"--head {arguments.head}: has another vocabulary than the model")
        head = loaded.model.head.state_dict() | other.model.head.state_dict()
        loaded.model.head.load_state_dict(head)
        save_model(loaded.model, loaded.tokenizer, folder)
    return folder


def asked(folder: Path, corpus: Path, pair: str, masking: MaskConfig) -> dict[str, float]:
    """A model's shares of right answers on the held-out sequences, with one kind of pairs."""
    loaded = load_model(folder, "pretraining", with_pairs=pair != "none")
    settings = TrainConfig(batch_size=32, precision="bf16")
    held_out = Corpus(corpus / "dev")
    objective = Pretraining(
        loaded.model, loaded.tokenizer, held_out, held_out, settings, masking, pair
    )
    with processes() as group:
        evaluation = objective.evaluate(group)
    assert evaluation is not None
    return evaluation.values


def run(arguments: argparse.Namespace, corpus: Path, pair: str, seed: int) -> Row:
    """Pretrain with one kind of pairs, and ask both questions."""
    out = _folder(pair, arguments.work, seed)
    row: Row = {"steps": arguments.steps, "pretraining_rate": arguments.pretraining_rate}
    weight: tuple[object, ...] = ()
    if pair != "none":
        row["pair_weight"] = arguments.pair_weight
        weight = ("--set", f"pair_weight={arguments.pair_weight}")
    command(
        "pretrain", "--data", corpus, "--model", arguments.model, "--out", out,
        "--pair", pair, "--seed", seed, "--max-steps", arguments.steps, "--batch-size", 32,
        "--learning-rate", arguments.pretraining_rate, "--set", "optimizer=adamw",
        "--save-steps", max(1, arguments.steps // 10), "--set", f"eval_steps={arguments.steps}",
        *weight, *resumed(out),
    )  # fmt: skip
    noted = [line for line in read_json_lines(out / "metrics.jsonl") if line["kind"] == "train"]
    if pair != "none":
        row["curve"] = [(line["step"], line["pair_accuracy"]) for line in noted]
    for question in ("sop", "nsp") if pair != "none" else ("none",):
        found = asked(out, corpus, question, MaskConfig())
        row[f"words, {question}"] = found["accuracy"]
        if question != "none":
            row[question] = found["pair_accuracy"]
            whole = asked(out, corpus, question, NOTHING_HIDDEN)
            row[f"{question}, no words hidden"] = whole["pair_accuracy"]
    return row


def _folder(pair: str, work: Path, seed: int) -> Path:
    return work / f"{pair} {seed}"


def _pretrained(pair: str, seeds: range) -> Callable[[str, Path, int], Path]:
    """The model of a seed of the tasks, which may be more than those of the pretraining."""
    return lambda model, work, seed: _folder(pair, work, seeds[(seed - seeds.start) % len(seeds)])


def main() -> None:
    """Run what is not there yet."""
    parser = table_parser(__doc__, "sources", seeds=3)
    parser.add_argument("--steps", type=int, default=1000, help="of pretraining (default: 1000)")
    parser.add_argument(
        "--pretraining-rate", type=float, default=2e-4, help="its learning rate (default: 2e-4)"
    )
    parser.add_argument(
        "--pair-weight", type=float, default=1.0, help="of the pairs' loss (default: 1)"
    )
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=PAIRS, help="default: all")
    parser.add_argument("--corpus", type=Path, help="from `pretrain data` (default: made in WORK)")
    parser.add_argument(
        "--head", metavar="MODEL", help="model whose head for masked words to begin with"
    )
    parser.add_argument(
        "--max-length", type=int, default=256, help="tokens of its sequences (default: 256)"
    )
    parser.add_argument(
        "--first-seed", type=int, default=0,
        help="of --seeds; another one than MODEL was pretrained with draws other pairs, in another "
        "order (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--task-seeds", type=int,
        help="seeds of the fine-tuning; more than --seeds fine-tune the same models several times "
        "(default: --seeds)",
    )  # fmt: skip
    add_options(parser, TASKS, 1e-4, steps="--task-steps")
    arguments = parser.parse_args()
    arguments.model = start(arguments)
    first = arguments.first_seed
    seeds = range(first, first + arguments.seeds)
    keys = [{"pair": pair, "seed": seed} for seed in seeds for pair in arguments.pairs]
    if arguments.side_by_side > 1:
        prepare(arguments)
    table = fill(
        arguments.out, keys, lambda **key: run(arguments, prepare(arguments), **key),
        arguments.side_by_side,
    )  # fmt: skip
    print("| | seed | words | NSP | SOP |\n|---|---|---|---|---|")
    for row in (row for row in table if "pair" in row):
        words = next(value for name, value in row.items() if name.startswith("words"))
        cells = (f"{row[question]:.1%}" if question in row else "-" for question in ("nsp", "sop"))
        print(f"| {row['pair']} | {row['seed']} | {words:.1%} | {' | '.join(cells)} |")
    ways = PLAIN | {pair: Way(start=_pretrained(pair, seeds)) for pair in arguments.pairs}
    prepare_all(arguments, {})
    tasks = [
        {"task": task, "way": way, "seed": seed}
        for seed in range(first, first + (arguments.task_seeds or arguments.seeds))
        for task in arguments.tasks
        for way in ways
    ]
    one = partial(fine_tune, arguments, ways)
    show(fill(arguments.out, tasks, one, arguments.side_by_side), ways)


if __name__ == "__main__":
    main()
