"""Memory and time of attention alone, dense and by hashing, by length of the sequence.

    python benchmarks/attention.py OUT.json [--lengths 256,512,...] [--heads 12] [--head-size 64]
        [--chunk 64] [--rounds 4] [--precision fp32] [--device cpu] [--limit 60]

Forward and backward over one sequence of random numbers, each measurement in a process of its own.
A variant is given up at the length at which a pass takes longer than the limit, or its scores would
fill the memory that is free. Writes what was
measured, the exponents of its growth and the lengths from which hashing pays, and draws a figure
next to it.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from albert_rc.bench.machine import describe, peak_memory, synchronise
from albert_rc.io.json import parse_json, to_json, write_json
from albert_rc.model.attention import dense_attention
from albert_rc.model.config import LshConfig
from albert_rc.model.layout import Layout
from albert_rc.model.linear import DTYPES
from albert_rc.model.lsh import lsh_attention
from albert_rc.report.plots import lines, save
from albert_rc.runtime.devices import free_memory
from albert_rc.runtime.heap import keep_freed_memory

VARIANTS = {
    "math": "dense, plain",
    "sdpa": "dense, torch's",
    "dense": "dense, ours",
    "lsh": "lsh",
    "lsh-faithful": "lsh, faithful",
}
HASHED = ("lsh", "lsh-faithful")
PASSES, SECONDS = 5, 10.0
"""Passes that are timed, and the time after which no further one is begun."""
SCORES = {"math": 16, "dense": 16}
"""Bytes that dense attention holds of each pair of tokens and head at its fullest, in fp32."""
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Job:
    """One kind of attention at one length."""

    variant: str
    length: int
    heads: int
    head_size: int
    precision: str
    chunk: int
    rounds: int
    device: str


def attend(job: Job) -> Callable[[Any, Any], Any]:
    """The attention of a job: queries [T, N, H] and keys with values [T, 2, N, H] to [T, N, H]."""

    def split(q_TNH: Any, kv_T2NH: Any) -> Any:
        return q_TNH.transpose(0, 1), *kv_T2NH.permute(1, 2, 0, 3)

    def plain(q_TNH: Any, kv_T2NH: Any) -> Any:
        q_NTH, k_NTH, v_NTH = split(q_TNH, kv_T2NH)
        weight_NTT = (q_NTH * job.head_size**-0.5 @ k_NTH.mT).softmax(-1)
        return (weight_NTT @ v_NTH).transpose(0, 1)

    def fused(q_TNH: Any, kv_T2NH: Any) -> Any:
        parts = (part[None] for part in split(q_TNH, kv_T2NH))
        return F.scaled_dot_product_attention(*parts)[0].transpose(0, 1)

    def dense(q_TNH: Any, kv_T2NH: Any) -> Any:
        return dense_attention(q_TNH, kv_T2NH, Layout((job.length,), (job.length,)))

    def hashed(q_TNH: Any, kv_T2NH: Any) -> Any:
        # Without landmarks: how many there are depends on the text.
        shared = job.variant == "lsh-faithful"
        settings = LshConfig(chunk=job.chunk, rounds=job.rounds, shared=shared)
        return lsh_attention(q_TNH, kv_T2NH, (job.length,), settings)

    ways = {"math": plain, "sdpa": fused, "dense": dense}
    return ways.get(job.variant, hashed)


def forget_peak(device: torch.device) -> None:
    """Reset `peak_memory` to the current use.

    If the system cannot do that (only Linux can), the peak so far remains.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def measure(job: Job) -> dict[str, Any]:
    """Median seconds of a pass after the first, and the bytes that the first one took."""
    device = torch.device(job.device)

    def inputs(length: int) -> list[Any]:
        shapes = ((job.heads,), (2, job.heads), (job.heads,))
        drawn = [
            torch.randn(length, *shape, job.head_size).to(device, DTYPES[job.precision])
            for shape in shapes
        ]
        return [x.requires_grad_(place < 2) for place, x in enumerate(drawn)]

    def run(this: Job, given: list[Any]) -> tuple[float, float, int]:
        synchronise(device)
        begun = time.perf_counter()
        out_TNH = attend(this)(*given[:2])
        synchronise(device)
        forward, held = time.perf_counter() - begun, peak_memory(device)
        torch.autograd.grad(out_TNH, given[:2], given[2])
        synchronise(device)
        return forward, time.perf_counter() - begun, held

    torch.manual_seed(0)
    short = replace(job, length=min(128, job.length))
    run(short, inputs(short.length))  # kernels are loaded before memory is looked at
    if device.type == "cpu":
        keep_freed_memory()  # as the commands do
    given = inputs(job.length)
    forget_peak(device)
    idle, begun = peak_memory(device), time.perf_counter()
    passes = [run(job, given)]
    forward_bytes, peak_bytes = passes[0][2] - idle, peak_memory(device) - idle
    while len(passes) <= PASSES and time.perf_counter() - begun < SECONDS:
        passes.append(run(job, given))
    timed = passes[1:] or passes
    return {
        **asdict(job),
        "forward_seconds": statistics.median(one[0] for one in timed),
        "seconds": statistics.median(one[1] for one in timed),
        "forward_bytes": forward_bytes,
        "peak_bytes": peak_bytes,
        "passes": len(timed),
        "machine": describe(device),
    }


