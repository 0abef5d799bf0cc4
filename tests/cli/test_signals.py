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


# Modules that take their time to load, as torch does on a cold disk. The first lets exceptions
# pass; torch's C code drops those that are raised while it imports numpy.
SLOW = {
    "slow_outer": """
import time
print("importing", flush=True)
try:
    import slow_inner
except BaseException:
    pass
time.sleep(0.2)
""",
    "slow_inner": "import time\ntime.sleep(1.0)\n",
}
IMPORTING = """
import time
from albert_rc.cli import app

@app.app.command("import-slowly")
def import_slowly():
    import slow_outer
    print("imported", flush=True)
    try:
        time.sleep(60)
    except Exception:  # as around a library whose errors have many types
        print("taken for an error of a library", flush=True)

app.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_an_import_is_neither_lost_nor_taken_for_an_error(tmp_path, number):
    for name, text in SLOW.items():
        (tmp_path / f"{name}.py").write_text(text)
    program = subprocess.Popen(
        [sys.executable, "-c", IMPORTING, "import-slowly"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout.readline() == "importing\n"
    os.kill(program.pid, number)
    stdout, stderr = program.communicate(timeout=60)
    assert program.returncode == 130
    assert "taken for an error" not in stdout
    assert stderr == "error: stopped; no incomplete file was left\n"


def test_ctrl_c_before_the_command_line_is_loaded_leaves_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text(
        "import time\nprint('importing', flush=True)\ntime.sleep(60)\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-m", "albert_rc"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout.readline() == "importing\n"
    program.send_signal(signal.SIGINT)
    _, stderr = program.communicate(timeout=60)
    assert (program.returncode, stderr) == (-signal.SIGINT, "")
