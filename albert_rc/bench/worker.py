"""One measurement in a process of its own, so that memory is its own: JSON in, JSON out.

python -m albert_rc.bench.worker < job.json
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import Any

from albert_rc.bench.jobs import Job, batches, passages
from albert_rc.bench.machine import describe, matrix_rate, peak_memory, synchronise
from albert_rc.bench.ours import Ours
from albert_rc.devices import processes
from albert_rc.files import parse_json, to_json
from albert_rc.predict import TOKEN_BUDGET

WARM_UP = 4  # batches
WARM_UP_SECONDS = 20


def measure(job: Job) -> dict[str, Any]:
    """Do the job once to warm up on a part of it, then all of it against the clock."""
    with processes(job.device) as group:
        device = group.device
        store, chosen = passages(job)
        done_by: Any
        if job.who == "ours":
            done_by = Ours(job, store, device)
        else:
            from albert_rc.bench.peers import Transformers

            done_by = Transformers(job, store, device)
        work = batches(job, store, chosen, TOKEN_BUDGET)
        flops = sum(done_by.flops(items) for items in work)
        # The longest batch first: what follows finds its memory mapped already. A few more,
        # until kernels are made and caches filled, but no longer than that is worth.
        longest = max(work, key=lambda items: int(store.lengths[items].sum()))
        begun = time.perf_counter()
        for items in [longest, *work][: WARM_UP if device.type == "cpu" else None]:
            done_by.step(items)
            if time.perf_counter() - begun > WARM_UP_SECONDS:
                break
        synchronise(device)
        started = time.perf_counter()
        for items in work:
            done_by.step(items)
        synchronise(device)
        seconds = time.perf_counter() - started
        peak = peak_memory(device)
        plan = done_by.plan if job.who == "ours" else None
        del done_by
        rate = matrix_rate(job.precision, device)
        return {
            **job.to_json(),
            "seconds": seconds,
            "passages_per_second": len(chosen) / seconds,
            "tokens_per_second": int(store.lengths[chosen].sum()) / seconds,
            "flops_per_second": flops / seconds,
            "matrix_flops_per_second": rate,
            "matrix_share": flops / seconds / rate,
            "peak_bytes": peak,
            "plan": None if plan is None else {**asdict(plan), "total": plan.total},
            "machine": describe(device),
        }


if __name__ == "__main__":
    result = measure(Job(**parse_json(sys.stdin.buffer.read())))
    sys.stdout.buffer.write(to_json(result, indent=False))
