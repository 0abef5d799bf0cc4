"""`serve` without a browser: answers, limits, and what the API says of itself."""

import gzip
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
from conftest import ROOT, SAMPLE
from exam import as_word

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
pytest.importorskip("uvicorn", reason="no uvicorn; pip install 'albert-rc[serve]'")
jsonschema = pytest.importorskip("jsonschema")
from serving import CLOZE, schema_of, serving  # noqa: E402

from albert_rc.cli.predict import predict  # noqa: E402
from albert_rc.serve.page import PACKAGE  # noqa: E402
from albert_rc.serve.uploads import file_name, make_upload  # noqa: E402

PRINTED = b"""Fill in the blanks.

Tom went to the __1__ to buy bread. He __2__ his money at home, so he walked back.

1. A. shop B. sea C. moon D. tree
2. A. left B. ate C. sang D. drew
"""
GARBLED = PRINTED + b"4. A. one B. two C. three D. four\n"


@pytest.fixture(scope="module")
def served():
    with serving() as found:
        yield found


def test_answers_are_those_of_predict(served, tmp_path):
    lines = [
        {**json.loads(path.read_bytes()), "id": path.name}
        for path in sorted((SAMPLE / "cloze" / "dev").iterdir())[:3]
    ]
    race = next(path for path in sorted((SAMPLE / "race" / "dev").rglob("*.txt")))
    dream = json.loads((SAMPLE / "dream" / "dev.json").read_bytes())[:3]
    for name, content, kind in (
        ("papers.jsonl", b"".join(json.dumps(line).encode() + b"\n" for line in lines), "cloze"),
        ("list.json", json.dumps(lines[::-1]).encode(), "cloze"),
        (race.name, race.read_bytes(), "choice"),
        ("dream.json", json.dumps(dream).encode(), "choice"),
    ):
        papers, out, scores = tmp_path / name, tmp_path / "a.json", tmp_path / "s.jsonl"
        papers.write_bytes(content)
        predict(data=papers, model="albert-rc-tiny", out=out, scores=scores, device="cpu")
        found = served.post(content, "application/octet-stream", name)
        assert found.status == 200, found.content
        assert found.json["answers"] == {kind: json.loads(out.read_bytes())}
        assert list(found.json["answers"][kind]) == list(json.loads(out.read_bytes()))
        expected = [json.loads(line) for line in scores.read_bytes().splitlines()]
        questions = [q for paper in found.json["papers"] for q in paper["questions"]]
        assert [q["probabilities"] for q in questions] == [e["probabilities"] for e in expected]
        assert [q["answer"] for q in questions] == [e["answer"] for e in expected]


