"""Raw papers from disk: a registry of formats, and how to tell them apart."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from albert_rc.data.parse import Report, parse_cloze, parse_dream, parse_race
from albert_rc.data.schema import Kind, PaperSet, Passage, Problem
from albert_rc.errors import DataError, UsageError
from albert_rc.files import natural_key, parse_json, to_json

SPLITS = {
    "train": ("train", "training"),
    "dev": ("dev", "valid", "validation", "val"),
    "test": ("test",),
}
LEVELS = ("middle", "high")


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One raw format: which files hold it, what it looks like, how a paper is parsed."""

    kind: Kind
    suffixes: tuple[str, ...]
    parse: Callable[[Any, str, str | None, Report], Passage | None]
    recognises: Callable[[Any], bool]
    """Whether the JSON value of a paper looks like this format."""
    file_is_list: bool = False
    """Whether a .json file is a list of papers, each with its id inside."""


READERS: dict[str, Reader] = {
    "cloze": Reader(
        kind="cloze",
        suffixes=(".json", ".jsonl"),
        parse=parse_cloze,
        recognises=lambda raw: (
            isinstance(raw, dict) and "article" in raw and "questions" not in raw
        ),
    ),
    "race": Reader(
        kind="choice",
        suffixes=(".txt", ".json", ".jsonl"),
        parse=parse_race,
        recognises=lambda raw: isinstance(raw, dict) and "article" in raw and "questions" in raw,
    ),
    "dream": Reader(
        kind="choice",
        suffixes=(".json",),
        parse=parse_dream,
        recognises=lambda raw: isinstance(raw, list) and bool(raw) and isinstance(raw[0], list),
        file_is_list=True,
    ),
}


def find_splits(raw: Path) -> dict[str, Path]:
    """The splits of a collection: train, dev and test inside it, or itself as the only one.

    Only whole names count: a folder `latest_papers` is no test split.

    Raises:
        DataError: there is nothing at `raw`.
    """
    if not raw.exists():
        raise DataError(f"{raw}: no such file or folder; give the place of the raw papers")
    found: dict[str, Path] = {}
    if raw.is_dir():
        known = {name for names in SPLITS.values() for name in names}
        files = [f for f in sorted(raw.iterdir()) if f.suffix in (".json", ".jsonl")]
        # A paper that happens to be called test.json among others makes no collection.
        children = [child for child in sorted(raw.iterdir()) if child.is_dir()]
        children += files if all(f.stem in known for f in files) else []
        for split, names in SPLITS.items():
            for child in children:
                name = child.name if child.is_dir() else child.stem
                if name in names:
                    found.setdefault(split, child)
    return found or {split_name(raw): raw}


def split_name(path: Path) -> str:
    """What a single split is called: by its own name, `valid` and the like being dev."""
    name = path.resolve().name if path.is_dir() else path.stem
    return next((split for split, names in SPLITS.items() if name in names), name)


