"""Measurements side by side: A B A B, each in a process of its own, and their ratios."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from albert_rc.bench.jobs import Job
from albert_rc.devices import is_out_of_memory
from albert_rc.errors import AlbertRcError, OutOfMemoryError
from albert_rc.files import parse_json, to_json

PEERS = ("transformers", "transformers-best")


def in_own_process(
    module: str, job: dict[str, Any], name: str, seconds: float | None = None
) -> dict[str, Any]:
    """One measurement in a new process, which reads its job from stdin and answers on stdout.

    Args:
        module: run as `python -m`.
        job: plain values.
        name: what is measured, for messages.
        seconds: it is killed after so many.

    Raises:
        OutOfMemoryError: memory ran out, or it was killed, which is mostly for that.
        AlbertRcError: it failed otherwise; the message is the last line that it said.
        TimeoutError: it took longer.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=to_json(job),
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"the measurement of {name} took over {seconds:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it was killed"]
        kind = AlbertRcError
        if done.returncode < 0 or is_out_of_memory(RuntimeError(lines[-1])):
            kind = OutOfMemoryError
        raise kind(f"the measurement of {name} failed: {lines[-1]}")
    result: dict[str, Any] = parse_json(done.stdout)
    return result


def run_job(job: Job) -> dict[str, Any]:
    """One measurement of training or prediction in a new process."""
    return in_own_process("albert_rc.bench.worker", job.to_json(), f"{job.who} ({job.work})")


def compare(
    jobs: Sequence[Job], rounds: int, told: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Measure every job in every round, in turn.

    Args:
        jobs: what is compared; the first is ours.
        rounds: how often.
        told: given each measurement as it comes.

    Returns:
        Per job, its median round with `rounds` (passages/s of each) and, from the second job on,
        `ratio`: the median over rounds of our speed by its, and `memory_ratio` of the peaks.
    """
    measured: list[list[dict[str, Any]]] = [[] for _ in jobs]
    for turn in range(rounds):
        for place, job in enumerate(jobs):
            result = run_job(replace(job, seed=job.seed + turn))
            told(result)
            measured[place].append(result)
    table = []
    for results in measured:
        speeds = [r["passages_per_second"] for r in results]
        middle = dict(sorted(results, key=lambda r: r["passages_per_second"])[len(results) // 2])
        middle["rounds"] = speeds
        middle["passages_per_second"] = statistics.median(speeds)
        table.append(middle)
    ours = measured[0]
    for row, results in zip(table[1:], measured[1:], strict=True):
        row["ratio"] = statistics.median(
            a["passages_per_second"] / b["passages_per_second"]
            for a, b in zip(ours, results, strict=True)
        )
        row["memory_ratio"] = statistics.median(
            a["peak_bytes"] / b["peak_bytes"] for a, b in zip(ours, results, strict=True)
        )
    return table
