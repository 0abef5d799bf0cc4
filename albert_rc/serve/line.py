"""The queue of requests, with the progress of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Network, ip_address
from threading import Lock
from typing import Literal, TypeVar

from albert_rc.errors import AlbertRcError, DataError

TICKET = "[A-Za-z0-9_-]{16,64}"
"""Pattern of the tickets by which clients identify requests; long, so that none can be guessed."""

T = TypeVar("T")
Stage = Literal["waiting", "reading", "loading", "answering", "again", "unknown"]


class BusyError(AlbertRcError):
    """The queue is full."""


def client_of(address: str) -> str:
    """The client behind an address: an IPv4 address, or the first 64 bits of an IPv6 address.

    A single IPv6 client usually has a whole /64 of addresses (RFC 6177). All clients of a proxy
    have the same address.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:  # a socket of the system has none
        return address
    if isinstance(found, IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((found, 64), strict=False))


def first_of_most(
    owned: Iterable[tuple[T, str]], numbers: Mapping[str, int], client: str
) -> T | None:
    """What to give up so that a client gets a place.

    Args:
        owned: what may be given up, each with the client that has it, in order.
        numbers: how many places each client has.
        client: the one that needs a place.

    Returns:
        The first of the client that has most; None if that client would then have fewer than the
        other.
    """
    first = max(owned, key=lambda one: numbers[one[1]], default=None)
    if first is None or numbers[first[1]] <= numbers[client] + 1:
        return None
    return first[0]


@dataclass(eq=False)
class Place:
    """One request in the queue."""

    ticket: str | None
    client: str = ""
    """Who sent it, see `client_of`."""
    stage: Stage = "waiting"
    done: int = 0
    """Number of questions answered."""
    total: int = 0
    """Number of questions to answer; 0 until the paper is read."""

    def as_json(self, before: int = 0) -> dict[str, str | int]:
        """The value for a client; `before` is the number of earlier requests in the queue."""
        return {"stage": self.stage, "before": before, "done": self.done, "total": self.total}

    def answered(self, questions: int) -> None:
        """Add to the number of answered questions."""
        self.done += questions


class Queue:
    """A first-in, first-out queue.

    If it is full, the last request of the client that has most is displaced for one of a client
    that has fewer. So a client that sends many can only shut out itself.

    Args:
        most: maximum number of requests, including the one being answered.
        displaced: called with a request that is displaced.
    """

    def __init__(self, most: int, displaced: Callable[[Place], object] = lambda _: None) -> None:
        self._most, self._displaced = most, displaced
        self._places: list[Place] = []
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._places)

    def enter(self, ticket: str | None, client: str = "") -> Place:
        """Add a request at the end.

        Args:
            ticket: identifies the request for `progress`; None if that is not needed.
            client: who sends it, see `client_of`.

        Raises:
            DataError: the ticket is invalid or in use.
            BusyError: the queue is full.
        """
        if ticket is not None and not re.fullmatch(TICKET, ticket):
            raise DataError("a ticket has 16 to 64 letters, digits, - and _; choose one at random")
        last = None
        with self._lock:
            if len(self._places) >= self._most and (last := self._last_of_most(client)) is None:
                raise BusyError(
                    f"busy: {len(self._places)} requests are being answered or waiting; try again "
                    "in a moment"
                )
            if ticket is not None and any(place.ticket == ticket for place in self._places):
                raise DataError("this ticket is in use; choose another")
            if last is not None:
                self._places.remove(last)
            place = Place(ticket, client)
            self._places.append(place)
        if last is not None:
            self._displaced(last)
        return place

    def _last_of_most(self, client: str) -> Place | None:
        numbers = Counter(place.client for place in self._places)
        waiting = ((p, p.client) for p in reversed(self._places) if p.stage == "waiting")
        return first_of_most(waiting, numbers, client)

    def leave(self, place: Place) -> None:
        """Remove a request that was answered, cancelled or displaced."""
        with self._lock:
            if place in self._places:
                self._places.remove(place)

    def progress(self, ticket: str) -> dict[str, str | int]:
        """The progress of a request; `unknown` if it has not arrived yet, or is done."""
        with self._lock:
            for before, place in enumerate(self._places):
                if place.ticket == ticket:
                    return place.as_json(before)
        return Place(ticket, stage="unknown").as_json()
