"""Repeated runs of one recipe: over seeds, and over folds of the training papers.

Their fingerprint is saved next to them, and must match on --resume.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from albert_rc.answering.again import read, way_of
from albert_rc.answering.quality import quality
from albert_rc.answering.score import score_lines
from albert_rc.checkpoints.load import load_model
from albert_rc.errors import DataError, DivergedError, Interrupted, UsageError
from albert_rc.io.atomic import write_bytes
from albert_rc.io.files import natural_key
from albert_rc.io.json import json_lines, parse_json, read_json, write_each, write_json
from albert_rc.runtime.devices import Processes, release_unused
from albert_rc.stores.store import Store
from albert_rc.stores.subset import chosen_papers
from albert_rc.training.checkpoint import states
from albert_rc.training.identity import difference
from albert_rc.training.runs.earlier import forget_earlier, move_aside, set_aside
from albert_rc.training.tally import TrainResult

RUNS = "runs.json"
"""File with the completed runs and their fingerprint, next to the runs' folders."""
HELD_OUT = "held_out.jsonl"
SCORES = "scores.jsonl"


@dataclass(frozen=True)
class Part:
    """One of several runs."""

    name: str
    """Name of the run's folder."""
    seed: int
    train: Store
    dev: Store | None
    held_out: Store | None = None
    """Papers left out of its training, which it answers at the end."""


def over_seeds(count: int, seed: int, train: Store, dev: Store | None) -> list[Part]:
    """The same run with consecutive seeds."""
    return [Part(f"seed-{n}", n, train, dev) for n in range(seed, seed + count)]


def over_folds(count: int, seed: int, train: Store, dev: Store | None) -> list[Part]:
    """Runs for cross-validation, each without another fold; papers are not split.

    Raises:
        UsageError: fewer than two folds, fewer papers than folds, or questions without options.
    """
    papers = len(train.meta["ids"])
    if not 2 <= count <= papers:
        raise UsageError(f"--folds {count} must be from 2 to the number of papers, {papers}")
    if train.kind == "span" or train.is_numeric:
        raise UsageError(
            "--folds is for questions with options or labels, which have scores; leave it out"
        )
    if len(set(train.meta["ids"])) < papers:
        raise UsageError(
            "--folds cannot be used with --with-dev for tables: ids of their rows are only row "
            "numbers, so a row of train and one of dev would share an id; leave --with-dev out"
        )
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
    record: dict[str, Any],
    group: Processes,
    resume: bool,
    run: Callable[[Part, Path, bool], TrainResult],
    say: Callable[[str], None],
    files: Mapping[str, Any] | None = None,
    precision: str = "fp32",
) -> dict[str, Any] | None:
    """Run one after the other; on resuming, completed runs are skipped.

    A run that diverges would do so again, so the others go on, and its row says so; but each fold
    is needed.

    Args:
        parts: the runs.
        out: folder for the runs' folders, `RUNS`, and, for folds, `SCORES`.
        record: their fingerprint and number, which must match on resuming.
        group: the ranks that share the work.
        resume: continue where this was stopped.
        run: runs one in its folder, resuming it or not.
        say: called with a message before each run.
        files: written into `out` when the runs begin; see `write_each`.
        precision: that in which held-out papers are answered.

    Returns:
        The content of `RUNS`; None if a run was paused.

    Raises:
        Interrupted: stop requested at the end of a run; others remain.
        UsageError: nothing to resume, or the runs were started with other settings.
        DataError: a completed run's answers are missing.
        DivergedError: a fold diverged.
    """
    begin = _resumed if resume else _begun
    done = group.from_main(begin(parts, out, record, say) if group.is_main else None)
    if isinstance(done, str):
        raise UsageError(done)
    if group.is_main:
        write_each(out, files or {})
    for part in parts:
        if any(row["name"] == part.name for row in done):
            continue
        folder = out / part.name
        if group.is_main:
            say(f"{part.name}: {len(done) + 1} of {len(parts)}, into {folder}")
        resuming = resume and group.from_main(bool(states(folder)))
        result = _result(partial(run, part, folder, resuming), part)
        ended = None if isinstance(result, DivergedError) else result
        if ended is not None and ended.paused:
            return None
        done.append(_row(part, result, folder, group, precision))
        if group.is_main:
            if ended is None:
                say(f"{part.name} diverged: {result}")
            write_json(out / RUNS, _summary(done) | {"made_of": record})
        if group.any(ended is not None and ended.stop_asked) and len(done) < len(parts):
            raise Interrupted(
                f"stopped after {part.name}, {len(done)} of {len(parts)}; "
                "run the same command with --resume to continue"
            )
    if group.is_main:
        if parts[0].held_out is not None:
            _write_scores(parts, out)
        forget_earlier(out, RUNS)
    return _summary(done)


