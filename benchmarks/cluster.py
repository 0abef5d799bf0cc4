"""`predict` on a Ray cluster of this machine against `predict` without one, by turns.

    python benchmarks/cluster.py RAW MODEL OUT.json [--papers 5000] [--shard-papers 1000] [--runs 2]

RAW is a folder of cloze papers, one a file, which are repeated under new ids. The store is in
shards. The answers of both must be the same bytes. Time is that of the whole command, its start
included; the cluster runs already. Of the process that was started, processor time and peak memory
are those of `/proc`; the rest is the workers'.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from preprocess_scale import INTERVAL, PAGE, lay_out

from albert_rc.bench.machine import describe
from albert_rc.io.files import file_sha256
from albert_rc.io.json import write_json
from albert_rc.runtime.pool import cores

TICKS = os.sysconf("SC_CLK_TCK")


def command(*arguments: object) -> list[str]:
    """An albert-rc command."""
    return [sys.executable, "-m", "albert_rc", *map(str, arguments)]


def measure(started: list[str]) -> dict[str, float]:
    """Wall time of a command; processor time and peak memory of its process alone."""
    begun, peak, used = time.perf_counter(), 0, 0.0
    with subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        own = Path(f"/proc/{process.pid}")
        while process.poll() is None:
            try:
                peak = max(peak, int((own / "statm").read_text().split()[1]) * PAGE)
                fields = (own / "stat").read_text().rpartition(")")[2].split()
                used = (int(fields[11]) + int(fields[12])) / TICKS
            except (OSError, IndexError):
                break
            time.sleep(INTERVAL)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    if process.returncode:
        raise SystemExit(said)
    return {
        "seconds": round(time.perf_counter() - begun, 2),
        "own_processor_seconds": round(used, 2),
        "own_peak_megabytes": round(peak / 1e6, 1),
    }


def main() -> None:
    """Measure, compare and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--papers", type=int, default=5000)
    parser.add_argument("--shard-papers", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=2)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    ray = Path(sys.executable).with_name("ray")
    subprocess.run([ray, "start", "--head", "--num-cpus", str(cores())], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            place = lay_out(given.raw, given.papers, "lines", folder)
            subprocess.run(
                command("preprocess", place, "--model", given.model, "--out", folder,
                        "--shard-papers", given.shard_papers),
                check=True,
            )  # fmt: skip
            for number in range(given.runs):
                for engine in ("local", "ray"):
                    out = folder / f"{engine}{number}.json"
                    found = measure(
                        command("predict", "--data", folder / "train.shards", "--model",
                                given.model, "--out", out, "--scores", out.with_suffix(".jsonl"),
                                "--engine", engine)
                    )  # fmt: skip
                    digests = [file_sha256(file) for file in (out, out.with_suffix(".jsonl"))]
                    rows.append({"engine": engine, **found, "answers_and_scores": digests})
                    print(rows[-1], flush=True)
    finally:
        subprocess.run([ray, "stop"], check=False, stdout=subprocess.DEVNULL)
    same = all(row["answers_and_scores"] == rows[0]["answers_and_scores"] for row in rows)
    write_json(
        given.out,
        {
            "machine": describe(torch.device("cpu")),
            "papers": given.papers,
            "shard_papers": given.shard_papers,
            "model": Path(given.model).name,
            "same_bytes": same,
            "rows": rows,
        },
    )
    print("the same bytes" if same else "DIFFERENT BYTES")


if __name__ == "__main__":
    main()
