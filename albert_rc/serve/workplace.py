"""Temporary folders for the papers that are read, which do not outlive the server for long."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "albert-rc-serve-"
YOUNG = 60
"""Seconds within which a folder without a lock may be one that is about to be locked."""


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder that is deleted at the end, and locked until then."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        handle = os.open(name, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks, where nothing is cleared away
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(handle)


def clear_away() -> None:
    """Delete the folders of this user's servers that were killed: their locks died with them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # gone, in use, or not ours
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                found = os.fstat(handle)
                if found.st_uid == os.geteuid() and time.time() - found.st_mtime > YOUNG:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder)
            finally:
                os.close(handle)
