"""What a terminal or a pipe gets: figures stay whole, and whoever leaves is not complained to."""

import os
import subprocess
import sys

import pytest
from commands import run_cli, start_cli
from conftest import SAMPLE

from albert_rc.cli.app import _was_broken
from albert_rc.errors import AlbertRcError

DOCTOR = ("doctor", SAMPLE / "cloze", "--model", SAMPLE / "vocabulary")


def figures(text):
    """The words that hold a digit, as often as they stand there."""
    words = text.replace("│", " ").replace("┃", " ").split()
    return sorted(word for word in words if any(char.isdigit() for char in word))


@pytest.mark.parametrize("columns", ["8", "20", "60"])
@pytest.mark.parametrize("command", [DOCTOR, ("inspect", "parameters")])
def test_no_terminal_is_too_narrow_for_figures(command, columns):
    wide, narrow = (run_cli(*command, env={"COLUMNS": width}) for width in ("300", columns))
    assert (wide.returncode, narrow.returncode) == (0, 0)
    assert len(figures(wide.stdout)) > 20
    assert figures(narrow.stdout) == figures(wide.stdout)
    assert "…" not in narrow.stdout


@pytest.mark.parametrize(
    "command", [DOCTOR, (*DOCTOR, "--json"), ("--help",), ("--version",), ("inspect", "parameters")]
)
def test_a_reader_who_leaves_ends_the_command_quietly(command):
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does when it has seen enough
    try:
        words = [sys.executable, "-m", "albert_rc", *map(str, command)]
        done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_so_does_one_who_reads_the_errors_too():
    reader, writer = os.pipe()
    os.close(reader)
    try:
        words = [sys.executable, "-m", "albert_rc", "doctor", "nowhere"]
        done = subprocess.run(words, stdout=writer, stderr=writer, check=False)
    finally:
        os.close(writer)
    assert done.returncode == 141


def fail_and_leave(shown):
    """As a command that ends after a broken pipe; with `shown`, after an error of its own."""
    try:
        try:
            raise BrokenPipeError
        except OSError:
            if shown:
                raise AlbertRcError("a worker process ended") from None
            sys.exit(1)
    except AlbertRcError:
        sys.exit(1)


@pytest.mark.parametrize("shown", [True, False])
def test_a_worker_that_dies_is_not_a_reader_that_left(shown):
    with pytest.raises(SystemExit) as leaving:
        fail_and_leave(shown)
    assert _was_broken(leaving.value) is not shown


def test_a_reader_who_stays_hears_how_it_ended():
    assert start_cli("doctor", "nowhere").returncode == 3
    assert start_cli("--version").returncode == 0
