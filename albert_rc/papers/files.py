"""The files of a split, listed in natural order and read in bounded chunks."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from albert_rc.errors import DataError
from albert_rc.io.files import natural_key
from albert_rc.io.json import parse_json
from albert_rc.io.messages import quoted, shortened
from albert_rc.papers.opening import content_name, is_pattern, opened, read_all, suffix_of
from albert_rc.papers.raw import (
    CHUNK_BYTES,
    PRINTED,
    Chunk,
    Layout,
    Lines,
    Raw,
    TableRows,
    Unreadable,
    WholeFile,
    slices,
)
from albert_rc.papers.tables import first_row, header_of

REJECTS = "rejects.jsonl"
"""File in which commands list the papers they left out; it is never read as papers itself."""
LOOKED_AT = 20
"""Maximum number of lines of a .jsonl, and of files next to splits, examined for their format."""
_NO_PAPER = re.compile(
    re.escape(REJECTS)
    + r"|(?i:(?:readme|licen[cs]e|copying)(?:[^.]*|\.(?:txt|rst|html?))|thumbs\.db|desktop\.ini"
    r"|.*\.(?:md|pt|toml))"
)
"""Names of files that often lie next to papers, and that nobody takes for some."""
_LEAST_BYTES = 256  # minimum size counted for a paper, so that a chunk of empty files has an end


class Sources:
    """The files of one split.

    Args:
        path: a folder of papers, one file, or a pattern of files in a folder.

    Raises:
        DataError: there is nothing at `path`.
    """

    def __init__(self, path: Path) -> None:
        matching = require_papers(path)
        self.path = path.parent if matching else path
        self._is_folder = bool(matching) or path.is_dir()
        found = matching or (_listed(path) if self._is_folder else [path.name])
        self.others: list[str] = []
        """Other files in the folder, skipped because their names have other endings."""
        if self._is_folder and not matching:
            self.others = [name for name in found if not _is_paper(name.rpartition("/")[2])]
            found = [name for name in found if _is_paper(name.rpartition("/")[2])]
        listed = len(found)
        if self._is_folder:
            found = [name for name in found if not name.lower().endswith(PRINTED)]
        self._inside = found
        self.num_printed = listed - len(found)
        """Number of Word and PDF files in the folder, which are skipped."""
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._inside)

    def keep(self, suffixes: tuple[str, ...]) -> None:
        """Skip the files of a folder with other suffixes."""
        if self._is_folder:
            kept = [name for name in self._inside if content_name(name).lower().endswith(suffixes)]
            skipped = {*self.others, *self._inside} - set(kept)
            self.others = sorted(skipped, key=natural_key)
            self._inside = kept

    def all_end_with(self, suffix: str | tuple[str, ...]) -> bool:
        """Whether every file has this suffix, or one of these."""
        return all(content_name(inside).lower().endswith(suffix) for inside in self._inside)

    @property
    def names(self) -> str:
        """The names of the first few files, for messages."""
        shown = ", ".join(map(shortened, self._inside[:3]))
        return f"{shown}, ..." if len(self) > 3 else shown

    def opening(self) -> str:
        """The first line of the first file, in words: a table's header, or another line."""
        try:
            line = _first_line(self._file(self._inside[0]))
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        if not line:
            return "it is empty"
        if b"\0" in line:
            return "it has NUL bytes, as in UTF-16; save it as UTF-8"
        header = header_of(line)
        said = line.decode("utf-8-sig", "replace").rstrip("\r\n")
        return f"its header is {quoted(said)}" if header else f"no header, but {quoted(said)}"

    def samples(self, count: int) -> Iterator[tuple[str, Any]]:
        """The first paper of each of the first `count` files that can be read.

        Yields:
            The file's suffix, and the JSON value or the row of a table.
        """
        for inside in self._inside[:count]:
            file = self._file(inside)
            if self._is_folder and not file.is_file():
                continue
            try:
                content = _sample_line(file) if suffix_of(file) == ".jsonl" else read_all(file)
                value = parse_json(content)
            except OSError:
                continue
            except ValueError:
                row = first_row(content)
                if row is None:
                    continue
                value = row
            listed = isinstance(value, list) and value and isinstance(value[0], dict)
            yield suffix_of(file), value[0] if listed else value

    @property
    def hash(self) -> str:
        """SHA-256 over the names and bytes of the files read so far."""
        return self._digest.hexdigest()

    def _file(self, inside: str) -> Path:
        return self.path / inside if self._is_folder else self.path

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """All papers in natural order of the files, about `CHUNK_BYTES` at a time.

        Args:
            layout: how papers are arranged in the files.
        """
        chunk: list[Raw] = []
        size = 0
        for raw in self._raws(layout):
            chunk.append(raw)
            size += max(_LEAST_BYTES, raw.size)
            if size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _raws(self, layout: Layout) -> Iterator[Raw]:
        prefix = f"{first_part(self.path)}/" if self._is_folder else ""
        for inside in self._inside:
            place, file = prefix + inside, self._file(inside)
            try:
                shown = place.encode()
            except UnicodeEncodeError:
                shown = place.encode("utf-8", "backslashreplace")
                yield from self._misnamed(file, shown.decode())
                continue
            # Opening a named pipe would wait for a writer.
            if self._is_folder and file.exists() and not file.is_file():
                yield Unreadable(place, "must be an ordinary file; remove it")
                continue
            try:
                if layout == "table" or suffix_of(file) == ".jsonl":
                    yield from self._lines(file, place, layout == "table")
                    continue
                content = read_all(file)
            except OSError as error:
                yield _unreadable(place, error)
                continue
            self._digest.update(shown + b"\0" + content)
            whole = WholeFile(place, content)
            yield from [whole] if whole.size <= CHUNK_BYTES else slices(whole, layout)

    def _misnamed(self, file: Path, shown: str) -> Iterator[Raw]:
        try:
            file.open("rb").close()
        except OSError as error:
            yield _unreadable(shown, error)
        else:
            yield Unreadable(shown, "the file's name is not UTF-8; rename it")

    def _lines(self, file: Path, place: str, is_table: bool) -> Iterator[Raw]:
        with opened(file) as stream:
            self._digest.update(place.encode() + b"\0")
            number, has_papers = 1, False
            header: tuple[str, ...] = ()
            while lines := stream.readlines(CHUNK_BYTES):
                content = b"".join(lines)
                self._digest.update(content)
                count = len(lines)
                if is_table and number == 1:
                    header = header_of(lines[0])
                    if header:
                        # Replaced by an empty line, so that line numbers stay those of the file.
                        content = b"\n" + b"".join(lines[1:])
                has_papers = has_papers or bool(content.strip())
                if is_table:
                    yield TableRows(place, content, number, header)
                else:
                    yield Lines(place, content, number)
                number += count
            if not has_papers:
                yield Unreadable(place, "the file has no papers; add some, or remove it")


