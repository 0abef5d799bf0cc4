"""What `serve` is sent by those who mean harm: each is answered with a sentence, and it goes on."""

import io
import json
import struct
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="no starlette; pip install 'albert-rc[serve]'")
docx = pytest.importorskip("docx", reason="no python-docx; pip install 'albert-rc[import]'")
pytest.importorskip("pdfplumber", reason="no pdfplumber; pip install 'albert-rc[import]'")
from serving import BOUNDARY, serving  # noqa: E402

from albert_rc.errors import DataError  # noqa: E402
from albert_rc.serve.limits import Limits  # noqa: E402
from albert_rc.serve.printed import read_printed  # noqa: E402
from albert_rc.serve.reading import read_json_papers  # noqa: E402
from albert_rc.serve.uploads import make_upload  # noqa: E402

CLOZE = {"article": "He was _ to see us .", "options": [["glad", "sad"]]}
PRINTED = b"Tom went to the __1__ to buy bread.\n\n1. A. shop B. sea C. moon D. tree\n"
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.fixture(scope="module")
def served():
    with serving(body_bytes=2_000_000) as found:
        yield found
        # Whatever came before, the next paper is answered.
        assert found.post(CLOZE).status == 200


def document(body=None, **parts):
    """A Word document, or one with other parts or another body."""
    made = io.BytesIO()
    whole = docx.Document()
    for line in PRINTED.decode().splitlines():
        whole.add_paragraph(line)
    whole.save(made)
    changed = io.BytesIO()
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == "word/document.xml" and body is not None:
                content = (
                    content.split(b"<w:body>")[0] + b"<w:body>" + body + b"</w:body></w:document>"
                )
            new.writestr(info.filename, content)
        for name, content in parts.items():
            new.writestr(name, content)
    return changed.getvalue()


def claiming(content, size):
    """An archive whose list of contents says that the first file is that large."""
    place = content.index(b"PK\x01\x02") + 24
    return content[:place] + struct.pack("<I", size) + content[place + 4 :]


def test_a_whole_document_is_read(served):
    found = served.post(document(), WORD, "exam.docx").json
    assert list(found["answers"]["cloze"]) == ["exam-1.json"]


def test_bombs_do_not_go_off(served):
    tags = document(b"<w:p/>" * 1_000_000)
    assert len(tags) < 60_000
    # Less memory than it needs, and less time.
    for limits, said in (
        (
            Limits(read_bytes=100_000_000),
            "not a complete Word document|too much memory|cannot be read",
        ),
        (Limits(read_seconds=0.01), "more than 0.01 seconds"),
    ):
        began = time.perf_counter()
        with pytest.raises(DataError, match=said):
            read_printed(make_upload(tags, "a.docx"), None, limits)
        assert time.perf_counter() - began < 10
    with pytest.raises(DataError, match="too many options"):
        read_printed(make_upload(PRINTED), None, Limits(found_bytes=100))
    assert "when unpacked" in served.post(claiming(document(), 2**31), WORD).error
    for entities in (
        b'<!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">' + b"".join(
            b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9)
        ) + b"]>",
        b'<!DOCTYPE w [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
    ):  # fmt: skip
        content = zipped({"word/document.xml": entities + b"<w>&j;&a;</w>"})
        assert served.post(content, WORD).error


