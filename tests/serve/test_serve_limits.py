"""`serve` when it is much that is asked, or at once: limits, the line, who leaves, what fails."""

import http.client
import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import SAMPLE

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
pytest.importorskip("uvicorn", reason="no uvicorn; pip install 'albert-rc[serve]'")
jsonschema = pytest.importorskip("jsonschema")
from serving import CLOZE, schema_of, serving  # noqa: E402

from albert_rc.serve.line import BusyError, Place, client_of  # noqa: E402
from albert_rc.serve.uploads import make_upload  # noqa: E402

JSON = "application/json"


@pytest.fixture(scope="module")
def served():
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def narrow():
    """A server that lets little through."""
    with serving(
        body_bytes=20_000, papers=3, questions=30, characters=4000, body_seconds=0.5, waiting=2
    ) as found:
        yield found


def until(true):
    end = time.perf_counter() + 10
    while not true():
        assert time.perf_counter() < end
        time.sleep(0.01)


def test_too_much_is_refused_before_it_came(narrow):
    head = f"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{narrow.port}\r\n"
    for length in ("20001", "1" * 400):
        said = f"{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{"
        began = time.perf_counter()
        assert narrow.raw(said.encode()).startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
        assert time.perf_counter() - began < 2
    # Of chunks nobody says beforehand how many will come.
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = f"{8000:x}\r\n{'x' * 8000}\r\n"
    reply = narrow.raw((head + 3 * chunk).encode())
    assert reply.startswith(b"HTTP/1.1 413")
    assert b"0.02 MB" in reply
    assert narrow.post(CLOZE).status == 200


def test_a_body_that_does_not_come_is_given_up(narrow):
    head = f"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{narrow.port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    assert narrow.raw(head.encode()).startswith(b"HTTP/1.1 408")


def test_too_many_papers_blanks_and_letters_are_refused(narrow):
    assert "4 papers" in narrow.post([{**CLOZE, "id": str(i)} for i in range(4)]).error
    blanks = {"article": "_ " * 31, "options": [["a", "b"]] * 31}
    assert "31 blanks" in narrow.post(blanks).error
    many = {"article": "_ " * 6001, "options": [["a", "b"]]}
    assert "more than 30 blanks; give the papers in parts" in narrow.post(many).error
    race = {"article": "x " * 700, "questions": ["?"], "options": [["a", "b", "c"]], "answers": []}
    assert "characters" in narrow.post(race).error
    assert narrow.post({**race, "article": "x " * 600}).status == 200


@pytest.fixture
def held(narrow, monkeypatch):
    """The model waits until it is told to go on."""
    go, working = threading.Event(), threading.Event()
    answer = narrow.engine._answer

    def slowly(papers, loaded, end, stopped, place):
        working.set()
        while not go.wait(0.01):
            if stopped():
                raise InterruptedError
        return answer(papers, loaded, end, stopped, place)

    monkeypatch.setattr(narrow.engine, "_answer", slowly)
    yield go, working
    go.set()


def test_busy_is_said_and_the_page_stays_at_hand(narrow, held):
    go, working = held
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(narrow.post, CLOZE)
        assert working.wait(10)
        second = pool.submit(narrow.post, CLOZE)
        until(lambda: len(narrow.engine.line) == 2)
        third = narrow.post(CLOZE)
        assert third.status == 503
        assert "busy" in third.error
        assert int(third.headers["retry-after"]) > 0
        began = time.perf_counter()
        assert narrow.get("/").status == 200
        assert narrow.get("/api/health").json["waiting"] == 2
        assert time.perf_counter() - began < 1
        go.set()
        assert first.result().json == second.result().json
    until(lambda: len(narrow.engine.line) == 0)


def test_one_client_does_not_take_the_whole_line(narrow, held):
    def of_other():
        other = http.client.HTTPConnection("127.0.0.1", narrow.port, 10, ("127.0.0.9", 0))
        try:
            other.request("POST", "/api/answer", json.dumps(CLOZE), {"Content-Type": JSON})
            response = other.getresponse()
            return response.status, response.read()
        finally:
            other.close()

    try:
        socket.create_connection(("127.0.0.1", narrow.port), 10, ("127.0.0.9", 0)).close()
    except OSError:
        pytest.skip("this system has no 127.0.0.9")
    go, working = held
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(of_other)
        assert working.wait(10)
        second = pool.submit(of_other)
        until(lambda: len(narrow.engine.line) == 2)
        assert of_other()[0] == 503
        mine = pool.submit(narrow.post, CLOZE)
        status, said = second.result()
        assert (status, b"another client needed the place" in said) == (503, True)
        assert narrow.post(CLOZE).status == 503  # as many as the other's
        go.set()
        assert first.result()[0] == mine.result().status == 200
    until(lambda: len(narrow.engine.line) == 0)


def test_how_far_a_request_has_come(narrow, held):
    def asked(ticket):
        return narrow.request(
            "POST", f"/api/answer?ticket={ticket}", json.dumps(CLOZE), {"Content-Type": JSON}
        )

    def come(ticket):
        found = narrow.get(f"/api/progress?ticket={ticket}").json
        jsonschema.validate(found, schema_of(narrow, "Progress"))
        return found

    first, second = "first-" + 16 * "1", "second-" + 16 * "2"
    assert come(first)["stage"] == "unknown"
    go, working = held
    with ThreadPoolExecutor(4) as pool:
        answered = pool.submit(asked, first)
        assert working.wait(10)
        assert come(first) == {"stage": "answering", "before": 0, "done": 0, "total": 2}
        waiting = pool.submit(asked, second)
        until(lambda: len(narrow.engine.line) == 2)
        assert come(second) == {"stage": "waiting", "before": 1, "done": 0, "total": 0}
        narrow.engine.line._most += 1  # so that a ticket is what it fails on
        assert "in use" in asked(second).error
        narrow.engine.line._most -= 1
        go.set()
        assert answered.result().json == waiting.result().json
    assert come(first)["stage"] == "unknown"
    for wrong in ("short", 65 * "a", 20 * "%0A", "../../../../../etc/passwd"):
        assert "ticket" in asked(wrong).error


