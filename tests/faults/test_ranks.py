"""Processes that die or hang while others wait for them, and processes that are told to stop."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import SAMPLE

from albert_rc.io.pt import check_archive
from albert_rc.training.checkpoint import states
from albert_rc.training.stop import SAME_WISH

pytestmark = pytest.mark.slow
SILENCE = 8


def environment(pid):
    parts = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(part.split(b"=", 1) for part in parts if b"=" in part)


def children(launcher):
    """The process ids of what a process has started."""
    done = subprocess.run(
        ["pgrep", "-P", str(launcher)], capture_output=True, text=True, check=False
    )
    return list(map(int, done.stdout.split()))


def rank_of(launcher, rank):
    """The process id of a rank."""
    for pid in children(launcher):
        if environment(pid).get(b"RANK") == str(rank).encode():
            return pid
    raise AssertionError(f"no rank {rank}")


@pytest.fixture
def two_ranks(stores, tmp_path):
    """A run of two processes that has saved something; its launcher, its folder, its messages."""
    stores["cloze", "train"].save(tmp_path / "train.pt")
    out, log = tmp_path / "run", tmp_path / "log"
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "albert_rc", "train", "--data", tmp_path, "--model", SAMPLE / "vocabulary",
        "--scratch", "tiny", "--epochs", 999, "--save-steps", 5, "--out", out, "--device", "cpu",
    ]  # fmt: skip
    with log.open("wb") as file:
        run = subprocess.Popen(
            list(map(str, command)),
            stderr=file,
            env={**os.environ, "ALBERT_RC_RANK_TIMEOUT": str(SILENCE)},
        )
    try:
        end = time.monotonic() + 60
        while not states(out):
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        yield run, out, log
    finally:
        # They lead sessions of their own, and would go on for ever without their launcher.
        left = [] if run.poll() is not None else children(run.pid)
        run.kill()
        run.wait()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_other_ends_and_names_it(two_ranks, how, rank):
    run, out, log = two_ranks
    victim, other = rank_of(run.pid, rank), rank_of(run.pid, 1 - rank)
    began = time.monotonic()
    os.kill(victim, how)
    while Path(f"/proc/{other}").exists() and "State:\tZ" not in (
        Path(f"/proc/{other}/status").read_text()
    ):
        assert time.monotonic() - began < SILENCE + 15
        time.sleep(0.1)
    if how == signal.SIGSTOP:
        os.kill(victim, signal.SIGKILL)
    run.wait(timeout=60)
    said = log.read_text()
    assert f"rank {rank} did not respond" in said
    assert "with --resume" in said
    for path in states(out):
        check_archive(path)


def test_a_second_signal_leaves_at_once(stores, tmp_path):
    stores["cloze", "train"].save(tmp_path / "train.pt")
    command = [
        sys.executable, "-m", "albert_rc", "train", "--data", tmp_path, "--model",
        SAMPLE / "vocabulary", "--scratch", "base", "--batch-size", 64, "--epochs", 99,
        "--out", tmp_path / "run",
    ]  # fmt: skip
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as run:
        for line in run.stderr:
            if line.startswith("step "):
                break
        time.sleep(2)  # a step takes many seconds
        began = time.monotonic()
        run.send_signal(signal.SIGTERM)
        time.sleep(SAME_WISH + 0.3)
        run.send_signal(signal.SIGTERM)
        assert run.wait(timeout=60) == 130
        assert time.monotonic() - began < 5
