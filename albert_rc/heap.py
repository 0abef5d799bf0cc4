"""Settings of glibc's allocator: freed memory is kept for later tensors, up to a bound.

By default each large activation is mapped and unmapped anew, and its pages are zeroed and faulted
in every time: a third of a training step. But a heap that keeps everything falls into pieces, as
small blocks that live long settle between large ones, and the process grows for hours. So all free
memory is handed back whenever the process holds a tenth more than was planned; the next step
faults in what it needs. On other systems the functions here do nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # M_* of <malloc.h>

ROOM = 1.1
"""Factor on the plan: a plan that is slightly low must not cost page faults at each step."""
SOON = 10
"""Steps between two hand-backs that make their cost negligible: one takes a fifth of a step."""
MORE = 1.02
"""Factor by which the bound grows if it is reached sooner: then the plan was too low."""


@dataclass
class _Bound:
    most: float = float("inf")
    steps: int = 0


_bound = _Bound()


def keep_freed_memory(tight: bool = False, most: int | None = None) -> None:
    """Have glibc keep the memory that it was given, instead of handing it back after every tensor.

    Args:
        tight: still hand back blocks of 32 MiB and more. What is kept falls into pieces that such
            blocks do not fit in, and the process grows by their size again and again.
        most: bytes that were planned; if the process holds `ROOM` times as much between two
            steps, free memory is handed back, see `hand_back`. No bound if None.
    """
    _bound.most, _bound.steps = (float("inf") if most is None else ROOM * most), 0
    libc = _glibc()
    if libc is None:
        return
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    if tight:
        libc.mallopt(_MMAP_THRESHOLD, 32 * 2**20 - 1)  # the most that glibc takes
        libc.mallopt(_TOP_PAD, 8 * 2**20)
    else:
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TOP_PAD, 64 * 2**20)


def hand_back() -> bool:
    """Give free memory back to the system if too much is held; called between steps.

    Returns:
        Whether it did.
    """
    _bound.steps += 1
    if resident() <= _bound.most:
        return False
    libc = _glibc()
    if libc is None:
        return False
    libc.malloc_trim(0)
    if _bound.steps < SOON:
        _bound.most *= MORE
    _bound.steps = 0
    return True


def resident() -> int:
    """Resident memory of this process in bytes; 0 if the system does not report it."""
    return _pages(1) * _page_size()


def mapped() -> int:
    """Address space of this process in bytes; 0 if the system does not report it."""
    return _pages(0) * _page_size()


def _pages(column: int) -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[column])
    except OSError:
        return 0


@cache
def _page_size() -> int:
    return os.sysconf("SC_PAGE_SIZE")


@cache
def _glibc() -> Any:
    """The C library, if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None)
        _ = libc.mallopt, libc.malloc_trim
    except (AttributeError, OSError):  # musl has no such calls
        return None
    return libc
