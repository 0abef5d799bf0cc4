"""`albert-rc pretrain`: an ALBERT from nothing, or a checkpoint further."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from albert_rc.cli import options
from albert_rc.cli.console import DEFAULT_MODEL, TrainBar, example, say
from albert_rc.model.config import LARGEST


def pretrain(
    data: Annotated[
        Path, typer.Option(help="Folder with train/ and dev/, of `pretrain-data`.")
    ] = Path("data/corpus"),
    model: Annotated[
        str, typer.Option(help="Folder or hub id to start from; with --scratch, of the vocabulary.")
    ] = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    out: options.RunFolder = Path("models/pretrained"),
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
    weight_decay: options.WeightDecay = 0.01,
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
    clip: options.Clip = 1.0,
    keep: options.Keep = 2,
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
    teacher_weight: options.TeacherWeight = None,
    sharing: Annotated[
        Literal["all", "attention", "ffn", "none"] | None,
        typer.Option(
            help="Weights that all layers share: all, attention, ffn or none.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    num_groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST["num_groups"],
            help="Groups of layers; each group shares its weights.",
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
    embedding_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST["embedding_size"],
            help="Embedding size; in BERT it is the hidden size.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    num_heads: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST["num_heads"],
            help="Attention heads.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    ffn_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=LARGEST["ffn_size"],
            help="Size of the feed-forward's inside.",
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
    accumulation: options.Accumulation = None,
    recompute: options.Recompute = None,
    ffn_chunk: options.FfnChunk = None,
    optimizer_states: options.OptimizerStates = None,
    precision: options.Precision = None,
    workers: options.Workers = None,
    on_collapse: options.OnCollapse = "warn",
    max_restarts: options.MaxRestarts = 2,
    deterministic: options.Deterministic = False,
    residual: options.Residual = None,
) -> None:
    """Pretrain on hidden n-grams and the order of segments; `train --model OUT` starts from it.

    OUT holds a Hugging Face checkpoint, and beside it log.txt, metrics.jsonl and pretrain.json.
    """
    from dataclasses import asdict

    from albert_rc.checkpoints.load import load_pretraining
    from albert_rc.corpus.mask_config import MaskConfig
    from albert_rc.corpus.shards import Corpus, check_corpus
    from albert_rc.runtime.devices import be_deterministic, choose_precision, processes
    from albert_rc.training.checkpoint import planned_before
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.loop import Trainer
    from albert_rc.training.memory.planner import Levers, fit
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
    shape = {
        "num_layers": num_layers,
        "num_groups": num_groups,
        "sharing": sharing,
        "hidden_size": hidden_size,
        "embedding_size": embedding_size,
        "num_heads": num_heads,
        "ffn_size": ffn_size,
        "dropout": dropout,
        "attention_dropout": dropout,
        "residual": residual,
    }
    masking = MaskConfig(rate=mask_rate, max_ngram=max_ngram)
    if deterministic:
        be_deterministic()
    with processes(device) as group, options.alone_in(out, group):
        require_kept(model, [out], group, resume=resume, scratch=scratch is not None)
        settings = TrainConfig(
            **chosen,
            weight_decay=weight_decay,
            clip=clip,
            eval_steps=eval_steps,
            save_steps=save_steps,
            keep=keep,
            on_collapse=on_collapse,
            max_restarts=max_restarts,
            precision=choose_precision(precision, group.device, learning=True),
            **options.teacher_settings(teacher, teacher_weight),
            ffn_chunk=ffn_chunk,
            seed=seed,
        )
        corpus = Corpus(data / "train")
        dev = Corpus(data / "dev") if (data / "dev").is_dir() else None
        if dev is not None and not len(dev):
            dev = None
            if group.is_main:
                say(f"note: {data / 'dev'} holds no sequence; nothing is measured")
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
        settings, plan_lines = fit(
            settings,
            loaded.model.config,
            corpus,
            group,
            memory,
            Levers(accumulation, recompute, optimizer_states),
            masked_share=masking.rate,
            before=planned_before(out, group) if resume else None,
        )
        if group.is_main:
            options.announce(
                loaded,
                settings,
                group,
                plan_lines,
                corpus.count.line(),
                dev.count.line() if dev else None,
            )
        objective = Pretraining(
            loaded.model, loaded.tokenizer, corpus, dev, settings, masking, pair, taught_by
        )
        used = {
            "model": model,
            "scratch": scratch,
            "data": str(data),
            "pair": pair,
            "teacher": teacher,
        }
        shapes = {"masking": asdict(masking), "shape": asdict(loaded.model.config)}
        about = {"pretrain.json": used | shapes | asdict(settings)}
        workers = options.batch_workers(workers, group)
        trainer = Trainer(objective, settings, out, group, workers, about)
        seconds = options.seconds_of(minutes)
        with TrainBar(group.is_main) as shown:
            result = trainer.run(resume, seconds, on_step=shown.step, on_event=say)
        if group.is_main:
            best = "" if result.best_score is None else f", dev words {result.best_score:.2%}"
            options.conclude(out, result, best)


pretrain.__doc__ = f"{pretrain.__doc__}\n\n" + example(
    "albert-rc pretrain --data data/corpus --model models/vocabulary --scratch tiny --out models/p"
)
