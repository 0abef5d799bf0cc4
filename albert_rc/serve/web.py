"""The routes: the page, the API, and the API's description."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from albert_rc import __version__
from albert_rc.errors import AlbertRcError
from albert_rc.io.decode import decode
from albert_rc.io.json import to_json
from albert_rc.io.messages import shortened
from albert_rc.serve.engine import Engine, FailedError
from albert_rc.serve.guard import (
    Arrivals,
    Refusal,
    RequestGuard,
    read_body,
    shutting_down,
    until_gone,
)
from albert_rc.serve.line import BusyError, client_of
from albert_rc.serve.openapi import document
from albert_rc.serve.page import ICON, Page, api_page, paper_page
from albert_rc.serve.uploads import TYPES, Upload, as_pages, make_upload

FORM = "multipart/form-data"
MOST_FILES = 100
"""Files of a form that are parsed; above the limit of pictures, so that the error can name it."""
FORM_BLOCK = 2**16
"""Bytes of a form that are parsed at a time; hostile ones take 10 ms."""
STATUS = {BusyError: 503, FailedError: 500}
"""HTTP status codes of errors; all others are caused by the request."""


def make_app(
    engine: Engine, hosts: Iterable[str] | None, started: Callable[[], None] = lambda: None
) -> ASGIApp:
    """The web application.

    Args:
        engine: answers the papers.
        hosts: allowed names of the server; None for any.
        started: called when the server accepts requests.
    """
    site = _Site(engine)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        started()
        yield
        engine.close()

    app = Starlette(
        routes=[
            Route("/", site.show_paper_page),
            Route("/api", site.show_api_page),
            Route("/openapi.json", site.show_document),
            Route("/icon.svg", site.show_icon),
            Route("/api/health", site.health),
            Route("/api/progress", site.progress),
            Route("/api/answer", site.answer, methods=["POST"]),
        ],
        exception_handlers={
            HTTPException: _http_error,
            Refusal: _refused,
            AlbertRcError: _our_error,
            Exception: _bug,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return RequestGuard(app, engine.limits, hosts)


class _Site:
    def __init__(self, engine: Engine) -> None:
        self.engine, self.limits = engine, engine.limits
        described = document(engine.limits)
        self.document = to_json(described)
        self.paper_page = paper_page(engine.name, engine.limits)
        self.api_page = api_page(described, engine.name)
        self._arrivals = Arrivals(engine.limits.arriving)

    async def show_paper_page(self, _: Request) -> Response:
        return _page(self.paper_page)

    async def show_api_page(self, _: Request) -> Response:
        return _page(self.api_page)

    async def show_document(self, _: Request) -> Response:
        return Response(self.document, media_type="application/json")

    async def show_icon(self, _: Request) -> Response:
        return Response(ICON, media_type="image/svg+xml")

    async def health(self, _: Request) -> Response:
        status = {
            "status": "ok",
            "version": __version__,
            "model": self.engine.name,
            "calibrated": self.engine.calibrated,
            "waiting": len(self.engine.line),
            "limits": self.limits.as_json(),
        }
        return Response(to_json(status, indent=False), media_type="application/json")

    async def progress(self, request: Request) -> Response:
        found = self.engine.line.progress(request.query_params.get("ticket", ""))
        return Response(to_json(found, indent=False), media_type="application/json")

    async def answer(self, request: Request) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != FORM and content_type not in TYPES:
            kinds = ", ".join((FORM, *TYPES))
            given = (
                f"Content-Type {shortened(content_type)} is not accepted"
                if content_type
                else ("the request has no Content-Type")
            )
            raise Refusal(415, f"{given}; with curl, use -F paper=@FILE; it must be one of {kinds}")
        if (packed := request.headers.get("content-encoding", "identity").lower()) != "identity":
            said = f"Content-Encoding {shortened(packed)} is not accepted; send the paper as it is"
            raise Refusal(415, said, {"Accept-Encoding": "identity"})
        async with self._arrivals.place(_client(request)):
            body = await read_body(request, self.limits)
            if content_type == FORM:
                paper, key = await _from_form(request, body, self.limits.pictures)
            else:
                name = request.query_params.get("name", "")
                paper, key = make_upload(body, name, content_type), None
        if not paper.content.strip():
            raise Refusal(422, "the request has no paper; paste one, or choose a file")
        return await self._answered(request, paper, key)

    async def _answered(self, request: Request, paper: Upload, key: Upload | None) -> Response:
        """Wait for the answers, or for the client to leave."""
        left = threading.Event()
        ticket = request.query_params.get("ticket")
        client = _client(request)
        done = asyncio.wrap_future(self.engine.submit(paper, key, left.is_set, ticket, client))
        gone: asyncio.Future[None] = asyncio.ensure_future(until_gone(request.receive)())
        try:
            waited: set[asyncio.Future[Any]] = {done, gone}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                return Response(status_code=499)  # the client has left
            try:
                return Response(done.result(), media_type="application/json")
            except (InterruptedError, asyncio.CancelledError):
                if self.engine.closing:
                    raise shutting_down() from None
                raise BusyError(
                    "busy: another client needed the place in the line; try again in a moment"
                ) from None
        finally:
            left.set()
            gone.cancel()
            done.cancel()


def _client(request: Request) -> str:
    return client_of(request.client.host) if request.client else ""


class _FormInMemory(MultiPartParser):
    """A parser of forms that writes no file: the body is in memory, and disks may be full."""

    spool_max_size = 2**40


async def _from_form(request: Request, body: bytes, pictures: int) -> tuple[Upload, Upload | None]:
    """The parts `paper` and `key` of a form."""
    parts = (body[i : i + FORM_BLOCK] for i in range(0, len(body), FORM_BLOCK))

    async def stream() -> AsyncGenerator[bytes, None]:
        for part in parts:
            await asyncio.sleep(0)  # let other requests run
            yield part

    found: dict[str, list[Upload]] = {"paper": [], "key": []}
    parser = _FormInMemory(
        Headers({"content-type": _form_type(request.headers["content-type"])}), stream(),
        max_files=MOST_FILES, max_fields=2, max_part_size=len(body),
    )  # fmt: skip
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from None
    try:
        for name, value in form.multi_items():
            if name not in found:
                raise Refusal(400, 'the form may only have parts "paper" and one part "key"')
            unnamed = "key.txt" if name == "key" else ""
            if isinstance(value, str):
                found[name].append(make_upload(value.encode("latin-1"), unnamed, ""))
            else:
                said = (value.content_type or "").partition(";")[0].strip().lower()
                content = await value.read()
                found[name].append(
                    make_upload(content, _file_name(value.filename) or unnamed, said)
                )
    finally:
        await form.close()
    papers, keys = found.values()
    if not papers:
        raise Refusal(400, 'the form has no part "paper"; put the text or the file there')
    if len(keys) > 1 or (len(papers) > 1 and any(one.kind != "picture" for one in papers)):
        raise Refusal(
            400, 'the form has several parts "paper" or "key"; only a paper in pictures may have '
            "several, one for each page: send other papers, and keys, one at a time",
        )  # fmt: skip
    if len(papers) > pictures:
        raise Refusal(422, f"{len(papers)} pictures, and at most {pictures} are read at a time")
    paper = as_pages(papers)
    return paper, keys[0] if keys and keys[0].content.strip() else None


def _form_type(content_type: str) -> str:
    """A form's content type without the client's `charset`.

    Starlette decodes with it, and some of Python's codecs take hours or fail. In Latin-1 every byte
    is one character, so that the bytes can be recovered and their encoding detected.
    """
    boundary = parse_options_header(content_type)[1].get(b"boundary")
    if boundary is None:
        return FORM  # is refused
    escaped = boundary.replace(b"\\", b"\\\\").replace(b'"', b'\\"').decode("latin-1")
    return f'{FORM}; charset=latin-1; boundary="{escaped}"'


def _file_name(name: str | None) -> str:
    """A name that was read as Latin-1, in its own encoding."""
    content = (name or "").encode("latin-1")
    try:
        return decode(content)[0]
    except ValueError:
        return content.decode("utf-8", "replace")


def _page(page: Page) -> Response:
    policy = {"Content-Security-Policy": page.policy}
    return Response(page.content, headers=policy, media_type="text/html")


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors from Starlette: unknown addresses and methods, malformed forms."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    said = {
        400: f"not a form that can be read: {error.detail.rstrip('.')}; /api shows how to send one",
        404: "there is nothing at this address; / is the page, and /api describes the API",
        405: f"this address does not accept {request.method}, but {headers.get('Allow')}; see /api",
    }
    return Refusal(error.status_code, said.get(error.status_code, error.detail), headers).response()


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _our_error(_: Request, error: Exception) -> Response:
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 422)
    headers = {"Retry-After": "5"} if isinstance(error, BusyError) else {}
    return Refusal(status, str(error), headers).response()


async def _bug(_: Request, error: Exception) -> Response:
    """An internal error; the traceback is shown only in the terminal."""
    return Refusal(500, "internal server error; see the server's terminal").response()
