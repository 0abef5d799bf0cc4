"""Dense attention on a CPU: ours and torch's fused kernel, by head size and length.

    python -m experiments.training.attention_kernels OUT.json [--rounds 15]

Eight sequences of one length, 12 heads, bf16: forward alone, and forward and backward, with and
without dropout of the weights (the fused kernel has none on CPUs). By turns in one process; the
median over rounds. The faster kernel differs by processor, which the result names.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from albert_rc.runtime.environment import prepare
from experiments.shared.scripts import parser_of

prepare()

import torch  # noqa: E402  (the environment comes first)
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

from albert_rc.bench.machine import describe  # noqa: E402
from albert_rc.io.json import write_json  # noqa: E402
from albert_rc.model.attention import dense_attention  # noqa: E402
from albert_rc.model.dropout import NOTHING, Dropout  # noqa: E402
from albert_rc.model.layout import Layout  # noqa: E402
from albert_rc.runtime.heap import keep_freed_memory  # noqa: E402

SEQUENCES, HEADS = 8, 12


def ways(length: int, head_size: int) -> dict[str, Callable[[], Any]]:
    """What is timed, by name."""
    total = SEQUENCES * length
    q = torch.randn(total, HEADS, head_size).bfloat16().requires_grad_()
    kv = torch.randn(total, 2, HEADS, head_size).bfloat16().requires_grad_()
    upstream = torch.randn(total, HEADS, head_size).bfloat16()
    layout = Layout((length,) * SEQUENCES, (length,) * SEQUENCES)

    def ours(dropout: Dropout = NOTHING, keep: bool = True) -> Tensor:
        return dense_attention(q, kv, layout, dropout, keep)

    def fused() -> Tensor:
        parts = (x.unflatten(0, (SEQUENCES, length)).transpose(1, 2) for x in (q, *kv.unbind(1)))
        return F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(0, 1)

    def alone(work: Callable[[], Tensor]) -> Callable[[], Any]:
        return torch.no_grad()(work)

    def learning(work: Callable[[], Tensor]) -> Callable[[], Any]:
        def both() -> None:
            q.grad = kv.grad = None
            work().backward(upstream)

        return both

    return {
        "forward, ours": alone(ours),
        "forward, fused": alone(fused),
        "both, ours": learning(ours),
        "both, ours, weights made again": learning(lambda: ours(keep=False)),
        "both, ours, dropout": learning(lambda: ours(Dropout(0.1, (1, 2)))),
        "both, fused": learning(fused),
    }


def main() -> None:
    """Time all of them by turns; print and write milliseconds per sequence."""
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    table = []
    for head_size in (32, 64):
        for length in (128, 256, 352, 512):
            works = ways(length, head_size)
            seconds: dict[str, list[float]] = {name: [] for name in works}
            for number in range(arguments.rounds + 1):
                for name, work in works.items():
                    started = time.perf_counter()
                    work()
                    if number:  # the first round is a warm-up
                        seconds[name].append(time.perf_counter() - started)
            row = {n: round(1000 * median(times) / SEQUENCES, 3) for n, times in seconds.items()}
            table.append({"head_size": head_size, "length": length, **row})
            print(table[-1], flush=True)
    machine = describe(torch.device("cpu"))
    write_json(arguments.out, {"machine": machine, "ms_per_sequence": table})


if __name__ == "__main__":
    main()
