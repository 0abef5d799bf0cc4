"""Interleaved measurements (A B A B), each in a separate process, and their ratios."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from albert_rc.bench.job import Job
from albert_rc.errors import AlbertRcError, OutOfMemoryError
from albert_rc.io.json import parse_json, to_json
from albert_rc.runtime import environment
from albert_rc.runtime.busy import busy_processes
from albert_rc.runtime.devices import is_out_of_memory

BEST = "transformers-best"
PEERS = ("transformers", BEST)


def in_own_process(
    module: str,
    job: dict[str, Any],
    name: str,
    variables: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run one measurement in a new process, with the job on stdin and the result on stdout.

    Args:
        module: module for `python -m`.
        job: plain values.
        name: name of the measurement, for messages.
        variables: environment variables; ours by default.

    Raises:
        OutOfMemoryError: memory ran out, or the process was killed, usually for that reason.
        AlbertRcError: another failure; the message is the last line of its output.
    """
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=to_json(job),
        capture_output=True,
        check=False,
        env=variables,
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it was killed"]
        kind = AlbertRcError
        if done.returncode < 0 or is_out_of_memory(RuntimeError(lines[-1])):
            kind = OutOfMemoryError
        raise kind(f"the measurement of {name} failed: {lines[-1]}")
    result: dict[str, Any] = parse_json(done.stdout)
    return result


def run_job(job: Job) -> dict[str, Any]:
    """Run one measurement in a new process, while `job.busy` other processes keep cores busy.

    A peer runs in its users' usual environment, without our settings for threads and caches.
    """
    variables = environment.as_found() if job.who in PEERS else None
    name = f"{job.who} ({job.work})"
    with busy_processes(job.busy):
        return in_own_process("albert_rc.bench.worker", job.to_json(), name, variables=variables)


def measured_machine(device: str | None) -> dict[str, Any]:
    """Description of the machine, and its matrix product rates, measured in a new process."""
    name = "the matrix rate"
    return in_own_process("albert_rc.bench.machine", {"device": device}, name)


def compare(
    jobs: Sequence[Job], rounds: int, told: Callable[[dict[str, Any]], None], busy: int = 0
) -> list[dict[str, Any]]:
    """Measure every job in every round, in turn.

    Args:
        jobs: the jobs to compare, with the same work; the first is ours.
        rounds: number of rounds.
        told: called with each measurement.
        busy: if not 0, each job is measured again while this number of processes keep cores busy.

    Returns:
        For each job, its median round with `rounds` (items/s of each) and, from the second job on,
        `ratio`: the median over rounds of our speed divided by its, and `memory_ratio` of the
        peaks.
        With `busy`, `beside` in a row holds the same for the measurements with busy processes, and
        `of_quiet`: the median over rounds of the speed with them divided by the speed without.
    """
    quiet: list[list[dict[str, Any]]] = [[] for _ in jobs]
    beside: list[list[dict[str, Any]]] = [[] for _ in jobs]
    for turn in range(rounds):
        for place, job in enumerate(jobs):
            alone = run_job(replace(job, seed=job.seed + turn))
            told(alone)
            quiet[place].append(alone)
            if busy:
                found = run_job(replace(job, seed=job.seed + turn, busy=busy))
                told(found)
                # Relative to the rate without busy processes, which is the machine's maximum.
                found["matrix_share"] = found["flops_per_second"] / alone["matrix_flops_per_second"]
                beside[place].append(found)
    speed = f"{jobs[0].unit}_per_second"
    table = _against_first(quiet, speed)
    if busy:
        for row, loaded, before, after in zip(
            table, _against_first(beside, speed), quiet, beside, strict=True
        ):
            names = (speed, "tokens_per_second", "flops_per_second", "matrix_share", "rounds")
            kept = [name for name in (*names, "ratio") if name in loaded]
            row["beside"] = {
                "busy": busy,
                **{name: loaded[name] for name in kept},
                "of_quiet": _ratio(after, before, speed),
            }
    return table


_FIGURES = ("tokens_per_second", "flops_per_second", "matrix_share", "peak_bytes")


def _against_first(measured: list[list[dict[str, Any]]], speed: str) -> list[dict[str, Any]]:
    """The median round of each job, and the ratios of the first to the others."""
    table = []
    for results in measured:
        middle = dict(sorted(results, key=lambda r: r[speed])[len(results) // 2])
        middle["rounds"] = [r[speed] for r in results]
        # Of an even number of rounds, the middle one is the faster of two.
        for name in (speed, *_FIGURES):
            if all(r.get(name) is not None for r in results):
                middle[name] = statistics.median(r[name] for r in results)
        table.append(middle)
    for row, results in zip(table[1:], measured[1:], strict=True):
        row["ratio"] = _ratio(measured[0], results, speed)
        row["memory_ratio"] = _ratio(measured[0], results, "peak_bytes")
    return table


def _ratio(ones: list[dict[str, Any]], others: list[dict[str, Any]], name: str) -> float:
    """The median over rounds of the ratio of one to the other."""
    ratio: float = statistics.median(a[name] / b[name] for a, b in zip(ones, others, strict=True))
    return ratio
