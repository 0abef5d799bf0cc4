"""Who may ask `serve`: names of the host, and pages of other sites."""

import pytest

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
pytest.importorskip("uvicorn", reason="no uvicorn; pip install 'albert-rc[serve]'")
pytest.importorskip("jsonschema")
from serving import CLOZE, serving


@pytest.fixture(scope="module")
def served():
    with serving() as found:
        yield found


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", ""]
)
def test_names_that_are_not_ours_are_refused(served, host):
    for method, path in (("GET", "/"), ("GET", "/api/health"), ("POST", "/api/answer")):
        found = served.request(method, path, headers={"Host": host.format(port=served.port)})
        assert found.status == 403
        assert "name" in found.error


def test_names_that_are_ours(served):
    for host in ("localhost", f"localhost:{served.port}", f"127.0.0.1:{served.port}", "[::1]:80"):
        assert served.get("/api/health", Host=host).status == 200


def test_pages_of_other_sites_are_refused(served):
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{served.port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert "another site" in served.post(CLOZE, **headers).error
    own = {"Origin": served.address, "Sec-Fetch-Site": "same-origin"}
    assert served.post(CLOZE, **own).status == 200


def test_others_are_let_in_only_where_that_was_asked_for():
    from starlette.datastructures import Headers

    from albert_rc.serve.guard import Refusal, RequestGuard
    from albert_rc.serve.limits import Limits
    from albert_rc.serve.listen import names_of

    async def app(scope, receive, send):
        pass

    here, anywhere = (RequestGuard(app, Limits(), hosts) for hosts in (names_of("::1"), None))
    other = Headers({"host": "exams.example:8000"})
    anywhere._check("POST", other)
    here._check("POST", Headers({"host": "[::1]:8000", "origin": "http://[::1]:8000"}))
    with pytest.raises(Refusal, match="name"):
        here._check("GET", other)
    for guard in (here, anywhere):
        with pytest.raises(Refusal):
            guard._check("POST", Headers({"host": "localhost", "origin": "http://evil.example"}))
        with pytest.raises(Refusal, match="another site"):
            guard._check("POST", Headers({"host": "localhost", "origin": "http://["}))
