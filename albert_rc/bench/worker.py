"""The process of one measurement, separate for exact memory figures: JSON in, JSON out.

python -m albert_rc.bench.worker < job.json
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.bench.job import Job
from albert_rc.bench.jobs import Workload, batches, workload
from albert_rc.bench.machine import (
    describe,
    matrix_rate,
    memory_in_use,
    peak_memory,
    synchronise,
)
from albert_rc.bench.ours import Predicting, Training
from albert_rc.io.json import parse_json, to_json
from albert_rc.runtime.devices import processes

WARM_UP = 8  # batches: on virtual machines fresh memory is slow in the first ones
WARM_UP_SECONDS = 20
LOOKS = (0.1, 0.25, 0.5, 1.0)
"""Shares of the steps after which memory is recorded."""


def doer(job: Job, work: Workload, device: torch.device, folder: Path) -> Any:
    """The implementation that runs the job."""
    if job.who != "ours":
        from albert_rc.bench.peers import Transformers

        return Transformers(job, work, device)
    if job.learns:
        return Training(job, work, device, folder)
    return Predicting(job, work, device)


def timed(
    done_by: Any, steps: Sequence[list[int]], device: torch.device
) -> tuple[float, list[dict[str, Any]]]:
    """Run all batches and measure the time.

    Returns:
        Seconds, and the memory in use after each share of `LOOKS`: `share`, `step`, `bytes`.
    """
    looks = {share: math.ceil(share * len(steps)) for share in LOOKS}
    used: dict[int, int] = {}
    synchronise(device)
    started = time.perf_counter()
    for number, items in enumerate(steps):
        done_by.step(items, number)
        if number + 1 in looks.values():
            used[number + 1] = memory_in_use(device)
    synchronise(device)
    seconds = time.perf_counter() - started
    return seconds, [{"share": s, "step": n, "bytes": used[n]} for s, n in looks.items()]


def measure(job: Job) -> dict[str, Any]:
    """Warm up on a part of the job, then measure all of it."""
    with (
        processes(job.device, considerate=job.who == "ours") as group,
        TemporaryDirectory(prefix="albert-rc-bench-") as folder,
    ):
        device = group.device
        work = workload(job, Path(folder))
        done_by = doer(job, work, device, Path(folder))
        steps = batches(job, work, TOKEN_BUDGET)
        flops = sum(done_by.flops(items, number) for number, items in enumerate(steps))
        # The longest batch first, so that memory is mapped for the rest. Then a few more, until
        # kernels are compiled and caches filled, within a time limit.
        longest = max(steps, key=lambda items: int(work.length_N[items].sum()))
        begun = time.perf_counter()
        for number, items in enumerate(
            [longest, *steps][: WARM_UP if device.type == "cpu" else None]
        ):
            done_by.step(items, number)
            if time.perf_counter() - begun > WARM_UP_SECONDS:
                break
        seconds, memory = timed(done_by, steps, device)
        peak, plan, cut = peak_memory(device), done_by.plan, done_by.cut
        del done_by
        # With busy processes the product would be slower, too; see `compare`.
        rate = None if job.busy else matrix_rate(job.precision, device)
        return {
            **job.to_json(),
            "shape": asdict(work.config),
            "seconds": seconds,
            f"{job.unit}_per_second": len(work.chosen) / seconds,
            "tokens_per_second": int(work.length_N[work.chosen].sum()) / seconds,
            "flops_per_second": flops / seconds,
            "matrix_flops_per_second": rate,
            "matrix_share": None if rate is None else flops / seconds / rate,
            "peak_bytes": peak,
            "memory": memory,
            "plan": None if plan is None else {**asdict(plan), "total": plan.total},
            "cut": cut,
            "machine": describe(device),
        }


if __name__ == "__main__":
    result = measure(Job(**parse_json(sys.stdin.buffer.read())))
    sys.stdout.buffer.write(to_json(result, indent=False))
