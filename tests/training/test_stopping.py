"""Runs that are asked to stop, or that nobody listens to any more, save their state."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from conftest import SAMPLE

from albert_rc.training.checkpoint import states
from albert_rc.training.stop import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_in_quick_succession_are_one_wish(number):
    """A launcher forwards the signal that the terminal has also sent."""
    stop = StopRequest()
    before = signal.getsignal(number)
    with stop.listening():
        assert not stop.asked
        for _ in range(3):
            os.kill(os.getpid(), number)
        assert stop.asked
    assert signal.getsignal(number) == before


LATER = """
import os, signal, sys, time
from albert_rc.training.stop import SAME_WISH, StopRequest

stop = StopRequest()
with stop.listening():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(SAME_WISH + 0.1)
    os.kill(os.getpid(), signal.SIGINT)
    print("still there")
"""


def test_a_later_second_one_ends_the_process_at_once():
    done = subprocess.run(
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")


def test_hang_ups_stay_ignored_under_nohup():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest().listening():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def started(data, out):
    """A training that would take hours, once it has begun; it is ended afterwards."""
    command = [
        sys.executable, "-m", "albert_rc", "train", "--data", data, "--out", out,
        "--model", SAMPLE / "vocabulary", "--scratch", "tiny", "--learning-rate", "1e-3",
        "--max-steps", "100000", "--eval-steps", "5",
    ]  # fmt: skip
    run = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert any(line.startswith("step 1/") for line in run.stdout)
        yield run
    finally:
        run.kill()
        run.wait()


@pytest.fixture
def data(stores, tmp_path):
    for split in ("train", "dev"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    return tmp_path


def test_a_run_whose_output_is_closed_saves_its_state_and_stops(data, tmp_path):
    """As in `train ... 2>&1 | tee log`, where Ctrl-C ends `tee` first."""
    with started(data, tmp_path / "run") as run:
        run.stdout.close()  # the next evaluation cannot be said, before its state is saved
        assert run.wait(timeout=60) != 0
    assert states(tmp_path / "run")
    assert "stopped at step" in (tmp_path / "run" / "log.txt").read_text()


def test_a_run_whose_terminal_is_closed_saves_its_state_and_stops(data, tmp_path):
    with started(data, tmp_path / "run") as run:
        run.send_signal(signal.SIGHUP)
        run.stdout.close()
        assert run.wait(timeout=60) != 0
    assert states(tmp_path / "run")
