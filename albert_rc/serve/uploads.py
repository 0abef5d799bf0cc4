"""Uploads: detection of their type from the content, and their names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from albert_rc.io.messages import shortened
from albert_rc.printed.scan.pictures import SUFFIXES as PICTURES
from albert_rc.serve.messages import LONGEST_NAME, bounded

Kind = Literal["json", "lines", "text", "docx", "pdf", "doc", "picture", "heic"]
JSON = "application/json"
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
TYPES: dict[str, Kind | None] = {
    JSON: "json",
    "application/jsonl": "lines",
    "application/x-ndjson": "lines",
    "text/plain": "text",
    "application/pdf": "pdf",
    WORD: "docx",
    "image/jpeg": "picture",
    "image/png": "picture",
    "image/webp": "picture",
    "image/tiff": "picture",
    "image/bmp": "picture",
    "application/octet-stream": None,
}
"""Content types of a paper sent as the whole body; the last one is unspecific."""
_SUFFIXES: dict[str, Kind] = {
    ".json": "json",
    ".jsonl": "lines",
    ".docx": "docx",
    ".pdf": "pdf",
    ".doc": "doc",
    **dict.fromkeys(PICTURES, "picture"),
}
_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"%PDF-", "pdf"),
    (b"PK\x03\x04", "docx"),
    (b"\xd0\xcf\x11\xe0", "doc"),  # what Word wrote before 2007
    (b"\xff\xd8\xff", "picture"),
    (b"\x89PNG\r\n", "picture"),
    (b"II*\0", "picture"),
    (b"MM\0*", "picture"),
)
_HEIC = re.compile(rb"....ftyp(?:hei[cfsx]|mif1|msf1|hev[cx])", re.DOTALL)
# RACE's papers are JSON in .txt files. A printed paper may begin with a bracket, as in "[2019]".
_LIKE_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*(?:\{\s*"|\[\s*[\[{])')
DEFAULT_NAMES = {
    "json": "paper.json",
    "lines": "papers.jsonl",
    "text": "paper.txt",
    "docx": "paper.docx",
    "pdf": "paper.pdf",
    "doc": "paper.doc",
    "picture": "paper.jpg",
    "heic": "paper.heic",
}


@dataclass(frozen=True, slots=True)
class Upload:
    """A paper or an answer key, as it was sent."""

    content: bytes
    name: str
    """The file's name, and id of a paper that has none. Never a path."""
    kind: Kind
    pages: tuple[bytes, ...] = ()
    """Further pictures of the same paper."""

    @property
    def shown(self) -> str:
        """The name for messages: in one line and shortened."""
        return shortened(self.name, LONGEST_NAME)


def make_upload(content: bytes, name: str = "", content_type: str = "") -> Upload:
    """Detect the type of an upload. Its first bytes count more than its declared type.

    Args:
        content: the bytes.
        name: the name given by the client; may be anything.
        content_type: the type given by the client, likewise.
    """
    last = file_name(name)
    suffix = re.search(r"\.\w+$", last.lower().strip(". "))
    magic = next((kind for start, kind in _MAGIC if content.startswith(start)), None)
    said = TYPES.get(content_type) or (_SUFFIXES.get(suffix[0]) if suffix else None)
    kind: Kind = magic or said or "text"
    if _HEIC.match(content):
        kind = "heic"
    if kind == "text" and _LIKE_JSON.match(content):
        kind = "json"
    return Upload(content, last or DEFAULT_NAMES[kind], kind)


def as_pages(uploads: list[Upload]) -> Upload:
    """Pictures of the pages of one paper as one upload, named after the first."""
    first, *others = uploads
    return replace(first, pages=tuple(other.content for other in others))


def file_name(name: str) -> str:
    """The last part of a path of any system, otherwise unchanged: `predict` has the same ids.

    A name that is too long for any file system is shortened.
    """
    last = bounded(re.split(r"[/\\]", name)[-1])
    return last.encode("utf-8", "replace").decode() if last.strip(". ") else ""
