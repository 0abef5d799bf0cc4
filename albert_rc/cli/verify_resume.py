"""`albert-rc verify-resume`: kill a run and resume it, on this machine and with these settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from albert_rc.cli import options
from albert_rc.cli.console import example, print_json, say, table


def verify_resume(
    context: typer.Context,
    steps: Annotated[
        int,
        typer.Option(help="Optimiser steps of each run.", min=2, max=options.MOST),
    ] = 12,
    kills: Annotated[
        int,
        typer.Option(help="Times that the last run is killed and resumed.", min=1, max=1000),
    ] = 2,
    runs: Annotated[
        int,
        typer.Option(help="Unbroken runs, to compare with each other too.", min=1, max=100),
    ] = 1,
    busy: Annotated[
        int,
        typer.Option(
            help="Other processes that keep the machine busy meanwhile: what comes out must not "
            "depend on them.",
            min=0,
            max=64,
        ),
    ] = 0,
    command: Annotated[
        Literal["train", "pretrain"], typer.Option(help="What to try: train or pretrain.")
    ] = "train",
    folder: Annotated[
        Path | None, typer.Option(help="Keep all runs in this folder (default: they are deleted).")
    ] = None,
    moments: Annotated[
        int,
        typer.Option(
            help="Random seed for the moments of the kills.",
            min=0,
            max=options.LAST_SEED,
        ),
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train with the options after `--`, unbroken and killed; compare bit for bit.

    Exit code 0 if weights, moments, random states and metrics are the same, else 1. GPUs may add
    in another order each time; `--set deterministic=true` among the options tells them not to.
    """
    import tempfile
    from dataclasses import asdict

    from albert_rc.training.runs.verify import kill_and_resume

    with tempfile.TemporaryDirectory() as temporary:
        found = kill_and_resume(
            context.args,
            folder or Path(temporary),
            command=command,
            steps=steps,
            kills=kills,
            seed=moments,
            runs=runs,
            busy=busy,
            say=say,
        )
    same = all(part.equal for part in found)
    if json:
        print_json({"equal": same, "parts": [asdict(part) for part in found]})
    else:
        rows = [
            [part.run, part.part, f"{part.values:,}", f"{part.unequal:,}", f"{part.largest:.3g}"]
            for part in found
        ]
        table(
            "compared with the first run",
            ["run", "", "numbers", "unequal", "furthest apart"],
            rows,
        )
        typer.echo("bit for bit the same" if same else "not the same")
    raise typer.Exit(0 if same else 1)


verify_resume.__doc__ = f"{verify_resume.__doc__}\n\n" + example(
    "albert-rc verify-resume --steps 8 -- --data data --model models/albert-base-v2"
)
