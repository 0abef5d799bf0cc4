"""Variables of the environment that libraries read when they are loaded.

A user's own settings are left alone. Processes that we start inherit them.
"""

from __future__ import annotations

import os

SETTINGS = {
    # oneDNN compiles a product for each shape and keeps half a megabyte for it; by default, of the
    # last 1,024 shapes, in two caches.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "512",
    "LRU_CACHE_CAPACITY": "512",
}
"""By name; see `prepare`."""


def prepare() -> None:
    """Set them where the user has not; torch must not have been imported yet."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
