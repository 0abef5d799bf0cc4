"""Limits of time and memory for reading a printed paper."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from albert_rc.errors import DataError
from albert_rc.runtime.heap import mapped

LEAST_SECONDS, MOST_SECONDS = 60.0, 600.0
"""Limits of processor time for one file, in seconds."""
SECONDS_A_MEGABYTE = 200.0
"""Time for a thousand full pages of a PDF, twice as many as fit into a megabyte."""
MOST_MEMORY = 2 * 2**30
"""Maximum number of bytes that reading may add to the address space."""


class _OutOfTime(BaseException):
    """Not an Exception, because parsers of damaged files catch exceptions and continue."""


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Limit time and memory inside the block, if the system supports it, in the main thread only.

    Parsers of Word and PDF files are not hardened against malicious files: a few kilobytes may
    unpack to gigabytes or keep them busy for hours.

    Args:
        path: the file, or a folder of pictures; larger ones may take longer.

    Raises:
        DataError: a limit was exceeded.
    """
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files if file.is_file())
    least = LEAST_SECONDS * max(1, len(files))
    seconds = max(least, min(MOST_SECONDS, least + SECONDS_A_MEGABYTE * size / 1e6))
    try:
        if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
            with _clock(seconds), _ceiling(MOST_MEMORY):
                yield
        else:
            yield
    except _OutOfTime:
        raise DataError(
            f"{path}: reading it takes more than {seconds:.0f} seconds; print it to PDF again, or "
            "give it in parts or as text"
        ) from None
    except MemoryError:
        raise DataError(
            f"{path}: reading it needs too much memory; give it in parts, or as text"
        ) from None


@contextmanager
def _clock(seconds: float) -> Iterator[None]:
    """Limit the processor time of this thread, its system calls included."""
    end = time.thread_time() + seconds

    def expire(number: int, frame: FrameType | None) -> None:
        # The timer counts all threads, and text recognition has one for each core.
        if time.thread_time() >= end:
            raise _OutOfTime

    handler = signal.signal(signal.SIGPROF, expire)
    # Every second, and after the end too, in case a parser swallows the first exception.
    timer = signal.setitimer(signal.ITIMER_PROF, min(1, seconds), 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        signal.setitimer(signal.ITIMER_PROF, *timer)  # the timer of the caller


@contextmanager
def _ceiling(memory: int) -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = mapped()
    most = used + memory
    lower = used > 0 and (soft == resource.RLIM_INFINITY or most < soft)
    if lower:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    finally:
        if lower:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