def first_part(path: Path) -> str:
    """The first part of the places of a split's papers: its folder's name, or that of its file."""
    folder = path.parent if is_pattern(path) else path
    return folder.resolve().name if folder.is_dir() else path.name


def require_papers(path: Path) -> list[str]:
    """Refuse a path that does not exist.

    Returns:
        The files that match a pattern, in natural order; empty if the path is not a pattern.

    Raises:
        DataError: no such file or folder, or no file matches the pattern.
    """
    if is_pattern(path):
        found = (file.name for file in path.parent.glob(path.name) if file.is_file())
        hidden = path.name.startswith(".")
        shown = (name for name in found if hidden or not name.startswith("."))
        matching = sorted(filter(_is_paper, shown), key=natural_key)
        if not matching:
            raise DataError(f"{path}: no file of papers matches this pattern; check it")
        return matching
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; give the path of the raw papers")
    if not (path.is_file() or path.is_dir()):
        # Reading a pipe to detect the format would empty it.
        raise DataError(
            f"{path}: is a pipe or a device; write its content to a file, and give that"
        )
    return []


def _listed(folder: Path) -> list[str]:
    """All files that may be papers or were meant to be, in natural order, as paths inside it."""
    found = [x for x in files_inside(folder) if not is_ignored(x.rpartition("/")[2])]
    name = folder.resolve().name
    return sorted(found, key=lambda inside: natural_key(f"{name}/{inside}"))


def is_ignored(name: str) -> bool:
    """Whether a file next to papers or text is not mentioned, judged by its name."""
    return bool(_NO_PAPER.fullmatch(name))


def _is_paper(name: str) -> bool:
    """Whether a file may hold papers, judged by its name."""
    known = content_name(name).lower().endswith((".json", ".jsonl", ".txt", ".tsv"))
    return (known or name.lower().endswith(PRINTED)) and name != REJECTS


def files_inside(folder: Path) -> Iterator[str]:
    """All files of a folder that are not hidden, as paths inside it."""
    if not isinstance(folder, Path):  # of an object store
        start = len(folder.as_posix().rstrip("/")) + 1
        files = (file.as_posix()[start:] for file in folder.rglob("*") if file.is_file())
        yield from (inside for inside in files if not re.search(r"(?:^|/)\.", inside))
        return
    # Broken symbolic links are listed too, as papers that cannot be read.
    known = [folder.resolve()]
    for parent, folders, names in os.walk(folder, onerror=_unlisted, followlinks=True):
        # Hidden folders hold unfinished files or those of other programs.
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and not _leads_back(Path(parent, name), known)
        ]
        inside = Path(parent).relative_to(folder).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        yield from (prefix + name for name in names if not name.startswith("."))


def _leads_back(folder: Path, known: list[Path]) -> bool:
    """Whether a folder is a link to a listed folder, or to one that contains it.

    If not, the link's target is added to `known`.
    """
    if not folder.is_symlink():
        return False
    target = folder.resolve()
    if any(target.is_relative_to(place) or place.is_relative_to(target) for place in known):
        return True
    known.append(target)
    return False


def _unlisted(error: OSError) -> NoReturn:
    """Refuse a folder that cannot be listed; otherwise its papers would be silently missing."""
    raise DataError(f"{error.filename}: cannot be listed ({error.strerror}); check its permissions")


def _sample_line(file: Path) -> bytes:
    """The first JSON line among a few lines, else the first line."""
    first = b""
    with opened(file) as lines:
        for line in islice((line.strip() for line in lines), LOOKED_AT):
            first = first or line
            with suppress(ValueError):
                if line and parse_json(line) is not None:
                    return line
    return first


def _first_line(file: Path) -> bytes:
    with opened(file) as lines:
        return next((line.lstrip() for line in lines if line.strip()), b"")


def _unreadable(place: str, error: OSError) -> Raw:
    return Unreadable(place, f"cannot be read ({error.strerror}); check the file")
