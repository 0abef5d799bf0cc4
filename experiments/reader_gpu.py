"""What `reader.py teach` does, on a GPU in minutes: larger batches, and much more text.

    python experiments/reader_gpu.py pack WORK OUT       # OUT/*.bin and OUT/*.tar.xz, to be carried
    python experiments/reader_gpu.py unpack OUT WORK
    python experiments/reader_gpu.py teacher WORK OUT
    python experiments/reader_gpu.py words WORK OUT --seconds 200
    python experiments/reader_gpu.py papers WORK OUT

WORK is that of reader.py, after `prepare`, `made_papers.py` and `teach`. `pack` writes what the
other machine needs as a few small files: the teacher's weights, quantised to a sixth of a standard
deviation (the training that follows repairs the loss), and the stores. `teacher` trains the teacher
on masked words and then on the exam papers, and saves its scores of all papers. `words` trains the
student on masked words with that teacher. `papers` goes on from there, or without `words` from
--start, with made papers and then with real ones, by two recipes. OUT/NAME gets each student in
bf16 and each run's metrics.jsonl; `publish_reader.py --gpu` reads them in WORK/runs/gpu.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import shutil
import tarfile
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from reader import WORDS as READER_WORDS
from safetensors.numpy import load_file, save_file

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.cli.app import app
from albert_rc.io.json import read_json_lines

SPREAD = 6
"""Quantisation steps per standard deviation of a row of the teacher's weights."""
FIRST_BYTES = 33 * 10**6
"""Size of the first of the two files of the teacher's weights."""
STORES = ("ele", "near", "mix", "made-store")
FAST: dict[str, object] = {"--set": "recompute=nothing", "--save-steps": 10**6}
"""No memory and no states need to be saved in runs of a minute."""
WORDS = READER_WORDS | FAST | {
    "--batch-size": 128, "--mask-rate": 0.3, "--warmup": 0.05, "--workers": 8,
}  # fmt: skip
PAPERS = FAST | {"--warmup": 0.08, "--workers": 4}


def pack(work: Path, out: Path) -> None:
    """See the top."""
    out.mkdir(parents=True, exist_ok=True)
    weights = load_file(work / "runs" / "teacher" / "model.safetensors")
    content, places = io.BytesIO(), {}
    for name, weight in weights.items():
        places[name] = [content.tell(), list(weight.shape)]
        if weight.ndim < 2:
            content.write(weight.astype("<f4").tobytes())
            continue
        step = np.maximum(weight.std(1) / SPREAD, np.abs(weight).max(1) / 127).astype("<f4")
        step = np.maximum(step, 1e-12)
        content.write(step.tobytes())
        content.write(np.rint(weight / step[:, None]).astype(np.int8).tobytes())
    packer = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_HUFFMAN_ONLY)
    packed = packer.compress(content.getvalue()) + packer.flush()
    (out / "teacher-a.bin").write_bytes(packed[:FIRST_BYTES])
    (out / "teacher-b.bin").write_bytes(packed[FIRST_BYTES:])
    (out / "teacher.json").write_text(json.dumps(places))
    for name in STORES:
        with tarfile.open(out / f"{name}.tar.xz", "w:xz", preset=9) as tar:
            tar.add(work / name, name)
    with tarfile.open(out / "small.tar.xz", "w:xz") as tar:
        for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
            tar.add(work / "runs" / "teacher" / name, f"teacher/{name}")
    for path in sorted(out.iterdir()):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def unpack(out: Path, work: Path) -> None:
    """The opposite of `pack`, for what has arrived."""
    work.mkdir(parents=True, exist_ok=True)
    for path in out.glob("*.tar.xz"):
        with tarfile.open(path) as tar:
            tar.extractall(work, filter="data")
    if not (out / "teacher-b.bin").is_file():
        return
    places = json.loads((out / "teacher.json").read_text())
    packed = b"".join((out / f"teacher-{part}.bin").read_bytes() for part in "ab")
    content, weights = zlib.decompress(packed), {}
    for name, (start, shape) in places.items():
        rows = np.frombuffer(content, "<f4", shape[0], start)
        if len(shape) < 2:
            weights[name] = rows.copy()
            continue
        whole = np.frombuffer(content, np.int8, shape[0] * shape[1], start + rows.nbytes)
        weights[name] = whole.reshape(shape) * rows[:, None]
    save_file(weights, work / "teacher" / "model.safetensors", {"format": "pt"})


class Runner:
    """Runs commands in this process, which saves the seconds that starting each one takes."""

    def __init__(self, work: Path, start: Path, device: str, share: float, seconds: float) -> None:
        self.work, self.start, self.device, self.share = work, start, device, share
        self.started, self.seconds = time.perf_counter(), seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.perf_counter() - self.started)

    def steps(self, full: int) -> int:
        """Number of steps, reduced by --share in a trial."""
        return max(2, round(full * self.share))

    def __call__(self, *arguments: object) -> None:
        print(f"[{time.perf_counter() - self.started:.0f} s]", *arguments, flush=True)
        app([str(part) for part in arguments], standalone_mode=False)
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def phase(
        self, command: str, data: str, start: Path, name: str, options: dict[str, object]
    ) -> Path:
        """Run a training; returns its folder."""
        out = self.work / "runs" / name
        more = [part for option in options.items() for part in option]
        self(
            command, "--data", self.work / data, "--model", start, "--out", out,
            "--device", self.device, *more,
        )  # fmt: skip
        return out


