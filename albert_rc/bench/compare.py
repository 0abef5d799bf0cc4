"""Measurements side by side: A B A B, each in a process of its own, and their ratios."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from albert_rc.bench.jobs import Job
from albert_rc.errors import AlbertRcError
from albert_rc.files import parse_json, to_json

PEERS = ("transformers", "transformers-best")


def run_job(job: Job) -> dict[str, Any]:
    """One measurement in a new process.

    Raises:
        AlbertRcError: it failed; the message is the last line that it said.
    """
    done = subprocess.run(
        [sys.executable, "-m", "albert_rc.bench.worker"],
        input=to_json(job.to_json()),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it was killed"]
        raise AlbertRcError(f"the measurement of {job.who} ({job.work}) failed: {lines[-1]}")
    result: dict[str, Any] = parse_json(done.stdout)
    return result


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
