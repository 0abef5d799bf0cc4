"""Limits of requests. A request beyond a limit is refused with a message.

docs/serve.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server."""

    body_bytes: int = 30 * MEGABYTE
    """Maximum size of a request: a few photographs of a phone."""
    body_seconds: float = 30
    """Time within which a request must have arrived."""
    arriving: int = 16
    """Maximum number of request bodies received at the same time, since each is held in memory."""
    waiting: int = 8
    """Maximum number of requests being answered (one at a time) or waiting."""
    papers: int = 100
    entries: int = 1_000
    """Maximum number of JSON papers that are checked, including refused ones."""
    questions: int = 2_000
    characters: int = 5_000_000
    """Characters that the model reads; a passage counts once for each option of its questions."""
    read_seconds: float = 30
    """Time for reading a printed paper or JSON papers, before answering."""
    read_bytes: int = 1024 * MEGABYTE
    """Memory of the process that reads a printed paper."""
    picture_seconds: float = 60
    """Additional time for each picture of a page, and for a PDF, which may contain pictures."""
    picture_bytes: int = 2048 * MEGABYTE
    """Additional memory for a paper that may contain pictures."""
    pictures: int = 20
    """Maximum number of pictures (pages) of one paper."""
    found_bytes: int = 50 * MEGABYTE
    """Maximum size of the extracted papers: if blanks share a long list of options, each has its
    own copy of it."""
    answer_seconds: float = 120

    def as_json(self) -> dict[str, int | float]:
        """The limits that `GET /api/health` reports to clients."""
        return {
            "bytes": self.body_bytes,
            "papers": self.papers,
            "questions": self.questions,
            "characters": self.characters,
            "waiting": self.waiting,
        }
