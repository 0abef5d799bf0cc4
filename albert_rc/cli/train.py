"""`albert-rc train`: fine-tune a model on stores."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import DEFAULT_MODEL, TrainBar, example, say

if TYPE_CHECKING:
    from albert_rc.training.runs.finetune import FineTuning
    from albert_rc.training.runs.several import Part
    from albert_rc.training.tally import TrainResult


def train(
    data: options.Stores = Path("data"),
    model: options.StartFrom = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    out: options.RunFolder = Path("models"),
    config: settings.Config = None,
    set_: settings.Set = None,
    recipe: Annotated[
        Literal["default", "published"],
        typer.Option(
            help="Settings that no other option gives. default: 4 epochs, batch 2, 1e-5, warm-up "
            "0.1; published: ALBERT's own for this task (RACE, SQuAD, GLUE)."
        ),
    ] = "default",
    epochs: Annotated[
        int | None,
        typer.Option(min=1, max=options.MOST, help="Passes over the papers (4)."),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.LARGEST_BATCH,
            help="Passages per optimiser step, over all processes (2).",
        ),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate (1e-5).")] = None,
    seed: options.Seed = 0,
    memory: options.Memory = None,
    device: options.Device = None,
    resume: options.Resume = False,
    max_steps: options.MaxSteps = None,
    eval_steps: options.EvalSteps = None,
    save_steps: options.SaveSteps = None,
    minutes: options.Minutes = None,
    warmup: Annotated[
        float | None,
        typer.Option(
            help="Share of the steps in which the learning rate rises (0.1).",
            rich_help_panel=options.SCHEDULE,
        ),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST,
            help="Stop after N evaluations without a better score; to train on, --resume with "
            "a larger N.",
            rich_help_panel=options.SCHEDULE,
        ),
    ] = None,
    option_score: options.OptionScore = None,
    mask_rate: options.MaskRate = 0.0,
    dropout: options.Dropout = None,
    teacher: options.Teacher = None,
    precision: options.Precision = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Train N times, with seeds from --seed on, into OUT/seed-*.",
            rich_help_panel=options.RUNS,
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=options.MOST_FOLDS,
            help="Train K times, into OUT/fold-*, each without another K-th of the papers, which "
            "it then answers: OUT/scores.jsonl.",
            rich_help_panel=options.RUNS,
        ),
    ] = None,
    on_collapse: options.OnCollapse = "warn",
    attention: options.Attention = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.LONGEST,
            help="Tokens of a window at most: longer stores are refused, and a model that takes "
            "fewer gets more positions.",
            rich_help_panel=options.ATTENTION,
        ),
    ] = None,
) -> None:
    """Fine-tune on DATA/train.pt; the weights that are best on DATA/dev.pt stay in OUT.

    Next to them: log.txt, metrics.jsonl, TensorBoard's events, train.json (all settings). Several
    GPUs: `torchrun --nproc-per-node 2 -m albert_rc train ...`.
    """
    from albert_rc.errors import UsageError
    from albert_rc.runtime.devices import be_deterministic, choose_precision, processes
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.objectives.teacher import Teacher
    from albert_rc.training.runs.earlier import require_kept
    from albert_rc.training.runs.finetune import FineTuning, open_stores, unlike
    from albert_rc.training.runs.identity import made_of
    from albert_rc.training.runs.recipes import choose, dropout_of
    from albert_rc.training.runs.several import Part, over_folds, over_seeds

    if seeds is not None and folds is not None:
        raise UsageError("--seeds and --folds: choose one of them")
    more = settings.parse(set_, settings.TRAIN)
    if more.pop("deterministic", False):
        be_deterministic()
    with processes(device) as group, options.alone_in(out, group):
        train_store, dev_store = open_stores(
            data, more.pop("with_dev", False), taught=teacher is not None
        )
        if group.is_main and (said := unlike(train_store, dev_store)):
            say(f"warning: {data}: {said}")
        given = {
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "warmup": warmup,
            "max_steps": max_steps,
        }
        lsh, levers = settings.lsh_of(more), options.levers_of(more)
        workers = options.batch_workers(more.pop("workers", None), group)
        residual = more.pop("residual", None)
        options.require_teacher(teacher, more)
        how_to_train = TrainConfig(
            **choose(recipe, train_store, given),
            eval_steps=eval_steps,
            save_steps=save_steps,
            on_collapse=on_collapse,
            patience=patience,
            precision=choose_precision(precision, group.device, learning=True),
            mask_rate=mask_rate,
            seed=seed,
            **{name: value for name, value in more.items() if "." not in name},
        )
        how: dict[str, Any] = {
            "scratch": scratch,
            "scratch_shape": {} if residual is None else {"residual": residual},
            "attention": attention,
            "lsh": lsh,
            "max_length": max_length,
            "dropout": dropout_of(recipe, train_store, dropout),
        }
        tuning = FineTuning(
            model=model,
            how=how,
            option_score=option_score,
            settings=how_to_train,
            levers=levers,
            memory=memory,
            max_length=max_length,
            data=data,
            group=group,
            workers=workers,
            teacher=None if teacher is None else Teacher(teacher),
        )
        seconds = options.seconds_of(minutes)
        parts = [Part("", seed, train_store, dev_store)]
        if seeds is not None:
            parts = over_seeds(seeds, seed, train_store, dev_store)
        elif folds is not None:
            parts = over_folds(folds, seed, train_store, dev_store)
        folders = [out / part.name for part in parts]
        require_kept(model, folders, group, resume=resume, scratch=scratch is not None)
        if seeds is None and folds is None:
            _run(tuning, parts[0], out, resume, seconds)
            return
        record = {"--seeds": seeds, "--folds": folds} | made_of(tuning, train_store, dev_store)
        _run_several(tuning, parts, out, record, resume, seconds)


def _run(
    tuning: FineTuning, part: Part, out: Path, resume: bool, seconds: float | None
) -> TrainResult:
    """One run, announced and concluded."""
    prepared = tuning.prepare(part.train, part.dev, part.seed, out if resume else None)
    if tuning.group.is_main:
        options.announce(
            prepared.loaded,
            prepared.settings,
            tuning.group,
            prepared.plan,
            part.train.summary(),
            part.dev.summary() if part.dev else None,
        )
    trainer = prepared.trainer(out)
    with TrainBar(tuning.group.is_main) as shown:
        result = trainer.run(resume, seconds, on_step=shown.step, on_event=say)
    if tuning.group.is_main:
        best = (
            "not measured"
            if result.paused
            else "not measured (no dev answers to measure by, or learned from)"
        )
        if result.best_score is not None:
            best = f"{result.best_score:.2%} at step {result.best_step}"
        options.conclude(out, result, f", dev {prepared.objective.score_name} {best}")
    return result


def _run_several(
    tuning: FineTuning,
    parts: list[Part],
    out: Path,
    record: dict[str, Any],
    resume: bool,
    seconds: float | None,
) -> None:
    """Runs one after the other, and what they come to together."""
    from albert_rc.training.runs.several import RUNS, SCORES, run_all, spread_line

    begun = time.perf_counter()

    def run(part: Part, folder: Path, resuming: bool) -> TrainResult:
        left = None if seconds is None else seconds - (time.perf_counter() - begun)
        with options.alone_in(folder, tuning.group):
            return _run(tuning, part, folder, resuming, left)

    found = run_all(parts, out, record, tuning.group, resume, run, say)
    if found is None or not tuning.group.is_main:
        return
    unit = " and ".join(parts[0].train.metrics)
    for name, figure in (("dev", "dev"), ("held-out papers", "held_out")):
        if figure in found:
            typer.echo(f"{out / RUNS}: {len(parts)} runs, {spread_line(name, found[figure], unit)}")
    if parts[0].held_out is not None:
        typer.echo(f"{out / SCORES}: all training papers, each answered by a run without it")


train.__doc__ = f"{train.__doc__}\n\n" + example(
    "albert-rc train --data data --model models/albert-xxlarge-v2 --out models/run1"
)