def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def test_files_that_are_not_what_they_say(served):
    whole = document()
    for content, kind, name in (
        (b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 1 0 R>>endobj\ntrailer<</Root 1 0 R>>", "", "a"),
        (whole[: len(whole) // 2], WORD, "a.docx"),
        (zipped({"../../evil.txt": b"x", "word/document.xml": b"<"}), WORD, "a.docx"),
        (b"\xd0\xcf\x11\xe0" + b"\0" * 600, "application/octet-stream", "a.doc"),
        (PRINTED, "application/json", "a.txt"),
        (b'{"article": ', "application/json", "a.json"),
        (b"\x89PNG\r\n\x1a\n" + b"\0\xff" * 400, "application/octet-stream", "a.png"),
        (b"\xff\xfe\xfa\xfb" * 300, "text/plain", "a.txt"),
    ):
        found = served.post(content, kind or "application/octet-stream", name)
        assert found.status == 422, (name, found.content)
        assert found.error


def test_a_page_that_cannot_be_read_is_named(served):
    pytest.importorskip("rapidocr", reason="no rapidocr; pip install 'albert-rc[ocr]'")
    broken = b"\x89PNG\r\n\x1a\n" + b"\0\xff" * 400
    pages = [("paper", f"photo{number}.png", broken) for number in (1, 2)]
    assert served.post_form(pages).error.startswith("photo1.png, page 1: not a readable picture")


def test_hostile_json(served):
    for body, said in (
        (b'{"article": "\xff\xfe _ ", "options": []}', "not UTF-8"),
        (b"[" * 900_000, "not JSON"),
        (b'{"a":' * 200_000, "not JSON"),
        (b"[" * 500 + b"]" * 500, "dialogue"),
        (b'{"article": "a _", "article": "b _", "options": [["a","b"]]}', "occurs twice"),
        (b'{"article": "a _", "options": [["a","b"]], "answers": ["' + b"A" * 900_000 + b'"]}', ""),
        (b'{"article": 1e308, "options": {}}', "article"),
        (b'{"article": null, "options": [[null]]}', "article"),
        (b"[" + b"{}," * 200_000 + b"{}]", ""),
        (b"null", ""),
        (b'"text"', ""),
        (b'{"data": [{"paragraphs": []}]}', "SQuAD"),
        (json.dumps({"article": "_ " * 2100, "options": [["a", "b"]] * 2100}).encode(), "2,100"),
        (json.dumps([{**CLOZE, "id": "same"}] * 101).encode(), None),
    ):
        found = served.post(body)
        if said is None:  # one is answered, a hundred are refused by name
            assert found.json["complete"] is False
            continue
        assert found.status == 422, body[:60]
        assert said in found.error, body[:60]
        assert len(found.content) < 20_000


MENDED = {"article": "a _", "options": [["a", "b"]]}
MANY_FAULTS = {
    "papers of nothing": [{}] * 900,
    "a hundred faults each": [{"article": "a_ " * 100, "options": [["a", "b"]]}] * 900,
    "a blank without end": [{**MENDED, "article": "_" * 800_000}] * 2,
    "ids without end": [{**MENDED, "id": "x" * 300_000, "answers": ["C"]}] * 5,
    "a number for each option": [{**MENDED, "options": [[1] * 100_000]}] * 3,
    "options that are all the same": [{**MENDED, "options": [["a"] * 702]}] * 100,
}


@pytest.mark.parametrize("name", MANY_FAULTS)
def test_what_is_said_does_not_grow_with_what_is_wrong(served, name):
    papers = [CLOZE, *MANY_FAULTS[name]]
    found = served.post(papers)
    assert found.status == 200 or "at most 100 are answered" in found.error, name
    assert len(found.content) < 100_000, name
    if found.status == 200:
        said = found.json["messages"]
        assert all(len(message["text"]) <= 700 for message in said)
        # Whoever is not shown is counted.
        kept = [m for m in said if m["level"] == "refused"]
        assert "refused in all" in kept[-1]["text"] or len(kept) >= len(papers) - 1


def test_papers_beyond_number_are_not_even_looked_at(served):
    body = b"[" + json.dumps(CLOZE).encode() + b",{}" * 600_000 + b"]"
    began = time.process_time()
    assert "more than 1,000 papers" in served.post(body).error
    assert time.process_time() - began < 5
    lines = json.dumps(CLOZE).encode() + b"\nx" * 900_000
    assert "more than 1,000 papers" in served.post(lines, "application/jsonl").error


@pytest.mark.parametrize("bad", [b"{bad", b'{"text": "x"}', b"3"])
def test_a_bad_first_paper_does_not_refuse_the_others(served, bad):
    good = json.dumps(CLOZE).encode()
    found = served.post(b"\n".join([bad, good, good]), "application/jsonl")
    assert found.status == 200, found.content
    assert len(found.json["papers"]) == 2
    assert sum(message["level"] == "refused" for message in found.json["messages"]) >= 1


def test_reading_json_has_an_end(served):
    papers = make_upload(json.dumps([CLOZE] * 100).encode(), "a.json")
    with pytest.raises(DataError, match="more than 0 seconds"):
        read_json_papers(papers, Limits(read_seconds=0))
    with pytest.raises(InterruptedError):
        read_json_papers(papers, Limits(), lambda: True)


def test_papers_are_text_and_never_markup(served):
    evil = "<script>alert(1)</script> & _ </script><img src=x onerror=alert(2)>"
    paper = {"article": evil, "options": [["<b>x</b>", "__proto__"]], "answers": ["A"]}
    found = served.post(paper, name="%3Cscript%3E.json")
    assert found.headers["content-type"] == "application/json"
    assert found.json["papers"][0]["paper"]["article"] == evil
    assert found.json["papers"][0]["id"] == "<script>.json"


def test_names_lead_nowhere(served, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests' servers use theirs
    before = set(Path(tempfile.gettempdir()).glob("albert-rc-*"))
    text = json.dumps(CLOZE).encode()
    for name in (
        "../../../etc/passwd", "..", "/etc/passwd", "a\\..\\b.json", "nul\\x00l.json", "%00",
        "-rf", "x" * 3000, "\u202egnp.nosj", "C:\\con.json", "a.json/../..", "$(id).txt",
    ):  # fmt: skip
        quoted = name.replace("\\", "\\\\").replace('"', "")
        found = served.post_form([("paper", quoted, text)])
        assert found.status == 200, (name, found.content)
        (paper,) = found.json["papers"]
        assert "/" not in paper["id"]
        assert "\\.." not in paper["id"]
        assert len(paper["id"]) < 200
    printed = served.post_form([("paper", "../-rf\\..\\..evil.txt", PRINTED)])
    assert list(printed.json["answers"]["cloze"]) == ["..evil-1.json"]
    assert set(Path(tempfile.gettempdir()).glob("albert-rc-*")) == before


def test_broken_forms(served):
    part = ("paper", "a.json", json.dumps(CLOZE).encode())
    for parts in ([part, part], [("other", None, b"x")], [part, ("c", "c", b"x")], []):
        assert served.post_form(parts).status == 400
    assert served.post_form([part] * 40).status == 400
    assert served.post_form([part, ("key", "k.txt", b"1 A")]).status == 422
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    for body, said in (
        (b"--wrong\r\n\r\nx", kind),
        (f"--{BOUNDARY}\r\nContent-Disposition: form-data\r\n\r\nx".encode(), kind),
        (f"--{BOUNDARY}\r\n{'A: b' * 9000}\r\n\r\nx\r\n--{BOUNDARY}--".encode(), kind),
        (b"x", "multipart/form-data"),
        (b"x", "multipart/form-data; boundary=" + "b" * 500),
    ):
        found = served.post(body, said)
        assert found.status == 400, (body[:60], found.content)
        assert found.error
    assert served.post_form([("paper", "a.json", b"x" * 1_999_000)]).status == 422


@pytest.mark.parametrize(
    "charset", ["punycode", "undefined", "idna", "unicode_escape", "utf-16", "zlib", "no such", ""]
)
def test_a_form_is_not_decoded_as_it_says(served, charset):
    paper = {**CLOZE, "article": "He was _ to see the café . \\u0041"}
    text = ("paper", None, json.dumps(paper, ensure_ascii=False).encode())
    for more in (f"; charset={charset}", f'; charset="{charset}"', f"; charset*=x''{charset}"):
        found = served.post_form([text], more)
        assert found.json["papers"][0]["paper"]["article"] == paper["article"], found.content
    began = time.perf_counter()
    long = ("paper", None, b'{"-' + b"a" * 500_000)  # some twenty seconds of punycode
    assert "not JSON" in served.post_form([long], f"; charset={charset}").error
    assert time.perf_counter() - began < 5


def test_a_hostile_form_does_not_keep_others_waiting():
    # Each of these may be the end of the part, which the parser looks at in Python.
    almost = b"\r\n--" + BOUNDARY.encode() + b"X"
    form = [("other", "a.txt", almost * 900_000)]
    with serving(body_bytes=20_000_000) as served, ThreadPoolExecutor(1) as pool:
        hostile = pool.submit(served.post_form, form)
        answered = 0
        while not hostile.done():
            assert served.get("/api/health").status == 200
            answered += 1
        assert hostile.result().status == 400
    assert answered > 10  # one or two, if the form kept others waiting


def test_requests_that_are_none(served):
    for said in (
        b"\0\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/answer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Content-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,  # without end
    ):
        try:
            reply = served.raw(said)
        except (TimeoutError, ConnectionError):
            continue
        assert reply.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 431")), said[:60]
        assert b"Traceback" not in reply
    for path in (
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/static/../x",
        "//evil",
        "/\x7f",
    ):
        assert served.get(path.replace("\x7f", "%7f")).status == 404
