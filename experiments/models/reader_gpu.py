"""What `reader.py teach` does, on a GPU in minutes: larger batches, and much more text.

    python -m experiments.models.reader_gpu pack WORK OUT  # OUT/1 and OUT/2, to be carried in turn
    python -m experiments.models.reader_gpu unpack OUT/1 WORK
    python -m experiments.models.reader_gpu teacher WORK OUT
    python -m experiments.models.reader_gpu teacher-papers WORK OUT
    python -m experiments.models.reader_gpu teacher-questions WORK OUT
    python -m experiments.models.reader_gpu words WORK OUT
    python -m experiments.models.reader_gpu papers WORK OUT
    python -m experiments.models.reader_gpu questions WORK OUT

WORK is that of reader.py, after `prepare`, `made_papers.py`, `teacher` and `questions`. `pack`
writes what the other machine needs as a few small files: the teacher's weights, quantised to a
sixth of a standard deviation (the training that follows repairs the loss), the stores, and the
scores of the teachers. `teacher` trains the teacher on masked words, `teacher-papers` goes on with
the exam papers and saves its scores of all papers in WORK, and `teacher-questions`, also after
`teacher`, does the same with inference and DREAM. `words` trains the student on masked words with
that teacher. `papers` goes on from there, or without `words` from --start: with real papers
(several seeds at the same time), and separately with made papers and then real ones; the result is
the mean of these weights and of --start's. `questions` goes on with inference and then DREAM.
--share multiplies the number of steps. OUT/NAME gets each student in bf16, and each run's
metrics.jsonl; they must come back at the end of each call, since the machine may be gone at the
next one. `publish_reader.py --gpu` needs them all as WORK/runs/NAME.
"""

from __future__ import annotations

import gc
import io
import json
import shutil
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.cli.app import app
from experiments.models.reader import (
    INFERENCE,
    QUESTION_TEACHER,
    SEEDS,
    TAUGHT_CHOICE,
    TAUGHT_MADE,
    TAUGHT_PAPERS,
    TAUGHT_WORDS,
    TEACHER,
)
from experiments.models.reader import WORDS as READER_WORDS
from experiments.shared.scripts import parser_of

SPREAD = 6
"""Quantisation steps per standard deviation of a row of the teacher's weights."""
PACKED = {
    1: ("choice", "inference", "ele", "start"),
    2: ("mix", "made-store", "choice-scores.jsonl", "ele-scores.jsonl", "made-store-scores.jsonl"),
}
"""What of WORK is in each folder if it is there, next to the teacher's weights in the first."""
FAST: dict[str, object] = {"--set": "recompute=nothing", "--save-steps": 10**6}
"""No memory and no states need to be saved in runs of a minute."""
WORDS = READER_WORDS | FAST | {
    "--batch-size": 128, "--mask-rate": 0.3, "--warmup": 0.05, "--workers": 8,
}  # fmt: skip
PAPERS = FAST | {"--warmup": 0.08, "--workers": 4}


def pack(work: Path, out: Path) -> None:
    """See the top."""
    for number, names in PACKED.items():
        (out / str(number)).mkdir(parents=True, exist_ok=True)
        for name in names:
            if not (work / name).exists():
                continue
            with tarfile.open(
                out / str(number) / f"{name}.tar.xz", "w:xz", preset=9, dereference=True
            ) as tar:
                tar.add(work / name, name)
    trained = work / "runs" / "teacher"
    larger = trained if trained.is_dir() else work / "teacher"
    weights = load_file(larger / "model.safetensors")
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
    (out / "1" / "teacher.bin").write_bytes(packer.compress(content.getvalue()) + packer.flush())
    (out / "1" / "teacher.json").write_text(json.dumps(places))
    with tarfile.open(out / "1" / "teacher.tar.xz", "w:xz") as tar:
        for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
            tar.add(larger / name, f"teacher/{name}")
    for path in sorted(out.glob("*/*")):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def unpack(out: Path, work: Path) -> None:
    """The opposite of `pack`, for one of its folders."""
    work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda path: _extract(path, work), out.glob("*.tar.xz")))
    if not (out / "teacher.bin").is_file():
        return
    places = json.loads((out / "teacher.json").read_text())
    content, weights = zlib.decompress((out / "teacher.bin").read_bytes()), {}
    for name, (start, shape) in places.items():
        rows = np.frombuffer(content, "<f4", shape[0], start)
        if len(shape) < 2:
            weights[name] = rows.copy()
            continue
        whole = np.frombuffer(content, np.int8, shape[0] * shape[1], start + rows.nbytes)
        weights[name] = whole.reshape(shape) * rows[:, None]
    save_file(weights, work / "teacher" / "model.safetensors", {"format": "pt"})


