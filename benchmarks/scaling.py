"""One process against two on this machine: training and prediction through the commands.

    python benchmarks/scaling.py STORES VOCABULARY OUT.json [--size base] [--steps 20]

STORES holds train.pt and test.pt. Both use all cores: one process with all threads, or two with
half of them each. Prints and writes passages per second, and the bytes of the gradients that go
between processes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from albert_rc.bench.machine import describe
from albert_rc.io.json import write_json
from albert_rc.model.config import size_config
from albert_rc.model.cost import encoder_parameters
from albert_rc.stores.store import load_store


def run(world: int, *arguments: object) -> tuple[float, str]:
    """Seconds and output of a command in so many processes."""
    threads = max(1, (os.cpu_count() or 1) // world)
    command = [sys.executable, "-m", "albert_rc"]
    if world > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world),
                   "-m", "albert_rc"]  # fmt: skip
    started = time.perf_counter()
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - started, done.stdout


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stores", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="base")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=4)
    arguments = parser.parse_args()
    papers = len(load_store(arguments.stores / "test.pt").meta["ids"])
    parameters = encoder_parameters(size_config(arguments.size))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(arguments.stores / "train.pt", folder / "train.pt")
        answers = []
        for world in (1, 2):
            model = folder / f"run{world}"
            _, said = run(
                world, "train", "--data", folder, "--model", arguments.vocabulary, "--scratch",
                arguments.size, "--out", model, "--max-steps", arguments.steps, "--batch-size",
                arguments.batch_size, "--device", "cpu",
            )  # fmt: skip
            seconds = float(re.search(r"steps? in (\d+) s", said)[1])  # type: ignore[index]
            row: dict[str, object] = {
                "processes": world,
                "train_passages_per_second": round(
                    arguments.steps * arguments.batch_size / seconds, 3
                ),
            }
            out = folder / f"answer{world}.json"
            took, _ = run(
                world, "predict", "--data", arguments.stores / "test.pt", "--model",
                folder / "run1", "--out", out, "--device", "cpu", "--precision", "fp32",
            )  # fmt: skip
            answers.append(json.loads(out.read_bytes()))
            row["predict_passages_per_second"] = round(papers / took, 3)
            row["same_answers"] = answers[-1] == answers[0]
            rows.append(row)
            print(row, flush=True)
    write_json(
        arguments.out,
        {
            "size": arguments.size,
            "steps": arguments.steps,
            "batch_size": arguments.batch_size,
            "gradient_bytes_per_step": 4 * parameters,
            "papers_predicted": papers,
            "machine": describe(torch.device("cpu")),
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
