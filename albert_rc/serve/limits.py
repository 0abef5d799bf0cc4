"""What a request may cost. One more is answered with a sentence, never half."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one server."""

    body_bytes: int = 30 * MEGABYTE
    """As much as some photographs of a phone."""
    body_seconds: float = 30
    """In which a request must have arrived."""
    arriving: int = 16
    """Requests whose bodies are received at a time: each may stand in memory."""
    waiting: int = 8
    """Requests that are read and answered or wait for it; one at a time is at work."""
    papers: int = 100
    entries: int = 1_000
    """Papers in JSON that are looked at; those that are refused count, too."""
    questions: int = 2_000
    characters: int = 5_000_000
    """That the model reads; a passage counts once for each option of its questions."""
    read_seconds: float = 30
    """For a printed paper, or for papers in JSON; none of them is answered in it."""
    read_bytes: int = 1024 * MEGABYTE
    """Of memory, for the process that reads a printed paper."""
    picture_seconds: float = 60
    """More, for each picture of a printed page, and for a PDF file, which may hold pictures."""
    picture_bytes: int = 2048 * MEGABYTE
    """More, for a paper that may hold pictures."""
    pictures: int = 20
    """Pages of one paper."""
    found_bytes: int = 50 * MEGABYTE
    """Of what was understood of it: blanks may have a long list of options in common, each its own
    copy."""
    answer_seconds: float = 120

    def as_json(self) -> dict[str, int | float]:
        """For `GET /api/health`: what a client may want to know beforehand."""
        return {
            "bytes": self.body_bytes,
            "papers": self.papers,
            "questions": self.questions,
            "characters": self.characters,
            "waiting": self.waiting,
        }
