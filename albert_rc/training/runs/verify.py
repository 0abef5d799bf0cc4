"""A test that a killed and resumed run ends in the same state as an uninterrupted one."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from albert_rc.errors import UsageError, error_of
from albert_rc.fields import flag_of
from albert_rc.io.json import read_json_lines
from albert_rc.runtime.busy import busy_processes
from albert_rc.training.checkpoint import state_path, states, step_of

OWN = (
    "--out", "--resume", "--max-steps", "--save-steps", "--epochs", "--minutes", "--keep",
    "--seeds", "--folds", "--search",
)  # fmt: skip
"""Options that the test sets itself."""


@dataclass(frozen=True)
class Difference:
    """Difference between a part of two runs' final states."""

    part: str
    values: int
    """Number of values compared."""
    unequal: int
    """Number of values that are not bit-identical."""
    largest: float
    """Largest absolute difference."""
    run: str = "killed"
    """Which run was compared with the first one."""

    @property
    def equal(self) -> bool:
        """Whether all values are bit-identical."""
        return self.unequal == 0


def kill_and_resume(
    arguments: Sequence[str],
    folder: Path,
    *,
    command: str = "train",
    steps: int = 12,
    kills: int = 2,
    seed: int = 0,
    runs: int = 1,
    busy: int = 0,
    say: Callable[[str], None] = print,
) -> list[Difference]:
    """Train several times, differing only in the kills, and compare the final states.

    Args:
        arguments: options of the command, without `OWN`.
        folder: folder for all runs; they stay there.
        command: `train` or `pretrain`.
        steps: number of steps of each run.
        kills: how often the last run is killed (SIGKILL) and resumed.
        seed: random seed for the times at which the run is killed.
        runs: number of uninterrupted runs; each is compared with the first.
        busy: number of processes that each keep one core busy, as other programs would.
        say: called with each line of progress.

    Returns:
        The differences of weights, moments, random states, progress, the best weights, which the
        run's folder holds in the end, and metrics.

    Raises:
        UsageError: an option that the test sets itself, a folder with an earlier test, a run
            that fails, or one that ends before it could be killed.
    """
    given = _options_of(arguments)
    for option in OWN:
        if option in given:
            raise UsageError(f"{option} is set by the test itself; leave it out")
    if not 1 <= kills < steps:
        raise UsageError(f"--kills {kills} must be at least 1 and below --steps {steps}")
    names = ["whole", *(f"whole-{n}" for n in range(2, runs + 1))]
    unbroken, broken = [folder / name for name in names], folder / "broken"
    for path in (*unbroken, broken):
        if path.exists():
            raise UsageError(f"{path} is from an earlier test; give another --folder, or delete it")
    begin = [
        sys.executable, "-m", "albert_rc", command, *arguments, "--max-steps", str(steps),
        "--save-steps", "1", "--set", "keep=2",
    ]  # fmt: skip
    with busy_processes(busy):
        for number, whole in enumerate(unbroken, 1):
            say(f"run {number} of {runs}: {steps} steps, uninterrupted")
            _finish([*begin, "--out", str(whole)])
        _run_with_kills(begin, broken, steps, kills, seed, say)
    others = [(f"run {number}", path) for number, path in enumerate(unbroken[1:], 2)]
    return [
        replace(part, run=name)
        for name, path in (*others, ("killed", broken))
        for part in (
            *_differences(unbroken[0], path, steps),
            _of_best(unbroken[0], path),
            _of_metrics(unbroken[0], path),
        )
    ]


def _options_of(arguments: Sequence[str]) -> set[str]:
    """The options among a command's arguments, also those written as `--set NAME=VALUE`."""
    found = {given.partition("=")[0] for given in arguments}
    pairs = zip(("", *arguments), arguments, strict=False)
    written = [given for before, given in pairs if before == "--set"]
    written += [given.removeprefix("--set=") for given in arguments if given.startswith("--set=")]
    return found | {flag_of(each.partition("=")[0]) for each in written}


def _run_with_kills(
    begin: list[str],
    folder: Path,
    steps: int,
    kills: int,
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Run a command to completion, killing and resuming it at random moments."""
    rng = random.Random(seed)
    resume: list[str] = []
    for step in sorted(rng.sample(range(1, steps), kills)):
        killed = _kill_after([*begin, "--out", str(folder), *resume], folder, step, rng.random())
        found = states(folder)
        if not (killed and found):
            raise UsageError(
                f"the run ended before it could be killed after step {step}; "
                "give more --steps, or larger batches"
            )
        say(f"killed at step {step} or just after; the newest state is {found[0].name}")
        resume = ["--resume"]
    _finish([*begin, "--out", str(folder), *resume])
    say("resumed to the end")


def _finish(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if re.search(r"\w", line)]
        last = ["", *said][-1].strip("│ ").removeprefix("error: ")
        raise error_of(done.returncode)(f"the run failed: {last}")


def _kill_after(command: list[str], folder: Path, step: int, wait: float) -> bool:
    """Kill a run at a random moment after it has saved a step; returns whether it still ran."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        last = time.perf_counter()
        before, took = 0, 0.0
        while run.poll() is None:
            reached = max(map(step_of, states(folder)), default=0)
            if reached > before:
                before, last, took = reached, time.perf_counter(), time.perf_counter() - last
            if state_path(folder, step).is_file() or reached >= step:
                time.sleep(wait * min(took, 5.0))
                run.kill()
                run.wait()
                return True
            time.sleep(0.005)
    return False


def _differences(one: Path, other: Path, step: int) -> list[Difference]:
    states_ = [
        torch.load(state_path(folder, step), map_location="cpu", weights_only=True)
        for folder in (one, other)
    ]
    names = {
        "model": "weights", "optimizer": "moments",
        "random": "random states", "progress": "progress",
    }  # fmt: skip
    return [
        _compared(said, *(list(_numbers(state[name])) for state in states_))
        for name, said in names.items()
        if states_[0][name]
    ]


def _numbers(value: Any) -> Any:
    """All tensors and numbers in a state, recursively, as tensors."""
    if isinstance(value, Tensor):
        yield value.flatten().double() if value.is_floating_point() else value.flatten().long()
    elif isinstance(value, dict):
        for key in value:
            yield from _numbers(value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _numbers(part)
    elif isinstance(value, (int, float)):
        yield torch.tensor([float(value)], dtype=torch.float64)


def _compared(part: str, one: list[Tensor], other: list[Tensor]) -> Difference:
    if [len(x) for x in one] != [len(x) for x in other]:
        return Difference(part, sum(map(len, one)), sum(map(len, one)), float("inf"))
    unequal, largest, values = 0, 0.0, 0
    for a, b in zip(one, other, strict=True):
        values += len(a)
        apart = (a - b).abs()
        unequal += int((a != b).sum())
        largest = max(largest, float(apart.max()) if len(apart) else 0.0)
    return Difference(part, values, unequal, largest)


def _of_best(one: Path, other: Path) -> Difference:
    """Compare the weights that the folders of two runs hold."""
    both = (load_file(folder / "model.safetensors") for folder in (one, other))
    return _compared("best weights", *(list(_numbers(tensors)) for tensors in both))


def _of_metrics(one: Path, other: Path) -> Difference:
    """Compare the metrics of two runs, except their speed."""
    both = [
        [
            float(value)
            for record in read_json_lines(folder / "metrics.jsonl")
            for name, value in sorted(record.items())
            if isinstance(value, (int, float)) and not name.endswith("_per_second")
        ]
        for folder in (one, other)
    ]
    return _compared("metrics", *([torch.tensor(x, dtype=torch.float64)] for x in both))