def sweep(job: Job, lengths: list[int], limit: float) -> tuple[list[Any], list[Any]]:
    """Every variant at every length: what was measured, and what was left out, with the reason."""
    measured: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    for length in sorted(lengths):
        for variant, name in VARIANTS.items():
            this = replace(job, variant=variant, length=length)
            row: dict[str, Any] = {"variant": variant, "length": length}
            if any(old["variant"] == variant for old in left_out):
                left_out.append(row | {"reason": "too much at a shorter length"})
                continue
            free = free_memory(torch.device(job.device))
            if SCORES.get(variant, 0) * job.heads * length**2 > free:
                left_out.append(row | {"reason": f"its scores would fill {free / 2**30:.1f} GiB"})
                continue
            try:
                done = subprocess.run(
                    [sys.executable, __file__, "--one"],
                    input=to_json(asdict(this)), capture_output=True, check=True,
                    timeout=60 + 6 * limit,
                )  # fmt: skip
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                left_out.append(row | {"reason": str(error)})
                print(left_out[-1], flush=True)
                continue
            measured.append(parse_json(done.stdout))
            found = measured[-1]
            print(
                f"{name} at {length:,}: {found['peak_bytes'] / MIB:,.1f} MiB, "
                f"{found['seconds']:.4f} s", flush=True,
            )  # fmt: skip
            if found["seconds"] > limit:
                left_out.append(row | {"reason": f"a pass took over {limit:g} s; not measured on"})
    return measured, left_out


def by_length(measured: list[Any], variant: str, value: str) -> dict[int, float]:
    """A value of a variant at each length."""
    return {row["length"]: row[value] for row in measured if row["variant"] == variant}


def exponent(points: dict[int, float]) -> float | None:
    """The b of value = a * length^b over the longer half, where fixed costs no longer hide it."""
    pairs = sorted((n, y) for n, y in points.items() if y > 0)
    pairs = pairs[-max(2, -(-len(pairs) // 2)) :]
    if len(pairs) < 2:
        return None
    length_N, value_N = np.log(np.array(pairs, float)).T
    return float(np.polyfit(length_N, value_N, 1)[0])


def first_below(one: dict[int, float], other: dict[int, float]) -> int | None:
    """The first length from which on `one` stays below `other`."""
    first = None
    for length in sorted(one.keys() & other.keys(), reverse=True):
        if one[length] >= other[length]:
            break
        first = length
    return first


def draw(measured: list[Any], title: str, out: Path) -> None:
    """Memory and time over the length, next to `out`."""
    panels: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for label, value, unit in (("memory, MiB", "peak_bytes", MIB), ("time, ms", "seconds", 1e-3)):
        panels[label] = {}
        for variant, name in VARIANTS.items():
            if points := by_length(measured, variant, value):
                x, y = [float(n) for n in points], [number / unit for number in points.values()]
                panels[label][name] = (x, y)
    save(lines(panels, "tokens", title, log=True), out)


def main() -> None:
    """Measure and write; with --one, a single measurement from stdin to stdout."""
    if sys.argv[1:] == ["--one"]:
        job = Job(**parse_json(sys.stdin.buffer.read()))
        sys.stdout.buffer.write(to_json(measure(job), indent=False))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--lengths", default="256,512,1024,2048,4096,8192,16384")
    for name, usual in (("heads", 12), ("head-size", 64), ("chunk", 64), ("rounds", 4)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a pass")
    given = vars(parser.parse_args())
    out, lengths, limit = given.pop("out"), given.pop("lengths"), given.pop("limit")
    job = Job(variant="dense", length=1, **given)
    measured, left_out = sweep(job, [int(n) for n in lengths.split(",")], limit)
    values = ("peak_bytes", "seconds")
    crossings = [
        {"hashed": h, "dense": d}
        | {
            name: first_below(by_length(measured, h, v), by_length(measured, d, v))
            for name, v in (("faster_from", "seconds"), ("smaller_from", "peak_bytes"))
        }
        for h in HASHED
        for d in VARIANTS
        if d not in HASHED
    ]
    exponents = {v: {x: exponent(by_length(measured, v, x)) for x in values} for v in VARIANTS}
    write_json(
        out,
        {"command": shlex.join(["python", *sys.argv]), "job": asdict(job),
         "measured": measured, "skipped": left_out, "exponents": exponents,
         "crossings": crossings},
    )  # fmt: skip
    draw(measured, f"Attention of {job.heads} heads of {job.head_size}, {job.precision}", out)
    for row in crossings:
        print(row)


if __name__ == "__main__":
    main()