def test_a_printed_paper_is_answered_and_what_has_no_place_is_said(served):
    good = served.post(PRINTED, "text/plain", "exam.txt").json
    assert good["complete"]
    assert list(good["answers"]["cloze"]) == ["exam-1.json"]
    (paper,) = good["papers"]
    assert paper["paper"]["article"].count("_") == 2
    assert [question["right"] for question in paper["questions"]] == [None, None]
    printed = PRINTED.replace(b"1", b"36").replace(b"2", b"37")
    later = served.post(printed, "text/plain").json["papers"][0]
    assert [question["number"] for question in later["questions"]] == [36, 37]
    assert later["paper"] | {"id": ""} == paper["paper"] | {"id": ""}
    with_key = served.post_form([("paper", "exam.txt", PRINTED), ("key", None, b"1-2 AB")]).json
    assert [question["right"] for question in with_key["papers"][0]["questions"]] == ["A", "B"]
    assert with_key["answers"] == good["answers"]
    for filename, said in ((None, "key.txt: "), ("", "key.txt: "), ("mine.pdf", "mine.pdf: ")):
        parts = [("paper", "exam.txt", PRINTED), ("key", filename, b"%PDF-1.4 and no more")]
        assert served.post_form(parts).error.startswith(said)
    own = ("paper", "exam.txt", PRINTED + b"\nAnswers\n1-2 AB\n")
    assert "in mine.txt" in served.post_form([own, ("key", "mine.txt", b"1-2 BB")]).error
    found = served.post_form([("paper", "exam.txt", PRINTED), ("key", "mine.txt", b"hello")]).json
    of_key = [m["text"] for m in found["messages"] if m["text"].startswith("mine.txt: ")]
    assert "mine.txt: line 1 (in the key): hello" in of_key
    odd = [("paper", "exam.txt", PRINTED), ("key", "mine.txt", b"1-3 AB")]
    assert "3 numbers (mine.txt, line 1)" in served.post_form(odd).error
    lost = served.post(PRINTED + b"Keys:\n1-2 A/C B\n", "text/plain").error
    assert "or give the key separately" in lost
    assert "--" not in lost
    refused = served.post(GARBLED, "text/plain")
    assert refused.status == 422
    assert "3 is missing" in refused.error
    assert "number them" in served.post(b"It rains.", "text/plain").error
    part = PRINTED + b"\n\nPassage 2\nThe sun is __3__ .\n\n3. A. hot B. cold\n5. A. x B. y\n"
    found = served.post(part, "text/plain").json
    assert not found["complete"]
    assert [message["paper"] for message in found["messages"] if message["level"] == "refused"]
    assert len(found["answers"]["cloze"]) == 1


def test_a_question_that_is_too_long_is_refused_alone(served):
    def race(name, question):
        return {"id": name, "article": "He went home by bus.", "questions": [question],
                "options": [["by bus", "by car"]], "answers": ["A"]}  # fmt: skip

    long = race("long", "How " * 600 + "?")
    found = served.post(json.dumps([race("good", "How did he go?"), long]).encode()).json
    assert list(found["answers"]["choice"]) == ["good#1"]
    assert not found["complete"]
    (refused,) = [message for message in found["messages"] if message["level"] == "refused"]
    assert refused["paper"] == "long"
    assert "question 1" in refused["text"]
    assert "--max-length" not in refused["text"]
    alone = served.post(json.dumps([long]).encode())
    assert alone.status == 422
    assert "no paper that can be answered\nquestion 1 with its longest option" in alone.error


def test_a_single_dialogue_and_dialogues_in_lines_are_answered(served):
    dialogues = json.loads((SAMPLE / "dream" / "dev.json").read_bytes())[:2]
    whole = served.post(json.dumps(dialogues).encode()).json["answers"]
    lines = "\n".join(map(json.dumps, dialogues)).encode()
    assert served.post(lines).json["answers"] == whole
    alone = served.post(json.dumps(dialogues[0]).encode()).json["answers"]["choice"]
    assert alone.items() <= whole["choice"].items()


def test_a_key_that_lacks_answers_is_mentioned(served):
    turns, questions, name = json.loads((SAMPLE / "dream" / "dev.json").read_bytes())[0]
    more = {"question": "Who speaks?", "choice": ["A man.", "A dog."]}
    found = served.post(json.dumps([[turns, [*questions, more], name]]).encode()).json
    (paper,) = found["papers"]
    assert paper["questions"][0]["right"] is not None
    assert paper["paper"]["answers"] == []
    said = "the key lacks some answers, so the paper's JSON is saved without a key"
    assert {"level": "note", "paper": name, "text": said} in found["messages"]


def test_a_form_is_read_in_the_encoding_that_it_is_in(served):
    text = "完形填空\n".encode("gbk") + PRINTED
    name = "试卷.txt".encode("gbk")
    for filename in (None, "mine.txt"):
        found = served.post_form([("paper", filename, text)]).json
        assert found["complete"]
        assert "read as GB18030" in [message["text"] for message in found["messages"]]
    part = b'Content-Disposition: form-data; name="paper"; filename="' + name + b'"'
    body = b"--%b\r\n%b\r\n\r\n%b\r\n--%b--\r\n" % (b"x", part, text, b"x")
    for boundary in ("x", '"x"'):
        found = served.post(body, f"multipart/form-data; boundary={boundary}").json
        assert [paper["id"] for paper in found["papers"]] == ["试卷-1.json"]
    doubtful = served.post_form([("paper", None, PRINTED + b"\xa1 \x81\x20")])
    assert "save it as UTF-8" in doubtful.error


