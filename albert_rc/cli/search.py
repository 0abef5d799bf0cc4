"""`albert-rc search`: which learning rate suits these papers and this model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli import options
from albert_rc.cli.console import DEFAULT_MODEL, example, print_json, say, table


def search(
    data: options.Stores = Path("data"),
    model: options.StartFrom = DEFAULT_MODEL,
    scratch: options.Scratch = None,
    out: Annotated[Path, typer.Option(help="Where the trials are kept.")] = Path("models/search"),
    trials: Annotated[
        int,
        typer.Option(min=1, max=100000, help="In all; the same command goes on."),
    ] = 12,
    low: Annotated[float, typer.Option(help="The smallest learning rate.")] = 5e-6,
    high: Annotated[float, typer.Option(help="The largest.")] = 5e-4,
    batch_sizes: Annotated[str, typer.Option(help="To choose from, such as 16,32.")] = "16",
    epochs: Annotated[
        int, typer.Option(min=1, max=options.MOST, help="Passes over the papers in each trial.")
    ] = 2,
    max_steps: Annotated[
        int | None,
        typer.Option(
            min=1, max=options.MOST, help="Optimiser steps of each trial, in place of --epochs."
        ),
    ] = None,
    eval_steps: options.EvalSteps = None,
    warmup: Annotated[float, typer.Option(help="Share of the steps that the rate rises.")] = 0.1,
    mask_rate: options.MaskRate = 0.0,
    option_score: options.OptionScore = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=options.LAST_SEED, help="Random seed of the search and of every trial."
        ),
    ] = 0,
    precision: options.Precision = None,
    memory: options.Memory = None,
    device: options.Device = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Trials of `train` with learning rates that optuna chooses; the best run stays in OUT/best.

    A trial that is worse than the others were at that point is given up. The best dev score of
    many is a lucky one: train the winner again with other seeds (`train --seeds 3`).
    """
    from albert_rc.errors import UsageError
    from albert_rc.runtime.devices import choose_precision, processes
    from albert_rc.training.config import TrainConfig
    from albert_rc.training.memory.planner import Levers
    from albert_rc.training.runs.finetune import FineTuning, open_stores
    from albert_rc.training.runs.search import BEST, RESULT, Space
    from albert_rc.training.runs.search import search as search_

    try:
        sizes = tuple(int(size) for size in batch_sizes.split(","))
    except ValueError:
        raise UsageError(f"--batch-sizes {batch_sizes}: numbers, such as 16,32") from None
    if max(sizes) > options.LARGEST_BATCH:
        raise UsageError(f"--batch-sizes {batch_sizes}: at most {options.LARGEST_BATCH:,} each")
    space = Space(low, high, sizes)
    with processes(device) as group, options.alone_in(out, group):
        if group.world > 1:
            raise UsageError("search runs in one process; give each machine its own --out")
        train, dev = open_stores(data)
        if dev is None or not dev.has_answers:
            raise UsageError(f"search needs {data / 'dev.pt'} with answers, to tell trials apart")
        settings = TrainConfig(
            epochs=epochs,
            max_steps=max_steps,
            eval_steps=eval_steps,
            learning_rate=low,
            batch_size=sizes[0],
            warmup=warmup,
            mask_rate=mask_rate,
            precision=choose_precision(precision, group.device, learning=True),
            seed=seed,
        )
        tuning = FineTuning(
            model=model,
            how={"scratch": scratch},
            option_score=option_score,
            settings=settings,
            levers=Levers(),
            memory=memory,
            max_length=None,
            data=data,
            group=group,
            workers=options.batch_workers(None, group),
        )
        found = search_(tuning, (train, dev), space, trials, out, say)
    if json:
        print_json(found)
        return
    rows = []
    for row in sorted(found["trials"], key=lambda row: -(row["dev"] or 0)):
        score = "given up" if row["given_up"] else f"{row['dev']:.2%}"
        rows.append((f"{row['learning_rate']:.3g}", row["batch_size"], score))
    table(f"{out / RESULT}", ("learning rate", "batch", "dev"), rows)
    best = found["best"]
    typer.echo(
        f"{out / BEST}: --learning-rate {best['learning_rate']:.3g} --batch-size "
        f"{best['batch_size']}, dev {best['dev']:.2%}"
    )


search.__doc__ = f"{search.__doc__}\n\n" + example(
    "albert-rc search --data data --model albert-rc-tiny-pretrained --trials 12"
)
