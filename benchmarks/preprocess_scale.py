"""How the time and memory of `preprocess` grow with the number of papers.

    python benchmarks/preprocess_scale.py RAW VOCABULARY OUT.json --papers 50000
        [--layout shuffled] [--engine local ray]

RAW is a folder of cloze papers, one a file (ELE's training papers), VOCABULARY a folder with
spiece.model. The papers are repeated under new ids in a temporary folder below --scratch, which
needs room for them and for twice the store: as lines of one .jsonl (`shuffled`: the ids in no
order, so that every paper has to be moved), or as a file each. Memory is the resident set summed
over the program and all its processes, sampled 20 times a second from /proc, so pages that
processes share count once for each. Rows are added to those OUT.json has already.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from albert_rc import __version__
from albert_rc.io.files import file_sha256, natural_key
from albert_rc.io.json import parse_json, read_json, to_json, write_json
from albert_rc.runtime.pool import cores

INTERVAL = 0.05  # seconds between two looks at the memory
PAGE = os.sysconf("SC_PAGE_SIZE")


def papers(raw: Path, count: int) -> Iterator[dict[str, Any]]:
    """As many papers as wanted, over and over again."""
    files = sorted(raw.glob("*.json"), key=lambda file: natural_key(file.name))
    return islice(cycle([parse_json(file.read_bytes()) for file in files]), count)


def lay_out(raw: Path, count: int, layout: str, folder: Path) -> Path:
    """Write the papers; the place to give to `preprocess`."""
    if layout != "files":
        place = folder / "train.jsonl"
        numbers = list(range(count))
        if layout == "shuffled":
            random.Random(0).shuffle(numbers)
        with place.open("wb") as lines:
            for number, paper in zip(numbers, papers(raw, count), strict=True):
                lines.write(to_json({"id": f"paper{number}", **paper}, indent=False))
        return place
    place = folder / "train"
    place.mkdir()
    for number, paper in enumerate(papers(raw, count)):
        (place / f"paper{number}.json").write_bytes(to_json(paper, indent=False))
    return place


def resident(root: int) -> int:
    """Bytes in memory of a process and all that it started."""
    family, total = {root}, 0
    for entry in sorted(int(e.name) for e in Path("/proc").iterdir() if e.name.isdigit()):
        try:
            parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
            if entry in family or parent in family:
                family.add(entry)
                total += int(Path(f"/proc/{entry}/statm").read_text().split()[1]) * PAGE
        except (OSError, IndexError):
            continue  # it ended meanwhile
    return total


def measure(command: list[str]) -> dict[str, float]:
    """Wall time, processor time and peak memory of a command with all its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(INTERVAL)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(seconds, 2),
        "processor_seconds": round(cpu, 2),
        "peak_megabytes": round(peak / 1e6, 1),
    }


def run(arguments: argparse.Namespace, count: int, workers: int, engine: str) -> dict[str, Any]:
    """One row: lay papers out, preprocess them, throw everything away."""
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as name:
        folder = Path(name)
        place = lay_out(arguments.raw, count, arguments.layout, folder)
        files = [place] if place.is_file() else list(place.iterdir())
        size = sum(file.stat().st_size for file in files)
        # What was just written must not be waited for while we measure.
        os.sync()
        command = [sys.executable, "-m", "albert_rc", "preprocess", str(place)]
        command += ["--model", str(arguments.vocabulary), "--out", str(folder / "out")]
        found = measure([*command, "--workers", str(workers), "--engine", engine])
        store = (folder / "out" / "train.pt").stat().st_size
        digest = file_sha256(folder / "out" / "train.pt")
    return {
        "layout": arguments.layout,
        "papers": count,
        "workers": workers,
        "engine": engine,
        **found,
        "papers_per_second": round(count / found["seconds"], 1),
        "raw_megabytes": round(size / 1e6, 1),
        "store_megabytes": round(store / 1e6, 1),
        "store_sha256": digest,
    }


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--papers", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--layout", choices=["lines", "shuffled", "files"], default="lines")
    parser.add_argument("--workers", type=int, nargs="+", default=[cores()])
    parser.add_argument("--engine", nargs="+", default=["local"], help="local, ray, or both")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    rows = read_json(arguments.out)["rows"] if arguments.out.exists() else []
    for count in arguments.papers:
        for workers in arguments.workers:
            for engine in arguments.engine:
                rows.append(run(arguments, count, workers, engine))
                print(rows[-1], flush=True)
    packages = ("orjson", "sentencepiece", "numpy", "torch")
    results = {
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {cores()} cores, no GPU used",
        "versions": {
            "albert-rc": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in packages},
        },
        "rows": rows,
    }
    write_json(arguments.out, results)
    header = ("layout", "papers", "workers", "seconds", "processor_seconds", "peak_megabytes")
    print(*header, "store_megabytes", sep="\t")
    for row in rows:
        print(*(row[name] for name in header), row["store_megabytes"], sep="\t")


if __name__ == "__main__":
    main()
