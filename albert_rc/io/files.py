"""Files: names in natural order, folders that are there, checksums."""

from __future__ import annotations

import hashlib
import re
import sys
from functools import cache
from pathlib import Path


def natural_key(name: str) -> str:
    """Sort key that puts `dev2` before `dev10`; one short text, for millions of names have one."""
    return "".join(map(_part_key, re.findall(r"\d+|\D+", name)))


def _part_key(part: str) -> str:
    if part.isascii() and part.isdigit():
        # By length first: numbers of any size compare without being computed.
        bare = part.lstrip("0")
        return f"0{chr(min(len(bare), sys.maxunicode))}{bare}"
    # Two zeros end a text, so that it comes before the longer ones that begin with it.
    return "1" + part.replace("\0", "\0\1") + "\0\0"


def existing_folder(path: Path) -> Path:
    """The folder itself, or the nearest one above it that is there already."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """The same, read once per process as long as nobody writes to the file: weights are large."""
    seen = path.stat()
    return _sha256_of(path.resolve(), seen.st_ino, seen.st_size, seen.st_mtime_ns)


@cache
def _sha256_of(path: Path, *_identity: int) -> str:
    return file_sha256(path)


def sha256(*chunks: bytes) -> str:
    """Hexadecimal SHA-256 of the chunks, one after the other."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