def test_a_large_file_of_a_form_needs_no_disk(served, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "not there"))
    content = json.dumps(CLOZE).encode() + b" " * 2_000_000
    found = served.post_form([("paper", "exam.json", content)])
    assert found.json["complete"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_docs_curl_commands(served, tmp_path):
    printed, cloze = SAMPLE / "printed", SAMPLE / "cloze" / "test"
    as_word(printed / "exam.txt", tmp_path / "exam.docx")
    shutil.copy(printed / "answers.txt", tmp_path)
    shutil.copy(sorted(cloze.iterdir())[0], tmp_path / "test0001.json")
    page = (ROOT / "docs" / "serve.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("curl ")]
    assert len(commands) == 2
    for line in commands:
        words = shlex.split(line.replace("http://127.0.0.1:8000", served.address))
        done = subprocess.run([*words, "-sS"], cwd=tmp_path, capture_output=True, check=True)
        found = json.loads(done.stdout)
        assert found["complete"], found
        assert found["answers"]


def test_the_paper_comes_back_in_the_projects_form(served):
    paper = {**CLOZE, "answers": ["A", "B"]}
    found = served.post(paper, name="mine.json").json
    (entry,) = found["papers"]
    assert entry["id"] == "mine.json"
    assert entry["paper"] == {**paper, "id": "mine.json"}
    assert [question["right"] for question in entry["questions"]] == ["A", "B"]
    assert [question["number"] for question in entry["questions"]] == [1, 2]
    assert served.post(entry["paper"], name="mine.json").json == found
    warned = served.post({**CLOZE, "article": "He was _31 to see us . We _ ."}).json
    assert [message["level"] for message in warned["messages"]] == ["warning"]


def test_each_kind_of_paper_has_its_model_and_the_answer_names_it():
    import torch

    from albert_rc.runtime.devices import Processes
    from albert_rc.serve.engine import Engine
    from albert_rc.serve.limits import Limits

    race = {"article": "It rains .", "questions": ["What ?"], "options": [["rain", "sun"]]}
    papers = {"albert-rc-small": CLOZE, "albert-rc-small-choice": race}
    engine = Engine(None, Processes(torch.device("cpu")), Limits(), lambda _: None)
    for name, paper in papers.items():
        upload = make_upload(json.dumps({**paper, "answers": []}).encode(), "a.json")
        found = json.loads(engine.submit(upload, None).result())
        assert (found["model"], found["calibrated"], found["messages"]) == (name, True, [])
    assert engine.calibrated
    assert engine.name == "albert-rc-small and albert-rc-small-choice"
    engine.close()
    # The untrained head of a model for one kind of papers has no temperature, and needs none.
    engine = Engine("albert-rc-small-choice", Processes(torch.device("cpu")), Limits(), list)
    assert engine.calibrated
    engine.close()


@pytest.mark.parametrize("way", [None, "masks"])
def test_probabilities_are_calibrated_as_those_of_predict(tmp_path, way):
    import torch

    from albert_rc.checkpoints.hub import SHIPPED
    from albert_rc.io.files import file_sha256
    from albert_rc.runtime.devices import Processes
    from albert_rc.serve.engine import Engine
    from albert_rc.serve.limits import Limits

    folder = tmp_path / "mine"
    shutil.copytree(SHIPPED / "albert-rc-tiny", folder)
    weights = file_sha256(folder / "model.safetensors")
    for name, temperature in (("calibration", 2), ("calibration-masks", 3)):
        record = {"temperature": temperature, "weights_sha256": weights}
        (folder / f"{name}.json").write_text(json.dumps(record))
    options = [["glad", "in spite of"], ["ran", "run"]]
    content = json.dumps({**CLOZE, "options": options}).encode()
    engine = Engine(str(folder), Processes(torch.device("cpu")), Limits(), lambda _: None, way)
    found = json.loads(engine.submit(make_upload(content, "a.json"), None).result())
    engine.close()
    assert (found["model"], found["calibrated"]) == ("mine", True)
    (tmp_path / "a.json").write_bytes(content)
    out, scores = tmp_path / "out.json", tmp_path / "scores.jsonl"
    predict(data=tmp_path / "a.json", model=str(folder), out=out, scores=scores, device="cpu",
            option_score=way)  # fmt: skip
    lines = [json.loads(line) for line in scores.read_bytes().splitlines()]
    assert lines[0]["temperature"] == (2 if way is None else 3)
    expected = [line["probabilities"] for line in lines]
    assert [question["probabilities"] for question in found["papers"][0]["questions"]] == expected


@pytest.mark.parametrize("way", [None, "masks", "excerpt", "once"])
def test_questions_about_long_passages_are_read_as_by_predict(tmp_path, way):
    """The package's model reads excerpts unless that is turned off; `masks` is for blanks."""
    import torch

    from albert_rc.runtime.devices import Processes
    from albert_rc.serve.engine import Engine
    from albert_rc.serve.limits import Limits

    filler = "It was a fine day and they went on. "
    article = 12 * filler + "The farmer sold the horse to a teacher. " + 12 * filler
    options = [["The farmer.", "A teacher.", "Nobody."]]
    paper = {"article": article, "questions": ["Who sold the horse?"], "options": options}
    content = json.dumps({**paper, "answers": []}).encode()
    engine = Engine(None, Processes(torch.device("cpu")), Limits(), lambda _: None, way)
    found = json.loads(engine.submit(make_upload(content, "a.json"), None).result())
    engine.close()
    (question,) = found["papers"][0]["questions"]
    (tmp_path / "a.json").write_bytes(content)
    scores = tmp_path / "scores.jsonl"
    predict(data=tmp_path / "a.json", out=tmp_path / "out.json", scores=scores, device="cpu",
            option_score="once" if way == "once" else None)  # fmt: skip
    (line,) = [json.loads(text) for text in scores.read_bytes().splitlines()]
    assert line.get("option_score") == (None if way == "once" else "excerpt")
    assert question["probabilities"] == line["probabilities"]


@pytest.mark.parametrize(
    ("model", "way", "said"),
    [
        ("albert-rc-small", "excerpt", "only affects questions with options"),
        ("albert-rc-small", "masks", None),
        ("albert-rc-small-choice", "masks", "only affects blanks"),
        (None, "excerpt", None),
    ],
)
def test_a_second_reading_without_effect_is_said(model, way, said):
    import torch

    from albert_rc.runtime.devices import Processes
    from albert_rc.serve.engine import Engine
    from albert_rc.serve.limits import Limits

    notes = []
    Engine(model, Processes(torch.device("cpu")), Limits(), notes.append, way).close()
    found = [note for note in notes if note.startswith("note: ")]
    assert len(found) == (said is not None)
    assert said is None or f"--option-score {way} {said}, for which {model}" in found[0]


def test_options_that_cannot_be_read_again_are_named():
    import torch

    from albert_rc.runtime.devices import Processes
    from albert_rc.serve.engine import Engine
    from albert_rc.serve.limits import Limits

    paper = {"article": "He _ home .", "options": [["went", "ran and " * 300]]}
    upload = make_upload(json.dumps(paper).encode(), "a.json")
    said = []
    engine = Engine(
        "albert-rc-tiny", Processes(torch.device("cpu")), Limits(), said.append, "masks"
    )
    found = json.loads(engine.submit(upload, None).result())
    engine.close()
    (text,) = [m["text"] for m in found["messages"] if "read only once" in m["text"]]
    assert "a.json, blank 1: an option of" in text


def test_untrained_heads_are_said_to_guess(served):
    race = {"article": "It rains .", "questions": ["What ?"], "options": [["rain", "sun"]]}
    (message,) = served.post({**race, "answers": [], "id": "r"}).json["messages"]
    assert message["level"] == "warning"
    assert "guesses" in message["text"]


def test_the_api_is_as_it_says(served):
    document = served.get("/openapi.json").json
    assert document["openapi"].startswith("3.1")
    health = served.get("/api/health")
    jsonschema.validate(health.json, schema_of(served, "Health"))
    race = next((SAMPLE / "race" / "dev").rglob("*.txt")).read_bytes()
    for body, kind in ((CLOZE, "application/json"), (race, "text/plain"), ({}, "application/json")):
        found = served.post(body, kind)
        name = "Answers" if found.status == 200 else "Error"
        jsonschema.validate(found.json, schema_of(served, name))
        assert str(found.status) in document["paths"]["/api/answer"]["post"]["responses"]
    route = document["paths"]["/api/answer"]["post"]
    for kind, content in route["requestBody"]["content"].items():
        if "example" in content:
            example = content["example"]
            body = example.encode() if isinstance(example, str) else example
            assert served.post(body, kind).status == 200, kind
    page = served.get("/api")
    text = page.content.decode()
    for path in document["paths"]:
        assert path in text
    for name in document["components"]["schemas"]:
        assert f'id="{name}"' in text


def test_pages_ask_for_nothing_from_elsewhere(served):
    for path in ("/", "/api"):
        page = served.get(path)
        assert page.status == 200
        policy = dict(
            part.split(" ", 1) for part in page.headers["content-security-policy"].split("; ")
        )
        assert policy["default-src"] == "'none'"
        for rule in ("script-src", "style-src"):
            assert re.fullmatch(r"'sha256-[\w+/=]+'", policy[rule])
        assert policy["connect-src"] == "'self'"
        text = page.content.decode()
        assert not re.search(r'(src|href|action)="(https?:)?//', text)
        assert not re.search(r'\son\w+="|\sstyle="', text)
    for path in ("/", "/api", "/openapi.json", "/api/health", "/nothing", "/icon.svg"):
        headers = served.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_the_example_of_the_page_is_understood(served):
    from albert_rc.report.parts import read_part

    found = served.post(read_part("example.txt", PACKAGE).encode(), "text/plain").json
    assert found["complete"]
    assert [q["right"] for q in found["papers"][0]["questions"]] == list("CABDB")


def test_other_routes_and_methods(served):
    assert served.get("/nothing").status == 404
    assert "/api describes" in served.get("/nothing").error
    assert served.get("/api/answer").status == 405
    assert "but POST; see /api" in served.get("/api/answer").error
    deleted = served.request("DELETE", "/")
    assert deleted.status == 405
    assert deleted.headers["allow"] == "GET, HEAD"
    assert "does not accept DELETE, but GET, HEAD" in deleted.error
    assert "how to send one" in served.post(b"x", "multipart/form-data").error
    assert served.request("HEAD", "/").content == b""
    assert served.post(b"a=b", "application/x-www-form-urlencoded").status == 415
    assert "Content-Type" in served.post(b"x", "image/gif").error
    packed = served.post(gzip.compress(PRINTED), "text/plain", **{"Content-Encoding": "gzip"})
    assert packed.status == 415
    assert "send the paper as it is" in packed.error
    assert served.post(b"  \n", "text/plain").status == 422


def test_what_a_paper_is_is_told_by_its_content():
    for content, name, said, kind in (
        (b"%PDF-1.7", "a.json", "application/json", "pdf"),
        (b"PK\x03\x04", "a.txt", "text/plain", "docx"),
        (b"\xd0\xcf\x11\xe0", "a.docx", "", "doc"),
        (b' {"article": 1}', "a.txt", "text/plain", "json"),
        (b"\xef\xbb\xbf[[1]]", "", "", "json"),
        (b"[2019] Read the text", "a.txt", "", "text"),
        (b"hello", "a.json", "", "json"),
        (b"hello", "a.jsonl", "application/octet-stream", "lines"),
        (b"hello", "a.jsonl .", "application/octet-stream", "lines"),
        (b"hello", "A.PDF", "", "pdf"),
        (b"hello", "", "", "text"),
    ):
        assert make_upload(content, name, said).kind == kind, (content, name, said)


def test_names_are_names():
    assert file_name("../../etc/passwd") == "passwd"
    assert file_name("C:\\papers\\exam 1.docx") == "exam 1.docx"
    assert file_name("..") == file_name("a/..") == file_name("/") == ""
    for name in ("\u671f\u4e2d\u3000\u8003\u8bd5.json", " a .json", ".b.json", "x" * 200 + ".json"):
        assert file_name(name) == make_upload(b"{}", name).name == name
    assert file_name("a\udce9.json") == "a?.json"
    assert make_upload(b"{}", "a\0b\nc.json").shown == "a\\x00b\\nc.json"
    assert len(make_upload(b"{}", "x" * 10_000 + ".json").shown) < 200


@pytest.mark.parametrize(
    "name", ["\u671f\u4e2d\u3000\u8003\u8bd5.json", "a\u00a0b.json", f"{'x' * 200}.json"]
)
def test_ids_are_the_files_names_as_in_predict(served, tmp_path, name):
    content = next((SAMPLE / "cloze" / "dev").glob("*.json")).read_bytes()
    (tmp_path / name).write_bytes(content)
    predict(data=tmp_path / name, model="albert-rc-tiny", out=tmp_path / "a", device="cpu")
    expected = json.loads((tmp_path / "a").read_bytes())
    assert list(expected) == [name]
    found = served.post_form([("paper", name, content)]).json
    assert found["answers"]["cloze"] == expected
    assert [paper["id"] for paper in found["papers"]] == [name]
    glued = {"article": "He was_ to see it.", "options": [["glad", "sad"]], "answers": ["A"]}
    found = served.post_form([("paper", name, json.dumps(glued).encode())]).json
    assert name in [message["paper"] for message in found["messages"]]


def test_the_command_line_checks_its_options(tmp_path):
    from albert_rc.cli.serve import serve
    from albert_rc.errors import UsageError
    from albert_rc.serve.listen import address_of, open_socket

    for options, said in (
        ({"host": "no such host"}, "--host"),
        ({"port": 0, "model": str(tmp_path / "none")}, "--model"),
    ):
        with pytest.raises(UsageError, match=said):
            serve(**options)
    listener, loopback = open_socket("127.0.0.1", 0)
    with listener:
        assert loopback
        port = listener.getsockname()[1]
        assert address_of(listener, "127.0.0.1") == f"http://127.0.0.1:{port}"
        with pytest.raises(UsageError, match="is in use"):
            open_socket("127.0.0.1", port)
    everywhere, loopback = open_socket("0.0.0.0", 0)
    everywhere.close()
    assert not loopback


@pytest.mark.slow
def test_it_starts_and_ends(tmp_path):
    command = [sys.executable, "-m", "albert_rc", "serve", "--port", "0"]
    for stop in (signal.SIGINT, signal.SIGTERM):
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
        try:
            line = server.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", line)[0]
            import urllib.request

            with urllib.request.urlopen(f"{address}/api/health", timeout=20) as reply:
                assert json.loads(reply.read())["model"].startswith("albert-rc-small")
            server.send_signal(stop)
            _, said = server.communicate(timeout=20)
        finally:
            server.kill()
        assert server.returncode == 0, said
        assert "Traceback" not in said
        assert said.endswith("stopped\n")
