"""Writes .pt files of flat tensors block by block, so that none has to fit into memory.

What `torch.save` writes is a zip archive: `data.pkl`, a pickle in which each tensor is a few
numbers and the key of a storage, and `data/KEY`, the storage's bytes, not compressed and at a
multiple of 64 bytes, so that they can be memory-mapped. The pickle only names the function and the
classes that `torch.load(weights_only=True)` makes tensors with; to write it needs no torch.
"""

from __future__ import annotations

import pickle
import struct
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

STORAGES = {
    "uint8": (b"ByteStorage", 1),
    "int16": (b"ShortStorage", 2),
    "int32": (b"IntStorage", 4),
    "int64": (b"LongStorage", 8),
}
"""Per type of tensor: torch's name of the storage, and the bytes of a value."""
_ALIGNMENT = 64
_HEADER = 30  # bytes of a local file header of a zip archive, without its name and extra fields
_ZIP64 = 20  # bytes of the extra field that holds sizes of 4 GB and more
_ARCHIVE = "archive/"


@dataclass(frozen=True, slots=True)
class TensorStream:
    """A flat tensor that is never whole in memory."""

    dtype: str
    """A key of `STORAGES`."""
    length: int
    """Number of values."""
    blocks: Callable[[], Iterable[bytes | memoryview]]
    """Yields the values' bytes, in the machine's byte order."""

    @property
    def num_bytes(self) -> int:
        """Size of the whole."""
        return self.length * STORAGES[self.dtype][1]


def write_tensors(
    path: Path, plain: Mapping[str, int | bytes], tensors: Mapping[str, TensorStream]
) -> None:
    """Write a dictionary as `torch.save` would (not atomic by itself).

    Args:
        path: the file.
        plain: numbers and texts (in UTF-8) of the dictionary.
        tensors: the tensors of the dictionary.

    Raises:
        ValueError: a stream was longer or shorter than it said.
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
    # Padding before the bytes is an extra field, whose own head is 4 bytes; "FB" is torch's too.
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