def test_questions_are_counted_as_they_are_answered(served, monkeypatch):
    counts = []
    monkeypatch.setattr(Place, "answered", lambda place, questions: counts.append(questions))
    options = [["glad", "sad"]] * 40
    papers = [{"article": "_ " * 40, "options": options, "id": str(n)} for n in range(40)]
    assert served.post(papers).status == 200
    assert len(counts) > 1
    assert sum(counts) == 1600


def test_who_leaves_waits_no_more(narrow, held):
    body = json.dumps(CLOZE).encode()
    head = f"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{narrow.port}\r\nContent-Type: "
    head += f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", narrow.port)) as connection:
        connection.sendall(head.encode() + body)
        assert held[1].wait(10)
    until(lambda: len(narrow.engine.line) == 0)


def test_a_request_that_is_cancelled_frees_its_memory(narrow, held):
    go, working = held
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(narrow.post, CLOZE)
        assert working.wait(10)
        upload = make_upload(json.dumps(CLOZE).encode())
        before = sys.getrefcount(upload)
        assert narrow.engine.submit(upload, None).cancel()
        assert sys.getrefcount(upload) == before
        go.set()
        assert first.result().status == 200


def test_answers_that_take_too_long_are_given_up(narrow, monkeypatch):
    from dataclasses import replace

    monkeypatch.setattr(narrow.engine, "limits", replace(narrow.engine.limits, answer_seconds=-1))
    slow = narrow.post(CLOZE)
    assert slow.status == 422  # a retry would not help
    assert "longer than" in slow.error


def test_bugs_and_damaged_models_say_nothing_of_the_machine(narrow, monkeypatch, caplog):
    from albert_rc.errors import CheckpointError

    def fail(error):
        def raises(*_):
            raise error

        monkeypatch.setattr(narrow.engine, "_answer", raises)

    fail(KeyError("/tmp/secret/place"))
    with caplog.at_level("CRITICAL", "uvicorn.error"):
        bug = narrow.post(CLOZE)
    assert bug.status == 500
    assert "secret" not in bug.error
    fail(CheckpointError("/tmp/secret/model.safetensors: torn"))
    torn = narrow.post(CLOZE)
    assert torn.status == 500
    assert "secret" not in torn.error
    assert "secret" in narrow.said[-1]
    fail(MemoryError())
    assert "out of memory" in narrow.post(CLOZE).error
    fail(OSError(28, "No space left on device", "/tmp/secret/paper.txt"))
    full = narrow.post(CLOZE)
    assert full.status == 500
    assert "No space left on device" in full.error
    assert "secret" in narrow.said[-1]
    monkeypatch.undo()
    assert narrow.post(CLOZE).status == 200


def test_a_model_that_is_gone_says_nothing_of_the_machine(tmp_path):
    import shutil

    from albert_rc.checkpoints.hub import SHIPPED

    folder = tmp_path / "secret"
    shutil.copytree(SHIPPED / "albert-rc-tiny", folder)
    race = {"article": "It rains .", "questions": ["?"], "options": [["a", "b"]], "answers": []}
    with serving(model=str(folder)) as served:
        shutil.rmtree(folder)
        gone = served.post(race)
        assert gone.status == 500
        assert "secret" not in gone.error
        assert "secret" in served.said[-1]
        assert served.post(CLOZE).status == 200


def test_many_at_once_get_their_own_answers(served):
    papers = [json.loads(p.read_bytes()) for p in sorted((SAMPLE / "cloze" / "dev").iterdir())[:7]]
    alone = [served.post(paper, name=f"p{i}.json").json for i, paper in enumerate(papers)]
    with ThreadPoolExecutor(7) as pool:
        together = pool.map(lambda i: served.post(papers[i], name=f"p{i}.json").json, range(7))
        assert list(together) == alone


def test_what_is_at_work_when_the_server_ends_is_told_so(caplog):
    with ThreadPoolExecutor(1) as pool:
        with serving() as served, socket.create_connection(("127.0.0.1", served.port)) as slow:
            served.engine._answer = lambda *_: time.sleep(4)
            asked = pool.submit(served.post, CLOZE)
            until(lambda: len(served.engine.line) == 1)
            slow.sendall(b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\n")
            slow.sendall(b"Content-Type: text/plain\r\nContent-Length: 9\r\n\r\nHe")
        found = asked.result()
    assert found.status == 503
    assert "shutting down" in found.error
    assert not [record for record in caplog.records if record.exc_info]


def test_what_comes_after_the_end_is_refused():
    with serving() as served:
        pass
    with pytest.raises(BusyError, match="shutting down"):
        served.engine.submit(make_upload(b"{}"), None)
    assert len(served.engine.line) == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::5", "2001:db8:0:1:ffff::9", True),
        ("2001:db8:0:1::5", "2001:db8:0:2::5", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("", "", True),
        ("", "192.0.2.1", False),
    ],
)
def test_addresses_of_one_client(one, other, same):
    """Else a client with a whole IPv6 network would count as many."""
    assert (client_of(one) == client_of(other)) is same
