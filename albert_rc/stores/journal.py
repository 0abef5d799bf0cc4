"""Papers that `preprocess` has encoded so far, so that a large job can continue after a stop.

One append-only file next to the stores with one entry per chunk of papers, keyed by everything read
up to that point. It holds JSON and numbers; a checksum reveals an entry that was cut short when the
process was killed. Jobs of a few seconds never write it.
"""

from __future__ import annotations

import fcntl
import hashlib
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from albert_rc.errors import DataError, UsageError
from albert_rc.papers.ids import PaperRecord
from albert_rc.papers.raw import Chunk, TableRows, Unreadable
from albert_rc.papers.schema import Problem
from albert_rc.stores.chunks import Encoded
from albert_rc.stores.pack import Packed

JOURNAL = ".preprocess.journal"
ENTRY_FORMAT = 3  # increased when the content of entries changes
HELD = 2**25
"""Bytes of entries that wait in memory before there is a file: some 30,000 papers."""
_HEAD = struct.Struct("<32sQI")
"""Key of an entry, size of its content in bytes and its CRC-32."""


class Journal:
    """The encoded chunks, in order; `kept` opens one.

    Args:
        path: the file; its folder is created with it.
        made_with: everything that the encoding depends on besides the papers.
    """

    def __init__(self, path: Path, made_with: object) -> None:
        self.path = path
        self.num_replayed = 0
        """Papers that came from an earlier run."""
        self._name = hashlib.sha256(repr((ENTRY_FORMAT, made_with)).encode()).digest()
        self._waiting: list[bytes] = [_HEAD.pack(self._name, 0, 0)]
        self._held = 0
        self._file: BinaryIO | None = None
        self._created: list[Path] = []
        """Folders that were created for the file, innermost first."""
        self._given_up = self._replaying = False
        if path.is_file():
            self._open()

    def _open(self) -> None:
        """Reuse the entries of an earlier run, or start afresh if it used other settings."""
        file = self.path.open("r+b", buffering=2**20)
        with suppress(OSError):  # no locks on this file system
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another run is active and keeps its journal
                file.close()
                self._given_up = True
                return
        self._file = file
        if file.read(_HEAD.size) == self._waiting[0]:
            self._waiting = []
            self._replaying = True
        else:
            file.seek(0)
            file.truncate()

    def replay(self, name: str, papers: Chunk) -> Encoded | None:
        """The next chunk as an earlier run encoded it, or None if it has to be encoded.

        Args:
            name: identifies everything read up to this chunk.
            papers: the chunk.
        """
        if not self._replaying or self._file is None:
            return None
        place = self._file.tell()
        key = _key(name, papers)
        try:
            content = _entry(self._file, key)
        except ValueError:
            content = None
        if content is None:  # truncated, for other papers, or the end: write from here on
            self._replaying = False
            self._file.seek(place)
            self._file.truncate()
            return None
        encoded = _read(content)
        self.num_replayed += len(encoded.records)
        return encoded

    def add(self, name: str, papers: Chunk, encoded: Encoded) -> None:
        """Note an encoded chunk."""
        if self._given_up:
            return
        content = _written(encoded)
        self._waiting += [
            _HEAD.pack(_key(name, papers), len(content), zlib.crc32(content)),
            content,
        ]
        self._held += len(content)
        if self._held < HELD and self._file is None:
            return
        try:
            self._flush()
        except OSError:
            # A full disk is not reported here: the stores may still fit.
            self._give_up()

    def _flush(self) -> None:
        if self._file is None:
            folders = self.path.absolute().parents
            self._created = [folder for folder in folders if not folder.is_dir()]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file.write(b"".join(self._waiting))
        self._file.flush()
        self._waiting = []

    def _give_up(self) -> None:
        self._given_up = True
        self._waiting = []
        self.remove()

    def remove(self) -> None:
        """Close and delete the file, and the folders created for it if they are empty."""
        if self._file is not None:
            with suppress(OSError):
                self.path.unlink()
            self.close()
            with suppress(OSError):  # the stores are complete
                for folder in self._created:
                    folder.rmdir()

    def close(self) -> bool:
        """Close the file without deleting it; returns whether there is one."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                file.close()
        return file is not None


@contextmanager
def kept(path: Path, made_with: object, on_event: Callable[[str], None]) -> Iterator[Journal]:
    """A journal that is kept only if the work was interrupted.

    It is removed if the work finished or the input was refused.

    Args:
        path: the file.
        made_with: everything that the encoding depends on besides the papers.
        on_event: called with a sentence if it is kept.
    """
    journal = Journal(path, made_with)
    try:
        yield journal
    except (DataError, UsageError):
        journal.remove()
        raise
    except BaseException:
        if journal.close():
            on_event(
                f"the papers encoded so far are in {path}; run the same command again to continue"
            )
        raise
    journal.remove()


def _key(name: str, papers: Chunk) -> bytes:
    """A chunk's key: a hash of everything read so far and of which papers the chunk holds."""
    told: list[Any] = [name]
    for raw in papers:
        told += [type(raw).__name__, raw.place, raw.size, getattr(raw, "first", 0)]
        if isinstance(raw, TableRows):
            told += raw.header
        if isinstance(raw, Unreadable):
            told.append(raw.reason)
    return hashlib.sha256(repr(told).encode()).digest()


def _entry(file: BinaryIO, key: bytes) -> bytes | None:
    """The content of the entry at this place, or None if it belongs to other papers.

    Raises:
        ValueError: it was truncated.
    """
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    found, size, checksum = _HEAD.unpack(head)
    if found != key:
        return None
    content = file.read(size)
    if len(content) < size or zlib.crc32(content) != checksum:
        raise ValueError("torn")
    return content


def _written(encoded: Encoded) -> bytes:
    """A chunk as its number of bytes of JSON, the JSON, and the columns' values."""
    arrays = [encoded.packed.measures, *encoded.packed.columns.values()]
    told = {
        "records": [
            [*record[:5], [[p.file, p.message, p.severity] for p in record.problems], record.keys]
            for record in encoded.records
        ],
        "names": list(encoded.packed.columns),
        "arrays": [[values.typecode, len(values)] for values in arrays],
    }
    text = orjson.dumps(told)
    return b"".join([struct.pack("<Q", len(text)), text, *(v.tobytes() for v in arrays)])


def _read(content: bytes) -> Encoded:
    (length,) = struct.unpack_from("<Q", content)
    told = orjson.loads(content[8 : 8 + length])
    rest = memoryview(content)[8 + length :]
    arrays = []
    for typecode, count in told["arrays"]:
        values = array(typecode)
        size = count * values.itemsize
        values.frombytes(rest[:size])
        rest = rest[size:]
        arrays.append(values)
    records = [
        PaperRecord(
            source, number, id_, level, good, tuple(Problem(*p) for p in found), tuple(keys)
        )
        for source, number, id_, level, good, found, keys in told["records"]
    ]
    columns = dict(zip(told["names"], arrays[1:], strict=True))
    return Encoded(records, Packed(arrays[0], columns))
