"""Options that the commands that train have in common, and what they say before they begin."""

from __future__ import annotations

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
Accumulation = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=LARGEST_BATCH,
        help="Micro-batches per step (default: chosen to fit memory).",
        rich_help_panel=MEMORY,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory that a step may use, such as 8GiB (default: what is free)."),
]
Recompute = Annotated[
    Literal["nothing", "activations", "layers"] | None,
    typer.Option(
        help="What is computed again in the backward pass to save memory: nothing, activations or "
        "layers (default: chosen to fit memory; activations where that saves much).",
        rich_help_panel=MEMORY,
    ),
]
FfnChunk = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=LONGEST,
        help="Tokens per feed-forward product: fewer need less memory, with the same result "
        "(default: all).",
        rich_help_panel=MEMORY,
    ),
]
OptimizerStates = Annotated[
    Literal["fp32", "8bit"] | None,
    typer.Option(
        help="Optimiser states in fp32 or in 8 bits (default: chosen to fit memory).",
        rich_help_panel=MEMORY,
    ),
]
WeightDecay = Annotated[
    float,
    typer.Option(help="Weight decay of matrices; vectors have none.", rich_help_panel=SCHEDULE),
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
Clip = Annotated[
    float, typer.Option(help="Largest gradient norm; 0 for none.", rich_help_panel=SCHEDULE)
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
Keep = Annotated[
    int,
    typer.Option(
        min=1,
        max=1000,
        help="Number of states to keep, the newest ones.",
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
MaxRestarts = Annotated[
    int,
    typer.Option(
        min=1,
        max=100,
        help="Most restarts with --on-collapse restart.",
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
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST_WORKERS,
        help="Processes that prepare batches ahead of time (default: none on a CPU).",
        rich_help_panel=MEMORY,
    ),
]
Resume = Annotated[bool, typer.Option(help="Go on from the state in --out.")]
Dropout = Annotated[
    float | None,
    typer.Option(
        help="Dropout of layers and attention weights (default: the checkpoint's).",
        rich_help_panel=RECIPE,
    ),
]
LabelSmoothing = Annotated[
    float,
    typer.Option(
        help="Label smoothing: share of the target spread over all options.", rich_help_panel=RECIPE
    ),
]
RDrop = Annotated[
    float,
    typer.Option(
        help="R-Drop: weight of the disagreement of two passes with different dropout; twice the "
        "work and memory.",
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
TeacherWeight = Annotated[
    float | None,
    typer.Option(
        help="Share of the loss that the teacher's probabilities have (0.5).",
        rich_help_panel=RECIPE,
    ),
]
Fgm = Annotated[
    float,
    typer.Option(
        help="Adversarial training: how far word embeddings are moved for a second pass; twice "
        "the work.",
        rich_help_panel=RECIPE,
    ),
]
Ema = Annotated[
    float,
    typer.Option(
        help="Measure and keep an average of the weights; its decay, such as 0.999.",
        rich_help_panel=RECIPE,
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        "--deterministic",
        help="Make a GPU add in the same order in every run (slower). On a CPU runs are the same "
        "anyway, with the same number of threads.",
        rich_help_panel=SAFETY,
    ),
]
Scratch = Annotated[
    str | None,
    typer.Option(
        help="Start from random weights of this size instead (tiny, base, large, xlarge, "
        "xxlarge), with the vocabulary of --model."
    ),
]
Residual = Annotated[
    Literal["post", "reversible"] | None,
    typer.Option(
        help="With --scratch: post, as in BERT; or reversible, which keeps nothing of its layers, "
        "however many (only we can load it). The checkpoint's own by default.",
        rich_help_panel=ATTENTION,
    ),
]
RunFolder = Annotated[Path, typer.Option(help="The run's folder.")]


Attention = Annotated[
    Literal["dense", "lsh"] | None,
    typer.Option(
        help="dense or lsh (hashing); the checkpoint's own by default.", rich_help_panel=ATTENTION
    ),
]
LshForm = Annotated[
    Literal["ours", "faithful"] | None,
    typer.Option(
        help="With lsh: ours, which takes pretrained weights as they are, or faithful, Reformer's.",
        rich_help_panel=ATTENTION,
    ),
]
LshChunk = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=2**20,
        help="With lsh: tokens of a chunk (64).",
        rich_help_panel=ATTENTION,
    ),
]
LshRounds = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="With lsh: rounds of hashing (4).",
        rich_help_panel=ATTENTION,
    ),
]
LshProbes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="With lsh: buckets that a query looks into in each round (1).",
        rich_help_panel=ATTENTION,
    ),
]
LshHash = Annotated[
    Literal["rotations", "projections"] | None,
    typer.Option(help="With lsh, our form: projections or rotations.", rich_help_panel=ATTENTION),
]
LshLandmarks = Annotated[
    bool | None,
    typer.Option(
        help="With lsh, our form: whether [CLS], [SEP] and [MASK] see all (yes).",
        rich_help_panel=ATTENTION,
    ),
]


def lsh_settings(
    form: str | None,
    chunk: int | None,
    rounds: int | None,
    probes: int | None,
    hash_: str | None,
    landmarks: bool | None,
) -> dict[str, Any]:
    """What of `LshConfig` the options set."""
    given = {"chunk": chunk, "rounds": rounds, "probes": probes, "hash": hash_}
    settings: dict[str, Any] = {name: x for name, x in given.items() if x is not None}
    if form is not None:
        settings["shared"] = form == "faithful"
    if landmarks is False:
        settings["landmarks"] = ()
    return settings


def teacher_settings(teacher: str | None, weight: float | None) -> dict[str, Any]:
    """What of `TrainConfig` the teacher's options set.

    Raises:
        UsageError: a weight without a teacher.
    """
    from albert_rc.errors import UsageError

    if weight is None:
        return {}
    if teacher is None:
        raise UsageError(f"--teacher-weight {weight:g} needs --teacher")
    return {"teacher_weight": weight}


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
    """What `--workers` comes to: by default, a GPU is fed by up to 8 of its share of the cores."""
    from albert_rc.errors import UsageError
    from albert_rc.runtime.pool import cores

    if workers is None:
        of_rank = cores() // group.world
        return 0 if group.device.type == "cpu" else max(0, min(8, of_rank - 1))
    if workers < 0:
        raise UsageError(f"--workers {workers} must be at least 0")
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
