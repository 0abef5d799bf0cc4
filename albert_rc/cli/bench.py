"""`albert-rc bench`: how fast this machine trains, predicts and attends, and a peer next to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert_rc.cli import options
from albert_rc.cli.bench_report import measurement, show
from albert_rc.cli.console import example, say
from albert_rc.cli.outputs import check_outputs

if TYPE_CHECKING:
    from albert_rc.bench.jobs import Job


def bench(
    work: Annotated[str, typer.Argument(help="train, predict or pretrain.")] = "train",
    size: Annotated[
        str | None,
        typer.Option(
            help="tiny, base (the default), large, xlarge, xxlarge, bert-base, ...; random weights."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Instead of --size: folder or hub id whose config.json gives the shape, its "
            "vocabulary's size and dropout; random weights."
        ),
    ] = None,
    dropout: Annotated[
        float | None,
        typer.Option(help="In training: of the layers and attention; the shape's own by default."),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Ours: fp32, bf16, fp16 or int8; as for `train`.")
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.LARGEST_BATCH,
            help="Passages of a step (2), or sequences of `pretrain` (32).",
        ),
    ] = None,
    steps: Annotated[
        int,
        typer.Option(
            min=1,
            max=options.MOST,
            help="Batches that are timed. Memory is shown after 10, 25, 50 and 100% of them.",
        ),
    ] = 8,
    data: Annotated[
        Path | None, typer.Option(help="A cloze store; random tokens without one.")
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(
            min=8,
            max=512,
            help="Tokens of every passage or sequence of random tokens. By default passages vary "
            "around 384 as exam papers do, and sequences of `pretrain` have 256, one in ten fewer.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="`transformers`: measure it too, plain and at its best, in turns."),
    ] = None,
    busy: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Measure each system again while N other processes keep cores busy.",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="Turns that each takes.")] = 2,
    memory: Annotated[
        str | None, typer.Option(help="Ours, in training: plan for so much, such as 8GiB.")
    ] = None,
    recompute: Annotated[
        str | None,
        typer.Option(
            help="Ours, in training: nothing, activations or layers; as `train` does by default."
        ),
    ] = None,
    optimizer_states: Annotated[
        str | None, typer.Option(help="Ours, in training: fp32 or 8bit.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> None:
    """Measure throughput, share of the machine's matrix rate, and memory.

    Every measurement has a process of its own. The matrix rate is that of a large product in the
    same precision, measured in the same process.

    `pretrain`: masked LM with 15% of the tokens hidden, on sequences of random tokens, which take
    as long as text does.
    """
    from dataclasses import replace

    from albert_rc.bench.compare import PEERS, compare, measured_machine
    from albert_rc.bench.jobs import Job, check
    from albert_rc.errors import UsageError
    from albert_rc.io.files import to_json, write_json
    from albert_rc.runtime.devices import choose_precision, processes

    if out is not None:
        check_outputs({"--out": out}, [data])
    of_others = {
        "--data": (data, ("train", "predict")),
        "--dropout": (dropout, ("train", "pretrain")),
    }
    _require(work, of_others)
    _require_choice(size, model, against, rounds, busy)
    if batch_size is None:
        batch_size = 32 if work == "pretrain" else 2
    with processes(device) as group:
        chosen = choose_precision(precision, group.device, learning=work != "predict")
    ours = Job(
        who="ours",
        work=work,
        size=size or "base",
        model=model,
        dropout=dropout,
        precision=chosen,
        batch_size=batch_size,
        steps=steps,
        data=None if data is None else str(data),
        length=length,
        device=device,
        recompute=recompute,
        optimizer_states=optimizer_states,
        memory=memory,
    )
    config, jobs = check(ours), [ours]
    if against:
        if config.residual != "post" or config.common != "nothing":
            raise UsageError(
                f"--against {against}: it cannot compute the shape of {model}, which has "
                "reversible layers, or layers that share only a part; leave the option out"
            )
        for peer in PEERS:
            best = "bf16" if "best" in peer else "fp32"
            jobs.append(replace(ours, who=peer, precision=best))
    machine = measured_machine(device)
    table = compare(jobs, rounds, told=lambda row: say(measurement(row)), busy=busy or 0)
    for row in table:
        row["data"] = data.name if data is not None else None
        row["model"] = Path(model).resolve().name if model is not None else None
    result = {
        "command": _command(ours, against, busy, rounds),
        "machine": machine,
        "results": table,
    }
    if out is not None:
        write_json(out, result)
    if json:
        typer.echo(to_json(result).decode(), nl=False)
    else:
        show(result)


def _require(work: str, options: Mapping[str, tuple[Any, tuple[str, ...]]]) -> None:
    """Refuse unknown work, and options that go with other work.

    Args:
        work: what is to be measured.
        options: by flag, what was given and the work that it goes with.
    """
    from albert_rc.bench.jobs import WORKS
    from albert_rc.errors import UsageError

    if work not in WORKS:
        raise UsageError(f"bench {work}: choose from {', '.join(WORKS)}")
    for flag, (value, goes_with) in options.items():
        if value is not None and work not in goes_with:
            named = [f"bench {name}" for name in goes_with]
            raise UsageError(f"{flag} goes with {' and '.join(named)}")


def _require_choice(
    size: str | None, model: str | None, against: str | None, rounds: int, busy: int | None
) -> None:
    """Refuse options that cannot be, or do not go together."""
    from albert_rc.errors import UsageError

    if size is not None and model is not None:
        raise UsageError("--size and --model: choose one of them")
    if against not in (None, "transformers"):
        raise UsageError(f"--against {against}: only transformers can be measured")
    for flag, count in (("--rounds", rounds), ("--busy", busy)):
        if count is not None and count < 1:
            raise UsageError(f"{flag} {count} must be at least 1")


def _command(job: Job, against: str | None, busy: int | None, rounds: int) -> str:
    shape = (
        f"--size {job.size}" if job.model is None else f"--model {Path(job.model).resolve().name}"
    )
    parts = [
        f"albert-rc bench {job.work} {shape} --precision {job.precision}",
        f"--batch-size {job.batch_size} --steps {job.steps} --rounds {rounds}",
    ]
    if job.data:
        parts.append("--data STORE")
    for name in ("length", "dropout", "memory", "recompute", "optimizer_states"):
        if getattr(job, name) is not None:
            parts.append(f"--{name.replace('_', '-')} {getattr(job, name)}")
    if against:
        parts.append(f"--against {against}")
    if busy:
        parts.append(f"--busy {busy}")
    return " ".join(parts)


bench.__doc__ = f"{bench.__doc__}\n\n" + example(
    "albert-rc bench predict --size xxlarge --precision int8 --against transformers"
)
