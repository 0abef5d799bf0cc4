"""`albert-rc train`: fine-tune a model on stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert_rc.cli import options
from albert_rc.cli.console import DEFAULT_MODEL, TrainBar, example, say

if TYPE_CHECKING:
    from albert_rc.data.shards import Store
    from albert_rc.loading import Loaded


def train(
    data: Annotated[Path, typer.Option(help="Folder with train.pt and dev.pt.")] = Path("data"),
    model: Annotated[
        str, typer.Option(help="Folder or hub id to start from: ALBERT, BERT or RoBERTa.")
    ] = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    residual: options.Residual = None,
    out: options.RunFolder = Path("models"),
    recipe: Annotated[
        str,
        typer.Option(
            help="What is not given below. default: 4 epochs, batch 2, 1e-5, warm-up 0.1; "
            "published: ALBERT's own for this task (RACE, SQuAD, GLUE)."
        ),
    ] = "default",
    epochs: Annotated[int | None, typer.Option(help="Times through the papers (4).")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Passages of an optimiser step, over all processes (2).")
    ] = None,
    accumulation: options.Accumulation = None,
    memory: options.Memory = None,
    optimizer_states: options.OptimizerStates = None,
    learning_rate: Annotated[float | None, typer.Option(help="Its peak (1e-5).")] = None,
    warmup: Annotated[
        float | None, typer.Option(help="Share of the steps that it rises (0.1).")
    ] = None,
    weight_decay: options.WeightDecay = 0.01,
    clip: options.Clip = 1.0,
    max_steps: Annotated[
        int | None, typer.Option(help="Optimiser steps instead of epochs.")
    ] = None,
    eval_steps: options.EvalSteps = None,
    save_steps: options.SaveSteps = None,
    keep: options.Keep = 2,
    on_collapse: options.OnCollapse = "warn",
    max_restarts: options.MaxRestarts = 2,
    minutes: options.Minutes = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after N evaluations without a better one.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, data order and dropout.")] = 0,
    precision: options.Precision = None,
    attention: options.Attention = None,
    lsh_form: options.LshForm = None,
    lsh_chunk: options.LshChunk = None,
    lsh_rounds: options.LshRounds = None,
    lsh_probes: options.LshProbes = None,
    lsh_hash: options.LshHash = None,
    lsh_landmarks: options.LshLandmarks = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            help="Tokens of a window at most: longer stores are refused, and a model that takes "
            "fewer gets more positions."
        ),
    ] = None,
    recompute: options.Recompute = None,
    ffn_chunk: options.FfnChunk = None,
    option_score: Annotated[
        str | None,
        typer.Option(help="Options of several pieces: mean, first or salience (learned weights)."),
    ] = None,
    mask_rate: Annotated[
        float, typer.Option(help="Also hide and ask for this share of the other words (cloze).")
    ] = 0.0,
    mask_weight: Annotated[float, typer.Option(help="Weight of their loss.")] = 1.0,
    dropout: options.Dropout = None,
    label_smoothing: options.LabelSmoothing = 0.0,
    r_drop: options.RDrop = 0.0,
    fgm: options.Fgm = 0.0,
    ema: options.Ema = 0.0,
    parallel: options.Parallel = "ddp",
    device: options.Device = None,
    deterministic: options.Deterministic = False,
    workers: options.Workers = None,
    resume: options.Resume = False,
) -> None:
    """Fine-tune on DATA/train.pt; the weights that are best on DATA/dev.pt stay in OUT.

    Beside them: log.txt, metrics.jsonl, TensorBoard's events, train.json (all settings). Several
    GPUs: `torchrun --nproc-per-node 2 -m albert_rc train ...`.
    """
    from dataclasses import asdict

    from albert_rc.config import TrainConfig
    from albert_rc.data.shards import check_store
    from albert_rc.devices import be_deterministic, choose_precision, processes
    from albert_rc.files import write_json
    from albert_rc.train.loop import Trainer
    from albert_rc.train.planner import Levers, fit
    from albert_rc.train.reading import Reading
    from albert_rc.train.recipes import choose
    from albert_rc.train.spans import Spans

    if deterministic:
        be_deterministic()
    with processes(device) as group, options.alone_in(out, group):
        train_store, dev_store = _load_stores(data)
        given = {
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "warmup": warmup,
            "max_steps": max_steps,
        }
        settings = TrainConfig(
            **choose(recipe, train_store, given),
            weight_decay=weight_decay,
            clip=clip,
            eval_steps=eval_steps,
            save_steps=save_steps,
            keep=keep,
            on_collapse=on_collapse,
            max_restarts=max_restarts,
            patience=patience,
            precision=choose_precision(precision, group.device, learning=True),
            mask_rate=mask_rate,
            mask_weight=mask_weight,
            label_smoothing=label_smoothing,
            r_drop=r_drop,
            fgm=fgm,
            ema=ema,
            ffn_chunk=ffn_chunk,
            parallel=parallel,
            seed=seed,
        )
        how: dict[str, Any] = {
            "scratch": scratch,
            "scratch_shape": {} if residual is None else {"residual": residual},
            "attention": attention,
            "lsh": options.lsh_settings(
                lsh_form, lsh_chunk, lsh_rounds, lsh_probes, lsh_hash, lsh_landmarks
            ),
            "max_length": max_length,
            "dropout": dropout,
            "seed": seed,
        }
        task, loaded = train_store.kind, _load(model, train_store, option_score, how)
        longest = loaded.model.config.max_length
        if max_length is not None:
            longest = min(max_length, longest)
        check_store(train_store, data / "train.pt", loaded.tokenizer, longest)
        if dev_store is not None:
            check_store(dev_store, data / "dev.pt", loaded.tokenizer, longest)
        settings, plan_lines = fit(
            settings,
            loaded.model.config,
            train_store,
            group,
            memory,
            Levers(accumulation, recompute, optimizer_states),
            masked_share=mask_rate if task == "cloze" else 0.0,
            attention=loaded.model.encoder.compute.attention,
        )
        if group.is_main:
            options.announce(
                loaded,
                settings,
                group,
                plan_lines,
                train_store.summary(),
                dev_store.summary() if dev_store else None,
            )
            if not resume:
                asked = {"model": model, "scratch": scratch, "data": str(data)}
                used = {
                    "task": task,
                    "residual": loaded.model.config.residual,
                    "dropout": loaded.model.config.dropout,
                    "option_score": loaded.model.option_score,
                    "attention": loaded.model.encoder.compute.attention,
                    "lsh": asdict(loaded.model.encoder.compute.lsh),
                    "world": group.world,
                }
                write_json(out / "train.json", asked | used | asdict(settings))
        kind: Any = Spans if task == "span" else Reading
        objective = kind(loaded.model, loaded.tokenizer, train_store, dev_store, settings)
        trainer = Trainer(objective, settings, out, group, options.batch_workers(workers, group))
        with TrainBar(group.is_main) as shown:
            result = trainer.run(
                resume,
                None if minutes is None else 60 * minutes,
                on_step=shown.step,
                on_event=say,
            )
        if group.is_main:
            best = "not measured" if result.paused else "not measured (no dev answers)"
            if result.best_score is not None:
                best = f"{result.best_score:.2%} at step {result.best_step}"
            options.conclude(out, result, f", dev {objective.score_name} {best}")


def _load(model: str, store: Store, option_score: str | None, how: dict[str, Any]) -> Loaded[Any]:
    """The model for a store's kind of questions."""
    from albert_rc.loading import load_model, load_spans

    if store.kind == "span":
        return load_spans(model, **how)
    return load_model(model, store.kind, option_score=option_score, labels=store.labels, **how)


def _load_stores(data: Path) -> tuple[Store, Store | None]:
    """What is learned from, and what decides when it is enough."""
    from albert_rc.data.shards import load_store
    from albert_rc.errors import DataError

    train_store = load_store(data / "train.pt")
    if not train_store.has_answers:
        raise DataError(f"{data / 'train.pt'}: its papers have no answers to learn from")
    dev_path = data / "dev.pt"
    dev_store = load_store(dev_path) if dev_path.is_file() else None
    if dev_store is not None and dev_store.kind != train_store.kind:
        raise DataError(f"{dev_path}: holds {dev_store.kind}, but train {train_store.kind}")
    if dev_store is not None and dev_store.labels != train_store.labels:
        raise DataError(f"{dev_path}: has other labels than train; make both of the same task")
    return train_store, dev_store


train.__doc__ = f"{train.__doc__}\n\n" + example(
    "albert-rc train --data data --model models/albert-xxlarge-v2 --out models/run1"
)
