"""How fast BERT's and ALBERT's sizes train, against BERT-large: the speed column of Table 2.

    python -m experiments.training.throughput OUT.json [--turns 2] [--length 128] [--batch-size 8]

Every size trains random weights on the same made-up passages, each in a process of its own, all of
them in turns; what is printed is the best turn. Run it on a machine that does nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from albert_rc.io.json import parse_json, write_json
from experiments.shared.command import command
from experiments.shared.scripts import parser_of

PAPER = {
    "bert-base": "4.7", "bert-large": "1.0", "base": "5.6", "large": "1.7", "xlarge": "0.6",
    "xxlarge": "0.3",
}  # fmt: skip
"""Lan et al. 2020, Table 2: passages a second against BERT-large's, on TPUs."""
AGAINST = "bert-large"


def main() -> None:
    """Measure all sizes in turns, and print them beside the paper's."""
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2)
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {size: [] for size in PAPER}
    for _ in range(arguments.turns):
        for size in PAPER:
            printed = command(
                "bench", "train", "--size", size, "--rounds", 1, "--steps", arguments.steps,
                "--batch-size", arguments.batch_size, "--length", arguments.length, "--json",
            )  # fmt: skip
            found[size] += parse_json(printed.encode())["results"]
            write_json(arguments.out, found)
    speeds = {size: max(x["passages_per_second"] for x in rows) for size, rows in found.items()}
    print("| | passages a second | against BERT-large | paper, Table 2 | peak memory, MiB |")
    print("|---|---|---|---|---|")
    for size, speed in speeds.items():
        peak = max(x["peak_bytes"] for x in found[size]) / 2**20
        ratio = speed / speeds[AGAINST]
        print(f"| {size} | {speed:.2f} | {ratio:.1f} | {PAPER[size]} | {peak:,.0f} |")


if __name__ == "__main__":
    main()
