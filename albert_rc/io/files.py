"""File helpers: natural order of names, existing folders, contents, checksums."""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path

from albert_rc.errors import DataError


def natural_key(name: str) -> str:
    """Sort key that puts `dev2` before `dev10`; a short string, for up to millions of names."""
    return "".join(map(_part_key, re.findall(r"\d+|\D+", name)))


def _part_key(part: str) -> str:
    if part.isascii() and part.isdigit():
        # By length first, to compare numbers of any size without converting them.
        bare = part.lstrip("0")
        return f"0{chr(min(len(bare), sys.maxunicode))}{bare}"
    # Two zeros end a text, so that it sorts before longer ones with the same prefix.
    return "1" + part.replace("\0", "\0\1") + "\0\0"


def existing_folder(path: Path) -> Path:
    """The folder itself, or its nearest existing ancestor."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def read_bytes(path: Path) -> bytes:
    """The content of a file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> DataError:
    """What to raise for a file that cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: no such file; check the path")
    if isinstance(error, IsADirectoryError):
        return DataError(f"{path}: is a folder; give the path of a file")
    way = "; check its permissions" if isinstance(error, PermissionError) else ""
    return DataError(f"{path}: cannot be read ({error.strerror}){way}")


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """`file_sha256`, cached per process until the file changes, since weights are large."""
    seen = path.stat()
    return _sha256_of(path.resolve(), seen.st_ino, seen.st_size, seen.st_mtime_ns)


@cache
def _sha256_of(path: Path, *_identity: int) -> str:
    return file_sha256(path)


def sha256(*chunks: bytes) -> str:
    """Hexadecimal SHA-256 of the concatenated chunks."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
