"""Tuning of glibc's allocator: freed memory is kept for later tensors, up to a bound.

By default each large activation is mapped and unmapped anew, and its pages are zeroed and faulted
in every time: a third of a training step. But a heap that keeps everything fragments, as small
long-lived blocks end up between large ones, and the process grows for hours. So all free memory is
returned to the system between steps if the next one could take the process beyond the planned size;
that step then faults in the pages it needs. On other systems the functions here do nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # M_* of <malloc.h>

_MADV_HUGEPAGE = 14  # of <linux/mman.h>
OVERRUN = 1.15
"""Maximum ratio of a process's peak memory to the planned one."""
NEAR = 1.08
"""Ratio to the planned peak from which a new peak lowers the limit between steps."""
GROWTH = 0.5
"""Expected growth of the heap in the first steps as a share of their activations: blocks differ in
size from the freed ones. Measured, see `docs/speed-details.md`."""
MAPPED = 65536
"""glibc's own limit of separately mapped blocks."""
NEVER = -1  # as a threshold, see mallopt(3)


@dataclass
class _State:
    most: float = float("inf")
    """Maximum bytes held between two steps, because of peaks so far."""
    growth: float = 0.0
    """Bytes by which the next step is expected to grow."""
    least: float = 0.0
    """Bytes below which there is nothing to return."""
    planned: float = float("inf")
    """Planned peak in bytes."""
    before: int = 0
    """Bytes held before the last step."""
    returned: bool = True
    """Whether the last step began with memory that it had to fault in."""
    peak: int = 0
    """Highest bytes ever held."""
    end: int = 0
    """End of the heap when huge pages were last requested."""


_state = _State()


def keep_freed_memory(tight: bool = False, most: int | None = None, varying: int = 0) -> None:
    """Make glibc keep freed memory instead of returning it to the system after every tensor.

    Args:
        tight: still return blocks of 32 MiB and more. Kept memory fragments, so that such blocks
            do not fit, and the process would grow by their size again and again.
        most: planned bytes; free memory is returned between steps if the next one could take the
            process over `OVERRUN` times as much, see `hand_back`. Never if None.
        varying: the part of `most` that is allocated and freed within a step.
    """
    _state.planned = float("inf") if most is None else most
    _state.most, _state.least = float("inf"), 0.0
    _state.growth, _state.returned = GROWTH * varying, True
    if most is not None:
        _state.least = most - varying
        _state.before, _state.peak = resident(), highest()
    libc = _glibc()
    if libc is None:
        return
    libc.mallopt(_TRIM_THRESHOLD, NEVER)
    if tight:
        libc.mallopt(_MMAP_THRESHOLD, 32 * 2**20 - 1)  # glibc's maximum
        libc.mallopt(_MMAP_MAX, MAPPED)  # an earlier plan may have set it to 0
        libc.mallopt(_TOP_PAD, 8 * 2**20)
    else:
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TOP_PAD, 64 * 2**20)


def hand_back() -> bool:
    """Return free memory to the system if the process holds too much; called between steps.

    The next step faults it in again, which is cheap with pages of 2 MiB, so these are requested.

    Returns:
        Whether memory was returned.
    """
    libc = _glibc()
    if libc is None:
        return False
    _ask_for_huge_pages(libc)
    if _state.planned < float("inf") and (peak := highest()) > _state.peak:
        _state.peak = peak
        _state.most = lowered(_state.most, _state.planned, _state.before, peak)
    held = resident()
    if not _state.returned:
        _state.growth = expected(_state.growth, held - _state.before)
    limit = min(_state.most, OVERRUN * _state.planned - _state.growth)
    goes = held > max(_state.least, limit)
    if goes:
        libc.malloc_trim(0)
    _state.before, _state.returned = resident() if goes else held, goes
    return goes


def forget_peak() -> None:
    """Do not take the highest memory so far for that of a step, because others may need more."""
    _state.peak = highest()


def expected(growth: float, grown: float) -> float:
    """The expected growth of the next step, in bytes.

    Args:
        growth: what was expected of the last one.
        grown: by how much it grew.
    """
    return max(grown, growth / 2)


def lowered(most: float, planned: float, before: float, peak: float) -> float:
    """The new limit of memory held between steps, after a step that reached a new peak.

    Args:
        most: the limit so far.
        planned: the planned peak.
        before: bytes held before that step.
        peak: highest bytes held during it.
    """
    over = peak - NEAR * planned
    return most if over <= 0 else min(most, before - over)


def _ask_for_huge_pages(libc: Any) -> None:
    """Request huge pages for the heap when it has grown. Kernels without them return an error."""
    if libc.sbrk(0) == _state.end:
        return
    _state.end = libc.sbrk(0)
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for first, last in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*\[heap\]$", maps, re.MULTILINE):
        start = int(first, 16)
        libc.madvise(start, int(last, 16) - start, _MADV_HUGEPAGE)


def resident() -> int:
    """Resident memory of this process in bytes; 0 if the system does not report it."""
    return _pages(1) * _page_size()


def highest(process: int | str = "self") -> int:
    """Peak resident memory of a process in bytes; 0 if the system does not report it."""
    try:
        found = re.search(
            r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE
        )
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


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
        libc.sbrk.argtypes, libc.sbrk.restype = [ctypes.c_ssize_t], ctypes.c_size_t
        libc.madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    except (AttributeError, OSError):  # musl has no such calls
        return None
    return libc
