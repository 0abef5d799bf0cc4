"""What each lever of training costs and saves on a CPU, in turns, each in its own process.

    python -m experiments.training.levers STORE OUT.json [--size base] [--steps 8] [--rounds 3]

STORE is a cloze store. The first row is the default; every other differs in one thing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from albert_rc.bench.compare import compare
from albert_rc.bench.job import Job
from albert_rc.io.json import write_json
from experiments.shared.scripts import parser_of

CHANGES: dict[str, dict[str, object]] = {
    "default": {},
    "everything kept": {"recompute": "nothing"},
    "fp32": {"precision": "fp32"},
    "freed memory handed back": {"keep_freed": False},
    "layers recomputed": {"recompute": "layers"},
    "8-bit moments": {"optimizer_states": "8bit"},
}


def main() -> None:
    """Measure and write."""
    parser = parser_of(__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="base")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    default = Job(
        who="ours",
        work="train",
        size=arguments.size,
        precision="bf16",
        steps=arguments.steps,
        data=str(arguments.store),
    )
    jobs = [replace(default, **change) for change in CHANGES.values()]  # type: ignore[arg-type]
    names = iter(list(CHANGES) * arguments.rounds)
    table = compare(
        jobs,
        arguments.rounds,
        told=lambda r: print(f"{next(names)}: {r['passages_per_second']:.3f} passages/s"),
    )
    rows = [
        {
            "change": name,
            "passages_per_second": row["passages_per_second"],
            "rounds": row["rounds"],
            "speed_against_default": round(1 / row.get("ratio", 1.0), 3),
            "peak_mib": round(row["peak_bytes"] / 2**20),
            "planned_mib": round(row["plan"]["total"] / 2**20),
        }
        for name, row in zip(CHANGES, table, strict=True)
    ]
    for row in rows:
        print(row)
    write_json(
        arguments.out, {"size": arguments.size, "machine": table[0]["machine"], "rows": rows}
    )


if __name__ == "__main__":
    main()
