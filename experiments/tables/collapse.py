"""A deep encoder at a learning rate that collapses it: with `--on-collapse warn` and `restart`.

    python -m experiments.tables.collapse STORES VOCABULARY OUT.json [--learning-rate 1e-2]
        [--seeds 3]

STORES holds train.pt and dev.pt of one task, of `preprocess --model VOCABULARY`. A small encoder
of many layers starts from random weights (or from a checkpoint in place of VOCABULARY, with
`--scratch none`) and is trained by the same recipe and seed with each policy, and, as a yardstick,
at a rate that it bears. OUT.png and OUT.svg show the loss by the steps taken, those before a
restart included. The last weights are measured, not the best, for a collapse comes late as well.
Rows that stand in OUT.json are not run again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import parse_json, write_json
from albert_rc.report.plots import lines, save
from albert_rc.runtime.devices import Processes, choose_precision, processes
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.store import load_store
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import Reading
from albert_rc.training.tally import StepReport
from experiments.shared.rows import require_same
from experiments.shared.scripts import parser_of

SETTINGS = ("scratch", "batch_size", "steps", "warmup", "max_restarts")
"""Options that all rows of a table have in common; the seed and the rate are in each row."""
SMOOTHED = 10  # steps that a point of the figure stands for


class Curve:
    """The loss by the steps taken in all, also those that a restart threw away."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.losses: list[float] = []
        self._before = self._last = 0

    def add(self, report: StepReport) -> None:
        """Note what the progress bar would show, at the end of each stretch."""
        if report.step < self._last:
            self._before += self._last
        self._last = report.step
        if report.step % SMOOTHED == 0:
            self.steps.append(self._before + report.step)
            self.losses.append(round(report.figures["loss"], 4))


def run(arguments: argparse.Namespace, settings: TrainConfig, group: Processes) -> dict[str, Any]:
    """Train once; the curve, what the guard found, and how good the last weights are."""
    train, dev = (load_store(arguments.stores / f"{name}.pt") for name in ("train", "dev"))
    how: dict[str, Any] = {"seed": settings.seed, "labels": train.labels}
    if arguments.scratch != "none":
        how |= {"scratch": arguments.scratch, "shape": shape(arguments)}
    loaded = load_model(arguments.model, train.kind, **how)
    objective = Reading(loaded.model, loaded.tokenizer, train, dev, settings)
    curve, started = Curve(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(objective, settings, Path(folder), group)
        result = trainer.run(on_step=curve.add, on_event=lambda line: print("  ", line, flush=True))
        found = [parse_json(x) for x in (Path(folder) / "metrics.jsonl").read_bytes().splitlines()]
    return {
        "policy": settings.on_collapse,
        "seed": settings.seed,
        "learning_rate": settings.learning_rate,
        "dev": result.best_score,
        "restarts": result.restarts,
        "seconds": round(time.perf_counter() - started),
        "steps": curve.steps,
        "losses": curve.losses,
        "guard": [line for line in found if line["kind"] == "guard"],
    }


def shape(arguments: argparse.Namespace) -> dict[str, Any]:
    """The encoder's, of `--scratch`."""
    hidden = arguments.hidden_size
    return {
        "num_layers": arguments.num_layers,
        "sharing": arguments.sharing,
        "hidden_size": hidden,
        "embedding_size": hidden // 2,
        "num_heads": hidden // 16,
        "ffn_size": 4 * hidden,
    }


def main() -> None:
    """Run each seed with each policy, and draw the first seed."""
    parser = parser_of(__doc__)
    parser.add_argument("stores", type=Path)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--scratch", default="tiny")
    parser.add_argument("--num-layers", type=int, default=12)
    parser.add_argument("--sharing", default="all")
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-2)
    parser.add_argument("--sound-rate", type=float, default=1e-3)
    parser.add_argument("--max-restarts", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--warmup", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    keep_freed_memory()
    rows: list[dict[str, Any]] = []
    if arguments.out.is_file():
        before = parse_json(arguments.out.read_bytes())
        rows, settings_before = before["rows"], before["settings"]
        given = {name: str(getattr(arguments, name)) for name in SETTINGS}
        require_same(arguments.out, [settings_before], given)
    there = {(row["seed"], row["policy"], row["learning_rate"]) for row in rows}
    with processes("cpu") as group:
        settings = TrainConfig(
            learning_rate=arguments.learning_rate,
            batch_size=arguments.batch_size,
            max_steps=arguments.steps,
            eval_steps=arguments.steps,
            warmup=arguments.warmup,
            max_restarts=arguments.max_restarts,
            precision=choose_precision(None, group.device, learning=True),
        )
        for seed in range(arguments.seeds):
            for policy, rate in (
                ("warn", arguments.learning_rate),
                ("restart", arguments.learning_rate),
                ("warn", arguments.sound_rate),
            ):
                if (seed, policy, rate) in there:
                    continue
                print(f"seed {seed}, {policy}, learning rate {rate:g}", flush=True)
                recipe = replace(settings, seed=seed, on_collapse=policy, learning_rate=rate)
                rows.append(run(arguments, recipe, group))
                print({name: rows[-1][name] for name in ("dev", "restarts", "seconds")}, flush=True)
                given = {name: str(value) for name, value in vars(arguments).items()}
                unsaid = ["stores", "model", "out"]
                if arguments.scratch == "none":  # the checkpoint has a shape of its own
                    unsaid += ["num_layers", "sharing", "hidden_size"]
                said = {name: value for name, value in given.items() if name not in unsaid}
                write_json(arguments.out, {"settings": said, "rows": rows})
    shown = {
        f"{row['policy']}, {row['learning_rate']:g}": (row["steps"], row["losses"])
        for row in rows
        if row["seed"] == 0
    }
    title = f"A rate that collapses it ({arguments.learning_rate:g}), warned of and restarted from"
    save(lines({"training loss": shown}, "steps taken", title), arguments.out)


if __name__ == "__main__":
    main()