def _extract(path: Path, work: Path) -> None:
    with tarfile.open(path) as tar:
        tar.extractall(work, filter="data")


class Runner:
    """Runs commands in this process, which saves the seconds that starting each one takes."""

    def __init__(self, work: Path, start: Path, device: str, share: float) -> None:
        self.work, self.start, self.device, self.share = work, start, device, share
        self.started = time.perf_counter()

    @property
    def student(self) -> Path:
        """What learned masked words, or else the start."""
        words = self.folder(TAUGHT_WORDS.name)
        return words if words.is_dir() else self.start

    def steps(self, full: int) -> int:
        """Number of steps, multiplied by --share."""
        return max(2, round(full * self.share))

    def __call__(self, *arguments: object) -> None:
        print(f"[{time.perf_counter() - self.started:.0f} s]", *arguments, flush=True)
        app([str(part) for part in arguments], standalone_mode=False)
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def arguments(
        self, command: str, data: str, start: Path, name: str, options: dict[str, object]
    ) -> list[str]:
        """A training as a command."""
        words = [
            command, "--data", self.work / data, "--model", start, "--out", self.folder(name),
            "--device", self.device, *(part for option in options.items() for part in option),
        ]  # fmt: skip
        return [str(word) for word in words]

    def folder(self, name: str) -> Path:
        """The folder of a training."""
        return self.work / "runs" / name

    def phase(
        self, command: str, data: str, start: Path, name: str, options: dict[str, object]
    ) -> Path:
        """Run a training; returns its folder."""
        self(*self.arguments(command, data, start, name, options))
        return self.folder(name)

    def together(self, trainings: Sequence[list[str]]) -> None:
        """Run trainings at the same time, each in its own process."""
        started = []
        for words in trainings:
            print(f"[{time.perf_counter() - self.started:.0f} s]", *words, flush=True)
            started.append(subprocess.Popen([sys.executable, "-m", "albert_rc", *words]))
        ended = [process.wait() for process in started]
        if any(ended):
            raise SystemExit("a training failed; see above")


def teacher(go: Runner, out: Path) -> None:
    """Train the teacher on masked words."""
    go.phase(
        "pretrain", "mix", go.work / "teacher", TEACHER[0].name,
        WORDS | {"--max-steps": go.steps(1060), "--learning-rate": 2e-4, "--dropout": 0.0,
                 "--eval-steps": go.steps(530)},
    )  # fmt: skip


def teacher_papers(go: Runner, out: Path) -> None:
    """Train the teacher on exam papers, and save its scores."""
    reader = go.phase(
        "train", "ele", go.folder(TEACHER[0].name), TEACHER[1].name,
        PAPERS | {"--batch-size": 16, "--max-steps": go.steps(560), "--learning-rate": 5e-5,
                  "--eval-steps": go.steps(140)},
    )  # fmt: skip
    for store in ("ele", "made-store"):
        _save_scores(go, out, store, reader)


def _save_scores(go: Runner, out: Path, store: str, teacher: Path) -> None:
    """A teacher's scores of a store's training papers, in WORK and in OUT."""
    scores = go.work / f"{store}-scores.jsonl"
    go(
        "predict", "--data", go.work / store / "train.pt", "--model", teacher,
        "--temperature", 1, "--out", go.work / f"{store}.json",
        "--scores", scores, "--device", go.device, "--set", "token_budget=32768",
    )  # fmt: skip
    shutil.copyfile(scores, out / scores.name)


def teacher_questions(go: Runner, out: Path) -> None:
    """Train the teacher on inference and then on questions, and save its scores."""
    inference, choice = QUESTION_TEACHER
    none = {"--dropout": 0.0, "--learning-rate": 4e-5}
    reads = go.phase(
        "train", inference.data, go.folder(TEACHER[0].name), inference.name,
        PAPERS | none | {"--batch-size": 32, "--max-steps": go.steps(300)},
    )  # fmt: skip
    answers = go.phase(
        "train", choice.data, reads, choice.name,
        PAPERS | none | {"--batch-size": 16, "--max-steps": go.steps(760),
                         "--eval-steps": go.steps(190)},
    )  # fmt: skip
    _save_scores(go, out, choice.data, answers)


