"""Subsets of a store's papers, and concatenation of stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from albert_rc.errors import DataError
from albert_rc.io.files import sha256
from albert_rc.papers.schema import Kind
from albert_rc.stores.pack import COLUMNS
from albert_rc.stores.store import Store
from albert_rc.stores.writer import Cuts, StoreMeta, check_total


def paper_of_each(store: Store) -> dict[str, Tensor]:
    """The index of the paper of each window, token, question, option and so on, by unit."""
    columns = COLUMNS[store.kind]
    owners: dict[str, Tensor] = {}
    papers = torch.arange(len(store.meta["ids"]))
    owners["question" if store.kind == "label" else "paper"] = papers
    for name, column in columns.items():
        if column.owner:
            owners[column.per] = store.tensors[name].long()
    missing = {column.per for column in columns.values()} - owners.keys()
    while missing:
        for name, column in columns.items():
            if column.counts in missing and column.per in owners:
                lengths = store.tensors[name].diff().long()
                owners[column.counts] = owners[column.per].repeat_interleave(lengths)
                missing.discard(column.counts)
    return owners


def chosen_papers(store: Store, papers: Sequence[int], name: str) -> Store:
    """A store with only some of a store's papers, in the same order.

    How much of its texts was truncated is not known any more.

    Args:
        store: a store of any kind.
        papers: indices of the papers, without duplicates, in any order.
        name: name of the new split.

    Raises:
        DataError: no papers.
    """
    if not papers:
        raise DataError(f"{name}: no papers")
    keep = torch.zeros(len(store.meta["ids"]), dtype=torch.bool)
    keep[list(papers)] = True
    number = keep.cumsum(0) - 1
    owners = {unit: keep[owner] for unit, owner in paper_of_each(store).items()}
    tensors = {}
    for key, column in COLUMNS[store.kind].items():
        values, here = store.tensors[key], owners[column.per]
        if column.counts:
            values = _offsets(values.diff()[here], values.dtype)
        elif column.owner:
            values = number[values[here].long()].to(values.dtype)
        else:
            values = values[here]
        tensors[key] = values
    places = keep.nonzero()[:, 0].tolist()
    meta = store.meta.copy()
    meta["split"] = name
    meta["ids"] = [meta["ids"][i] for i in places]
    meta["levels"] = [meta["levels"][i] for i in places]
    if "question_keys" in meta:
        kept = owners["question"].tolist()
        meta["question_keys"] = [
            k for k, here in zip(meta["question_keys"], kept, strict=True) if here
        ]
    digest = np.asarray(places, np.int64).tobytes()
    meta["source_hash"] = sha256(store.meta["source_hash"].encode() + digest)
    found: dict[str, Any] = {k: v for k, v in meta.items() if k not in Cuts.__annotations__}
    if store.kind in ("cloze", "span"):
        found["num_long"] = _num_long(store.kind, tensors, len(places))
    return Store(tensors, cast(StoreMeta, found))


def _num_long(kind: Kind, tensors: dict[str, Tensor], num_papers: int) -> int:
    """Papers, or questions of SQuAD, with several windows."""
    if kind == "span":
        windows = tensors["window_offset"].diff()
    else:
        windows = tensors["window_passage"].long().bincount(minlength=num_papers)
    return int((windows > 1).sum())


def joined(stores: Sequence[Store], name: str, places: Sequence[object] = ()) -> Store:
    """Concatenate the papers of stores.

    Args:
        stores: at least one.
        name: split of the result.
        places: where the stores are, for errors; the names of their splits by default.

    Raises:
        DataError: different kinds, vocabularies, windows or labels, a shared id, or more than a
            store can hold.
    """
    first = stores[0]
    _require_alike(stores, places or [store.meta["split"] for store in stores])
    tensors = {}
    for key, column in COLUMNS[first.kind].items():
        parts: list[Tensor] = []
        before = 0
        for store in stores:
            values = store.tensors[key]
            if column.counts:
                check_total(column.counts, before + int(values[-1]))
                parts.append(values[1 if parts else 0 :] + before)
                before += int(values[-1])
            elif column.owner:
                parts.append(values + before)
                before += len(store.meta["ids"])
            else:
                parts.append(values)
        tensors[key] = torch.cat(parts)
    metas: list[dict[str, Any]] = [{**store.meta} for store in stores]
    meta = metas[0] | {"split": name}
    for key in ("ids", "levels", "question_keys"):
        if key in meta:
            meta[key] = [item for each in metas for item in each[key]]
    for key in Cuts.__annotations__:
        if all(key in each for each in metas):
            meta[key] = sum(each[key] for each in metas)
    meta["source_hash"] = sha256("".join(each["source_hash"] for each in metas).encode())
    return Store(tensors, cast(StoreMeta, meta))


def _require_alike(stores: Sequence[Store], places: Sequence[object]) -> None:
    first, one = stores[0], places[0]
    place_of: dict[str, object] = {}
    for store, other in zip(stores, places, strict=True):
        for key in ("kind", "vocabulary", "vocab_size", "max_length", "labels", "num_specials"):
            if first.meta.get(key) != store.meta.get(key):
                raise DataError(
                    f"{one} and {other} differ in {key}; make both with the same "
                    "`albert-rc preprocess` command"
                )
        both = place_of.keys() & set(store.meta["ids"])
        if both and first.kind != "label":  # table rows have their numbers as ids
            named = min(both)
            raise DataError(f"paper {named} is in both {place_of[named]} and {other}; remove one")
        place_of |= dict.fromkeys(store.meta["ids"], other)


def _offsets(lengths: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(dtype)
