"""JSON, hashes and `.pt` stores: what is read is checked, and never a pickled class."""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from albert_rc.errors import DataError
from albert_rc.io.atomic import write_bytes
from albert_rc.io.pt import TensorStream, write_tensors

if TYPE_CHECKING:
    import torch

STORE_FORMAT = 1  # raised when the layout of .pt files changes


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


def to_json(value: Any, indent: bool = True) -> bytes:
    """JSON in UTF-8 with a newline at the end; keys keep their order."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(value, option=options | (orjson.OPT_INDENT_2 if indent else 0))


def json_lines(values: Iterable[Any]) -> bytes:
    """One line of JSON per value."""
    return b"".join(to_json(value, indent=False) for value in values)


def write_json(target: Path, value: Any) -> None:
    """Write `value` as indented JSON, whole or not at all."""
    write_bytes(target, to_json(value))


def parse_json(content: bytes) -> Any:
    """Parse JSON in UTF-8, with or without a byte order mark.

    Raises:
        ValueError: not UTF-8 or not JSON; the message says where and what to do.
    """
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("the text is UTF-16, not UTF-8; save the file as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"byte 0x{content[error.start]:02x} in line {line} is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(
            f"not JSON at line {error.lineno}, column {error.colno} ({error.msg}); fix it there"
        ) from None


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: the file cannot be read, or is not JSON in UTF-8.
    """
    try:
        return parse_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file that is written line by line, as a run's metrics.jsonl.

    Lines that a crash has torn are left out; a file that is not there has none.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            value = parse_json(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


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


def save_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor | TensorStream], meta: Mapping[str, Any]
) -> None:
    """Write flat tensors and JSON-able metadata to `path` as a .pt file (not atomic by itself)."""
    streams = {
        name: value if isinstance(value, TensorStream) else _stream(value)
        for name, value in tensors.items()
    }
    # The metadata travels as JSON text, so that loading needs no class but str and Tensor.
    write_tensors(path, {"format": STORE_FORMAT, "meta": to_json(meta)}, streams)


def _stream(tensor: torch.Tensor) -> TensorStream:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorStream(dtype, tensor.numel(), lambda: [tensor.flatten().numpy().data])


def check_archive(path: Path) -> None:
    """Compare a `.pt` file, ours or torch's, with the checksums (CRC-32) in it.

    torch itself looks at none of them, and would train on a flipped bit.

    Raises:
        ValueError: torn, damaged or foreign.
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # What torch writes is not compressed; what is could be of any size.
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("not written by torch or albert-rc")
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        raise ValueError(f"torn or foreign: {error}") from None
    if damaged is not None:
        raise ValueError(f"checksum mismatch in {damaged}: the file is corrupted")


def load_tensors(
    path: Path, mapped_from: int = 0
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read what `save_tensors` wrote; no code in the file is ever run.

    Args:
        path: the store.
        mapped_from: bytes from which on the file is memory-mapped. One that is mapped must not be
            written over while it is in use, only replaced, as all of our commands do.

    Raises:
        DataError: the file is missing, torn, damaged, or no store of this version.
    """
    import torch

    remake = "make it again with `albert-rc preprocess`"
    if not path.is_file():
        raise DataError(f"{path}: no such store; {remake}")
    try:
        check_archive(path)
        mapped = path.stat().st_size >= mapped_from
        content = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except Exception as error:  # torch raises many types for a torn or foreign file
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: not a readable store ({reason[:120]}); {remake}") from None
    try:
        version, meta = content.pop("format"), orjson.loads(content.pop("meta"))
        known = type(version) is int and version == STORE_FORMAT and isinstance(meta, dict)
    except (AttributeError, KeyError, TypeError, ValueError):
        known = False
    if not known or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise DataError(f"{path}: not a store of this version of albert-rc; {remake}")
    return content, meta


def six_digits(value: float) -> float:
    """Six significant digits: a small probability keeps its logarithm, where decimals lose it."""
    return float(f"{value:.6g}")
