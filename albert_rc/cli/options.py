"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from albert_rc.cli.console import say
from albert_rc.cli.settings import Fields, chosen
from albert_rc.errors import UsageError
from albert_rc.fields import LAST_SEED, flag_of, settings_of
from albert_rc.model.config import LshConfig

MOST_FOLDS = 10_000
MOST_WORKERS = 256

# Headings of options in `--help`; the most important options come before them.
SCHEDULE = "Schedule"
SHAPE = "Shape (with --scratch)"
ATTENTION = "Attention"
RUNS = "Several runs"

LSH = Fields(LshConfig, prefix="lsh_")

StartFrom = Annotated[
    str,
    typer.Option(
        help="Model to start from, an ALBERT, BERT, RoBERTa or MPNet: a folder, a hub id, or a "
        "model of the package."
    ),
]
VocabularyOf = Annotated[
    str,
    typer.Option(
        help="Model, of which only the vocabulary is needed: a folder, a hub id, or a model of the "
        "package."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory that each process may use, such as 8GiB (default: all free memory, shared by "
        "the processes)."
    ),
]
FoldSeed = Annotated[
    int, typer.Option(min=0, max=LAST_SEED, help="Random seed for the folds.", hidden=True)
]
Folds = Annotated[
    int,
    typer.Option(
        min=2,
        max=MOST_FOLDS,
        help="Number of folds for cross-validation over the papers.",
        hidden=True,
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        help="Save and stop after this many minutes; --resume continues from there (default: no "
        "limit).",
        rich_help_panel=SCHEDULE,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="Device to compute on: cpu or cuda (default: cuda if there is one)."),
]
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option(
        help="Where to compute: local (processes on this machine) or ray (a Ray cluster, started "
        "on this machine if --address is not given)."
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: address of the cluster (default: RAY_ADDRESS, or a new one).",
        hidden=True,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in --out from its last saved state, with the options that it was "
        "started with.",
    ),
]
Scratch = Annotated[
    str | None,
    typer.Option(
        help="Start from random weights of this size instead (tiny, base, large, xlarge, "
        "xxlarge, bert-base, bert-large, bert-xlarge), with the vocabulary of --model."
    ),
]
RunFolder = Annotated[Path, typer.Option(help="Folder to write the run to.")]
Attention = Annotated[
    Literal["dense", "lsh"] | None,
    typer.Option(
        help="Attention: dense, or lsh (hashing) (default: as in the checkpoint).",
        rich_help_panel=ATTENTION,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=MOST_WORKERS,
        help="Processes that prepare batches ahead of time (default: none on a CPU; with a GPU one "
        "less than this process's share of the cores, at most 8).",
        hidden=True,
    ),
]
PoolWorkers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_WORKERS,
        help="Number of processes (default: all cores).",
        hidden=True,
    ),
]
Deterministic = Annotated[
    bool,
    typer.Option(
        help="Make runs on a GPU reproducible, which is slower. Runs on a CPU are reproducible "
        "anyway if the number of threads is the same.",
        hidden=True,
    ),
]
LshForm = Annotated[
    Literal["ours", "faithful"] | None,
    typer.Option(
        help="Form of hashed attention: ours, which works with pretrained weights unchanged, or "
        "faithful, as in Reformer (default: as in the checkpoint, else ours).",
        hidden=True,
    ),
]
LshLandmarks = Annotated[
    bool | None,
    typer.Option(
        help="Hashed attention in our form: whether [CLS], [SEP] and [MASK] attend to all tokens "
        "(default: as in the checkpoint, else true).",
        hidden=True,
    ),
]


def lsh_of(form: str | None, landmarks: bool | None, given: dict[str, Any]) -> dict[str, Any]:
    """Settings of `LshConfig` from the options, which are removed from `given`."""
    found = chosen({name: given.pop(LSH.prefix + name, None) for name in settings_of(LshConfig)})
    if form is not None:
        found["shared"] = form == "faithful"
    if landmarks is not None:
        found["landmarks"] = landmarks or ()
    return found


def require_partners(teacher: str | None, given: Mapping[str, Any], resume: bool) -> None:
    """Refuse training settings without the option that they belong to.

    Raises:
        UsageError: a setting of a teacher without one, or of restarts that cannot happen.
    """
    for name in ("teacher_weight", "teacher_precision"):
        if teacher is None and given.get(name) is not None:
            raise UsageError(f"{flag_of(name)} needs --teacher")
    # A resumed run may be given another --on-collapse; its file still has the number.
    restarts = resume or given.get("on_collapse") == "restart"
    if given.get("max_restarts") is not None and not restarts:
        raise UsageError("--max-restarts needs --on-collapse restart")


def say_epochs_unused(given: Mapping[str, Any]) -> None:
    """Report that `--epochs` is ignored, if it is: a file may give it, and cannot be unset."""
    if given.get("epochs") is not None and given.get("max_steps") is not None:
        say("note: --epochs has no effect with --max-steps")


def seconds_of(minutes: float | None) -> float | None:
    """`--minutes` in seconds.

    Raises:
        UsageError: not a positive finite number.
    """
    if minutes is not None and not 0 < minutes < float("inf"):
        raise UsageError(f"--minutes {minutes} must be a number above 0")
    return None if minutes is None else 60 * minutes
