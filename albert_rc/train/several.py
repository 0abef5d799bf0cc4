"""Several runs of one recipe: over seeds, and over folds of the training papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from albert_rc.atomic import write_bytes
from albert_rc.data.parts import chosen_papers
from albert_rc.data.shards import Store
from albert_rc.devices import Processes
from albert_rc.errors import UsageError
from albert_rc.files import json_lines, natural_key, parse_json, read_json, write_json
from albert_rc.loading import load_model
from albert_rc.predict import score, score_lines
from albert_rc.quality import quality
from albert_rc.train.checkpoint import states
from albert_rc.train.tally import TrainResult

RUNS = "runs.json"
"""The runs that are done, in the folder that holds theirs."""
HELD_OUT = "held_out.jsonl"
SCORES = "scores.jsonl"


@dataclass(frozen=True)
class Part:
    """One of several runs."""

    name: str
    """Of its folder."""
    seed: int
    train: Store
    dev: Store | None
    held_out: Store | None = None
    """Papers that it never sees, and answers when it is done."""


def over_seeds(count: int, seed: int, train: Store, dev: Store | None) -> list[Part]:
    """The same run with seeds that follow each other.

    Raises:
        UsageError: fewer than two.
    """
    if count < 2:
        raise UsageError(f"--seeds {count} must be at least 2; --seed chooses one")
    return [Part(f"seed-{n}", n, train, dev) for n in range(seed, seed + count)]


def over_folds(count: int, seed: int, train: Store, dev: Store | None) -> list[Part]:
    """Runs that each leave another part of the training papers out; a paper stays whole.

    Raises:
        UsageError: fewer than two folds, or than papers for them, or questions without options.
    """
    papers = len(train.meta["ids"])
    if not 2 <= count <= papers:
        raise UsageError(f"--folds {count} must be from 2 to the number of papers, {papers}")
    if train.kind == "span" or train.is_numeric:
        raise UsageError("--folds is for questions with options or labels, which have scores")
    order = torch.randperm(papers, generator=torch.Generator().manual_seed(seed)).tolist()
    parts = []
    for fold in range(count):
        out, name = set(order[fold::count]), f"fold {fold + 1} of {count}"
        parts.append(
            Part(
                f"fold-{fold + 1}",
                seed,
                chosen_papers(train, [i for i in range(papers) if i not in out], f"all but {name}"),
                dev,
                chosen_papers(train, sorted(out), name),
            )
        )
    return parts


def run_all(
    parts: Sequence[Part],
    out: Path,
    group: Processes,
    resume: bool,
    run: Callable[[Part, Path, bool], TrainResult],
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    """Run one after the other; those that are done already are not run again on resuming.

    Args:
        parts: the runs.
        out: holds a folder for each, `RUNS`, and, of folds, `SCORES`.
        group: who works along.
        resume: go on where this was stopped.
        run: runs one in its folder, resuming it or not.
        say: told what comes next.

    Returns:
        What `RUNS` says; None if a run was paused.
    """
    done: list[dict[str, Any]] = []
    if group.is_main and resume and (out / RUNS).is_file():
        done = read_json(out / RUNS)["runs"]
    done = group.from_main(done)
    if not resume and group.is_main:
        (out / RUNS).unlink(missing_ok=True)
    for part in parts:
        if any(row["name"] == part.name for row in done):
            continue
        folder = out / part.name
        if group.is_main:
            say(f"{part.name}: {len(done) + 1} of {len(parts)}, into {folder}")
        result = run(part, folder, resume and group.from_main(bool(states(folder))))
        if result.paused:
            return None
        row: dict[str, Any] = {
            "name": part.name, "seed": part.seed, "dev": result.best_score,
            "best_step": result.best_step, "steps": result.steps,
        }  # fmt: skip
        if part.held_out is not None:
            row["held_out"] = _answer(part.held_out, folder, group)
        done.append(row)
        if group.is_main:
            write_json(out / RUNS, _summary(done))
    if group.is_main and parts[0].held_out is not None:
        _write_scores(parts, out)
    return _summary(done)


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and the mean and spread of their figures."""
    found: dict[str, Any] = {"runs": rows}
    for figure in ("dev", "held_out"):
        values = [row[figure] for row in rows if row.get(figure) is not None]
        if values:
            found[figure] = {
                "mean": round(mean(values), 6),
                # The spread of a sample: its square is divided by the number less one.
                "standard_deviation": round(stdev(values), 6) if len(values) > 1 else None,
                "least": min(values),
                "most": max(values),
            }
    return found


def spread_line(name: str, found: dict[str, Any], unit: str) -> str:
    """The mean and the spread of a figure of `RUNS`, as a sentence."""
    said = f"{name} {unit} {found['mean']:.2%}"
    if found["standard_deviation"] is not None:
        said += f", standard deviation {100 * found['standard_deviation']:.2f} points"
    return f"{said} ({found['least']:.2%} to {found['most']:.2%})"


def _answer(store: Store, folder: Path, group: Processes) -> float:
    """Have a run's best weights answer the papers that it never saw; how good that is."""
    loaded = load_model(folder, store.kind, labels=store.labels)
    loaded.model.to(group.device)
    scored_QK = score(loaded.model, loaded.tokenizer, store, group)
    if group.is_main:
        write_bytes(folder / HELD_OUT, json_lines(score_lines(store, scored_QK)))
    return round(quality(store, scored_QK).score, 5)


def _write_scores(parts: Sequence[Part], out: Path) -> None:
    """All papers' scores, each by the run that never saw it, in the papers' order."""
    ids = [paper for part in parts if part.held_out for paper in part.held_out.meta["ids"]]
    lines = [
        parse_json(line)
        for part in parts
        for line in (out / part.name / HELD_OUT).read_bytes().splitlines()
    ]
    places = {paper: place for place, paper in enumerate(sorted(ids, key=natural_key))}
    lines.sort(key=lambda line: (places[line["paper"]], line["number"]))
    write_bytes(out / SCORES, json_lines(lines))
