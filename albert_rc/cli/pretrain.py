"""`albert-rc pretrain`: an ALBERT from nothing, or a checkpoint further."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from albert_rc.cli.console import DEFAULT_MODEL, TrainBar, example, say


def pretrain(
    data: Annotated[
        Path, typer.Option(help="Folder with train/ and dev/, of `pretrain-data`.")
    ] = Path("data/corpus"),
    model: Annotated[
        str, typer.Option(help="Folder or hub id to go on from, or of the vocabulary.")
    ] = DEFAULT_MODEL,
    scratch: Annotated[
        str | None,
        typer.Option(
            help="Start from random weights of this size (tiny, base, large, xlarge, xxlarge), "
            "with the vocabulary of --model."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("models/pretrained"),
    recipe: Annotated[
        str,
        typer.Option(
            help="Defaults of what follows. paper: as ALBERT was pretrained (LAMB, 0.00176, batch "
            "4096, 125,000 steps, 3,125 of them warm-up); small: for a corpus of some megabytes."
        ),
    ] = "small",
    sharing: Annotated[
        str | None,
        typer.Option(help="With --scratch: what the layers share: all, attention, ffn or none."),
    ] = None,
    groups: Annotated[
        int | None, typer.Option(help="With --scratch: groups of layers; each shares by itself.")
    ] = None,
    num_layers: Annotated[
        int | None,
        typer.Option(help="Layers; a checkpoint whose layers are all shared may be deepened."),
    ] = None,
    hidden_size: Annotated[int | None, typer.Option(help="With --scratch.")] = None,
    embedding_size: Annotated[
        int | None, typer.Option(help="With --scratch; as large as the hidden size in BERT.")
    ] = None,
    num_heads: Annotated[int | None, typer.Option(help="With --scratch.")] = None,
    ffn_size: Annotated[int | None, typer.Option(help="With --scratch.")] = None,
    dropout: Annotated[
        float | None, typer.Option(help="With --scratch: in the layers; none in ALBERT v2.")
    ] = None,
    pair: Annotated[
        str, typer.Option(help="What is asked of two segments: sop, nsp or none.")
    ] = "sop",
    mask_rate: Annotated[float, typer.Option(help="Share of the tokens to predict.")] = 0.15,
    max_ngram: Annotated[int, typer.Option(help="Longest run of words hidden together.")] = 3,
    optimizer: Annotated[
        str | None, typer.Option(help="lamb, lamb-albert, adamw or adafactor.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Its peak.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Sequences of a step, over all processes.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Times through the corpus, instead of --max-steps.")
    ] = None,
    warmup: Annotated[float | None, typer.Option(help="Share of the steps.")] = None,
    weight_decay: Annotated[float, typer.Option(help="On matrices only.")] = 0.01,
    clip: Annotated[float, typer.Option(help="Largest gradient norm; 0 for none.")] = 1.0,
    accumulation: Annotated[
        int | None,
        typer.Option(help="Cut each batch into so many pieces; as memory asks for by default."),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="What a step may use, such as 8GiB; what is free by default."),
    ] = None,
    recompute: Annotated[
        str | None, typer.Option(help="nothing, activations or layers; as for `train`.")
    ] = None,
    optimizer_states: Annotated[
        str | None, typer.Option(help="fp32, 8bit or cpu; as for `train`.")
    ] = None,
    eval_steps: Annotated[
        int | None, typer.Option(help="Evaluate every N steps; each epoch by default.")
    ] = None,
    save_steps: Annotated[
        int | None, typer.Option(help="Save the state every N steps; each epoch by default.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Save and stop after so long; --resume goes on.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and what is hidden.")] = 0,
    precision: Annotated[
        str | None, typer.Option(help="fp32, bf16 or fp16; bf16 where the hardware has it.")
    ] = None,
    parallel: Annotated[str, typer.Option(help="ddp or fsdp; as for `train`.")] = "ddp",
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the state in --out.")] = False,
) -> None:
    """Pretrain on hidden n-grams and the order of segments; `train --model OUT` starts from it.

    OUT holds a Hugging Face checkpoint, and beside it log.txt, metrics.jsonl and pretrain.json.
    """
    from dataclasses import asdict

    from albert_rc.config import MaskConfig, TrainConfig
    from albert_rc.data.corpus import Corpus
    from albert_rc.devices import choose_precision, processes
    from albert_rc.errors import DataError, UsageError
    from albert_rc.files import write_json
    from albert_rc.loading import load_pretraining
    from albert_rc.train.loop import Trainer
    from albert_rc.train.planner import Levers, fit
    from albert_rc.train.pretraining import RECIPES, Pretraining

    if recipe not in RECIPES:
        raise UsageError(f"--recipe {recipe}: choose from {', '.join(RECIPES)}")
    given = {
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "max_steps": None if epochs else max_steps,
        "warmup": warmup,
    }
    chosen: dict[str, Any] = RECIPES[recipe] | {k: v for k, v in given.items() if v is not None}
    if epochs:
        chosen |= {"epochs": epochs, "max_steps": None}
    shape = {
        "num_layers": num_layers,
        "num_groups": groups,
        "sharing": sharing,
        "hidden_size": hidden_size,
        "embedding_size": embedding_size,
        "num_heads": num_heads,
        "ffn_size": ffn_size,
        "dropout": dropout,
        "attention_dropout": dropout,
    }
    masking = MaskConfig(rate=mask_rate, max_ngram=max_ngram)
    with processes(device) as group:
        settings = TrainConfig(
            **chosen,
            weight_decay=weight_decay,
            clip=clip,
            eval_steps=eval_steps,
            save_steps=save_steps,
            precision=choose_precision(precision, group.device, learning=True),
            parallel=parallel,
            seed=seed,
        )
        corpus = Corpus(data / "train")
        dev = Corpus(data / "dev") if (data / "dev").is_dir() else None
        loaded = load_pretraining(
            model,
            scratch=scratch,
            shape={name: value for name, value in shape.items() if value is not None},
            with_pairs=pair != "none",
            seed=seed,
        )
        for part in (corpus, dev):
            if part is not None and part.meta["vocabulary"] != loaded.tokenizer.fingerprint:
                raise DataError(
                    f"{data}: made with another vocabulary than that of {model}; make it again "
                    "with `albert-rc pretrain-data`"
                )
        if corpus.meta["max_length"] > loaded.model.config.max_length:
            raise DataError(
                f"{data}: sequences of {corpus.meta['max_length']} tokens, but the model takes "
                f"{loaded.model.config.max_length}; make it again with --max-length"
            )
        settings, plan_lines = fit(
            settings,
            loaded.model.config,
            corpus,
            group,
            memory,
            Levers(accumulation, recompute, optimizer_states),
            masked_share=masking.rate,
        )
        if group.is_main:
            count = sum(p.numel() for p in loaded.model.parameters())
            said = (
                f"{count:,} parameters, {settings.precision}, {group.device}, {group.world} ranks"
            )
            for line in (*loaded.report.lines(), f"{said}, {parallel}", *plan_lines):
                say(line)
            say(f"train: {corpus.count.line()}")
            say(f"dev: {dev.count.line() if dev else 'none; the last weights are kept'}")
            if not resume:
                used = {"model": model, "scratch": scratch, "data": str(data), "pair": pair}
                shapes = {"masking": asdict(masking), "shape": asdict(loaded.model.config)}
                write_json(out / "pretrain.json", used | shapes | asdict(settings))
        objective = Pretraining(
            loaded.model, loaded.tokenizer, corpus, dev, settings, masking, pair
        )
        trainer = Trainer(objective, settings, out, group)
        seconds = None if minutes is None else 60 * minutes
        with TrainBar(group.is_main) as shown:
            result = trainer.run(resume, seconds, on_step=shown.step, on_event=say)
        if group.is_main:
            best = "" if result.best_score is None else f", dev words {result.best_score:.2%}"
            rest = "" if result.steps == result.total_steps else f" of {result.total_steps:,}"
            typer.echo(f"{out}: {result.steps:,}{rest} steps in {result.seconds:.0f} s{best}")
            if rest:
                typer.echo("paused; the same command with --resume goes on from there")


pretrain.__doc__ = f"{pretrain.__doc__}\n\n" + example(
    "albert-rc pretrain --data data/corpus --model models/vocabulary --scratch tiny --out models/p"
)
