"""`albert-rc bench`: how fast this machine trains, predicts and attends, and a peer beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from albert_rc.cli.bench_attention import attention_job, bench_attention, parse_lengths
from albert_rc.cli.console import example, say


def bench(
    work: Annotated[str, typer.Argument(help="train, predict or attention.")] = "train",
    size: Annotated[
        str,
        typer.Option(help="tiny, base, large, xlarge, xxlarge, bert-base, ...; random weights."),
    ] = "base",
    precision: Annotated[
        str | None, typer.Option(help="Ours: fp32, bf16, fp16 or int8; as for `train`.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Passages of a training step.")] = 2,
    steps: Annotated[int, typer.Option(help="Batches that are timed.")] = 8,
    data: Annotated[
        Path | None, typer.Option(help="A cloze store; made-up passages without one.")
    ] = None,
    length: Annotated[int, typer.Option(help="Tokens of made-up passages.")] = 352,
    against: Annotated[
        str | None,
        typer.Option(help="`transformers`: measure it too, plain and at its best, in turns."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="Turns that each takes.")] = 2,
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
        str | None, typer.Option(help="Ours, in training: fp32, 8bit or cpu.")
    ] = None,
    join: Annotated[
        int, typer.Option(help="Ours: layers whose weight gradients are one product.")
    ] = 1,
    lengths: Annotated[
        str | None,
        typer.Option(help="attention: tokens, such as 256,512; by default powers of two from 256."),
    ] = None,
    longest: Annotated[int | None, typer.Option(help="attention: longest of them (16384).")] = None,
    heads: Annotated[int | None, typer.Option(help="attention: how many (12).")] = None,
    head_size: Annotated[int | None, typer.Option(help="attention: of each head (64).")] = None,
    lsh_chunk: Annotated[
        int | None, typer.Option(help="attention: tokens of a chunk (64).")
    ] = None,
    lsh_rounds: Annotated[
        int | None, typer.Option(help="attention: rounds of hashing (4).")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="attention: leave out what would take longer for a pass, in s (60)."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the result here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
) -> None:
    """Measure throughput, share of the machine's matrix rate, and peak memory.

    Every measurement has a process of its own. The matrix rate is that of a large product in the
    same precision, measured in the same process.

    `attention`: memory and time of dense attention and of hashing, alone, by length; --out FILE
    also draws them beside FILE.
    """
    from albert_rc.bench.compare import PEERS, compare
    from albert_rc.bench.jobs import Job
    from albert_rc.config import parse_size, size_config
    from albert_rc.devices import choose_precision, processes
    from albert_rc.errors import UsageError
    from albert_rc.files import to_json, write_json
    from albert_rc.train.planner import Levers

    alone = {
        "--lengths": lengths, "--longest": longest, "--heads": heads, "--head-size": head_size,
        "--lsh-chunk": lsh_chunk, "--lsh-rounds": lsh_rounds, "--time-limit": time_limit,
    }  # fmt: skip
    _require(work, against, {flag: value for flag, value in alone.items() if value is not None})
    if work == "attention":
        bench_attention(
            parse_lengths(lengths, longest),
            attention_job(heads, head_size, lsh_chunk, lsh_rounds, precision, device),
            memory=memory,
            limit=60.0 if time_limit is None else time_limit,
            out=out,
            json=json,
        )
        return
    counts = {"--batch-size": batch_size, "--steps": steps, "--rounds": rounds, "--join": join}
    for flag, count in counts.items():
        if count < 1:
            raise UsageError(f"{flag} {count} must be at least 1")
    if not 8 <= length <= 512:
        raise UsageError(f"--length {length} must be from 8 to 512")
    Levers(None, recompute, optimizer_states)
    if memory is not None:
        parse_size("--memory", memory)
    size_config(size)
    with processes(device) as group:
        chosen = choose_precision(precision, group.device, learning=work == "train")
    ours = Job(
        who="ours",
        work=work,
        size=size,
        precision=chosen,
        batch_size=batch_size,
        steps=steps,
        data=None if data is None else str(data),
        length=length,
        device=device,
        recompute=recompute,
        join=join,
        optimizer_states=optimizer_states,
        memory=memory,
    )
    jobs = [ours]
    if against:
        jobs += [
            Job(
                **{**ours.to_json(), "who": peer, "precision": "bf16" if "best" in peer else "fp32"}
            )
            for peer in PEERS
        ]
    table = compare(jobs, rounds, told=lambda r: say(_line(r)))
    for row in table:
        row["data"] = data.name if data is not None else None
    result = {"command": _command(ours, against, rounds), "results": table}
    if out is not None:
        write_json(out, result)
    if json:
        typer.echo(to_json(result).decode(), nl=False)
        return
    for row in table:
        typer.echo(_line(row))
    for row in table[1:]:
        typer.echo(
            f"ours against {row['who']}: {row['ratio']:.2f} times the passages/s, "
            f"{row['memory_ratio']:.0%} of the peak memory"
        )


def _require(work: str, against: str | None, alone: dict[str, Any]) -> None:
    """Refuse unknown work, and options that go with other work."""
    from albert_rc.errors import UsageError

    if work not in ("train", "predict", "attention"):
        raise UsageError(f"bench {work}: choose train, predict or attention")
    if against not in (None, "transformers"):
        raise UsageError(f"--against {against}: only transformers can be measured")
    if work == "attention" and against:
        raise UsageError("--against goes with bench train and bench predict")
    if work != "attention" and alone:
        raise UsageError(f"{next(iter(alone))} goes with bench attention")


def _line(row: dict[str, Any]) -> str:
    plan = ""
    if row["plan"]:
        planned = row["plan"]
        plan = (
            f" (planned {planned['total'] / 2**20:,.0f}: {planned['micro_batches']} micro-batches, "
            f"recompute {planned['recompute']}, states {planned['states']})"
        )
    speed = f"{row['passages_per_second']:.3f} passages/s, {row['tokens_per_second']:,.0f} tokens/s"
    reached, possible = row["flops_per_second"] / 1e9, row["matrix_flops_per_second"] / 1e9
    share = f"{reached:,.0f} GFLOP/s ({row['matrix_share']:.0%} of {possible:,.0f})"
    who = f"{row['who']:<17} {row['work']} {row['size']} {row['precision']}"
    return f"{who}: {speed}, {share}, peak {row['peak_bytes'] / 2**20:,.0f} MiB{plan}"


def _command(job: Any, against: str | None, rounds: int) -> str:
    parts = [
        f"albert-rc bench {job.work} --size {job.size} --precision {job.precision}",
        f"--batch-size {job.batch_size} --steps {job.steps} --rounds {rounds}",
    ]
    parts.append("--data STORE" if job.data else f"--length {job.length}")
    for name in ("memory", "recompute", "optimizer_states"):
        if getattr(job, name) is not None:
            parts.append(f"--{name.replace('_', '-')} {getattr(job, name)}")
    if job.join != 1:
        parts.append(f"--join {job.join}")
    if against:
        parts.append(f"--against {against}")
    return " ".join(parts)


bench.__doc__ = f"{bench.__doc__}\n\n" + example(
    "albert-rc bench predict --size xxlarge --precision int8 --against transformers"
)
