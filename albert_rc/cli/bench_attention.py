"""`albert-rc bench attention`: what attention costs at each length, as tables and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from albert_rc.cli.console import say, table
from albert_rc.cli.options import LONGEST
from albert_rc.io.messages import shortened

if TYPE_CHECKING:
    from albert_rc.bench.attention import AttentionJob

MIB = 2**20
NAMES = {
    "math": "dense, plain",
    "sdpa": "dense, torch's",
    "dense": "dense, ours",
    "lsh": "lsh",
    "lsh-faithful": "lsh, faithful",
}


def parse_lengths(text: str | None, longest: int | None) -> list[int]:
    """`64,128` as numbers, or the powers of two, up to `longest`.

    Raises:
        UsageError: no lengths.
    """
    from albert_rc.bench.lengths import LONGEST as USUAL
    from albert_rc.bench.lengths import powers_of_two
    from albert_rc.errors import UsageError

    if text is None:
        lengths = powers_of_two(USUAL if longest is None else longest)
    else:
        words = text.split(",")
        # By its length first: Python refuses to read a number of thousands of digits.
        fits = (word.strip().isdecimal() and len(word) <= len(str(LONGEST)) for word in words)
        if not all(fits) or not all(1 <= int(word) <= LONGEST for word in words):
            raise UsageError(
                f"--lengths {shortened(text)}: give numbers of tokens, such as 256,512,1024, up to "
                f"{LONGEST:,}"
            )
        lengths = sorted({int(word) for word in words if longest is None or int(word) <= longest})
    if not lengths:
        raise UsageError(f"--longest {longest}: nothing to measure is that short")
    return lengths


def attention_job(
    heads: int | None,
    head_size: int | None,
    chunk: int | None,
    rounds: int | None,
    precision: str | None,
    device: str | None,
) -> AttentionJob:
    """What goes for all measurements; None for the defaults.

    Raises:
        UsageError: a size below 1, or no such precision here.
    """
    from albert_rc.bench.attention import AttentionJob
    from albert_rc.errors import UsageError
    from albert_rc.model.config import LshConfig
    from albert_rc.runtime.devices import choose_precision, processes

    for flag, size in (("--heads", heads), ("--head-size", head_size)):
        if size is not None and size < 1:
            raise UsageError(f"{flag} {size} must be at least 1")
    with processes(device) as group:
        chosen = choose_precision(precision, group.device, learning=True)
    given = {"heads": heads, "head_size": head_size, "chunk": chunk, "rounds": rounds}
    sizes = {name: size for name, size in given.items() if size is not None}
    job = AttentionJob(variant="dense", length=1, precision=chosen, device=device, **sizes)
    LshConfig(chunk=job.chunk, rounds=job.rounds)  # which refuses what cannot be
    return job


def bench_attention(
    lengths: Sequence[int],
    job: AttentionJob,
    *,
    memory: str | None,
    limit: float,
    out: Path | None,
    json: bool,
) -> None:
    """Measure, and show or write what was found.

    Args:
        lengths: tokens.
        job: settings of all measurements.
        memory: what may be used, such as 8GiB; what is free by default.
        limit: seconds that a pass may take.
        out: a JSON file; the figure goes beside it.
        json: the result as JSON on stdout instead of tables.
    """
    from albert_rc.bench.lengths import crossings, exponents, sweep
    from albert_rc.errors import UsageError
    from albert_rc.io.files import to_json, write_json
    from albert_rc.io.sizes import parse_size
    from albert_rc.runtime.devices import free_memory, processes

    if not limit > 0:
        raise UsageError(f"--time-limit {limit} must be above 0")
    with processes(job.device) as group:
        budget = free_memory(group.device)
    if memory is not None:
        budget = parse_size("--memory", memory)
    measured, skipped = sweep(job, lengths, budget, limit, told=lambda row: say(_line(row)))
    result = {
        "command": _command(job, lengths, limit),
        "measured": measured,
        "skipped": skipped,
        "exponents": exponents(measured),
        "crossings": crossings(measured),
    }
    if out is not None:
        write_json(out, result)
    if json:
        typer.echo(to_json(result).decode(), nl=False)
    else:
        _show(result, lengths)
    if out is not None:  # last, for it may lack matplotlib
        _draw(measured, job, out)


def _line(row: dict[str, Any]) -> str:
    what = f"{NAMES[row['variant']]} at {row['length']:,} tokens"
    if "reason" in row:
        return f"{what}: left out, {row['reason']}"
    return f"{what}: {row['peak_bytes'] / MIB:,.1f} MiB, {row['seconds']:.4f} s"


def _command(job: AttentionJob, lengths: Sequence[int], limit: float) -> str:
    return (
        f"albert-rc bench attention --lengths {','.join(map(str, lengths))} --heads {job.heads} "
        f"--head-size {job.head_size} --precision {job.precision} --lsh-chunk {job.chunk} "
        f"--lsh-rounds {job.rounds} --time-limit {limit:g}"
    )


def _show(result: dict[str, Any], lengths: Sequence[int]) -> None:
    from albert_rc.bench.lengths import by_length

    header = ["tokens", *NAMES.values()]
    for value, title, unit, digits in (
        ("peak_bytes", "Memory, forward and backward, MiB", MIB, 1),
        ("seconds", "Time, forward and backward, ms", 1e-3, 1),
    ):
        points = {variant: by_length(result["measured"], variant, value) for variant in NAMES}
        rows = [
            [f"{n:,}", *(_number(points[v].get(n), unit, digits) for v in NAMES)] for n in lengths
        ]
        powers = (result["exponents"][variant][value] for variant in NAMES)
        rows.append(["exponent", *(_number(power, 1, 2) for power in powers)])
        table(title, header, rows)
    for row in result["crossings"]:
        faster, smaller = (_from(row[name]) for name in ("faster_from", "smaller_from"))
        hashed, dense = NAMES[row["hashed"]], NAMES[row["dense"]]
        typer.echo(f"{hashed} against {dense}: faster {faster}, smaller {smaller}")
    for row in result["skipped"]:
        typer.echo(_line(row))


def _number(value: float | None, unit: float, digits: int) -> str:
    return "-" if value is None else f"{value / unit:,.{digits}f}"


def _from(length: int | None) -> str:
    return "at no length measured" if length is None else f"from {length:,} tokens on"


def _draw(measured: Sequence[dict[str, Any]], job: AttentionJob, out: Path) -> None:
    from albert_rc.bench.lengths import by_length
    from albert_rc.report.plots import lines, save

    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for label, value, unit in (("memory, MiB", "peak_bytes", MIB), ("time, ms", "seconds", 1e-3)):
        panels[label] = {}
        for variant, name in NAMES.items():
            points = by_length(measured, variant, value)
            if points:
                y = [number / unit for number in points.values()]
                panels[label][name] = ([float(n) for n in points], y)
    title = f"Attention of {job.heads} heads of {job.head_size}, forward and backward"
    for path in save(lines(panels, "tokens", f"{title}, {job.precision}", log=True), out):
        say(f"{path}")
