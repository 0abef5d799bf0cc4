"""Access control: allowed hosts and origins, limits of request bodies, headers of responses."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from albert_rc.io.json import to_json
from albert_rc.serve.limits import MEGABYTE, Limits
from albert_rc.serve.line import BusyError, first_of_most

NO_POLICY = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
READING = ("GET", "HEAD")
REST_SECONDS, QUIET_SECONDS = 30, 1
"""Time for the rest of a body after the response, and for a client to send more of it."""


class Refusal(Exception):  # noqa: N818 - it is an answer
    """The refusal of a request, with a message."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}

    def response(self) -> Response:
        """`{"error": ...}`."""
        content = to_json({"error": self.message}, indent=False)
        kind = _LastResponse if "Connection" in self.headers else Response
        return kind(content, self.status, self.headers, "application/json")


class _LastResponse(Response):
    """A response that closes the connection, after the client has stopped sending.

    A client whose connection is closed while it sends never sees the response.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's."""
        start: Message = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        try:
            async with asyncio.timeout(REST_SECONDS):
                while (await asyncio.wait_for(receive(), QUIET_SECONDS)).get("more_body"):
                    pass
        except TimeoutError:
            pass
        finally:  # when the server ends, too
            await send({"type": "http.response.body", "body": b""})


class RequestGuard:
    """Middleware that checks every request before its body is read.

    It protects against pages of other sites in the same browser: DNS rebinding shows in the `Host`
    header, and requests sent by such pages show in `Origin` and `Sec-Fetch-Site`.

    Args:
        app: the application.
        limits: limits of a request.
        hosts: allowed names of this server, without ports; None for any.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Iterable[str] | None) -> None:
        self.app, self.limits = app, limits
        self.hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI's."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", NO_POLICY)
            await send(message)

        try:
            self._check(scope["method"], Headers(scope=scope))
        except Refusal as refusal:
            # Do not wait for the rest of the request.
            refusal.headers["Connection"] = "close"
            await refusal.response()(scope, receive, guarded)
            return
        try:
            await self.app(scope, receive, guarded)
        except asyncio.CancelledError:  # by the server, which ends
            if not started:
                await shutting_down().response()(scope, receive, guarded)

    def _check(self, method: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or (self.hosts is not None and _name(hosts[0]) not in self.hosts):
            raise Refusal(
                403, "this server does not accept that host name; use the address that it printed"
            )
        if method in READING:
            return
        origin = headers.get("origin")
        if origin is not None and _place(origin) != hosts[0].lower():
            raise Refusal(403, "a page of another site may not use this server")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refusal(403, "a page of another site may not use this server")
        length = headers.get("content-length", "0")
        # Longer numbers are not lengths, and slow to convert.
        if len(length) > 15 or int(length) > self.limits.body_bytes:
            raise too_large(self.limits)


def _place(origin: str) -> str | None:
    """The host and port of an origin; None if it is not an address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str:
    """`Host` without the port: `[::1]:8000`, `localhost:8000`."""
    name, bracket, _ = host.lower().rpartition("]")
    return name + bracket if bracket else host.lower().partition(":")[0]


def too_large(limits: Limits) -> Refusal:
    """The response to a body that is too large."""
    most = limits.body_bytes / MEGABYTE
    return Refusal(
        413,
        f"more than {most:g} MB; give the paper in parts, or start the server with a larger "
        "--max-megabytes",
        {"Connection": "close"},
    )


def shutting_down() -> Refusal:
    """The response to a request that the server's end interrupts."""
    return Refusal(503, "the server is shutting down")


class Arrivals:
    """The requests whose bodies are being received, a limited number at a time.

    If there are too many, the oldest of the client that has most is given up for a client that has
    fewer. So a client that sends many slowly can only shut out itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: dict[asyncio.Timeout, str] = {}

    @contextlib.asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """A place for a request.

        Args:
            client: the client's address.

        Raises:
            BusyError: there is none, or it was needed for another client.
        """
        busy = BusyError("busy: too many requests at once; try again in a moment")
        if len(self._owners) >= self._most:
            numbers = Counter(self._owners.values())
            if (first := first_of_most(self._owners.items(), numbers, client)) is None:
                raise busy
            del self._owners[first]
            first.reschedule(0)
        try:
            async with asyncio.timeout(None) as until:
                self._owners[until] = client
                try:
                    yield
                finally:
                    self._owners.pop(until, None)
        except TimeoutError:
            raise busy from None


async def read_body(request: Request, limits: Limits) -> bytes:
    """Read a request's body within the limits of size and time.

    Raises:
        Refusal: the body is too large or too slow, or the client left.
    """
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise too_large(limits)
                parts.append(part)
    except TimeoutError:
        raise Refusal(
            408, f"the request did not arrive within {limits.body_seconds:g} seconds",
            {"Connection": "close"},
        ) from None  # fmt: skip
    except ClientDisconnect:
        raise Refusal(400, "the request was interrupted") from None
    return b"".join(parts)


def until_gone(receive: Receive) -> Callable[[], Awaitable[None]]:
    """Wait until the client closes the connection."""

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    return wait
