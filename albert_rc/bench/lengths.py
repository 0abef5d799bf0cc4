"""How memory and time of attention grow with the length of a sequence, and where hashing pays."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from albert_rc.bench.attention import HASHED, VARIANTS, AttentionJob
from albert_rc.bench.compare import in_own_process
from albert_rc.errors import OutOfMemoryError
from albert_rc.model.linear import DTYPES

SHORTEST, LONGEST = 256, 16_384
SCORES = {"math": 4, "dense": 4}
"""Tables of L x L scores a head that dense attention holds at its fullest: the weights, and while
their gradient is computed that of the softmax's input and output and a copy. The fused kernel holds
none."""
GRACE = 60.0
"""Seconds that a process may take besides."""

Row = dict[str, Any]


def powers_of_two(longest: int) -> list[int]:
    """256, 512, ... up to `longest`."""
    doublings = (longest // SHORTEST).bit_length()
    return [SHORTEST << number for number in range(doublings)]


def expected_bytes(job: AttentionJob) -> int:
    """What the scores of dense attention will take; 0 where there is no such table."""
    size = torch.finfo(DTYPES[job.precision]).bits // 8
    return SCORES.get(job.variant, 0) * job.heads * job.length**2 * size


def expected_seconds(job: AttentionJob, measured: Sequence[Row]) -> float:
    """Of a pass, from the longest that was measured: in proportion to L, or dense to its square."""
    before = [row for row in measured if row["variant"] == job.variant]
    if not before:
        return 0.0
    last = max(before, key=lambda row: int(row["length"]))
    power = 1 if job.variant in HASHED else 2
    seconds: float = last["seconds"] * (job.length / last["length"]) ** power
    return seconds


def run_attention(job: AttentionJob, seconds: float) -> Row:
    """One measurement in a new process, which is given so many seconds; see `in_own_process`."""
    name = f"{job.variant} at {job.length:,} tokens"
    return in_own_process("albert_rc.bench.attention", job.to_json(), name, seconds)


def sweep(
    job: AttentionJob,
    lengths: Sequence[int],
    budget: int,
    limit: float,
    told: Callable[[Row], None],
    run: Callable[[AttentionJob, float], Row] = run_attention,
) -> tuple[list[Row], list[Row]]:
    """Measure every variant at every length, each in a process of its own.

    Args:
        job: its settings; variant and length are replaced.
        lengths: tokens.
        budget: bytes that may be taken.
        limit: seconds that a forward and backward pass may take.
        told: given each measurement, and each that is left out with its `reason`, as it comes.
        run: how one is done, given the seconds after which to give up.

    Returns:
        What was measured, and what was left out because it was expected to take, or took, too much.
    """
    measured: list[Row] = []
    skipped: list[Row] = []
    for length in sorted(lengths):
        for variant in VARIANTS:
            this = replace(job, variant=variant, length=length)
            reason = _too_much(this, measured, skipped, budget, limit)
            if reason is None:
                try:
                    measured.append(run(this, 5 * limit + GRACE))
                    told(measured[-1])
                    continue
                except (OutOfMemoryError, TimeoutError) as error:
                    reason = str(error)
            skipped.append({"variant": variant, "length": length, "reason": reason})
            told(skipped[-1])
    return measured, skipped


def _too_much(
    job: AttentionJob, measured: Sequence[Row], skipped: Sequence[Row], budget: int, limit: float
) -> str | None:
    """Why a measurement is not begun; None if it is."""
    if any(row["variant"] == job.variant for row in skipped):
        return "it was too much at a shorter length"
    size, seconds = expected_bytes(job), expected_seconds(job, measured)
    if size > budget:
        return f"its scores would take {size / 2**30:,.1f} GiB of {budget / 2**30:,.1f}"
    if seconds > limit:
        return f"a pass would take about {seconds:,.1f} s, and the limit is {limit:g}"
    return None


def exponent(lengths: Sequence[float], values: Sequence[float]) -> float | None:
    """The b of value = a * length^b, by least squares of the logarithms over the longer half.

    At short lengths fixed costs hide how something grows.

    Returns:
        None for fewer than two lengths with a value above 0.
    """
    pairs = sorted((n, y) for n, y in zip(lengths, values, strict=True) if y > 0)
    pairs = pairs[-max(2, -(-len(pairs) // 2)) :]
    if len(pairs) < 2:
        return None
    logs = [(math.log(n), math.log(y)) for n, y in pairs]
    slope: float = statistics.linear_regression(*zip(*logs, strict=True)).slope
    return slope


def first_below(one: Mapping[int, float], other: Mapping[int, float]) -> int | None:
    """The first length from which on `one` stays below `other`, where both were measured."""
    first = None
    for length in sorted(one.keys() & other.keys(), reverse=True):
        if one[length] >= other[length]:
            break
        first = length
    return first


def by_length(measured: Sequence[Row], variant: str, value: str) -> dict[int, float]:
    """A value of a variant at each length that it was measured at."""
    return {row["length"]: row[value] for row in measured if row["variant"] == variant}


def exponents(measured: Sequence[Row]) -> dict[str, dict[str, float | None]]:
    """How each variant's memory and time grow."""
    found: dict[str, dict[str, float | None]] = {}
    for variant in VARIANTS:
        found[variant] = {}
        for value in ("peak_bytes", "seconds"):
            points = by_length(measured, variant, value)
            found[variant][value] = exponent(list(points), list(points.values()))
    return found


def crossings(measured: Sequence[Row]) -> list[Row]:
    """From which length on each form of hashing is faster, and smaller, than each dense variant."""
    found = []
    for hashed in HASHED:
        for dense in (variant for variant in VARIANTS if variant not in HASHED):
            row: Row = {"hashed": hashed, "dense": dense}
            for name, value in (("faster_from", "seconds"), ("smaller_from", "peak_bytes")):
                pair = (by_length(measured, variant, value) for variant in (hashed, dense))
                row[name] = first_below(*pair)
            found.append(row)
    return found
