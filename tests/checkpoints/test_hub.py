"""What is said of a model that is not there: what was looked for, and what the hub answered."""

import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from commands import run_cli

ANSWERS = {"nothing": (401, ""), "gated": (403, "GatedRepo"), "broken": (500, "")}


class Hub(BaseHTTPRequestHandler):
    """A hub that has no model, or has one for some people only, or is out of order."""

    def do_GET(self):
        kind = self.path.rpartition("-")[2].partition("/")[0].partition("?")[0]
        code, said = ANSWERS.get(kind, (404, "RepoNotFound"))
        self.send_response(code)
        if said:
            self.send_header("X-Error-Code", said)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


CASES = [
    ("some/model", "0", "the hub has no public model of that name"),
    ("some/model-nothing", "0", "the hub has no public model of that name"),
    ("some/model-gated", "0", "its terms must be accepted"),
    ("some/model-broken", "0", "could not be reached|the download failed"),
    ("some/model", "1", "the hub was not contacted because HF_HUB_OFFLINE is set"),
    ("some/model", "nobody", "the hub could not be reached .*no earlier download"),
    ("my-model", "0", "nor a hub id, which has one slash"),
]


@pytest.mark.parametrize(("model", "offline", "why"), CASES)
def test_what_was_looked_for_and_why_it_was_not_found(hub, sample, tmp_path, model, offline, why):
    address = hub
    if offline == "nobody":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    done = run_cli(
        "preprocess", sample / "cloze", "--model", model, "--out", tmp_path / "out",
        env={
            "HF_HOME": str(tmp_path), "HF_ENDPOINT": address, "no_proxy": "127.0.0.1",
            "HF_HUB_OFFLINE": "1" if offline == "1" else "0",
        },
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"error: --model {model}: no such folder, nor a model of the package (")
    assert re.search(why, said), said
    assert said.endswith("check the name, or put the model's files into a folder and give that")
