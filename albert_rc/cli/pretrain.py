"""`albert-rc pretrain`: an ALBERT from nothing, or a checkpoint further."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import DEFAULT_MODEL, TrainBar, example, say
from albert_rc.model.config import LARGEST

if TYPE_CHECKING:
    from albert_rc.corpus.shards import Corpus


def pretrain(
    data: Annotated[
        Path, typer.Option(help="Folder with train/ and dev/, of `pretrain-data`.")
    ] = Path("data/corpus"),
    model: Annotated[
        str, typer.Option(help="Folder or hub id to start from; with --scratch, of the vocabulary.")
    ] = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    out: options.RunFolder = Path("models/pretrained"),
    config: settings.Config = None,
    set_: settings.Set = None,
    recipe: Annotated[
        Literal["paper", "small"],
        typer.Option(
            help="Settings that no other option gives. paper: as ALBERT was pretrained (LAMB, "
            "0.00176, batch 4096, 125,000 steps, 3,125 of them warm-up); small: for a corpus of "
            "some megabytes."
        ),
    ] = "small",
    pair: Annotated[
        Literal["sop", "nsp", "none"],
        typer.Option(help="Question about two segments: sop (their order), nsp or none."),
    ] = "sop",
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.LARGEST_BATCH,
            help="Sequences per optimiser step, over all processes.",
        ),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    seed: options.Seed = 0,
    memory: options.Memory = None,
    device: options.Device = None,
    resume: options.Resume = False,
    max_steps: options.MaxSteps = None,
    eval_steps: options.EvalSteps = None,
    save_steps: options.SaveSteps = None,
    minutes: options.Minutes = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST,
            help="Passes over the corpus, if --max-steps is not given.",
            rich_help_panel=options.SCHEDULE,
        ),
    ] = None,
    warmup: Annotated[
        float | None,
        typer.Option(
            help="Share of the steps in which the learning rate rises.",
            rich_help_panel=options.SCHEDULE,
        ),
    ] = None,
    mask_rate: Annotated[
        float,
        typer.Option(
            help="Share of the tokens that are hidden and predicted.",
            rich_help_panel=options.RECIPE,
        ),
    ] = 0.15,
    max_ngram: Annotated[
        int,
        typer.Option(
            min=1,
            max=100,
            help="Longest run of words that are hidden together.",
            rich_help_panel=options.RECIPE,
        ),
    ] = 3,
    optimizer: Annotated[
        Literal["adamw", "lamb", "lamb-albert", "adafactor"] | None,
        typer.Option(
            help="Optimiser: lamb, lamb-albert, adamw or adafactor.", rich_help_panel=options.RECIPE
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Model with the same vocabulary whose probabilities of hidden words are learned "
            "as well as the words, and its hidden states if they are as wide.",
            rich_help_panel=options.RECIPE,
        ),
    ] = None,
    sharing: Annotated[
        Literal["all", "attention", "ffn", "none"] | None,
        typer.Option(
            help="Weights that all layers share: all, attention, ffn or none.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    num_layers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST["num_layers"],
            help="Layers; a checkpoint whose layers are all shared may be deepened.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    hidden_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST["hidden_size"],
            help="Hidden size.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(
            help="Dropout of layers and attention weights; none in ALBERT v2.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    precision: options.Precision = None,
    on_collapse: options.OnCollapse = "warn",
) -> None:
    """Pretrain on hidden n-grams and the order of segments; `train --model OUT` starts from it.

    OUT holds a Hugging Face checkpoint, and next to it log.txt, metrics.jsonl and pretrain.json.
    """
    from dataclasses import asdict

    from albert_rc.checkpoints.load import load_pretraining
    from albert_rc.corpus.mask_config import MaskConfig
    from albert_rc.corpus.shards import Corpus, check_corpus
    from albert_rc.runtime.devices import be_deterministic, choose_precision, processes
    from albert_rc.training.checkpoint import planned_before
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.loop import Trainer
    from albert_rc.training.memory.planner import fit
    from albert_rc.training.objectives.pretraining import RECIPES, Pretraining, open_teacher
    from albert_rc.training.runs.earlier import require_kept

    given = {
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "max_steps": max_steps,
        "warmup": warmup,
    }
    chosen: dict[str, Any] = RECIPES[recipe] | {k: v for k, v in given.items() if v is not None}
    if epochs is not None and max_steps is None:
        chosen |= {"epochs": epochs, "max_steps": None}
    more = settings.parse(set_, settings.PRETRAIN)
    shape = {
        "num_layers": num_layers,
        "sharing": sharing,
        "hidden_size": hidden_size,
        "dropout": dropout,
        "attention_dropout": dropout,
    }
    for name in ("num_groups", "embedding_size", "num_heads", "ffn_size", "residual"):
        shape[name] = more.pop(name, None)
    masking = MaskConfig(rate=mask_rate, max_ngram=max_ngram)
    if more.pop("deterministic", False):
        be_deterministic()
    with processes(device) as group, options.alone_in(out, group):
        require_kept(model, [out], group, resume=resume, scratch=scratch is not None)
        levers = options.levers_of(more)
        workers = options.batch_workers(more.pop("workers", None), group)
        options.require_teacher(teacher, more)
        how_to_train = TrainConfig(
            **chosen,
            eval_steps=eval_steps,
            save_steps=save_steps,
            on_collapse=on_collapse,
            precision=choose_precision(precision, group.device, learning=True),
            seed=seed,
            **more,
        )
        corpus = Corpus(data / "train")
        dev = _held_out(data / "dev", group.is_main)
        loaded = load_pretraining(
            model,
            scratch=scratch,
            shape={name: value for name, value in shape.items() if value is not None},
            with_pairs=pair != "none",
            seed=seed,
        )
        taught_by = None if teacher is None else open_teacher(teacher, loaded.tokenizer)
        for part in (corpus, dev):
            if part is not None:
                check_corpus(part, loaded.tokenizer, loaded.model.config.max_length)
        how_to_train, plan_lines = fit(
            how_to_train,
            loaded.model.config,
            corpus,
            group,
            memory,
            levers,
            masked_share=masking.rate,
            before=planned_before(out, group) if resume else None,
        )
        if group.is_main:
            options.announce(
                loaded,
                how_to_train,
                group,
                plan_lines,
                corpus.count.line(),
                dev.count.line() if dev else None,
            )
        objective = Pretraining(
            loaded.model, loaded.tokenizer, corpus, dev, how_to_train, masking, pair, taught_by
        )
        used = {
            "model": model,
            "scratch": scratch,
            "data": str(data),
            "pair": pair,
            "teacher": teacher,
        }
        shapes = {"masking": asdict(masking), "shape": asdict(loaded.model.config)}
        about = {"pretrain.json": used | shapes | asdict(how_to_train)}
        trainer = Trainer(objective, how_to_train, out, group, workers, about)
        seconds = options.seconds_of(minutes)
        with TrainBar(group.is_main) as shown:
            result = trainer.run(resume, seconds, on_step=shown.step, on_event=say)
        if group.is_main:
            best = "" if result.best_score is None else f", dev words {result.best_score:.2%}"
            options.conclude(out, result, best)


def _held_out(folder: Path, is_main: bool) -> Corpus | None:
    """What is measured on; None where nothing is there."""
    from albert_rc.corpus.shards import Corpus

    found = Corpus(folder) if folder.is_dir() else None
    if found is not None and not len(found):
        if is_main:
            say(f"note: {folder} holds no sequence; nothing is measured")
        return None
    return found


pretrain.__doc__ = f"{pretrain.__doc__}\n\n" + example(
    "albert-rc pretrain --data data/corpus --model models/vocabulary --scratch tiny --out models/p"
)
