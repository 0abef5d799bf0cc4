"""Files of papers as bytes: plain, compressed (.gz, .zst), or Parquet, with rows as JSON lines."""

from __future__ import annotations

import errno
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, cast

from albert_rc.errors import UsageError
from albert_rc.io.json import json_lines
from albert_rc.io.messages import first_line, quoted

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

COMPRESSED = (".gz", ".zst")
PARQUET = ".parquet"
_BLOCK = 2**18
_ROWS = 1000
"""Number of rows of a Parquet file read at a time."""


def uncompressed(name: str) -> str:
    """A file's name without the suffix of its compression."""
    for suffix in COMPRESSED:
        name = _without(name, suffix)
    return name


def _without(name: str, suffix: str) -> str:
    """The name without a suffix, which may be in capitals."""
    return name[: -len(suffix)] if name.lower().endswith(suffix) else name


def content_name(name: str) -> str:
    """The file name that fits the bytes from `opened`: `a.jsonl` for `a.parquet`."""
    name = uncompressed(name)
    stem = _without(name, PARQUET)
    return name if stem == name else f"{stem}.jsonl"


def suffix_of(path: Path) -> str:
    """The suffix of `content_name`, in lower case."""
    return PurePosixPath(content_name(path.name)).suffix.lower()


def stem_of(path: Path) -> str:
    """A file's name without any of its suffixes."""
    return PurePosixPath(content_name(path.name)).stem


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern such as `train-*.jsonl.gz`, not the path of a file."""
    return any(char in path.name for char in "*?[") and not path.exists()


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes as a stream.

    Raises:
        OSError: the file cannot be read, or is damaged; also raised by reads inside the block.
        UsageError: the package that reads the file is not installed.
    """
    name, what = path.name.lower(), "gzip"
    damaged: tuple[type[Exception], ...] = (EOFError, zlib.error, gzip.BadGzipFile)
    with path.open("rb") as file:
        stream: Any = file
        if name.endswith(".gz"):
            stream = gzip.GzipFile(fileobj=file)
        elif name.endswith(".zst"):
            zstandard, what = _needed("zstandard", path), "Zstandard"
            damaged = (zstandard.ZstdError, EOFError)
            stream = io.BufferedReader(_Blocks(_frames(file, zstandard.ZstdDecompressor())))
        elif name.endswith(PARQUET):
            parquet, what = _needed("pyarrow.parquet", path), "Parquet"
            damaged = (_needed("pyarrow", path).ArrowException,)
        try:
            if name.endswith(PARQUET):
                stream = io.BufferedReader(_Blocks(_rows(parquet.ParquetFile(file))))
            yield stream
        except damaged as error:
            raise OSError(errno.EIO, f"not {what}, or damaged: {error}") from None


def read_all(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        OSError: the file cannot be read, or is damaged.
    """
    with opened(path) as stream:
        content: bytes = stream.read()
        return content


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        while not self._left:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._left = memoryview(block)
        view = memoryview(buffer).cast("B")
        part, self._left = self._left[: len(view)], self._left[len(view) :]
        view[: len(part)] = part
        return len(part)


def _rows(file: Any) -> Iterator[bytes]:
    """The rows of a Parquet file as lines of JSON.

    Raises:
        OSError: a column has values that JSON has not; names it.
    """
    for batch in file.iter_batches(_ROWS):
        rows = [_given(row) for row in batch.to_pylist()]
        try:
            lines = json_lines(rows)
        except TypeError:
            row, name = next((row, name) for row in rows for name in row if not _is_json(row[name]))
            said = f"column {quoted(name)} holds {type(row[name]).__name__}, not text or numbers"
            raise OSError(errno.EINVAL, f"{said}; leave it out or convert it") from None
        yield lines


def _is_json(value: Any) -> bool:
    try:
        json_lines([value])
    except TypeError:
        return False
    return True


def _frames(file: IO[bytes], decompressor: Any) -> Iterator[bytes]:
    """The content of Zstandard frames; the package's own reader accepts truncated files."""
    frame = decompressor.decompressobj()
    while block := file.read(_BLOCK):
        while block:
            if frame.eof:
                frame = decompressor.decompressobj()
            yield frame.decompress(block)
            block = frame.unused_data if frame.eof else b""
    if not frame.eof:
        raise EOFError("the file is truncated")


def _given(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its null fields; a row of a table has all columns, even empty ones."""
    return {name: value for name, value in row.items() if value is not None}


def _needed(module: str, path: Path) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise UsageError(f'{path}: needs {package}; pip install "albert-rc[data]"') from None


def remote_path(place: str | Path) -> Path:
    """A local path, or one in an object store if `place` is an address like `s3://bucket/papers`.

    Raises:
        UsageError: unknown kind of address, missing package, or a store that cannot be reached.
    """
    if isinstance(place, Path) or "://" not in place:
        return Path(place)
    try:
        from upath import UPath
    except ImportError:
        raise UsageError(f'{place}: needs fsspec; pip install "albert-rc[data]"') from None
    try:
        found: Path = cast(Path, UPath(place))
        found.exists()
    except (ImportError, ValueError) as error:
        raise UsageError(f"{place}: {error}") from None
    except Exception as error:  # the package of each store has its own errors
        raise UsageError(
            f"{place}: cannot be reached ({first_line(error)}); check the address and your access"
        ) from None
    return found