def _result(run: Callable[[], TrainResult], part: Part) -> TrainResult | DivergedError:
    """A run's outcome; a fold must not diverge, as its papers need answers."""
    try:
        return run()
    except DivergedError as error:
        if part.held_out is not None:
            raise
        return error


def _row(
    part: Part,
    result: TrainResult | DivergedError,
    folder: Path,
    group: Processes,
    precision: str,
) -> dict[str, Any]:
    """A run that has ended, as it stands in `RUNS`; its held-out papers are answered."""
    if isinstance(result, DivergedError):
        return {"name": part.name, "seed": part.seed, "dev": None, "diverged": str(result)}
    row = {
        "name": part.name, "seed": part.seed, "dev": result.best_score,
        "best_step": result.best_step, "steps": result.steps,
    }  # fmt: skip
    if part.held_out is not None:
        row["held_out"] = _answer(part.held_out, folder, group, precision)
    return row


def _begun(
    parts: Sequence[Part], out: Path, record: dict[str, Any], say: Callable[[str], None]
) -> list[dict[str, Any]] | str:
    """Prepare the folder for new runs; or the reason why it cannot be used."""
    if found := single_run(out):
        return (
            f"{found} belongs to a single run, whose folder cannot hold several; give another --out"
        )
    kept = _kept(out / RUNS)
    before = kept.get("made_of")
    if kept.get("runs"):
        apart = move_aside(out, [out / RUNS, out / SCORES])
        say(f"new runs; the earlier {RUNS} is kept in {apart} until they have finished")
    if before is None or difference(before, record):
        # Otherwise --resume would take them for the new ones.
        for part in parts:
            if aside := set_aside(out / part.name):
                say(
                    f"new run; the earlier {part.name} is kept in {aside} until this one has "
                    "finished"
                )
        ours = {part.name for part in parts}
        for name in sorted(_names(kept) - ours, key=natural_key):
            if (out / name).is_dir():
                say(f"note: {out / name} stays there, but belongs to the earlier runs")
    write_json(out / RUNS, {"runs": [], "made_of": record})
    return []


def _resumed(
    parts: Sequence[Part], out: Path, record: dict[str, Any], say: Callable[[str], None]
) -> list[dict[str, Any]] | str:
    """The completed runs; or the reason why they cannot be continued."""
    path, kept = out / RUNS, _kept(out / RUNS)
    before, done = kept.get("made_of"), kept.get("runs", [])
    if path.is_file() and before is None:
        return (
            f"--resume: {path} was written by an older version and lacks the settings of its runs; "
            "start without --resume, or give another --out"
        )
    if not (isinstance(done, list) and all(map(_is_row, done))):
        return f"--resume: {path} is damaged; start without --resume, or give another --out"
    folders = [out / part.name for part in parts]
    if before is not None:
        folders += [*out.glob("seed-*"), *out.glob("fold-*")]
    if not done and not any(states(folder) for folder in folders):
        if found := single_run(out):
            return (
                f"--resume: {found} belongs to a single run, but --seeds and --folds make "
                "several; leave them out, or give another --out"
            )
        return f"--resume: no saved state in {out}; start without --resume"
    if before is None:
        write_json(path, {"runs": [], "made_of": record})
    elif said := _not_these(before, record, out):
        return said
    return list(done)


def _not_these(before: dict[str, Any], record: dict[str, Any], out: Path) -> str | None:
    """The reason why runs begun with one fingerprint cannot go on with another."""
    if what := difference(_with_seeds_of(record, before), record):
        return (
            f"--resume: the runs in {out} were started {what}; use their original options, or "
            "another --out"
        )
    if (before.get("--seeds") or 0) > (record.get("--seeds") or 0):
        return (
            f"--resume: the runs in {out} were started with --seeds {before['--seeds']}; give that "
            "number or a higher one, so that none of them is left out"
        )
    return None


