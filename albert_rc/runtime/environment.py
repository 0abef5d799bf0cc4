"""Environment variables that libraries read when they are loaded.

The user's own settings take precedence. Child processes inherit ours.
"""

from __future__ import annotations

import os

SETTINGS = {
    # oneDNN compiles a product for each shape and keeps half a megabyte for it; by default for the
    # last 1,024 shapes, in two caches.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
    "LRU_CACHE_CAPACITY": "128",
    # Spins of a waiting thread before it sleeps. GNU's default, 300,000, takes the core from the
    # very thread that is waited for as soon as another process is busy. docs/speed.md has the cost
    # of fewer on an idle machine, and the gain on a busy one.
    "GOMP_SPINCOUNT": "1000",
}
"""Values by name; see `prepare`."""
DECIDED_BY = {"GOMP_SPINCOUNT": "OMP_WAIT_POLICY"}
"""A variable is also left unset if the user has set this other one."""

_ours: set[str] = set()


def prepare() -> None:
    """Set the variables that the user has not set; must run before torch is imported."""
    for name, value in SETTINGS.items():
        if name not in os.environ and DECIDED_BY.get(name, name) not in os.environ:
            os.environ[name] = value
            _ours.add(name)


def as_found() -> dict[str, str]:
    """The environment without the variables set by `prepare`, for other programs."""
    return {name: value for name, value in os.environ.items() if name not in _ours}
