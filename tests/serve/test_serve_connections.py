"""`serve` and clients that open connections: many, idle, slow, or with what is no HTTP."""

import http.client
import json
import socket
import time
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
pytest.importorskip("uvicorn", reason="no uvicorn; pip install 'albert-rc[serve]'")
from serving import CLOZE, serving

from albert_rc.serve import connection

GET = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
OTHER = "127.0.0.9"
"""Another client's address, for all of 127.0.0.0/8 is this machine on Linux."""


@pytest.fixture(scope="module")
def served():
    with serving(body_bytes=20_000) as found:
        yield found


@contextmanager
def connected(served, host="127.0.0.1"):
    try:
        made = socket.create_connection(("127.0.0.1", served.port), 10, (host, 0))
    except OSError:
        pytest.skip(f"this system has no {host}")
    with made:
        yield made


def closed(one, seconds=10):
    """Whether the server closes a connection, after whatever it sends."""
    one.settimeout(seconds)
    try:
        while one.recv(2**20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def asked(mine):
    """Whether a client that stays connected is answered."""
    sock = mine.sock
    mine.request("GET", "/api/health")
    with mine.getresponse() as response:
        response.read()
        return response.status == 200 and sock in (None, mine.sock)


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_idle_connections_shut_nobody_out(served, said):
    with ExitStack() as stack:
        mine = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
        stack.callback(mine.close)
        assert asked(mine)
        for _ in range(connection.CONNECTIONS + 20):
            one = stack.enter_context(connected(served, OTHER))
            if said:
                one.sendall(said)
        # The one that has been open for the longest time is of another client.
        assert asked(mine)
        assert served.get("/api/health").status == 200


def test_one_client_can_open_a_new_connection_always(served):
    with ExitStack() as stack:
        first, *_ = [
            stack.enter_context(connected(served)) for _ in range(connection.CONNECTIONS + 1)
        ]
        assert closed(first)
        assert served.get("/api/health").status == 200


def test_slow_uploads_shut_nobody_else_out():
    slow = b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
    slow += b"Content-Length: 9\r\n\r\nHe"
    with ExitStack() as stack:
        served = stack.enter_context(serving(arriving=4))
        first, *others = [stack.enter_context(connected(served, OTHER)) for _ in range(4)]
        for one in (first, *others):
            one.sendall(slow)
            time.sleep(0.1)
        assert served.post(CLOZE).status == 200
        received = first.recv(65536)
        assert received.startswith(b"HTTP/1.1 503")
        assert b"retry-after" in received
        assert all(not closed(one, 0.1) for one in others)
        again = stack.enter_context(connected(served, OTHER))
        again.sendall(slow)
        time.sleep(0.1)
        # Of one client, whoever came first goes on.
        more = stack.enter_context(connected(served, OTHER))
        more.sendall(slow)
        assert more.recv(65536).startswith(b"HTTP/1.1 503")


def test_a_request_must_begin_and_its_header_arrive(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.3)
    with serving() as served:
        for said in (b"", b"GET / HTTP/1.1\r\nHost: ", GET, GET + b"GET / HT"):
            with connected(served) as one:
                one.sendall(said)
                assert closed(one), said


def test_a_header_has_its_time_from_its_first_byte_on(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 3)
    with serving() as served, connected(served) as one:
        time.sleep(2)
        one.sendall(GET[:20])
        time.sleep(2)
        one.sendall(GET[20:])
        assert one.recv(65536).startswith(b"HTTP/1.1 200")


def test_the_rest_of_a_refused_body_is_not_awaited_forever(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connection, "REST_SECONDS", 0.5)
    with serving() as served, connected(served) as one:
        one.sendall(
            b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n"
        )
        end = time.monotonic() + 20
        with pytest.raises(ConnectionError):
            while time.monotonic() < end:
                one.sendall(b"x")
                time.sleep(0.05)


def test_responses_that_nobody_takes_are_given_up(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connection, "SEND_SECONDS", 0.5)
    page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving() as served, connected(served) as one:
        one.sendall(page * 400)  # more than the buffers between us hold
        time.sleep(3)
        received = 0
        try:
            while part := one.recv(2**20):
                received += len(part)
        except ConnectionError:
            pass
        assert received < 400 * len(served.get("/").content)


@pytest.mark.parametrize(
    "said",
    [
        b"\0\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzzzz\r\n",
    ],
)
def test_malformed_requests_are_refused_as_json(served, said):
    head, body = served.raw(said).split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    assert b"x-content-type-options: nosniff" in head
    assert "HTTP" in json.loads(body)["error"]


def test_what_is_malformed_after_the_answer_is_no_bug(served, caplog):
    said = b"DELETE / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connected(served) as one:
        one.sendall(said)
        received = b""
        while b"Method Not Allowed" not in received:
            received += (part := one.recv(65536))
            assert part
        one.sendall(b"zzzz\r\n")
        assert closed(one)
    assert not caplog.records


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_a_malformed_body_with_its_header_is_refused_once(served, caplog, method):
    said = f"{method} / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n"
    received = served.raw(said.encode())
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.count(b"HTTP/1.1") == 1
    assert received.endswith(b"\r\n\r\n") == (method == "HEAD")
    assert served.get("/api/health").status == 200
    assert not caplog.records


def test_after_the_rest_of_a_body_the_next_request_has_its_time(monkeypatch):
    monkeypatch.setattr(connection, "HEAD_SECONDS", 2)
    head = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
    with serving() as served, connected(served) as one:
        one.sendall(head)
        time.sleep(0.1)
        one.sendall(b"x")
        time.sleep(2.9)
        one.sendall(b"x")
        time.sleep(1.4)
        assert one.recv(65536).startswith(b"HTTP/1.1 200")
        one.sendall(GET)
        assert one.recv(65536).startswith(b"HTTP/1.1 200")


def test_what_clients_send_is_not_written_to_the_terminal(served, caplog):
    served.raw(b"\0\r\n\r\n")
    upgrade = {"Connection": "upgrade", "Upgrade": "websocket"}
    assert served.request("GET", "/", headers=upgrade).status == 200
    assert served.post(b"x", "multipart/form-data; boundary=y").status == 400
    assert served.post(CLOZE).status == 200
    assert not caplog.records


def test_who_sends_too_much_is_told_so(served):
    content = b"x" * 30_000_000  # more than the buffers between us hold
    assert "0.02 MB" in served.post(content, "text/plain").error
    chunks = (content[i : i + 2**20] for i in range(0, len(content), 2**20))
    found = served.request("POST", "/api/answer", chunks, {"Content-Type": "text/plain"})
    assert "0.02 MB" in found.error
    other = served.post(content, "text/plain", Host="evil.example")
    assert "host name" in other.error
