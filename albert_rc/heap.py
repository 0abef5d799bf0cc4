"""glibc's heap on a CPU: freed memory is kept for the next tensor, up to what was planned.

By default each large activation is mapped and unmapped anew, and its pages are zeroed and faulted
in every time: a third of a training step. But a heap that keeps everything falls into pieces, as
small blocks that live long settle between large ones, and the process grows for hours. So what is
free is handed back as a whole whenever the process holds more than was planned; the next step
faults in what it needs. On other systems nothing here does anything.
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
"""Of what was planned: a plan that is a little low must not cost each step its faults anew."""
SOON = 10
"""Steps after which handing back costs next to nothing: it takes about a fifth of a step."""
MORE = 1.02
"""What the bound grows by where it is reached sooner: then the plan was too low."""


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
        most: bytes that were planned; where the process holds `ROOM` times as much between two
            steps, free memory goes back, see `hand_back`. None for any.
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
    """Between two steps: give free memory back to the system where too much is held.

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
    """Bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * _page_size()


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
