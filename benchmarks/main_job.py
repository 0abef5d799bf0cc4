"""The figures of the main job on real papers: preprocessing, tokens, start-up.

    python benchmarks/main_job.py RAW VOCABULARY OUT.json

RAW is a collection of cloze papers (ELE), VOCABULARY a folder with spiece.model.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sentencepiece
import torch

from albert_rc import __version__
from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_collection
from albert_rc.text.tokenizer import load_tokenizer

RUNS = 5


def seconds(command: list[str]) -> list[float]:
    """Wall time of each of several runs of a command, the program's start included."""
    found = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        found.append(round(time.perf_counter() - started, 3))
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("raw", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    program = [sys.executable, "-m", "albert_rc"]
    with tempfile.TemporaryDirectory() as folder:
        job = ["preprocess", str(arguments.raw), "--model", str(arguments.vocabulary)]
        preprocess = seconds([*program, *job, "--out", folder])
        size = sum(p.stat().st_size for p in Path(folder).glob("*.pt"))
    tokenizer = load_tokenizer(arguments.vocabulary)
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(arguments.vocabulary / "spiece.model")
    )
    texts = [p.text for split in read_collection(arguments.raw) for p in split.passages]
    ours = tokenizer.encode(texts)
    theirs = processor.encode([text.lower() for text in texts])
    results = {
        "papers": len(texts),
        "preprocess_seconds": preprocess,
        "preprocess_median": statistics.median(preprocess),
        "stores_megabytes": round(size / 1e6, 2),
        "tokens": sum(map(len, ours)),
        "passages_whose_ids_differ_from_sentencepiece": sum(
            a != b for a, b in zip(ours, theirs, strict=True)
        ),
        "help_seconds": seconds([*program, "--help"]),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "versions": {
            "albert-rc": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "sentencepiece": sentencepiece.__version__,
        },
    }
    write_json(arguments.out, results)
    print(arguments.out.read_text())


if __name__ == "__main__":
    main()
