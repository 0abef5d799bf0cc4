"""The splits of a collection: train, dev and test, as folders or files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from albert_rc.errors import DataError
from albert_rc.papers.files import REJECTS, require_papers
from albert_rc.papers.opening import is_pattern, stem_of, suffix_of

SPLITS = {
    "train": ("train", "training", "msr_paraphrase_train", "train-v1.1", "train-v2.0"),
    "dev": (
        "dev", "valid", "validation", "val", "eval", "development", "dev_matched", "dev-v1.1",
        "dev-v2.0",
    ),
    "dev_mismatched": ("dev_mismatched",),
    "test": ("test", "test_matched", "msr_paraphrase_test"),
    "test_mismatched": ("test_mismatched",),
}  # fmt: skip
"""Names of the splits' folders and files, ignoring case; the first that exists is used."""
_SPLIT_OF = {name: split for split, names in SPLITS.items() for name in names}


def find_splits(raw: Path) -> dict[str, Path]:
    """The splits of a collection: train, dev and test inside it, or itself as the only one.

    Only whole names count: a folder `latest_papers` is not a test split.

    Raises:
        DataError: `raw` does not exist, or contains collections, as from `import`, and no split.
    """
    require_papers(raw)
    found = splits_in(raw)
    if not found and (inside := collections_in(raw)):
        one = ", one at a time" if len(inside) > 1 else ""
        raise DataError(
            f"{raw}: its splits are in subfolders; give {' or '.join(map(str, inside))}{one}"
        )
    return found or {split_name(raw): raw}


def splits_in(raw: Path) -> dict[str, Path]:
    """Train, dev and test in a folder; empty if there is none."""
    return {split: fitting[0] for split, fitting in candidates(raw)[0].items()}


def candidates(raw: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """The candidates for each split, best first; and files that belong to no split."""
    found: dict[str, list[Path]] = {}
    loose: list[Path] = []
    if raw.is_dir():
        inside = sorted(each for each in raw.iterdir() if not _is_hidden(each.name))
        files = [f for f in inside if suffix_of(f) in (".json", ".jsonl") and f.name != REJECTS]
        tables = [
            f
            for f in inside
            if suffix_of(f) in (".tsv", ".txt") and stem_of(f).lower() in _SPLIT_OF
        ]
        children = [child for child in inside if child.is_dir()]
        of_splits = _are_splits(files)
        children += [f for f in files if _split_stem(f) in _SPLIT_OF] if of_splits else tables
        named: dict[str, list[Path]] = {}
        for child in children:
            name = child.name.lower() if child.is_dir() else _split_stem(child)
            named.setdefault(name, []).append(child)
        for split, names in SPLITS.items():
            if fitting := [child for name in names for child in named.get(name, ())]:
                found[split] = fitting
        taken = {child for fitting in found.values() for child in fitting}
        others = [child for child in children if child not in taken and child.is_dir()]
        collections = set(collections_in(raw)) if others else ()
        if tables and not of_splits:
            files += [f for f in inside if suffix_of(f) == ".tsv" and f not in tables]
        loose = [file for file in files if file not in children]
        loose += [child for child in others if child not in collections]
    return found, loose


def _split_stem(file: Path) -> str:
    """The stem of a split's file in lower case: `train` of `train-00000-of-00001.parquet`."""
    return re.sub(r"-0+-of-0*1$", "", stem_of(file).lower())


def _are_splits(files: Sequence[Path]) -> bool:
    """Whether files are the splits of a collection.

    That is the case if two of them have names of different splits, or if all of them have such
    names. So one paper that happens to be called test.json does not make a folder a collection.
    """
    found = {_SPLIT_OF.get(_split_stem(file)) for file in files}
    return len(found - {None}) > 1 or (bool(found) and None not in found)


def collections_in(raw: Path) -> list[Path]:
    """Folders in a collection that are not splits, but contain splits themselves."""
    if not raw.is_dir():
        return []
    folders = sorted(raw / name for name, is_folder in _inside(raw) if is_folder)
    return [
        child for child in folders if child.name.lower() not in _SPLIT_OF and _has_splits(child)
    ]


def _has_splits(folder: Path) -> bool:
    """Whether it contains a split's folder, or its files are two splits or more."""
    files: list[Path] = []
    for name, is_folder in _inside(folder):
        if is_folder and name.lower() in _SPLIT_OF:
            return True
        path = Path(name)
        read = not is_folder and suffix_of(path) in (".json", ".jsonl", ".tsv")
        if read and _split_stem(path) in _SPLIT_OF:
            files.append(path)
    return len(files) > 1 and _are_splits(files)


def _inside(place: Path) -> Iterator[tuple[str, bool]]:
    """Names of files and folders that are not hidden, and whether each is a folder."""
    if not isinstance(place, Path):  # of an object store
        yield from ((x.name, x.is_dir()) for x in place.iterdir() if not _is_hidden(x.name))
        return
    # There may be a million files: directory entries tell which are folders without opening each.
    with os.scandir(place) as entries:
        yield from ((x.name, _is_folder(x)) for x in entries if not _is_hidden(x.name))


def _is_hidden(name: str) -> bool:
    """Whether a name is not part of a collection, such as macOS's folder in an unpacked archive."""
    return name.startswith(".") or name == "__MACOSX"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether a directory entry is a folder; not if it is a link that leads to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def training_beside(gold: Path) -> Path | None:
    """The training split of the collection that `gold` belongs to, or None."""
    splits = splits_in(gold.resolve().parent)
    here = splits.get("train")
    if here is None or here == gold.resolve() or gold.resolve() not in splits.values():
        return None
    return here


def split_name(path: Path) -> str:
    """The name of a single split, from its path; `valid` and the like are dev."""
    name = path.resolve().name if path.is_dir() else stem_of(path)
    name = re.split(r"[-_.]*[*?[]", name)[0] or "papers" if is_pattern(path) else name
    return _SPLIT_OF.get(name.lower(), name)