def single_run(out: Path) -> Path | None:
    """A file of a single run in a folder that is to hold several."""
    own = [*states(out), out / "model.safetensors", out / "train.json"]
    return next((path for path in own if path.is_file()), None)


def _with_seeds_of(record: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The fingerprint regardless of the number of runs: seeds may be added, folds may not."""
    both = record.get("--seeds") is not None and before.get("--seeds") is not None
    return before | {"--seeds": record["--seeds"]} if both else before


def _kept(path: Path) -> dict[str, Any]:
    """The content of `RUNS`; empty if it is missing or invalid."""
    try:
        kept = read_json(path)
    except DataError:
        return {}
    return kept if isinstance(kept, dict) else {}


def _names(kept: Mapping[str, Any]) -> set[str]:
    """Names of the runs in the content of `RUNS`."""
    rows = kept.get("runs")
    return {row["name"] for row in rows if _is_row(row)} if isinstance(rows, list) else set()


def _is_row(row: Any) -> bool:
    """Whether a value is a run's row as `run_all` writes it."""
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return False
    return all(isinstance(row.get(x), (int, float, type(None))) for x in ("dev", "held_out"))


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The runs, and the mean and standard deviation of their figures."""
    found: dict[str, Any] = {"runs": rows}
    for figure in ("dev", "held_out"):
        values = [row[figure] for row in rows if row.get(figure) is not None]
        if values:
            found[figure] = {
                "mean": round(mean(values), 6),
                # Sample standard deviation: the sum of squares is divided by n - 1.
                "standard_deviation": round(stdev(values), 6) if len(values) > 1 else None,
                "least": min(values),
                "most": max(values),
            }
    return found


def spread_line(name: str, found: dict[str, Any], unit: str) -> str:
    """The mean and standard deviation of a figure of `RUNS`, as a sentence."""
    said = f"{name} {unit} {found['mean']:.2%}"
    if found["standard_deviation"] is not None:
        said += f", standard deviation {100 * found['standard_deviation']:.2f} points"
    return f"{said} ({found['least']:.2%} to {found['most']:.2%})"


def _answer(store: Store, folder: Path, group: Processes, precision: str) -> float | None:
    """Answer the held-out papers with a run's best weights; their score, if answers are known."""
    release_unused(group.device)  # the run's own model and moments
    loaded = load_model(folder, store.kind, labels=store.labels, precision=precision)
    loaded.model.to(group.device)
    encoder = loaded.model.encoder
    encoder.compute = replace(encoder.compute, precision=precision)
    way = way_of(loaded.model, None)
    scored_QK, _ = read(loaded.model, loaded.tokenizer, store, group, way)
    if group.is_main:
        # The model's own probabilities, for a temperature.
        lines = score_lines(store, scored_QK, way=way, reuse=True)
        write_bytes(folder / HELD_OUT, json_lines(lines))
    return round(quality(store, scored_QK).score, 5) if store.has_answers else None


def _write_scores(parts: Sequence[Part], out: Path) -> None:
    """Write all papers' scores, each by the run that held it out, in the papers' order.

    Raises:
        DataError: a run's scores are not those of its held-out papers.
    """
    ids = [paper for part in parts if part.held_out for paper in part.held_out.meta["ids"]]
    lines = [
        line for part in parts if part.held_out for line in _answered(part, part.held_out, out)
    ]
    places = {paper: place for place, paper in enumerate(sorted(ids, key=natural_key))}
    lines.sort(key=lambda line: (places[line["paper"]], line["number"]))
    write_bytes(out / SCORES, json_lines(lines))


def _answered(part: Part, store: Store, out: Path) -> list[dict[str, Any]]:
    """A run's scores of its held-out papers, checked to be complete and of no others."""
    path = out / part.name / HELD_OUT
    papers = [store.meta["ids"][passage] for passage in store.passage_of_question.tolist()]
    asked = Counter(zip(papers, store.number_in_passage.tolist(), strict=True))
    try:
        lines = [parse_json(line) for line in path.read_bytes().splitlines()]
        found = Counter((line["paper"], line["number"]) for line in lines)
    except (OSError, ValueError, KeyError, TypeError):
        found = Counter()
    if found != asked:
        raise DataError(
            f"{path}: these are not the scores of the papers held out from {part.name}; "
            "start without --resume"
        )
    return lines