def words(go: Runner, out: Path) -> None:
    """Train the student on masked words."""
    student = go.phase(
        "pretrain", "mix", go.start, TAUGHT_WORDS.name,
        WORDS | {
            "--teacher": go.folder(TEACHER[0].name), "--teacher-weight": 0.7,
            "--learning-rate": 6e-4, "--max-steps": go.steps(1500), "--eval-steps": go.steps(1100),
        },
    )  # fmt: skip
    keep(student, out / student.name)


def papers(go: Runner, out: Path) -> None:
    """Train the student on real papers with several seeds, and on made papers before them."""
    options = {
        store: PAPERS | {
            "--teacher": go.work / f"{store}-scores.jsonl", "--teacher-weight": 0.8,
            "--batch-size": 16,
        }
        for store in ("ele", "made-store")
    }  # fmt: skip
    real = options["ele"] | {
        "--max-steps": go.steps(280), "--learning-rate": 1.5e-4, "--eval-steps": go.steps(140),
    }  # fmt: skip
    names = [phase.name for phase in TAUGHT_PAPERS]
    go.together([
        go.arguments("train", "ele", go.student, name, real | {"--seed": seed})
        for name, seed in zip(names, SEEDS, strict=True)
    ])  # fmt: skip
    made = go.phase(
        "train", "made-store", go.student, TAUGHT_MADE[0].name,
        options["made-store"] | {
            "--max-steps": go.steps(2106), "--learning-rate": 3e-4, "--mask-rate": 0.15,
            "--warmup": 0.06, "--eval-steps": go.steps(700),
        },
    )  # fmt: skip
    after = go.phase("train", "ele", made, TAUGHT_MADE[1].name, real | {"--seed": SEEDS[0]})
    keep_all(go, out, [*names, after.name], "taught", "cloze", go.start)


def questions(go: Runner, out: Path) -> None:
    """Train the student on inference, then on questions with several seeds."""
    reads = go.phase(
        "train", "inference", go.student, INFERENCE.name,
        PAPERS | {"--batch-size": 32, "--max-steps": go.steps(1230), "--learning-rate": 1e-4},
    )  # fmt: skip
    names = {seed: f"{TAUGHT_CHOICE.name}-{seed}" for seed in SEEDS}
    go.together([
        go.arguments(
            "train", "choice", reads, name,
            PAPERS | {
                "--teacher": go.work / "choice-scores.jsonl", "--teacher-weight": 0.8,
                "--batch-size": 16, "--max-steps": go.steps(1149), "--learning-rate": 1e-4,
                "--eval-steps": go.steps(191), "--seed": seed,
            },
        )
        for seed, name in names.items()
    ])  # fmt: skip
    keep_all(go, out, list(names.values()), f"{TAUGHT_CHOICE.name}-mean", "choice")


PARTS = {
    "teacher": teacher,
    "teacher-papers": teacher_papers,
    "teacher-questions": teacher_questions,
    "words": words,
    "papers": papers,
    "questions": questions,
}


def run(go: Runner, out: Path, part: str) -> None:
    """See the top."""
    out.mkdir(parents=True, exist_ok=True)
    PARTS[part](go, out)
    for metrics in (go.work / "runs").glob("*/metrics.jsonl"):
        (out / metrics.parent.name).mkdir(exist_ok=True)
        shutil.copyfile(metrics, out / metrics.parent.name / "metrics.jsonl")
    print(f"[{time.perf_counter() - go.started:.0f} s] done", flush=True)


def keep(run: Path, target: Path, task: str = "pretraining") -> None:
    """Save a run's weights in bf16."""
    loaded = load_model(run, task, with_pairs=False)
    save_model(loaded.model, loaded.tokenizer, target, precision="bf16")


def keep_all(
    go: Runner, out: Path, names: Sequence[str], mean: str, task: str, *more: Path
) -> None:
    """Save runs' weights, and their mean (and that of more models), in bf16."""
    go("export", *(go.folder(name) for name in names), *more, "--out", go.folder(mean))
    for name in (*names, mean):
        keep(go.folder(name), out / name, task)


def main() -> None:
    """Do a stage."""
    parser = parser_of(__doc__)
    parser.add_argument("stage", choices=("pack", "unpack", *PARTS))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps")
    parser.add_argument("--start", type=Path, help="the student's start (default: WORK/start)")
    given = parser.parse_args()
    source, target = given.source, given.target
    if given.stage in PARTS:
        start = given.start or source / "start"
        go = Runner(source, start, given.device, given.share)
        run(go, target, given.stage)
    else:
        {"pack": pack, "unpack": unpack}[given.stage](source, target)


if __name__ == "__main__":
    main()
