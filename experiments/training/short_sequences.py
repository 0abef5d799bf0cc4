"""Attention of short sequences on a CPU: each alone, and those of like length together.

    python -m experiments.training.short_sequences OUT.json [--rounds 7]

Times forward and backward of dense attention of `tiny` (8 heads of 32), by turns in one process,
and says how far the two results are apart.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import torch

from albert_rc.io.json import write_json
from albert_rc.model import attention_cpu
from albert_rc.model.attention import dense_attention
from albert_rc.model.layout import Layout
from albert_rc.runtime.heap import keep_freed_memory
from experiments.shared.scripts import parser_of

BATCHES = {
    "32 sentences of 28 tokens": (28,) * 32,
    "32 sentences of 26 to 29 tokens": (29,) * 5 + (28,) * 9 + (27,) * 10 + (26,) * 8,
    "32 pairs of 62 to 64 tokens": (64,) * 10 + (63,) * 12 + (62,) * 10,
    "32 sequences, each of another length": tuple(range(60, 28, -1)),
    "4 exam passages of 400 tokens": (400,) * 4,
}
LIMITS = ("SCORES_TOGETHER", "SCORES_TOGETHER_AMX")
TOGETHER = {name: getattr(attention_cpu, name) for name in LIMITS}
HEADS, HEAD_SIZE, REPEATS = 8, 32, 20


def passes(lengths: tuple[int, ...], precision: torch.dtype) -> tuple[float, torch.Tensor]:
    """Seconds of a forward and a backward pass, and the gradient of keys and values."""
    generator = torch.Generator().manual_seed(0)
    shape, total = (HEADS, HEAD_SIZE), sum(lengths)
    q = torch.randn(total, *shape, generator=generator).to(precision).requires_grad_()
    kv = torch.randn(total, 2, *shape, generator=generator).to(precision).requires_grad_()
    upstream = torch.randn(total, *shape, generator=generator).to(precision)
    layout = Layout(lengths, lengths)
    started = time.perf_counter()
    for _ in range(REPEATS):
        q.grad = kv.grad = None
        dense_attention(q, kv, layout).backward(upstream)
    assert kv.grad is not None
    return (time.perf_counter() - started) / REPEATS, kv.grad.float()


def main() -> None:
    """Time both ways by turns; print and write what came out."""
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    keep_freed_memory()
    table = []
    for precision in (torch.float32, torch.bfloat16):
        for name, lengths in BATCHES.items():
            seconds: dict[str, list[float]] = {"alone": [], "together": []}
            found = {}
            for _ in range(arguments.rounds):
                for way, limits in (("alone", dict.fromkeys(LIMITS, 0)), ("together", TOGETHER)):
                    vars(attention_cpu).update(limits)
                    taken, found[way] = passes(lengths, precision)
                    seconds[way].append(taken)
            alone, together = (median(times) for times in seconds.values())
            apart = (found["alone"] - found["together"]).abs().max() / found["alone"].abs().max()
            table.append({
                "batch": name,
                "precision": str(precision).removeprefix("torch."),
                "alone_ms": round(1000 * alone, 2),
                "together_ms": round(1000 * together, 2),
                "ratio": round(alone / together, 2),
                "largest_difference": float(apart),
            })  # fmt: skip
            print(table[-1])
    threads = torch.get_num_threads()
    write_json(arguments.out, {"torch": torch.__version__, "threads": threads, "rows": table})


if __name__ == "__main__":
    main()
