"""The line of requests: who is at work, who waits, and how far each has come."""

from __future__ import annotations

import re
from dataclasses import dataclass
from threading import Lock
from typing import Literal

from albert_rc.errors import AlbertRcError, DataError

TICKET = "[A-Za-z0-9_-]{16,64}"
"""What a client may call its request by. Long, so that nobody else's is guessed."""

Stage = Literal["waiting", "reading", "loading", "answering", "unknown"]


class BusyError(AlbertRcError):
    """As many wait as may."""


@dataclass(eq=False)
class Place:
    """One request in the line."""

    ticket: str | None
    stage: Stage = "waiting"
    done: int = 0
    """Questions answered."""
    total: int = 0
    """Questions to answer; 0 as long as the paper is not read."""

    def as_json(self, before: int = 0) -> dict[str, str | int]:
        """For a client; `before` are the requests that come first."""
        return {"stage": self.stage, "before": before, "done": self.done, "total": self.total}

    def answered(self, questions: int) -> None:
        """Count some more."""
        self.done += questions


class Queue:
    """First come, first served.

    Args:
        most: requests at work and waiting, together.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: list[Place] = []
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._places)

    def enter(self, ticket: str | None) -> Place:
        """The last place.

        Args:
            ticket: what `progress` shall be asked by, if it shall.

        Raises:
            DataError: no ticket, or one that is another's.
            BusyError: as many wait as may.
        """
        if ticket is not None and not re.fullmatch(TICKET, ticket):
            raise DataError("a ticket is 16 to 64 letters, digits, - and _; draw one at random")
        with self._lock:
            if len(self._places) >= self._most:
                raise BusyError(
                    f"busy: {len(self._places)} requests are at work or in line; try again in a "
                    "moment"
                )
            if ticket is not None and any(place.ticket == ticket for place in self._places):
                raise DataError("this ticket is in use; draw another")
            place = Place(ticket)
            self._places.append(place)
        return place

    def leave(self, place: Place) -> None:
        """The request is answered, or given up."""
        with self._lock:
            self._places.remove(place)

    def progress(self, ticket: str) -> dict[str, str | int]:
        """How far a request has come; `unknown` where it has not arrived yet, or is done."""
        with self._lock:
            for before, place in enumerate(self._places):
                if place.ticket == ticket:
                    return place.as_json(before)
        return Place(ticket, "unknown").as_json()
