"""Pretraining goes on from real weights with SOP, with NSP, or with neither.

    python experiments/pairs.py CORPUS MODEL WORK OUT.json [--steps 1000] [--pairs none nsp sop]

Every model is asked both questions in the end (Lan et al. 2020, Table 5). CORPUS is what `pretrain
data` wrote with MODEL's vocabulary. Runs that were stopped go on; rows that stand in OUT.json are
not run again. The models stay in WORK, to be fine-tuned on tasks:

    python experiments/lsh_tasks.py SOURCES "WORK/sop 0" WORK/tasks-sop OUT.json --ways plain
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from command import command
from rows import Row, fill, table_parser

from albert_rc.checkpoints.load import load_model
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.runtime.devices import processes
from albert_rc.training.config import TrainConfig
from albert_rc.training.objectives.pretraining import Pretraining


def asked(folder: Path, corpus: Path, pair: str) -> dict[str, float]:
    """A model's shares of right answers on the held-out sequences, with one kind of pairs."""
    loaded = load_model(folder, "pretraining", with_pairs=pair != "none")
    settings = TrainConfig(batch_size=32, precision="bf16")
    held_out = Corpus(corpus / "dev")
    objective = Pretraining(
        loaded.model, loaded.tokenizer, held_out, held_out, settings, MaskConfig(), pair
    )
    with processes() as group:
        evaluation = objective.evaluate(group)
    assert evaluation is not None
    return evaluation.values


def run(arguments: argparse.Namespace, pair: str, seed: int) -> Row:
    """Pretrain with one kind of pairs, and ask both questions."""
    out = arguments.work / f"{pair} {seed}"
    begun = any(out.glob("resume-*.pt"))
    command(
        "pretrain", "--data", arguments.corpus, "--model", arguments.model, "--out", out,
        "--pair", pair, "--seed", seed, "--max-steps", arguments.steps, "--batch-size", 32,
        "--learning-rate", arguments.learning_rate, "--set", "optimizer=adamw",
        "--save-steps", max(1, arguments.steps // 10), "--set", f"eval_steps={arguments.steps}",
        *(["--resume"] if begun else []),
    )  # fmt: skip
    row: Row = {"steps": arguments.steps, "learning_rate": arguments.learning_rate}
    for question in ("sop", "nsp") if pair != "none" else ("none",):
        found = asked(out, arguments.corpus, question)
        row[f"words, {question}"] = found["accuracy"]
        if question != "none":
            row[question] = found["pair_accuracy"]
    return row


def main() -> None:
    """Run what is not there yet."""
    parser = table_parser(__doc__, "corpus")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--pairs", nargs="+", default=["sop", "nsp", "none"])
    arguments = parser.parse_args()
    keys = (
        {"pair": pair, "seed": seed} for seed in range(arguments.seeds) for pair in arguments.pairs
    )
    fill(arguments.out, keys, partial(run, arguments))


if __name__ == "__main__":
    main()
