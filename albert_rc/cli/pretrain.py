"""`albert-rc pretrain`: pretraining of an ALBERT from scratch, or from a checkpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from albert_rc.cli import options, running, settings
from albert_rc.cli.console import DEFAULT_MODEL, TrainBar, example, say
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.model.config import EncoderConfig
from albert_rc.training.config import TrainConfig

if TYPE_CHECKING:
    from albert_rc.corpus.shards import Corpus

_SHAPE = (
    "num_layers", "hidden_size", "num_groups", "embedding_size", "num_heads", "ffn_size",
    "residual", "dropout",
)  # fmt: skip
_OF_FINE_TUNING = ("patience", "mask_rate", "mask_weight")


@settings.takes(
    settings.Fields(TrainConfig, without=_OF_FINE_TUNING),
    settings.Fields(MaskConfig, only=("rate",), prefix="mask_"),
    settings.Fields(MaskConfig, only=("max_ngram",)),
    settings.Fields(EncoderConfig, only=_SHAPE),
    before="memory",
    shown=(
        "batch_size", "learning_rate", "seed", "max_steps", "save_steps", "mask_rate", "precision",
    ),
    defaults=False,
)  # fmt: skip
def pretrain(
    context: typer.Context,
    data: Annotated[
        Path, typer.Option(help="Folder with train/ and dev/, written by `pretrain data`.")
    ] = (Path("data/corpus")),
    model: Annotated[
        str,
        typer.Option(
            help="Folder or hub id of the model to start from; --scratch uses only its vocabulary."
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
            "of a few megabytes."
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
    if context.invoked_subcommand is not None:
        return

    from albert_rc.checkpoints.load import load_model
    from albert_rc.corpus.shards import Corpus, check_corpus
    from albert_rc.runtime.devices import be_deterministic, choose_precision, processes
    from albert_rc.training.checkpoint import planned_before, require_state
    from albert_rc.training.loop import Trainer
    from albert_rc.training.memory.planner import fit
    from albert_rc.training.objectives.pretraining import RECIPES, Pretraining, open_teacher
    from albert_rc.training.runs.earlier import require_kept

    options.require_teacher(teacher, given)
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
        require_kept(model, [out], group, resume=resume, scratch=scratch is not None)
        require_state(out, group, resume)
        more["precision"] = choose_precision(more.get("precision"), group.device, learning=True)
        how_to_train = TrainConfig(**recipes | more)
        corpus = Corpus(data / "train")
        dev = _held_out(data / "dev", group.is_main)
        loaded = load_model(
            model,
            "pretraining",
            scratch=scratch,
            shape=settings.chosen(shape),
            with_pairs=pair != "none",
            dropout=dropout,
            seed=how_to_train.seed,
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
            teacher=None if taught_by is None else taught_by.config,
        )
        if group.is_main:
            running.announce(
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
        about: dict[str, Any] = {"pretrain.json": used | shapes | asdict(how_to_train)}
        about |= settings.run_file(context)
        at_once = running.batch_workers(workers, group)
        trainer = Trainer(objective, how_to_train, out, group, at_once, about)
        with TrainBar(group.is_main) as shown:
            result = trainer.run(resume, seconds, on_step=shown.step, on_event=say)
        if group.is_main:
            score = result.best_score
            best = "" if score is None else f", masked-word accuracy on dev {score:.2%}"
            running.conclude(out, result, best)


def _held_out(folder: Path, is_main: bool) -> Corpus | None:
    """The held-out corpus; None if there is none."""
    from albert_rc.corpus.shards import Corpus

    found = Corpus(folder) if folder.is_dir() else None
    if found is not None and not len(found):
        if is_main:
            say(f"note: {folder} has no sequences, so nothing is evaluated")
        return None
    return found


pretrain.__doc__ = f"{pretrain.__doc__}\n\n" + example(
    "albert-rc pretrain --data data/corpus --model models/vocabulary --scratch tiny --out models/p"
)
