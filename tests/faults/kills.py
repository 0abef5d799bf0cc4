"""Kills commands at random moments, for real, and looks at what is left.

    python tests/faults/kills.py --kills 200 --out build/kills.json

Commands run in processes forked from one that has imported everything, so that kills hit their
work and not the import of torch.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads do not survive a fork

import torch

from albert_rc.checkpoints.weights import checksum
from albert_rc.cli.app import main as albert_rc
from albert_rc.io.json import parse_json
from albert_rc.io.pt import check_archive, load_tensors
from albert_rc.training.checkpoint import states

SAMPLE = Path(__file__).parents[2] / "data" / "sample"
VOCABULARY = SAMPLE / "vocabulary"


def preload() -> None:
    """Import what commands import when they run."""
    import albert_rc.answering.score
    import albert_rc.checkpoints.load
    import albert_rc.stores.preprocess
    import albert_rc.training.loop  # noqa: F401


def _child(arguments: list[str], log: Path) -> None:
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ["albert-rc", *arguments]
    albert_rc()


def run(arguments: list[object], log: Path, kill_after: float | None = None) -> tuple[int, float]:
    """Run a command; its exit code (negative: the signal) and the seconds it took."""
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_child, args=([str(x) for x in arguments], log))
    began = time.perf_counter()
    process.start()
    process.join(kill_after)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode is not None
    return process.exitcode, time.perf_counter() - began


@dataclass
class Count:
    """What was done and seen with one command."""

    kills: int = 0
    runs_completed: int = 0
    seconds: list[float] = field(default_factory=list)

    def line(self) -> dict[str, object]:
        """For JSON."""
        latest = round(max(self.seconds, default=0.0), 2)
        return {"kills": self.kills, "completed": self.runs_completed, "latest_kill_s": latest}


class Killer:
    """Kills commands in a work folder.

    Args:
        work: an empty folder.
        seed: of the moments.
        steps: of a training.
    """

    def __init__(self, work: Path, seed: int, steps: int = 30) -> None:
        preload()
        self.steps = steps
        self.random = random.Random(seed)
        self.work = work
        self.log = work / "log.txt"
        self.data, self.whole = work / "data", work / "whole"
        self.must(self._preprocess(self.data))
        took = self.must(self._train(self.whole))
        self.seconds = {"train": took}
        self.seconds["preprocess"] = self.must(self._preprocess(work / "again"))
        self.answer, self.scores = work / "answer.json", work / "scores.jsonl"
        self.seconds["predict"] = self.must(self._predict(self.answer, self.scores))

    def must(self, arguments: list[object]) -> float:
        """Run a command that has to end well; the seconds it took."""
        code, seconds = run(arguments, self.log)
        assert code == 0, self.log.read_text()[-2000:]
        return seconds

    def _preprocess(self, out: Path) -> list[object]:
        return ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--out", out]

    def _train(self, out: Path) -> list[object]:
        return [
            "train", "--data", self.data, "--model", VOCABULARY, "--scratch", "tiny", "--out", out,
            "--batch-size", 4, "--max-steps", self.steps, "--save-steps", 2, "--eval-steps", 5,
            "--learning-rate", 1e-3, "--mask-rate", 0.2, "--device", "cpu", "--keep", 2,
        ]  # fmt: skip

    def _predict(self, out: Path, scores: Path) -> list[object]:
        return [
            "predict", "--data", self.data / "dev.pt", "--model", self.whole, "--out", out,
            "--scores", scores, "--device", "cpu", "--token-budget", 512,
        ]  # fmt: skip

    def _moment(self, name: str) -> float:
        return self.random.uniform(0.0, 1.1 * self.seconds[name])

    def preprocess(self, kills: int) -> Count:
        """Kill `preprocess`: each store is absent or whole, and the next run's the same bytes."""
        count, number = Count(), 0
        while count.kills < kills:
            out = self.work / f"stores{number}"
            number += 1
            while not self._killed(self._preprocess(out), "preprocess", count):
                for store in sorted(out.glob("*")) if out.is_dir() else []:
                    # A name that starts with a dot has not been given yet.
                    if not store.name.startswith("."):
                        assert store.read_bytes() == (self.data / store.name).read_bytes()
                if count.kills >= kills:
                    self.must(self._preprocess(out))
                    break
            left = sorted(path.name for path in out.iterdir())
            assert left == ["dev.pt", "test.pt", "train.pt"], left
            for store in out.iterdir():
                assert store.read_bytes() == (self.data / store.name).read_bytes()
            shutil.rmtree(out)
        return count

    def predict(self, kills: int) -> Count:
        """Kill `predict`: the answers are the old ones or the new ones, never a part of them."""
        count = Count()
        out, scores = self.work / "killed" / "answer.json", self.work / "killed" / "scores.jsonl"
        old = b"{}\n"
        out.parent.mkdir()
        while count.kills < kills:
            out.write_bytes(old)
            self._killed(self._predict(out, scores), "predict", count)
            assert out.read_bytes() in (old, self.answer.read_bytes())
            if scores.is_file():
                assert scores.read_bytes() == self.scores.read_bytes()
        self.must(self._predict(out, scores))
        assert sorted(p.name for p in out.parent.iterdir()) == ["answer.json", "scores.jsonl"]
        return count

    def train(self, kills: int) -> Count:
        """Kill `train` and resume it, again and again: it ends as the unbroken run did."""
        count, number = Count(), 0
        while count.kills < kills:
            out = self.work / f"run{number}"
            number += 1
            reached = 0
            while True:
                resume = ["--resume"] if states(out) else []
                command = [*self._train(out), *resume]
                if count.kills >= kills:
                    self.must(command)
                    break
                if self._killed(command, "train", count):
                    break
                reached = self._look(out, reached)
            self._compare(out)
            shutil.rmtree(out)
        return count

    def _killed(self, command: list[object], name: str, count: Count) -> bool:
        """Start a command and kill it; whether it had ended well before."""
        code, seconds = run(command, self.log, self._moment(name))
        if code == 0:
            count.runs_completed += 1
            return True
        assert code == -signal.SIGKILL, self.log.read_text()[-2000:]
        count.kills += 1
        count.seconds.append(seconds)
        return False

    def _look(self, out: Path, reached: int) -> int:
        """What a killed run left is whole, and no saved step is lost; the newest saved step."""
        newest = 0
        for path in states(out):
            check_archive(path)
            newest = max(newest, int(path.stem.partition("-")[2]))
        assert newest >= reached
        if (out / "model.safetensors").is_file():
            read_weights(out / "model.safetensors")
        for name in ("config.json", "train.json"):
            if (out / name).is_file():
                parse_json((out / name).read_bytes())
        return newest

    def _compare(self, out: Path) -> None:
        """Weights, moments, random states, records: bit for bit those of the unbroken run."""
        whole = torch.load(states(self.whole)[0], weights_only=True)
        found = torch.load(states(out)[0], weights_only=True)
        assert_same(whole, found)
        name = "model.safetensors"
        assert (out / name).read_bytes() == (self.whole / name).read_bytes()
        assert metrics(out) == metrics(self.whole)
        assert not list(out.glob(".resume*")), "something half-written stayed behind"


def read_weights(path: Path) -> None:
    """Read all tensors and compare them with their checksums."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        sums = json.loads(file.metadata()["albert_rc.crc32"])
        for key in file.keys():  # noqa: SIM118
            assert checksum(file.get_tensor(key)) == sums[key]


def assert_same(one: object, other: object) -> None:
    """Tensors, numbers and texts in any nesting are equal."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_same(value, other[key])
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


def metrics(folder: Path) -> list[dict[str, object]]:
    """The records of a run without its speed."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.endswith("_per_second")} for line in lines]


def main() -> None:
    """Kill away, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=210, help="In all, a third per command.")
    parser.add_argument("--steps", type=int, default=30, help="Of a training.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        killer = Killer(Path(work), arguments.seed, arguments.steps)
        found = {
            name: getattr(killer, name)(-(-arguments.kills // 3)).line()
            for name in ("preprocess", "train", "predict")
        }
        load_tensors(killer.data / "train.pt")
    found["seed"] = arguments.seed
    print(json.dumps(found, indent=2))
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
