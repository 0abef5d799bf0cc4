"""Names of shards, the files of a divided data set; each name has its number and their count."""

from __future__ import annotations

import re
from pathlib import Path

from albert_rc.errors import DataError

PAPERS = 1_000_000
"""Maximum number of papers in a shard, or in a store of one file."""
_PATTERN = "shard-*-of-*"
_NAME = r"shard-\d+-of-\d+\.pt"


def shard_name(index: int, count: int, suffix: str = ".pt") -> str:
    """File name of a shard; the index counts from 0, the name from 1."""
    return f"shard-{index + 1:05}-of-{count:05}{suffix}"


def shard_count(path: Path) -> int:
    """The number of shards in a set, from the name of one of them."""
    return int(path.stem.rpartition("-")[2])


def all_shards(folder: Path, remake: str) -> list[Path]:
    """The `.pt` shards of a folder, in order and complete; `remake` says how to make them again.

    Raises:
        DataError: there are none, some are missing, or some belong to another set.
    """
    paths = sorted(folder.glob(f"{_PATTERN}.pt"))
    if not paths:
        raise DataError(f"{folder}: no shards there; {remake}")
    if odd := next((p.name for p in paths if not re.fullmatch(_NAME, p.name)), None):
        raise DataError(f"{folder}: {odd} is not a shard; remove it, or {remake}")
    totals = sorted({shard_count(path) for path in paths})
    if len(totals) > 1:
        raise DataError(
            f"{folder}: shards of {len(totals)} different sets (of {totals[0]} and of {totals[1]} "
            f"shards); remove the folder, and {remake}"
        )
    total = totals[0]
    wanted = {shard_name(index, total) for index in range(total)}
    names = {path.name for path in paths}
    if names != wanted:
        odd = sorted(wanted ^ names)[0]
        raise DataError(
            f"{folder}: {len(names & wanted)} of {total} shards ({odd} is the first that is "
            f"missing or of another set); {remake}"
        )
    return paths
