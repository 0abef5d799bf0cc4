"""`.pt` files of flat tensors: streamed writing, verified and memory-mapped reading.

The tensors need not fit into memory, and no pickled class is ever loaded.

`torch.save` writes a zip archive: `data.pkl`, a pickle in which each tensor is a few numbers and
the key of a storage, and `data/KEY`, the storage's bytes, uncompressed and aligned to 64 bytes, so
that they can be memory-mapped. The pickle only names the function and the classes that
`torch.load(weights_only=True)` builds tensors with; writing it needs no torch.
"""

from __future__ import annotations

import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from albert_rc.errors import DataError
from albert_rc.io.json import to_json
from albert_rc.io.messages import first_line

if TYPE_CHECKING:
    import torch

STORE_FORMAT = 1  # increased when the layout of .pt files changes

STORAGES = {
    "uint8": (b"ByteStorage", 1),
    "int16": (b"ShortStorage", 2),
    "int32": (b"IntStorage", 4),
    "int64": (b"LongStorage", 8),
}
"""Torch's storage class and the bytes of a value, by type of tensor."""
_ALIGNMENT = 64
_HEADER = 30  # bytes of a local file header of a zip archive, without its name and extra fields
_ZIP64 = 20  # bytes of the extra field that holds sizes of 4 GB and more
_ARCHIVE = "archive/"


@dataclass(frozen=True, slots=True)
class TensorStream:
    """A flat tensor as a stream of blocks."""

    dtype: str
    """A key of `STORAGES`."""
    length: int
    """Number of values."""
    blocks: Callable[[], Iterable[bytes | memoryview]]
    """Yields the values' bytes, in the machine's byte order."""

    @property
    def num_bytes(self) -> int:
        """Total size in bytes."""
        return self.length * STORAGES[self.dtype][1]


def write_tensors(
    path: Path, plain: Mapping[str, int | bytes], tensors: Mapping[str, TensorStream]
) -> None:
    """Write a dictionary as `torch.save` would (not atomic), with texts in UTF-8.

    Raises:
        ValueError: a stream's length differs from the declared one.
    """
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        _record(archive, file, "data.pkl", _pickled(plain, tensors))
        _record(archive, file, "byteorder", sys.byteorder.encode())
        for key, tensor in enumerate(tensors.values()):
            _record(archive, file, f"data/{key}", tensor)
        _record(archive, file, "version", b"3\n")


def _record(
    archive: zipfile.ZipFile, file: BinaryIO, name: str, content: bytes | TensorStream
) -> None:
    info = zipfile.ZipInfo(_ARCHIVE + name)
    # Padding before the bytes is an extra field with a header of 4 bytes; "FB" is also torch's.
    start = file.tell() + _HEADER + len(info.filename) + _ZIP64 + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    if isinstance(content, bytes):
        blocks: Iterable[bytes | memoryview] = [content]
        expected = len(content)
    else:
        blocks, expected = content.blocks(), content.num_bytes
    with archive.open(info, "w", force_zip64=True) as record:
        written = sum(record.write(block) for block in blocks)
    if written != expected:
        raise ValueError(f"{name}: {written} bytes instead of {expected}")


def _pickled(plain: Mapping[str, int | bytes], tensors: Mapping[str, TensorStream]) -> bytes:
    parts = [pickle.PROTO, b"\x02", pickle.EMPTY_DICT, pickle.MARK]
    for name, value in plain.items():
        parts += [_text(name.encode()), _number(value) if isinstance(value, int) else _text(value)]
    for key, (name, tensor) in enumerate(tensors.items()):
        parts += [_text(name.encode()), *_tensor(key, tensor)]
    return b"".join([*parts, pickle.SETITEMS, pickle.STOP])


