"""Parsing of sizes in bytes, as users write them."""

from __future__ import annotations

import re

from albert_rc.errors import UsageError
from albert_rc.io.messages import shortened

UNITS = {
    "": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30,
}  # fmt: skip

LEAST_BYTES, MOST_BYTES = 2**20, 2**50
"""A number without a unit that is below the first is taken for a mistake."""


def parse_size(flag: str, text: str) -> int:
    """Bytes of `8GiB`, `7.5g`, `6000 MB`.

    Raises:
        UsageError: not a size, or one beyond all memory; names the flag.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?i?)b?\s*", text.lower())
    if not found or found[2] not in UNITS or not float(found[1]):
        raise UsageError(f"{flag} {text}: give a size such as 8GiB or 7500MB")
    size = float(found[1]) * UNITS[found[2]]
    if not found[2] and size < LEAST_BYTES:
        raise UsageError(f"{flag} {text}: that is in bytes; write {found[1]}GiB or {found[1]}MB")
    if not 1 <= size <= MOST_BYTES:
        raise UsageError(
            f"{flag} {shortened(text)}: must be from 1 byte to {MOST_BYTES / 2**30:,.0f} GiB"
        )
    return int(size)
