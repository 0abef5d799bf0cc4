"""Stores in shards: a folder `train.shards` of stores instead of a single `train.pt`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from albert_rc.errors import DataError
from albert_rc.io.shards import all_shards

if TYPE_CHECKING:
    from albert_rc.stores.store import Store

SUFFIX = ".shards"
_REMAKE = "make them again with `albert-rc preprocess`"


def is_sharded(path: Path) -> bool:
    """Whether a path names a store in shards."""
    return path.suffix == SUFFIX


def is_store(path: Path) -> bool:
    """Whether a path names a store, in one file or in shards, and not raw papers."""
    return path.suffix == ".pt" or is_sharded(path)


def split_path(folder: Path, split: str) -> Path:
    """Path of a split's store in the folder that `preprocess` wrote; the store need not exist."""
    sharded = folder / f"{split}{SUFFIX}"
    return sharded if sharded.is_dir() else folder / f"{split}.pt"


def exists(path: Path) -> bool:
    """Whether the store at a path exists."""
    return path.is_dir() if is_sharded(path) else path.is_file()


def store_shards(path: Path) -> list[Path]:
    """The stores that make up a store in shards, in order.

    Raises:
        DataError: some are missing.
    """
    return all_shards(path, _REMAKE)


def open_store(path: Path) -> Store:
    """Open a store; a store in shards is read into memory completely.

    Raises:
        DataError: the store is missing or damaged, or its shards do not fit into one store.
    """
    # Imported here because it imports torch: `preprocess` only needs the names.
    from albert_rc.stores.store import load_store
    from albert_rc.stores.subset import joined

    if not is_sharded(path):
        return load_store(path)
    paths = store_shards(path)
    shards = [load_store(shard) for shard in paths]
    of = shards[0].meta["source_hash"]
    for place, shard in zip(paths, shards, strict=True):
        if shard.meta["source_hash"] != of:
            raise DataError(f"{place}: made from different papers than {paths[0]}; {_REMAKE}")
    whole = joined(shards, shards[0].meta["split"], paths)
    whole.meta["source_hash"] = of
    return whole
