"""How experiments run albert-rc: in a process of its own, its progress shown."""

import gc
import io
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import torch

from albert_rc.cli.app import app
from albert_rc.runtime.heap import highest

_within = ContextVar("within", default=False)


@dataclass(frozen=True)
class Done:
    """What a command printed as a result, and the most memory that it held."""

    output: str
    mebibytes: int
    """0 where the system does not tell, or the command took less than half a second. On a GPU, if
    albert-rc runs within this process: of the GPU's memory."""


def run_within(value: bool = True) -> None:
    """From here on, run albert-rc within this process, which saves the seconds of its start.

    Its progress is not shown then, and Ctrl-C ends the script at once.
    """
    _within.set(value)


def command(*arguments: object, through: Path | None = None) -> str:
    """Run albert-rc; what it printed as a result.

    Args:
        arguments: of its command line.
        through: a script that runs it with changes that no option makes.
    """
    return watched(*arguments, through=through).output


def watched(*arguments: object, through: Path | None = None) -> Done:
    """`command`, and its memory.

    A command that fails or is stopped ends the script as well, with its exit status.
    """
    if _within.get() and through is None:
        return _inside(*arguments)
    program = ["-m", "albert_rc"] if through is None else [str(through)]
    full = [sys.executable, *program, *map(str, arguments)]
    print("$", " ".join(full[2:]), flush=True)
    # A group of its own: signals reach it through `_passed_on` alone.
    with (
        subprocess.Popen(full, stdout=subprocess.PIPE, text=True, process_group=0) as process,
        _passed_on(process),
    ):
        peak = 0
        while True:
            try:
                output, _ = process.communicate(timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                peak = max(peak, highest(process.pid))
    print(output, end="", flush=True)
    if process.returncode:
        # A negative one is the number of the signal that ended it.
        sys.exit(process.returncode if process.returncode > 0 else 128 - process.returncode)
    return Done(output, peak // 2**20)


def _inside(*arguments: object) -> Done:
    """`watched`, within this process."""
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    output, messages = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(output), redirect_stderr(messages):
            app([str(part) for part in arguments], standalone_mode=False)
    except BaseException:
        print(messages.getvalue(), flush=True)
        raise
    gc.collect()
    return Done(output.getvalue(), torch.cuda.max_memory_allocated() // 2**20 if gpu else 0)


@contextmanager
def _passed_on(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Pass Ctrl-C and SIGTERM on, once, so that a training saves its state before it stops."""
    asked = False

    def stop(*_: object) -> None:
        nonlocal asked
        if not asked:
            process.terminate()
        asked = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        sys.exit(128 + signal.SIGTERM)


def make_stores(papers: Path, model: object, data: Path, *options: object) -> None:
    """Preprocess papers into `data`; `data/train` gets the training store alone.

    A training that is given that folder has no dev papers to choose its weights by.
    """
    command("preprocess", papers, "--model", model, "--out", data, *options)
    (data / "train").mkdir(exist_ok=True)
    shutil.copyfile(data / "train.pt", data / "train" / "train.pt")
