"""`albert-rc verify-resume`: kill a run and resume it, on this machine and with these settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example, print_json, say, table


def verify_resume(
    context: typer.Context,
    steps: Annotated[int, typer.Option(help="Steps of each of the two runs.")] = 12,
    kills: Annotated[int, typer.Option(help="Times that the second is killed and resumed.")] = 2,
    command: Annotated[str, typer.Option(help="What to try: train or pretrain.")] = "train",
    folder: Annotated[
        Path | None, typer.Option(help="Where both runs stay; nowhere by default.")
    ] = None,
    moments: Annotated[int, typer.Option(help="Seed of the moments of the kills.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Train twice with the options after `--`, once killed again and again; compare bit for bit.

    Exit code 0 if weights, moments, random states and metrics are the same, else 1. GPUs may add
    in another order each time; `--deterministic` among the options tells them not to.
    """
    import tempfile
    from dataclasses import asdict

    from albert_rc.errors import UsageError
    from albert_rc.train.verify import kill_and_resume

    if command not in ("train", "pretrain"):
        raise UsageError(f"--command {command}: choose train or pretrain")
    with tempfile.TemporaryDirectory() as temporary:
        found = kill_and_resume(
            context.args,
            folder or Path(temporary),
            command=command,
            steps=steps,
            kills=kills,
            seed=moments,
            say=say,
        )
    same = all(part.equal for part in found)
    if json:
        print_json({"equal": same, "parts": [asdict(part) for part in found]})
    else:
        rows = [
            [part.part, f"{part.values:,}", f"{part.unequal:,}", f"{part.largest:.3g}"]
            for part in found
        ]
        table("unbroken against killed", ["", "numbers", "unequal", "furthest apart"], rows)
        typer.echo("bit for bit the same" if same else "not the same")
    raise typer.Exit(0 if same else 1)


verify_resume.__doc__ = f"{verify_resume.__doc__}\n\n" + example(
    "albert-rc verify-resume --steps 8 -- --data data --model models/albert-base-v2"
)
