"""`albert-rc pretrain`: pretraining of an ALBERT from scratch, or from a checkpoint."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from albert_rc.cli import options, running, settings
from albert_rc.cli.console import DEFAULT_MODEL, example, say
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.errors import UsageError
from albert_rc.model.config import EncoderConfig
from albert_rc.training.config import TrainConfig

_SHAPE = (
    "num_layers", "hidden_size", "num_groups", "embedding_size", "num_heads", "ffn_size",
    "residual", "dropout",
)  # fmt: skip
_OF_RECIPE = ("batch_size", "learning_rate", "epochs", "max_steps", "warmup", "optimizer")
_OF_FINE_TUNING = ("patience", "mask_rate", "mask_weight")


@example(
    "albert-rc pretrain --data data/corpus --model models/vocabulary --scratch tiny "
    "--out models/pretrained"
)
@settings.takes(
    settings.Fields(TrainConfig, only=_OF_RECIPE, defaults="the recipe's"),
    settings.Fields(TrainConfig, without=(*_OF_RECIPE, *_OF_FINE_TUNING)),
    settings.Fields(MaskConfig, only=("rate",), prefix="mask_"),
    settings.Fields(MaskConfig, only=("max_ngram",)),
    settings.Fields(EncoderConfig, only=_SHAPE, defaults=False),
    before="memory",
    shown=(
        "batch_size", "learning_rate", "seed", "max_steps", "save_steps", "mask_rate", "precision",
    ),
)  # fmt: skip
def pretrain(
    context: typer.Context,
    data: Annotated[
        Path, typer.Option(help="Folder with train/ and dev/, written by `pretrain data`.")
    ] = (Path("data/corpus")),
    model: Annotated[
        str,
        typer.Option(
            help="Model to start from: a folder, a hub id, or a model of the package; --scratch "
            "uses only its vocabulary."
        ),
    ] = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    out: options.RunFolder = Path("models/pretrained"),
    config: settings.Config = None,
    set_: settings.Set = None,
    recipe: Annotated[
        Literal["paper", "small"],
        typer.Option(
            help="Defaults for the other options. paper: as ALBERT was pretrained (LAMB, learning "
            "rate 0.00176, batch 4096, 125,000 steps with 3,125 of warm-up); small: for a corpus "
            "of a few megabytes (AdamW, learning rate 0.001, batch 32, 10 epochs, 2% of warm-up)."
        ),
    ] = "small",
    pair: Annotated[
        Literal["sop", "nsp", "none"],
        typer.Option(
            help="Task on pairs of segments: sop (sentence order), nsp (next sentence) or none."
        ),
    ] = "sop",
    memory: options.Memory = None,
    device: options.Device = None,
    resume: options.Resume = False,
    minutes: options.Minutes = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            help="Teacher model with the same vocabulary: its probabilities of the masked words "
            "are learned too, and its hidden states if they have the same size.",
            hidden=True,
        ),
    ] = None,
    sharing: Annotated[
        Literal["all", "attention", "ffn", "none"] | None,
        typer.Option(
            help="Parameters that all layers share: all, attention, ffn or none.",
            rich_help_panel=options.SHAPE,
        ),
    ] = None,
    workers: options.Workers = None,
    deterministic: options.Deterministic = False,
    **given: Any,
) -> None:
    """Pretrain on masked n-grams and the order of segments; then use `train --model OUT`.

    OUT holds a Hugging Face checkpoint, log.txt, metrics.jsonl, pretrain.json (all settings) and
    run.toml, which repeats the run with `--config`.
    """
    if below := context.invoked_subcommand:
        for flag in settings.given_flags(context):
            raise UsageError(
                f"{flag} before `{below}` is an option of pretrain itself; give the options of "
                f"`pretrain {below}` after its name"
            )
        return

    from albert_rc.runtime.devices import be_deterministic, choose_precision, processes
    from albert_rc.training.checkpoint import require_state
    from albert_rc.training.objectives.pretraining import RECIPES
    from albert_rc.training.runs.earlier import require_kept
    from albert_rc.training.runs.pretrain import PretrainingRun

    options.require_partners(teacher, given, resume)
    if pair == "none":
        settings.need(context, "--pair sop or nsp", "pair_weight")
    levers, seconds = running.levers_of(given), options.seconds_of(minutes)
    shape = {"sharing": sharing, **{name: given.pop(name) for name in _SHAPE}}
    dropout = shape.pop("dropout")
    hidden = {"rate": given.pop("mask_rate"), "max_ngram": given.pop("max_ngram")}
    masking = MaskConfig(**settings.chosen(hidden))
    more = settings.chosen(given)
    recipes: dict[str, Any] = RECIPES[recipe]
    if "epochs" in more and "max_steps" not in more:
        recipes = recipes | {"max_steps": None}
    if deterministic:
        be_deterministic()
    with processes(device) as group, running.alone_in(out, group):
        require_kept(
            model, [out], group, resume=resume, scratch=scratch is not None, teacher=teacher
        )
        require_state(out, group, resume)
        more["precision"] = choose_precision(more.get("precision"), group.device, learning=True)
        asked = PretrainingRun(
            model=model,
            how={"scratch": scratch, "shape": settings.chosen(shape), "dropout": dropout},
            data=data,
            pair=pair,
            masking=masking,
            settings=TrainConfig(**recipes | more),
            levers=levers,
            memory=memory,
            group=group,
            workers=running.batch_workers(workers, group),
            teacher=teacher,
        )
        begun = time.perf_counter()
        prepared = asked.prepare(say, out if resume else None)
        if group.is_main:
            options.say_epochs_unused(more)
            if "eval_steps" in more and prepared.data[1] is None:
                say(
                    f"note: there is nothing in {data / 'dev'} to evaluate, so --eval-steps only "
                    "sets how often the training loss is recorded"
                )
        result = running.run(
            prepared, out, resume, running.time_left(seconds, begun), settings.run_file(context)
        )
        if group.is_main:
            score = result.best_score
            name = prepared.objective.score_name
            best = (
                "" if score is None else f", best dev {name} {score:.2%} at step {result.best_step}"
            )
            running.conclude(out, result, best)