def teacher(go: Runner, out: Path) -> None:
    """Train the teacher on masked words, then on exam papers, and save its scores."""
    words = go.phase(
        "pretrain", "mix", go.work / "teacher", "teacher",
        WORDS | {"--max-steps": go.steps(1060), "--learning-rate": 2e-4, "--dropout": 0.0,
                 "--eval-steps": go.steps(530)},
    )  # fmt: skip
    reader = go.phase(
        "train", "ele", words, "teacher-papers",
        PAPERS | {"--batch-size": 16, "--max-steps": go.steps(560), "--learning-rate": 5e-5,
                  "--eval-steps": go.steps(140)},
    )  # fmt: skip
    for store in ("ele", "made-store"):
        go(
            "predict", "--data", go.work / store / "train.pt", "--model", reader,
            "--temperature", 1, "--out", go.work / f"{store}.json",
            "--scores", out / f"{store}-scores.jsonl", "--device", go.device,
            "--set", "token_budget=32768",
        )  # fmt: skip


def words(go: Runner, out: Path) -> None:
    """Train the student on as many masked words as there is time for."""
    by = {"--teacher": go.work / "runs" / "teacher", "--teacher-weight": 0.7,
          "--learning-rate": 6e-4}  # fmt: skip
    trial = go.phase(
        "pretrain", "mix", go.start, "trial", WORDS | by | {"--max-steps": go.steps(100)}
    )
    rate = speed(trial)
    count = max(2, int(rate * (go.left - 25) / 128 * 0.93))
    print(f"{rate:.0f} sequences per second, so {count} steps", flush=True)
    student = go.phase(
        "pretrain", "mix", go.start, "taught-words",
        WORDS | by | {"--max-steps": count, "--eval-steps": max(1, count // 3 + 1)},
    )  # fmt: skip
    keep(student, out / "taught-words")


def papers(go: Runner, out: Path) -> None:
    """Train the student on made papers, then on real ones by two recipes."""
    student = go.work / "runs" / "taught-words"
    options = {
        store: PAPERS | {"--teacher": out / f"{store}-scores.jsonl", "--teacher-weight": 0.8}
        for store in ("ele", "made-store")
    }
    made = go.phase(
        "train", "made-store", student if student.is_dir() else go.start, "taught-made",
        options["made-store"] | {
            "--batch-size": 32, "--max-steps": go.steps(2200), "--learning-rate": 4e-4,
            "--mask-rate": 0.15, "--eval-steps": go.steps(1100),
        },
    )  # fmt: skip
    keep(made, out / made.name)
    for seed, steps, rate in ((42, 280, 0.0), (1, 560, 0.1)):
        last = go.phase(
            "train", "ele", made, f"taught-papers-{seed}",
            options["ele"] | {
                "--batch-size": 16, "--max-steps": go.steps(steps), "--learning-rate": 1.5e-4,
                "--mask-rate": rate, "--eval-steps": go.steps(140), "--seed": seed,
            },
        )  # fmt: skip
        keep(last, out / last.name)


PARTS = {"teacher": teacher, "words": words, "papers": papers}


def run(go: Runner, out: Path, part: str) -> None:
    """See the top."""
    out.mkdir(parents=True, exist_ok=True)
    PARTS[part](go, out)
    for folder in (go.work / "runs").iterdir():
        (out / folder.name).mkdir(exist_ok=True)
        shutil.copyfile(folder / "metrics.jsonl", out / folder.name / "metrics.jsonl")
    print(f"[{time.perf_counter() - go.started:.0f} s] done", flush=True)


def speed(folder: Path) -> float:
    """Sequences per second of a run."""
    lines = read_json_lines(folder / "metrics.jsonl")
    return float(max(line.get("sequences_per_second", 0) for line in lines))


def keep(run_: Path, target: Path) -> None:
    """Save a run's weights in bf16."""
    loaded = load_model(run_, "pretraining", with_pairs=False)
    save_model(loaded.model, loaded.tokenizer, target, precision="bf16")


def main() -> None:
    """Do a stage."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=("pack", "unpack", *PARTS))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps, for a trial")
    parser.add_argument("--seconds", type=float, default=200, help="for `words`")
    parser.add_argument("--start", type=Path, help="the student's start (default: WORK/start)")
    given = parser.parse_args()
    source, target = given.source, given.target
    if given.stage in PARTS:
        start = given.start or source / "start"
        go = Runner(source, start, given.device, given.share, given.seconds)
        run(go, target, given.stage)
    else:
        {"pack": pack, "unpack": unpack}[given.stage](source, target)


if __name__ == "__main__":
    main()
