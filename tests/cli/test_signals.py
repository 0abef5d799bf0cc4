"""Ctrl-C, also twice at once: one sentence, the exit code of the contract, no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from albert_rc.cli.console import SAME_WISH

# A command that works, and takes its time over what it leaves behind when it is stopped.
WORK = """
import os, time
from albert_rc.cli import app

@app.app.command("wait")
def wait():
    try:
        print("at work", flush=True)
        time.sleep(60)
    finally:
        time.sleep(float(os.environ["TIDYING"]))

app.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("tidying", "pauses", "said"),
    [
        (0.0, [], True),
        (0.3, [0.0, 0.01, 0.02], True),
        (30.0, [0.01, SAME_WISH + 0.2], False),  # the last is another wish: leave at once
    ],
)
def test_it_stops_and_says_so_once(number, tidying, pauses, said):
    program = subprocess.Popen(
        [sys.executable, "-c", WORK, "wait"], env=os.environ | {"TIDYING": str(tidying)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout.readline() == "at work\n"
    begun = time.monotonic()
    os.kill(program.pid, number)
    for pause in pauses:
        time.sleep(pause)
        os.kill(program.pid, number)
    _, stderr = program.communicate(timeout=60)
    assert program.returncode == 130
    assert stderr == ("error: stopped; no incomplete file was left\n" if said else "")
    assert time.monotonic() - begun < 20
