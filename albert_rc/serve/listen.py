"""The server and its listening socket."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket

import uvicorn
from starlette.types import ASGIApp

from albert_rc.errors import UsageError
from albert_rc.serve.connection import CONNECTIONS, HEAD_SECONDS, Connection


def open_socket(host: str, port: int) -> tuple[socket.socket, bool]:
    """Open the listening socket, before the model is loaded; also whether it is on the loopback.

    Raises:
        UsageError: unknown host, or the port is in use or not available.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(
            f"--host {host} is not an address of this machine; try 127.0.0.1"
        ) from None
    family, _, _, _, address = found[0]
    loopback = ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A port that was just given up may be taken again at once.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"--port {port} is in use; give another, or 0 for any free port"
            ) from None
        raise UsageError(f"--host {host} --port {port}: {error.strerror}") from None
    return listener, loopback


def names_of(host: str) -> set[str]:
    """The allowed values of the `Host` header for a server on the loopback."""
    given = f"[{host}]" if ":" in host else host
    return {"localhost", "127.0.0.1", "[::1]", given.lower()}


def address_of(listener: socket.socket, host: str) -> str:
    """The page's address."""
    port = listener.getsockname()[1]
    if host in ("0.0.0.0", "::", ""):
        host = "127.0.0.1" if host != "::" else "::1"  # its address from this machine
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def server_of(app: ASGIApp) -> uvicorn.Server:
    """The server; its `run(sockets=[...])` ends with Ctrl-C or SIGTERM.

    Requests being answered then have three seconds to finish.
    """
    settings = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="error",  # warnings are about what clients send
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=CONNECTIONS,
        timeout_keep_alive=HEAD_SECONDS,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=32 * 1024,
    )
    # After Ctrl-C uvicorn logs `Cancel 2 running task(s)` as an error, although all is well.
    logging.getLogger("uvicorn.error").addFilter(
        lambda record: not record.getMessage().startswith("Cancel ")
    )
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # likewise
    return uvicorn.Server(settings)