def _files(path: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """The papers' files in natural order, by their place: the path from the split's folder on."""
    if not path.is_dir():
        return {path.name: path}
    root, name = path.as_posix().rstrip("/"), path.resolve().name
    found = {}
    # Symbolic links that lead nowhere are listed too: they are papers that cannot be read.
    for file in path.rglob("*"):
        if file.suffix in suffixes and not file.is_dir():
            inside = file.as_posix()[len(root) + 1 :] if path != Path() else file.as_posix()
            if not inside.startswith(".") and "/." not in inside:
                found[f"{name}/{inside}"] = file
    return dict(sorted(found.items(), key=lambda item: natural_key(item[0])))


def sniff_format(path: Path) -> str:
    """The format of the papers at `path`, told from the first one that can be read."""
    files = _files(path, (".json", ".jsonl", ".txt"))
    for file in islice(files.values(), 100):
        try:
            content = file.read_bytes()
            if file.suffix == ".jsonl":
                content = content.lstrip().partition(b"\n")[0]
            raw = parse_json(content)
        except (OSError, ValueError):
            continue
        first = raw[0] if isinstance(raw, list) and raw and isinstance(raw[0], dict) else raw
        for name, reader in READERS.items():
            if reader.recognises(first):
                return name
    # Nothing is readable: the reader that fits the file names will say what is wrong with each.
    return "race" if files and all(file.suffix == ".txt" for file in files.values()) else "cloze"


def _level(place: str, paper_id: str) -> str | None:
    folders = place.split("/")[:-1]
    for level in LEVELS:
        if level in folders or re.match(rf"{level}(?![a-z])", paper_id):
            return level
    return None


def _records(
    place: str, file: Path, content: bytes, reader: Reader
) -> Iterator[tuple[str, Any, bool]]:
    """The papers in a file: place, JSON value or what is wrong with it, whether one of several."""
    if file.suffix == ".jsonl":
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.strip():
                yield f"{place}:{number}", _parsed(line), True
        return
    raw = _parsed(content)
    if not isinstance(raw, list) or (
        raw and not reader.file_is_list and not isinstance(raw[0], dict)
    ):
        yield place, raw, False
        return
    if not raw:
        yield place, ValueError("an empty list; there is no paper in it"), False
    for number, item in enumerate(raw, 1):
        yield f"{place}[{number}]", item, True


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parsed(content: bytes) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        return error


def _paper_id(raw: Any, place: str, file: Path, level: str | None, several: bool) -> str:
    if isinstance(raw, list) and len(raw) > 2 and isinstance(raw[2], str):  # DREAM
        return raw[2]
    if isinstance(raw, dict):
        given = raw.get("id")
        if isinstance(given, (str, int)) and ("questions" in raw or several) and str(given):
            return str(given)
        if "questions" in raw:
            return f"{level or ''}{file.name}"
    # The competition names a cloze paper by its file.
    return place.rpartition("/")[2] if several else file.name


def read_split(path: Path, name: str | None = None, format_name: str | None = None) -> PaperSet:
    """Read and check every paper of a split.

    Args:
        path: a folder of papers, or one file.
        name: what the split is called; from the path by default.
        format_name: a key of `READERS`; sniffed by default.

    Returns:
        The good papers and the problems of all. Papers with an error are left out of
        `passages`; whether that is acceptable is the caller's to say (`require_good`).

    Raises:
        DataError: there is nothing at `path`.
        UsageError: no such format.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give the place of the raw papers")
    if format_name is not None and format_name not in READERS:
        raise UsageError(f"--format {format_name}: choose from {', '.join(READERS)}")
    format_name = format_name or sniff_format(path)
    reader = READERS[format_name]
    files = _files(path, reader.suffixes)
    digest = hashlib.sha256()
    passages: dict[str, Passage] = {}
    places: dict[str, str] = {}
    problems: list[Problem] = []
    num_rejected = 0
    if not files:
        wanted = ", ".join(reader.suffixes)
        problems.append(Problem(str(path), f"an empty folder; there is no {wanted} file in it"))
    for file_place, file in files.items():
        try:
            content = file.read_bytes()
        except OSError as error:
            problems.append(
                Problem(file_place, f"cannot be read ({error.strerror}); check the file")
            )
            num_rejected += 1
            continue
        if not _is_utf8(file_place):
            shown = file_place.encode("utf-8", "backslashreplace").decode()
            problems.append(Problem(shown, "the file's name is not UTF-8; rename it"))
            num_rejected += 1
            continue
        digest.update(file_place.encode() + b"\0" + content)
        for place, raw, several in _records(file_place, file, content, reader):
            report = Report(place)
            passage = None
            if isinstance(raw, ValueError):
                report.error(str(raw))
            else:
                paper_id = _paper_id(raw, place, file, _level(place, ""), several)
                level = _level(place, paper_id)
                passage = reader.parse(raw, paper_id, level, report)
                if paper_id in places:
                    report.error(
                        f"the id {paper_id!r} is taken by {places[paper_id]}; give each its own"
                    )
                places.setdefault(paper_id, place)
            if passage is None or report.failed:
                num_rejected += 1
            else:
                passages[passage.id] = passage
            problems += report.problems
    return PaperSet(
        name=name or split_name(path),
        kind=reader.kind,
        format=format_name,
        passages=sorted(passages.values(), key=lambda p: natural_key(p.id)),
        problems=problems,
        num_rejected=num_rejected,
        source_hash=digest.hexdigest(),
    )


def read_collection(raw: Path, format_name: str | None = None) -> list[PaperSet]:
    """Read every split of a collection; see `find_splits` and `read_split`."""
    return [read_split(path, name, format_name) for name, path in find_splits(raw).items()]


def require_good(papers: Sequence[PaperSet], on_error: str) -> None:
    """Go on only if no paper has an error, or if bad papers may be skipped.

    Args:
        papers: what was read.
        on_error: `stop` or `skip`.

    Raises:
        DataError: there are errors and `on_error` is `stop`, or a split has no good paper left.
    """
    if on_error not in ("stop", "skip"):
        raise UsageError(f"--on-error {on_error}: choose stop or skip")
    errors = [error for split in papers for error in split.errors]
    if errors and on_error == "stop":
        rejected = sum(split.num_rejected for split in papers)
        lines = "\n".join(f"  {error}" for error in errors)
        raise DataError(
            f"{len(errors)} problem(s) in {rejected} paper(s):\n{lines}\n"
            "Nothing was written. Mend them, or leave these papers out with --on-error skip"
        )
    empty = [split.name for split in papers if not split.passages]
    if empty:
        listed = "".join(f"\n  {error}" for error in islice(errors, 20))
        raise DataError(f"no usable paper in {', '.join(empty)}{listed}")


def rejects(papers: Sequence[PaperSet]) -> bytes:
    """The problems of the papers that were left out, one JSON object a line."""
    errors = [error for split in papers for error in split.errors]
    return b"".join(to_json({"file": e.file, "problem": e.message}, indent=False) for e in errors)
