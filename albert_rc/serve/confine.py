"""Confinement of a process that reads an untrusted file: environment, memory, time, lifetime."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

_PASSED_ON = (
    "PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT",
    "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE",
)  # fmt: skip
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def small_environment(package: Path, temporary: Path) -> dict[str, str]:
    """The environment variables that Python needs to start, and no others of the server.

    Args:
        package: folder that contains the package.
        temporary: folder for temporary files.
    """
    found = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    paths = filter(None, (str(package), found.get("PYTHONPATH")))
    found["PYTHONPATH"] = os.pathsep.join(paths)
    return found | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))


def confine(memory: int, seconds: int, parent: int) -> None:
    """Limit this process as far as the system supports that, and end it with its parent.

    Args:
        memory: limit of the address space in bytes.
        seconds: limit of processor time, of all threads together.
        parent: id of the parent process.
    """
    try:
        import resource
    except ImportError:  # no Unix
        pass
    else:
        for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds)):
            try:
                resource.setrlimit(kind, (most, most))
            except (ValueError, OSError):  # the system has a lower limit, or none at all
                continue
    if not _dies_with_parent():
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    elif os.getppid() != parent:  # the parent had already ended
        os._exit(1)


def _dies_with_parent() -> bool:
    """Have Linux kill this process when its parent dies."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)
    except (AttributeError, OSError):
        return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
