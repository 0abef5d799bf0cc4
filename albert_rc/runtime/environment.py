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
}
"""Values by name; see `prepare`."""

_ours: set[str] = set()


def prepare() -> None:
    """Set the variables that the user has not set; must run before torch is imported."""
    for name, value in SETTINGS.items():
        if name not in os.environ:
            os.environ[name] = value
            _ours.add(name)


def as_found() -> dict[str, str]:
    """The environment without the variables set by `prepare`, for other programs."""
    return {name: value for name, value in os.environ.items() if name not in _ours}
