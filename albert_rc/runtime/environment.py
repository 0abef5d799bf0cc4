"""Variables of the environment that libraries read when they are loaded.

A user's own settings are left alone. Processes that we start inherit ours.
"""

from __future__ import annotations

import os

SETTINGS = {
    # oneDNN compiles a product for each shape and keeps half a megabyte for it; by default, of the
    # last 1,024 shapes, in two caches.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
    "LRU_CACHE_CAPACITY": "128",
    # How often a thread that waits for others looks again before it sleeps. GNU's default, 300,000,
    # takes the core from the very thread that is waited for as soon as another process is busy.
    # docs/speed.md has what fewer cost on a quiet machine, and gain on a busy one.
    "GOMP_SPINCOUNT": "1000",
}
"""By name; see `prepare`."""
DECIDED_BY = {"GOMP_SPINCOUNT": "OMP_WAIT_POLICY"}
"""A setting is also left alone if the user has set this other variable."""

_ours: set[str] = set()


def prepare() -> None:
    """Set those that the user has not set; must run before torch is imported."""
    for name, value in SETTINGS.items():
        if name not in os.environ and DECIDED_BY.get(name, name) not in os.environ:
            os.environ[name] = value
            _ours.add(name)


def as_found() -> dict[str, str]:
    """The environment without what `prepare` set, for programs that are not ours."""
    return {name: value for name, value in os.environ.items() if name not in _ours}
