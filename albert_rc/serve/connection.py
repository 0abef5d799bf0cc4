"""Connections: uvicorn's, with limits of number and time, and with errors as JSON.

uvicorn waits for a request without end, so that a few idle connections would shut all others out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from albert_rc.serve.guard import HEADERS, NO_POLICY, REST_SECONDS, Refusal
from albert_rc.serve.line import client_of

CONNECTIONS = 64
"""Maximum number of open connections."""
HEAD_SECONDS = 10
"""Time for a request to begin and for its header to arrive."""
SEND_SECONDS = 120
"""Time in which a client must take what is sent to it."""


class Connection(H11Protocol):
    """A connection of one client.

    If there are too many connections, the oldest one without a request in progress is closed, of
    the client that has most. So a client that opens many can only shut out itself.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since, self._begun = self.loop.time(), False
        self._check: asyncio.TimerHandle | None = self.loop.call_later(HEAD_SECONDS, self._in_time)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._begun:  # a request's header has its time from its first byte on
            self._since, self._begun = self.loop.time(), True
        was_rest = cast("Any", self.conn.their_state) is h11.SEND_BODY
        super().data_received(data)
        if was_rest and cast("Any", self.conn.their_state) is h11.IDLE:
            # The rest of an answered request has arrived: the next one has its full time.
            self._since, self._begun = self.loop.time(), False

    def on_response_complete(self) -> None:
        self._since, self._begun = self.loop.time(), False
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._since = self.loop.time()
        super().pause_writing()

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The application may not respond to this request any more.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # the request was answered before the error
            return
        of_head = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
        refused = Refusal(400, "this is not a valid HTTP request; see /api").response()
        more = {**HEADERS, "Content-Security-Policy": NO_POLICY, "Connection": "close"}
        headers = refused.raw_headers + [
            (name.lower().encode(), value.encode()) for name, value in more.items()
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=b"" if of_head else bytes(refused.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    @property
    def _replaceable(self) -> bool:
        """Whether it may be closed: no request waits for a response, or the client reads none."""
        return self.cycle is None or self.cycle.response_started or self.flow.write_paused

    @property
    def _host(self) -> str:
        return client_of(self.client[0]) if self.client else ""

    def _make_room(self) -> None:
        """Close connections until their number is within the limit; this one if all are in use."""
        everyone = cast("set[Connection]", self.connections)
        while len(everyone) > CONNECTIONS:
            numbers = Counter(one._host for one in everyone)
            free = [one for one in everyone if one is not self and one._replaceable]
            last = max(free, key=lambda one: (numbers[one._host], -one._since), default=self)
            everyone.discard(last)
            last.transport.abort()

    def _in_time(self) -> None:
        """Close the connection if it has waited too long, and otherwise look again later."""
        left = float(HEAD_SECONDS)
        waits = self.cycle is None or self.cycle.response_complete
        if waits or self.flow.write_paused or self.transport.is_closing():
            unsent = self.transport.get_write_buffer_size() > 0
            rest: Any = self.conn.their_state
            most = SEND_SECONDS if unsent else REST_SECONDS if rest is h11.SEND_BODY else left
            left = self._since + most - self.loop.time()
            if left <= 0:
                self._check = None
                self.transport.abort() if unsent else self.transport.close()
                return
        self._check = self.loop.call_later(min(left, HEAD_SECONDS), self._in_time)
