"""`albert-rc bench`: speed of training and prediction, and a test of resuming."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from albert_rc.bench.job import Job
from albert_rc.cli import settings
from albert_rc.cli.bench_report import measurement, show
from albert_rc.cli.console import example, print_json, say, table
from albert_rc.cli.outputs import check_outputs
from albert_rc.errors import UsageError
from albert_rc.fields import LAST_SEED, flag_of

_LEARNS = ("train", "pretrain")
_GOES_WITH = {
    "data": ("train", "predict"), "dropout": _LEARNS, "memory": _LEARNS, "recompute": _LEARNS,
    "optimizer_states": _LEARNS,
}  # fmt: skip
_OF_MEASURING = ("against", "rounds")
_OF_RESUME = ("kills", "runs", "command", "folder", "moments")


@example("albert-rc bench predict --size xxlarge --precision int8 --against transformers")
@settings.takes(
    settings.Fields(Job, defaults=False),
    before="against",
    shown=("size", "model", "precision", "batch_size", "steps", "data"),
)
def bench(
    context: typer.Context,
    work: Annotated[
        Literal["train", "predict", "pretrain", "resume"],
        typer.Argument(
            help="What to measure: train, predict or pretrain; or resume, to test resuming."
        ),
    ] = "train",
    against: Annotated[
        Literal["transformers"] | None,
        typer.Option(
            help="Also measure Hugging Face transformers, unchanged and optimised, in "
            "alternating rounds."
        ),
    ] = None,
    busy: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Measure each system again while N other processes keep cores busy.",
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=1000, help="Rounds; each measures every system once.")
    ] = 2,
    out: Annotated[Path | None, typer.Option(help="Also write the result to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    set_: settings.Set = None,
    kills: Annotated[
        int,
        typer.Option(
            help="With resume: number of times the last run is killed and resumed.",
            min=1,
            max=1000,
            hidden=True,
        ),
    ] = 2,
    runs: Annotated[
        int,
        typer.Option(
            help="With resume: number of uninterrupted runs, which are also compared with each "
            "other.",
            min=1,
            max=100,
            hidden=True,
        ),
    ] = 1,
    command: Annotated[
        Literal["train", "pretrain"],
        typer.Option(help="With resume: the command to test.", hidden=True),
    ] = "train",
    folder: Annotated[
        Path | None,
        typer.Option(
            help="With resume: keep all runs in this folder (default: they are deleted).",
            hidden=True,
        ),
    ] = None,
    moments: Annotated[
        int,
        typer.Option(
            help="With resume: random seed for the times at which the run is killed.",
            min=0,
            max=LAST_SEED,
            hidden=True,
        ),
    ] = 0,
    **given: Any,
) -> None:
    """Measure throughput, share of the machine's peak matrix rate, and memory; or test resuming.

    Each measurement runs in a separate process. The matrix rate is that of a large matrix product
    in the same precision, measured in the same process. Pretraining is masked LM with 15% of the
    tokens masked, on sequences of random tokens, which take as long as real text. `bench resume`
    trains with the options after `--`, once uninterrupted and once killed and resumed, and compares
    the results bit for bit; the exit code is 0 if weights, optimiser states, random states and
    metrics are identical, else 1. A GPU may add numbers in a different order in each run; the
    option `--set deterministic=true` prevents that.
    """
    chosen = settings.chosen(given)
    if work == "resume":
        if unknown := chosen.keys() - {"steps"}:
            flag = flag_of(min(unknown))
            raise UsageError(f"bench resume has no option {flag}; put options for train after --")
        for flag in settings.given_flags(context, *_OF_MEASURING):
            raise UsageError(f"{flag} is only for bench train, predict and pretrain")
        steps = chosen.get("steps", 12)
        _resume(context.args, folder, out, json, command=command, steps=steps, kills=kills,
                seed=moments, runs=runs, busy=busy or 0)  # fmt: skip
        return
    if context.args:
        raise UsageError(
            f"bench {work}: unexpected argument {context.args[0]}; only bench resume takes "
            "options after --"
        )
    for flag in settings.given_flags(context, *_OF_RESUME):
        raise UsageError(f"{flag} is only for bench resume")
    for name, goes_with in _GOES_WITH.items():
        if name in chosen and work not in goes_with:
            named = " and ".join(f"bench {each}" for each in goes_with)
            raise UsageError(f"{flag_of(name)} is only for {named}")
    if "length" in chosen and "data" in chosen:
        raise UsageError("--length is for random tokens and cannot be used with --data")
    if "size" in chosen and "model" in chosen:
        raise UsageError("--size and --model cannot be used together")
    _measure(work, chosen, against, busy or 0, rounds, out, json)


def _measure(
    work: str,
    given: dict[str, Any],
    against: str | None,
    busy: int,
    rounds: int,
    out: Path | None,
    json: bool,
) -> None:
    """Measure our model and the other library's in alternation."""
    from albert_rc.bench.compare import BEST, PEERS, compare, measured_machine
    from albert_rc.bench.jobs import check
    from albert_rc.io.json import write_json
    from albert_rc.runtime.devices import choose_precision, processes

    data, model, device = (given.get(name) for name in ("data", "model", "device"))
    if out is not None:
        check_outputs({"--out": out}, [None if data is None else Path(data)])
    with processes(device) as group:
        precision = given.get("precision")
        given["precision"] = choose_precision(precision, group.device, learning=work != "predict")
        fastest = choose_precision(None, group.device)
    given.setdefault("batch_size", 32 if work == "pretrain" else 2)
    ours = Job(who="ours", work=work, **given)
    config, jobs = check(ours), [ours]
    if against:
        if config.residual != "post" or config.common != "nothing":
            raise UsageError(
                f"--against {against} cannot run a model like {model}, with reversible layers or "
                "layers that share only some parts; leave the option out"
            )
        for peer in PEERS:
            theirs = fastest if peer == BEST else "fp32"
            jobs.append(replace(ours, who=peer, precision=theirs))
    machine = measured_machine(device)
    rows = compare(jobs, rounds, told=lambda row: say(measurement(row)), busy=busy)
    for row in rows:
        row["data"] = None if data is None else Path(data).name
        row["model"] = Path(model).resolve().name if model is not None else None
    command = _command(ours, against, busy, rounds)
    result = {"command": command, "machine": machine, "results": rows}
    if out is not None:
        write_json(out, result)
    if json:
        print_json(result)
    else:
        show(result)


