"""The package that a Word document is, unpacked no further than a paper needs."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

from albert_rc.errors import DataError

MOST_BYTES = 30_000_000
"""Of XML in a document. A page of text has some 20,000; parsed, a byte takes up to 40."""
MOST_PARTS = 10_000
_XML = (".xml", ".rels")
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_STEP = 2**16


def unpack(path: Path) -> BytesIO:
    """A document's XML in an archive that is what it says; pictures and the like are left empty.

    What an archive says of the size of its parts need not be true: only so much is taken out as
    there is room for.

    Raises:
        DataError: too large, or packed as no Word document is.
        zipfile.BadZipFile: not an archive, or a damaged one.
        OSError: it cannot be read.
    """
    unpacked = BytesIO()
    size = 0
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(unpacked, "w") as whole:
        parts = {info.filename: info for info in archive.infolist()}  # the last of a name counts
        if len(parts) > MOST_PARTS:
            raise DataError(f"{path}: {len(parts):,} parts; give the paper in parts, or as text")
        for name, info in parts.items():
            if info.flag_bits & 1 or info.compress_type not in _PACKED:
                raise zipfile.BadZipFile(
                    f"{name[:60]!r} is encrypted, or compressed in an unsupported way"
                )
            content = b""
            if name.lower().endswith(_XML):
                size += info.file_size
                if size <= MOST_BYTES:
                    content = _content(archive, info)
            if size > MOST_BYTES:
                raise DataError(
                    f"{path}: more than {MOST_BYTES / 1e6:,.0f} MB of text and layout when "
                    "unpacked; give it in parts, or as text"
                )
            whole.writestr(name, content)
    unpacked.seek(0)
    return unpacked


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A part, step by step: `read` at once would unpack all of it, whatever size it says it has."""
    pieces = []
    with archive.open(info) as part:
        while piece := part.read(_STEP):
            pieces.append(piece)
    return b"".join(pieces)
