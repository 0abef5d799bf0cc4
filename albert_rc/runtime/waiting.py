"""How OpenMP's threads wait: by spinning, or shortly while other processes need the cores.

A thread that waits for the rest of its team spins before it sleeps. If the cores are free that is
faster, as waking a thread takes longer than many operations; if another process computes, it takes
the core from the very thread that is waited for. GNU's library reads the number of spins once, when
it is loaded, but spins only a hundred times while a process has more OpenMP threads than cores (see
GOMP_SPINCOUNT in its manual). So an additional team, which does nothing, is kept while others
compute. It has no influence on what is computed. docs/speed-details.md has the gains.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch

from albert_rc.runtime.pool import cores_at_hand

DECIDED_BY = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Environment variables by which a user decides how threads wait."""
LOOK = 0.2
"""Seconds between two looks while this process computes."""
IDLE_LOOK = 1.0
"""Seconds between two looks while it does not."""
SPARE = 0.25
"""Cores that others may use without consequences: a core's clock ticks are coarse."""
_MOST_TEAMS = 4
_GRAIN = 32_768
"""Numbers for each thread from which torch divides an operation."""
_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # columns of _STAT: idle and waiting for input or output
_GUEST = 8  # from here on: contained in the columns before


class Look(NamedTuple):
    """What cores have done so far, in seconds."""

    time: float
    busy: float
    """All processes, on the cores that this one may use."""
    own: float
    """This process."""


def look() -> Look | None:
    """The present state, or None if the system does not report it."""
    cores = cores_at_hand()
    if not cores:
        return None
    try:
        lines = _STAT.read_text().splitlines()
    except OSError:
        return None
    ticks = 0
    for line in lines:
        name, *numbers = line.split()
        if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cores:
            columns = enumerate(numbers[:_GUEST])
            ticks += sum(int(number) for column, number in columns if column not in _IDLE)
    return Look(time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), time.process_time())


def used_by_others(before: Look, after: Look) -> float:
    """How many cores other processes used between two looks."""
    others = (after.busy - before.busy) - (after.own - before.own)
    return max(0.0, others / max(after.time - before.time, 1e-9))


class Waiting:
    """Lets OpenMP's threads spin if they have their cores for themselves. Used by `adapted`."""

    def __init__(self) -> None:
        self.shortly = False
        """Whether threads now wait shortly."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="waiting")
        self._teams: list[_Team] = []

    def start(self) -> None:
        """Look at the cores from now on, in a thread."""
        self._thread.start()

    def end(self) -> None:
        """Stop looking, and wait as at the start."""
        self._ended.set()
        self._thread.join()
        self.set(False)

    def set(self, shortly: bool) -> None:
        """Make threads wait shortly, or spin."""
        if shortly == self.shortly:
            return
        self.shortly = shortly
        if shortly:
            self._teams = [_Team() for _ in range(_teams())]
        else:
            for team in self._teams:
                team.end()

    def _run(self) -> None:
        before, pause = look(), LOOK
        while before and not self._ended.wait(pause):
            after = look()
            if after is None:
                return
            needed = used_by_others(before, after) + torch.get_num_threads()
            self.set(needed > len(cores_at_hand()) + SPARE)
            pause = LOOK if after.own - before.own > SPARE * pause else IDLE_LOOK
            before = after


class _Team:
    """An OpenMP team of its own, which exists as long as the thread that has formed it."""

    def __init__(self) -> None:
        self._formed, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="waiting-team")
        self._thread.start()
        self._formed.wait()

    def _run(self) -> None:
        torch.ones(_GRAIN * torch.get_num_threads()).neg_()
        self._formed.set()
        self._ended.wait()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()


def _teams() -> int:
    """How many more teams there must be, so that there are more threads than cores."""
    threads = torch.get_num_threads()
    missing = len(cores_at_hand()) - threads + 1
    teams = -(-missing // (threads - 1)) if threads > 1 else 0
    return teams if teams <= _MOST_TEAMS else 0


@contextmanager
def adapted() -> Iterator[None]:
    """Within this context, waiting threads leave the cores to other processes that need them.

    Nothing changes if the user has decided how threads wait, see `DECIDED_BY`, if there is a single
    thread, or on systems that do not report how busy their cores are.
    """
    if torch.get_num_threads() == 1 or look() is None or any(n in os.environ for n in DECIDED_BY):
        yield
        return
    waiting = Waiting()
    waiting.start()
    try:
        yield
    finally:
        waiting.end()