def _resume(
    arguments: list[str], folder: Path | None, out: Path | None, json: bool, **how: Any
) -> None:
    """Kill a run and resume it, on this machine and with these settings."""
    from albert_rc.io.json import write_json
    from albert_rc.training.runs.verify import kill_and_resume

    if out is not None:
        check_outputs({"--out": out}, [])
    with tempfile.TemporaryDirectory() as temporary:
        found = kill_and_resume(arguments, folder or Path(temporary), say=say, **how)
    same = all(part.equal for part in found)
    result = {"equal": same, "parts": [asdict(part) for part in found]}
    if out is not None:
        write_json(out, result)
    if json:
        print_json(result)
    else:
        rows = [
            [part.run, part.part, f"{part.values:,}", f"{part.unequal:,}", f"{part.largest:.3g}"]
            for part in found
        ]
        header = ["run", "part", "values", "different", "largest difference"]
        table("differences from the first run", header, rows)
        typer.echo("identical, bit for bit" if same else "not identical")
    raise typer.Exit(0 if same else 1)


def _command(job: Job, against: str | None, busy: int, rounds: int) -> str:
    shape = (
        f"--size {job.size}" if job.model is None else f"--model {Path(job.model).resolve().name}"
    )
    parts = [
        f"albert-rc bench {job.work} {shape} --precision {job.precision}",
        f"--batch-size {job.batch_size} --steps {job.steps} --rounds {rounds}",
    ]
    if job.data:
        parts.append("--data STORE")
    for name in ("length", "dropout", "memory", "recompute", "optimizer_states", "device"):
        if getattr(job, name) is not None:
            parts.append(f"{flag_of(name)} {getattr(job, name)}")
    if against:
        parts.append(f"--against {against}")
    if busy:
        parts.append(f"--busy {busy}")
    return " ".join(parts)
