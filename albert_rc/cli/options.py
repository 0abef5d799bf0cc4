"""Options that the commands that train have in common, and what they say before they begin."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from albert_rc.cli.console import say
from albert_rc.model.config import LARGEST

if TYPE_CHECKING:
    from albert_rc.checkpoints.load import Loaded
    from albert_rc.runtime.devices import Processes
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.memory.planner import Levers
    from albert_rc.training.tally import TrainResult

MOST = 10_000_000
"""Of steps, epochs, tokens and the like: beyond what any run comes to."""
LARGEST_BATCH = 2**16
MOST_FOLDS = 10_000
MOST_WORKERS = 256
LONGEST = LARGEST["max_positions"] // 2
"""Tokens of a sequence."""
LAST_SEED = 2**63 - 1
"""What torch takes."""

# Headings that `--help` lists options under; those that every run needs stand before them.
SCHEDULE = "Schedule"
RECIPE = "Recipe"
SHAPE = "Shape (with --scratch)"
MEMORY = "Memory and speed"
ATTENTION = "Attention"
RUNS = "Several runs"
SAFETY = "When something goes wrong"

Stores = Annotated[Path, typer.Option(help="Folder with train.pt and dev.pt.")]
StartFrom = Annotated[
    str, typer.Option(help="Folder or hub id to start from: ALBERT, BERT or RoBERTa.")
]
MaskRate = Annotated[
    float,
    typer.Option(
        help="Also hide and ask for this share of the other words (cloze).", rich_help_panel=RECIPE
    ),
]
OptionScore = Annotated[
    Literal["mean", "first", "salience"] | None,
    typer.Option(
        help="Options of several pieces: mean, first or salience (learned weights).",
        rich_help_panel=RECIPE,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory that a step may use, such as 8GiB (default: what is free)."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, max=LAST_SEED, help="Random seed of weights, data order and dropout."),
]
FoldSeed = Annotated[int, typer.Option(min=0, max=LAST_SEED, help="Random seed of the folds.")]
Folds = Annotated[
    int,
    typer.Option(
        min=2,
        max=MOST_FOLDS,
        help="Parts that the papers are divided into; each is measured with what the others fit.",
    ),
]
MaxSteps = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST,
        help="Optimiser steps, in place of --epochs.",
        rich_help_panel=SCHEDULE,
    ),
]
EvalSteps = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST,
        help="Evaluate every N steps (default: after each epoch).",
        rich_help_panel=SCHEDULE,
    ),
]
SaveSteps = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST,
        help="Save the state every N steps (default: after each epoch).",
        rich_help_panel=SCHEDULE,
    ),
]
OnCollapse = Annotated[
    Literal["warn", "stop", "restart"],
    typer.Option(
        help="When the loss stays at chance, answers are constant, or loss or gradient spike: "
        "warn; stop; or restart from the last good state, or the start, with half the learning "
        "rate and another data order.",
        rich_help_panel=SAFETY,
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        help="Save and stop after this many minutes; --resume goes on from there.",
        rich_help_panel=SCHEDULE,
    ),
]
Precision = Annotated[
    Literal["fp32", "bf16", "fp16"] | None,
    typer.Option(
        help="Precision of products: fp32, bf16 or fp16 (default: bf16 if the hardware has it).",
        rich_help_panel=MEMORY,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="Device to compute on: cpu or cuda (default: cuda if there is one)."),
]
Resume = Annotated[bool, typer.Option(help="Go on from the state in --out.")]
Dropout = Annotated[
    float | None,
    typer.Option(
        help="Dropout of layers and attention weights (default: the checkpoint's).",
        rich_help_panel=RECIPE,
    ),
]
Teacher = Annotated[
    str | None,
    typer.Option(
        help="Model whose probabilities are learned as well as the answers: a score file of the "
        "training papers (predict --scores FILE.jsonl), or a model with the same vocabulary.",
        rich_help_panel=RECIPE,
    ),
]
Scratch = Annotated[
    str | None,
    typer.Option(
        help="Start from random weights of this size instead (tiny, base, large, xlarge, "
        "xxlarge), with the vocabulary of --model."
    ),
]
RunFolder = Annotated[Path, typer.Option(help="The run's folder.")]


Attention = Annotated[
    Literal["dense", "lsh"] | None,
    typer.Option(
        help="dense or lsh (hashing); the checkpoint's own by default.", rich_help_panel=ATTENTION
    ),
]


def levers_of(settings: dict[str, Any]) -> Levers:
    """What the user decides about memory, taken out of the settings."""
    from albert_rc.training.memory.planner import Levers

    names = ("accumulation", "recompute", "optimizer_states")
    return Levers(*(settings.pop(name, None) for name in names))


def require_teacher(teacher: str | None, settings: Mapping[str, Any]) -> None:
    """Refuse a teacher's weight without a teacher.

    Raises:
        UsageError: says so.
    """
    from albert_rc.errors import UsageError

    if teacher is None and "teacher_weight" in settings:
        raise UsageError("--set teacher_weight needs --teacher")


def seconds_of(minutes: float | None) -> float | None:
    """What `--minutes` comes to.

    Raises:
        UsageError: no time at all, or no number.
    """
    from albert_rc.errors import UsageError

    if minutes is not None and not 0 < minutes < float("inf"):
        raise UsageError(f"--minutes {minutes} must be a number above 0")
    return None if minutes is None else 60 * minutes


def alone_in(out: Path, group: Processes) -> AbstractContextManager[None]:
    """Have the run's folder for this run alone, until the block ends."""
    from albert_rc.io.atomic import only_run

    return only_run(out) if group.is_main else nullcontext()


def batch_workers(workers: int | None, group: Processes) -> int:
    """Processes that make batches; by default up to 8 of its share of the cores feed a GPU."""
    from albert_rc.runtime.pool import cores

    if workers is None:
        of_rank = cores() // group.world
        return 0 if group.device.type == "cpu" else max(0, min(8, of_rank - 1))
    return workers


def announce(
    loaded: Loaded[Any],
    settings: TrainConfig,
    group: Processes,
    plan: list[str],
    train: str,
    dev: str | None,
) -> None:
    """Say what is about to be learned, by what, and from what.

    Args:
        loaded: the model.
        settings: the recipe.
        group: who works along.
        plan: what the memory planner says.
        train: what is learned from.
        dev: what decides which weights are kept, if anything.
    """
    count = sum(p.numel() for p in loaded.model.parameters())
    for line in loaded.report.lines():
        say(line)
    ranks = f"{group.world} ranks"
    say(f"{count:,} parameters, {settings.precision}, {group.device}, {ranks}")
    for line in plan:
        say(line)
    say(f"train: {train}")
    say(f"dev: {dev or 'none; the last weights are kept'}")


def conclude(out: Path, result: TrainResult, best: str) -> None:
    """Say what came out: a run's folder, how far it got, and how good it is; draw its course."""
    from albert_rc.report.curves import draw_curves, read_curves, spark_lines

    of_all = f" of {result.total_steps:,}" if result.paused else ""
    typer.echo(f"{out}: {result.steps:,}{of_all} steps in {result.seconds:.0f} s{best}")
    if result.restarts:
        typer.echo(
            f"went back {result.restarts} time(s) after a collapse, see {out / 'log.txt'}; "
            f"the learning rate was 1/{2**result.restarts} of the one given"
        )
    if result.paused:
        typer.echo("paused; the same command with --resume goes on from there")
    curves = read_curves(out)
    for line in spark_lines(curves):
        say(line)
    if drawn := draw_curves(out, curves):
        say(f"curves: {drawn[0]}")
