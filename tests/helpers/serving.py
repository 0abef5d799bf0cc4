"""A server in a thread of the test's process, and requests to it as raw as need be."""

import http.client
import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from albert_rc.runtime.devices import Processes
from albert_rc.serve.engine import Engine
from albert_rc.serve.limits import Limits
from albert_rc.serve.listen import names_of, open_socket, server_of
from albert_rc.serve.web import make_app

BOUNDARY = "parts-of-a-form"
CLOZE = {"article": "He was _ to see us . We _ .", "options": [["glad", "sad"], ["ran", "run"]]}


@dataclass
class Answer:
    status: int
    headers: dict
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)

    @property
    def error(self):
        """The sentence, and nothing else: no traceback, no place on this machine."""
        assert list(self.json) == ["error"], self.content
        said = self.json["error"]
        assert self.status >= 400
        assert "Traceback" not in said
        for path in ("/tmp", "/usr", "/home", "site-packages", ".py"):
            assert path not in said, said
        return said


@dataclass
class Served:
    port: int
    engine: Engine
    said: list = field(default_factory=list)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, body, content_type="application/json", name="", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = f"/api/answer?name={name}" if name else "/api/answer"
        return self.request("POST", path, body, {"Content-Type": content_type, **headers})

    def post_form(self, parts, more=""):
        """Parts: name, filename or None, content, and perhaps a content type.

        `more` is added to the whole form's Content-Type.
        """
        body = b""
        for name, filename, content, *kind in parts:
            said = f'name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
            body += f"--{BOUNDARY}\r\nContent-Disposition: form-data; {said}\r\n".encode()
            body += f"Content-Type: {kind[0]}\r\n".encode() if kind else b""
            body += b"\r\n" + content + b"\r\n"
        body += f"--{BOUNDARY}--\r\n".encode()
        return self.post(body, f"multipart/form-data; boundary={BOUNDARY}{more}")

    def raw(self, content, wait=5.0):
        """Send bytes as they are; what comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), wait) as connection:
            connection.sendall(content)
            received = b""
            while part := connection.recv(65536):
                received += part
        return received


def schema_of(served, name):
    document = served.get("/openapi.json").json
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


@contextmanager
def serving(model="albert-rc-tiny", **limits):
    """A server with a model on any free port."""
    said = []
    processes = Processes(torch.device("cpu"))
    engine = Engine(model, processes, Limits(**limits), said.append)
    listener, _ = open_socket("127.0.0.1", 0)
    server = server_of(make_app(engine, names_of("127.0.0.1")))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield Served(listener.getsockname()[1], engine, said)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
        listener.close()
