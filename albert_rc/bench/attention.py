"""One measurement of attention alone, in a process of its own: JSON in, JSON out.

python -m albert_rc.bench.attention < job.json
"""

# T tokens of the one sequence, N heads, H head size

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.bench.machine import describe, forget_peak, peak_memory, synchronise
from albert_rc.io.files import parse_json, to_json
from albert_rc.model.attention import dense_attention
from albert_rc.model.config import LshConfig
from albert_rc.model.layout import Layout
from albert_rc.model.linear import DTYPES
from albert_rc.model.lsh import lsh_attention
from albert_rc.runtime.devices import processes
from albert_rc.runtime.heap import keep_freed_memory

WARM_UP = 128  # tokens
PASSES = 5
SECONDS = 10.0
"""After so many no further pass is begun."""


@dataclass(frozen=True, kw_only=True)
class AttentionJob:
    """Forward and backward of one kind of attention over one sequence of random numbers."""

    variant: str
    """A key of `VARIANTS`."""
    length: int
    heads: int = 12
    head_size: int = 64
    precision: str = "fp32"
    chunk: int = 64
    rounds: int = 4
    """Of hashing."""
    device: str | None = None
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def _math(q_TNH: Tensor, kv_T2NH: Tensor, job: AttentionJob) -> Tensor:
    """Two matrix products and a softmax, for autograd to keep everything of."""
    q_NTH, (k_NTH, v_NTH) = q_TNH.transpose(0, 1), kv_T2NH.permute(1, 2, 0, 3)
    weight_NTT = (q_NTH * job.head_size**-0.5 @ k_NTH.mT).softmax(-1)
    mixed_NTH: Tensor = weight_NTT @ v_NTH
    return mixed_NTH.transpose(0, 1)


def _fused(q_TNH: Tensor, kv_T2NH: Tensor, job: AttentionJob) -> Tensor:
    """Torch's own kernel."""
    q_NTH, (k_NTH, v_NTH) = q_TNH.transpose(0, 1), kv_T2NH.permute(1, 2, 0, 3)
    mixed_1NTH = F.scaled_dot_product_attention(q_NTH[None], k_NTH[None], v_NTH[None])
    return mixed_1NTH[0].transpose(0, 1)


def _dense(q_TNH: Tensor, kv_T2NH: Tensor, job: AttentionJob) -> Tensor:
    return dense_attention(q_TNH, kv_T2NH, Layout((job.length,), (job.length,)))


def _lsh(q_TNH: Tensor, kv_T2NH: Tensor, job: AttentionJob) -> Tensor:
    # Without landmarks: how many there are depends on the text.
    settings = LshConfig(chunk=job.chunk, rounds=job.rounds, shared=job.variant == "lsh-faithful")
    return lsh_attention(q_TNH, kv_T2NH, (job.length,), settings)


VARIANTS: dict[str, Callable[[Tensor, Tensor, AttentionJob], Tensor]] = {
    "math": _math,
    "sdpa": _fused,
    "dense": _dense,
    "lsh": _lsh,
    "lsh-faithful": _lsh,
}
"""Dense attention by plain mathematics, by torch's kernel and by ours; by hashing, in our form and
in Reformer's."""
HASHED = ("lsh", "lsh-faithful")


def _inputs(job: AttentionJob, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, and the gradient of the result."""
    generator = torch.Generator().manual_seed(job.seed)
    shape = (job.length, job.heads, job.head_size)

    def drawn(*size: int) -> Tensor:
        return torch.randn(size, generator=generator).to(device, DTYPES[job.precision])

    q_TNH, kv_T2NH = drawn(*shape), drawn(job.length, 2, *shape[1:])
    return q_TNH.requires_grad_(), kv_T2NH.requires_grad_(), drawn(*shape)


class _Pass:
    """A forward and a backward pass: how long each took, and the highest memory after it."""

    def __init__(self, job: AttentionJob, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
        q_TNH, kv_T2NH, upstream_TNH = inputs
        device = q_TNH.device
        synchronise(device)
        begun = time.perf_counter()
        out_TNH = VARIANTS[job.variant](q_TNH, kv_T2NH, job)
        synchronise(device)
        self.forward = time.perf_counter() - begun
        self.forward_peak = peak_memory(device)
        torch.autograd.grad(out_TNH, (q_TNH, kv_T2NH), upstream_TNH)
        synchronise(device)
        self.backward = time.perf_counter() - begun - self.forward
        self.peak = peak_memory(device)

    @property
    def seconds(self) -> float:
        """Of both."""
        return self.forward + self.backward


def measure(job: AttentionJob) -> dict[str, Any]:
    """Memory and time of a job.

    Returns:
        The job's settings; medians in seconds (`forward_seconds`, `backward_seconds`, `seconds` of
        both) over passes after the first, and bytes by which the process grew in the first
        (`forward_bytes`, `peak_bytes`) beyond what it held with its inputs made.
    """
    with processes(job.device) as group:
        device = group.device
        # Kernels are loaded and scratch memory is taken before memory is looked at.
        short = replace(job, length=min(WARM_UP, job.length))
        _Pass(short, _inputs(short, device))
        if device.type == "cpu":
            keep_freed_memory()  # as the commands do
        inputs = _inputs(job, device)
        forget_peak(device)
        idle = peak_memory(device)
        begun = time.perf_counter()
        first = _Pass(job, inputs)
        passes: list[_Pass] = []
        while len(passes) < PASSES and time.perf_counter() - begun < SECONDS:
            passes.append(_Pass(job, inputs))
        timed = passes or [first]
        return {
            **job.to_json(),
            "forward_seconds": statistics.median(one.forward for one in timed),
            "backward_seconds": statistics.median(one.backward for one in timed),
            "seconds": statistics.median(one.seconds for one in timed),
            "forward_bytes": first.forward_peak - idle,
            "peak_bytes": first.peak - idle,
            "passes": len(timed),
            "machine": describe(device),
        }


if __name__ == "__main__":
    result = measure(AttentionJob(**parse_json(sys.stdin.buffer.read())))
    sys.stdout.buffer.write(to_json(result, indent=False))
