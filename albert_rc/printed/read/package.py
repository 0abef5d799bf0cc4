"""The zip package of a Word document, unpacked only as far as needed."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

from albert_rc.errors import DataError

MOST_BYTES = 30_000_000
"""Maximum number of bytes of XML. A page has some 20,000; parsed, a byte takes up to 40."""
MOST_PARTS = 10_000
_XML = (".xml", ".rels")
_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_STEP = 2**16


def unpack(path: Path) -> BytesIO:
    """A safe copy of a document's archive with its XML only; pictures and the like are left empty.

    The sizes stated in an archive need not be true, so parts are unpacked only up to the limit.

    Raises:
        DataError: too large, or not packed like a Word document.
        zipfile.BadZipFile: not an archive, or a damaged one.
        OSError: it cannot be read.
    """
    unpacked = BytesIO()
    size = 0
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(unpacked, "w") as whole:
        # of equal names the last counts
        parts = {info.filename: info for info in archive.infolist()}
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
    """A part, read step by step: a single `read` would unpack it whatever its stated size."""
    pieces = []
    with archive.open(info) as part:
        while piece := part.read(_STEP):
            pieces.append(piece)
    return b"".join(pieces)