def _tensor(key: int, tensor: TensorStream) -> list[bytes]:
    """`_rebuild_tensor_v2(storage, offset, shape, stride, requires_grad, hooks)`."""
    storage, _ = STORAGES[tensor.dtype]
    return [
        _global(b"torch._utils", b"_rebuild_tensor_v2"),
        pickle.MARK,
        # ("storage", class, key, device, number of values): torch.load turns it into a storage.
        pickle.MARK,
        _text(b"storage"),
        _global(b"torch", storage),
        _text(str(key).encode()),
        _text(b"cpu"),
        _number(tensor.length),
        pickle.TUPLE + pickle.BINPERSID,
        _number(0),
        _number(tensor.length) + pickle.TUPLE1,
        _number(1) + pickle.TUPLE1,
        pickle.NEWFALSE,
        _global(b"collections", b"OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE,
        pickle.TUPLE + pickle.REDUCE,
    ]


def _global(module: bytes, name: bytes) -> bytes:
    return pickle.GLOBAL + module + b"\n" + name + b"\n"


def _text(value: bytes) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(value)) + value


def _number(value: int) -> bytes:
    return pickle.LONG1 + b"\x08" + struct.pack("<q", value)


def save_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor | TensorStream], meta: Mapping[str, Any]
) -> None:
    """Write flat tensors and JSON-able metadata to `path` as a .pt file (not atomic)."""
    streams = {
        name: value if isinstance(value, TensorStream) else _stream(value)
        for name, value in tensors.items()
    }
    # The metadata is stored as JSON text, so that loading needs no classes but str and Tensor.
    write_tensors(path, {"format": STORE_FORMAT, "meta": to_json(meta)}, streams)


def _stream(tensor: torch.Tensor) -> TensorStream:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorStream(dtype, tensor.numel(), lambda: [tensor.flatten().numpy().data])


def check_archive(path: Path) -> None:
    """Verify the checksums (CRC-32) in a `.pt` file, ours or torch's.

    torch itself does not, and would train on a flipped bit.

    Raises:
        ValueError: truncated, damaged or foreign.
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # torch does not compress; a compressed entry could expand to any size.
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("not written by torch or albert-rc")
            damaged = archive.testzip()
    except zipfile.BadZipFile as error:
        raise ValueError(f"truncated, or not a .pt file: {error}") from None
    if damaged is not None:
        raise ValueError(f"checksum mismatch in {damaged}: the file is corrupted")


def load_tensors(
    path: Path, mapped_from: int = 0
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read a file from `save_tensors`; no code in the file is ever run.

    Args:
        path: the store.
        mapped_from: minimum size in bytes for memory-mapping. A mapped file must not be
            overwritten while in use, only replaced, as all of our commands do.

    Raises:
        DataError: the file is missing, truncated, damaged, or not a store of this version.
    """
    import torch

    remake = "make it again with `albert-rc preprocess`"
    if not path.is_file():
        raise DataError(_missing(path))
    try:
        check_archive(path)
        mapped = path.stat().st_size >= mapped_from
        content = torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except Exception as error:  # torch raises many types for a truncated or foreign file
        if isinstance(error, MemoryError) or "Cannot allocate memory" in str(error):
            raise MemoryError from None
        said = f"{path}: not a readable store ({first_line(error)}); {remake}"
        raise DataError(said) from None
    try:
        version, meta = content.pop("format"), orjson.loads(content.pop("meta"))
        known = type(version) is int and version == STORE_FORMAT and isinstance(meta, dict)
    except (AttributeError, KeyError, TypeError, ValueError):
        known = False
    if not known or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise DataError(f"{path}: not a store of this version of albert-rc; {remake}")
    return content, meta


def _missing(path: Path) -> str:
    """The message for a missing store, with a solution."""
    folder = path.parent
    if folder.is_file():
        return f"{path}: no such store; {folder} is a file, so give the folder that it is in"
    others = sorted(each.name for each in folder.glob("*.pt")) if folder.is_dir() else []
    if others:
        return (
            f"{path}: no such store, only {', '.join(others)}; make it with `albert-rc "
            f"preprocess` from a collection that has a split {path.stem}"
        )
    return f"{path}: no such store; make it with `albert-rc preprocess PAPERS --out {folder}`"
