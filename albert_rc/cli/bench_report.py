"""Output of `bench train`, `predict` and `pretrain` as lines and tables of 80 columns."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import typer

from albert_rc.cli.console import table
from albert_rc.io.messages import counted

MIB = 2**20
Row = dict[str, Any]


def measurement(row: Row) -> str:
    """One measurement as a line of progress."""
    speed = f"{row[_speed(row)]:,.3f} {_unit(row)}/s, {row['tokens_per_second']:,.0f} tokens/s"
    return f"{_name(row)}{_beside(row['busy'])}: {speed}"


def show(result: Row) -> None:
    """Print the machine, then a table for each measurement, on stdout."""
    rows = result["results"]
    _machine(result["machine"])
    _speeds(rows)
    if "beside" in rows[0]:
        _busy(rows)
    if rows[0]["work"] != "predict":
        _memory(rows)
    for row in rows[1:]:
        beside = f" ({row['beside']['ratio']:.2f} with busy processes)" if "beside" in row else ""
        typer.echo(
            f"ours against {row['who']}: {row['ratio']:.2f} times as fast{beside},\n"
            f"  {row['memory_ratio']:.0%} of its peak memory"
        )


def _machine(machine: Row) -> None:
    rates = machine["matrix_flops_per_second"].items()
    typer.echo(f"processor: {machine['processor']}")
    if machine["device"] != machine["processor"]:
        typer.echo(f"device: {machine['device']}")
    known = ", ".join(machine["instruction_sets"]) or "not reported by this version of torch"
    typer.echo(fill(f"instruction sets: {known}", 80, subsequent_indent="  "))
    cores = "unknown" if machine["cores"] is None else machine["cores"]
    typer.echo(
        f"cores: {cores} ({machine['logical_cores']} logical); threads used: {machine['threads']}"
    )
    products = ", ".join(f"{name} {rate / 1e9:,.0f}" for name, rate in rates)
    typer.echo(f"matrix products, GFLOP/s: {products}")


def _speeds(rows: list[Row]) -> None:
    first = rows[0]
    shape = first["model"] or first["size"]
    title = f"{first['work']} {shape}, {first['batch_size']} {_unit(first)} per step"
    shown = [
        [
            _name(row),
            f"{row[_speed(row)]:,.2f}",
            f"{row['tokens_per_second']:,.0f}",
            f"{row['matrix_share']:.0%}",
            f"{row['peak_bytes'] / MIB:,.0f}",
        ]
        for row in rows
    ]
    header = ("", f"{_unit(first)}/s", "tokens/s", "matrix share", "peak MiB")
    table(title, header, shown)


def _busy(rows: list[Row]) -> None:
    first = rows[0]
    title = f"repeated{_beside(first['beside']['busy'])}"
    shown = [
        [
            _name(row),
            f"{row['beside'][_speed(row)]:,.2f}",
            f"{row['beside']['tokens_per_second']:,.0f}",
            f"{row['beside']['matrix_share']:.0%}",
            f"{row['beside']['of_quiet']:.0%}",
        ]
        for row in rows
    ]
    table(title, ("", f"{_unit(first)}/s", "tokens/s", "matrix share", "of idle speed"), shown)


def _memory(rows: list[Row]) -> None:
    steps = [f"{look['step']:,}" for look in rows[0]["memory"]]
    shown = []
    for row in rows:
        used = [f"{look['bytes'] / MIB:,.0f}" for look in row["memory"]]
        planned = "-" if row["plan"] is None else f"{row['plan']['total'] / MIB:,.0f}"
        shown.append([row["who"], *used, f"{row['peak_bytes'] / MIB:,.0f}", planned])
    table("memory in use after N steps, MiB", ("", *steps, "peak", "planned"), shown)
    plan, cut = rows[0]["plan"], rows[0]["cut"]
    typer.echo(
        f"plan: {counted(plan['micro_batches'], 'micro-batch', 'micro-batches')}, "
        f"recompute {plan['recompute']}, "
        f"states {plan['states']}"
    )
    if cut:
        pieces = counted(cut["micro_batches"], "micro-batch", "micro-batches")
        recomputed = ", layers recomputed" if cut.get("layers_recomputed") else ""
        typer.echo(f"out of memory: {pieces}{recomputed} from then on")


def _unit(row: Row) -> str:
    return "sequences" if row["work"] == "pretrain" else "passages"


def _speed(row: Row) -> str:
    return f"{_unit(row)}_per_second"


def _name(row: Row) -> str:
    return f"{row['who']} {row['precision']}"


def _beside(busy: int) -> str:
    if not busy:
        return ""
    return f" with {busy} busy {'process' if busy == 1 else 'processes'}"
