"""Background processes that keep cores busy during a measurement or test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# It checks its parent, so that it ends if the parent is killed.
_LOOP = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_processes(number: int) -> Iterator[list[int]]:
    """Run `number` processes that each keep one core busy; yields their process ids."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(number):
            command = [sys.executable, "-c", _LOOP, str(os.getpid())]
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
