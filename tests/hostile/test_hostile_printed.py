"""Word and PDF files that nobody's program should have written: read, or refused by name, soon."""

import os
import re
import signal
import struct
import threading
import time
import zlib
from random import Random

import pytest

pytest.importorskip("docx", reason="no python-docx; pip install 'albert-rc[import]'")
pytest.importorskip("pdfplumber", reason="no pdfplumber; pip install 'albert-rc[import]'")
from pdfs import objects_of, page_of, pdf_of
from printed_damage import damaged, word_with

from albert_rc.errors import DataError
from albert_rc.printed import bounds
from albert_rc.printed.recognise.prose import join_lines
from albert_rc.printed.run import import_papers

DOCUMENT, NUMBERS = "word/document.xml", "word/numbering.xml"
TYPES = "[Content_Types].xml"


def put(name, old, new):
    """A sound document in which something stands for something else."""

    def change(parts):
        assert old in parts[name]
        parts[name] = parts[name].replace(old, new)

    return word_with(change)


def body(content):
    """A document with another body."""

    def change(parts):
        head = parts[DOCUMENT].split(b"<w:body>")[0]
        parts[DOCUMENT] = head + b"<w:body>" + content + b"</w:body></w:document>"

    return word_with(change)


def read(folder, content, name="exam.docx"):
    """What `import` makes of a file, or the sentence that refuses it, which names the file."""
    path = folder / name
    path.write_bytes(content)
    began = time.process_time()
    try:
        found = import_papers([path])
    except DataError as error:
        found = str(error).removeprefix(f"{path}: ")
    assert time.process_time() - began < 10
    assert str(path) not in found
    return found


def papers(imports):
    return [paper.content() for found in imports for paper in found.papers if paper.whole]


NINES = b'<w:start w:val="%s"/>' % (b"9" * 5000)
STRANGE = {
    "a list's level": (NUMBERS, b'w:ilvl="0"', b'w:ilvl="x"'),
    "a list's first number": (NUMBERS, b'<w:start w:val="1"/>', '<w:start w:val="²"/>'.encode()),
    "a first number without end": (NUMBERS, b'<w:start w:val="1"/>', NINES),
    "an underline": (DOCUMENT, b'<w:u w:val="single"/>', b'<w:u w:val="bogus"/>'),
    "a cell's width": (DOCUMENT, b'<w:gridSpan w:val="3"/>', b'<w:gridSpan w:val="x"/>'),
    "a cell as wide as a city": (DOCUMENT, b'Span w:val="3"', b'Span w:val="300000000"'),
    "a cell merged with nothing": (DOCUMENT, b'<w:vMerge w:val="restart"/>', b"<w:vMerge/>"),
    "a cell merged somehow": (DOCUMENT, b"<w:vMerge/>", b'<w:vMerge w:val="bogus"/>'),
    "a break of no kind": (DOCUMENT, b"<w:br/>", b'<w:br w:type="bogus"/>'),
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGE)
def test_an_attribute_that_is_none_costs_no_paper(tmp_path, name):
    sound = papers(read(tmp_path, word_with(lambda parts: None)))
    assert len(sound) == 2
    assert papers(read(tmp_path, put(*STRANGE[name]))) == sound


def test_a_number_of_no_list_is_no_number(tmp_path):
    sound = papers(read(tmp_path, word_with(lambda parts: None)))
    lost = read(tmp_path, put("word/styles.xml", b"<w:numId w:val=", b'<w:numId w:val="x" w:x='))
    assert len(papers(lost)) < len(sound)
    assert any(found.all_troubles() for found in lost)  # of which it says so


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((DOCUMENT, b"w:body", b"w:leib"), "it has no body"),
        ((TYPES, b"Types", b"Kinds"), "not a complete Word document"),
        ((TYPES, b"PartName", b"Name"), "not a complete Word document"),
        ((DOCUMENT, b"<w:body>", b"<w:body"), "not a complete Word document"),
    ],
)
def test_a_package_that_is_none_is_refused(tmp_path, change, said):
    found = read(tmp_path, put(*change))
    assert said in found
    assert "save it again as .docx" in found


ROW = b"<w:tr><w:tc><w:tcPr><w:vMerge%s/></w:tcPr><w:p><w:r><w:t>%s</w:t></w:r></w:p></w:tc></w:tr>"
LARGE = {
    "paragraphs without end": b"<w:p/>" * 2_000_000,
    "more than a book has lines": b"<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 300_000,
    "a cell that is said in every row": b"<w:tbl>"
    + ROW % (b' w:val="restart"', b"It was dark. " * 1000)
    + ROW % (b"", b"") * 10_000
    + b"</w:tbl>",
    "more than a book has letters": b"<w:p><w:r><w:t>%s</w:t></w:r></w:p>"
    % (b"a bc " * 1000)
    * 2500,
    "layout without end": b"<w:p><w:pPr><w:b/></w:pPr></w:p>" * 1_200_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_what_unpacks_to_more_than_a_paper_is_refused(tmp_path, name):
    content = body(LARGE[name])
    assert len(content) < 250_000
    assert re.match("more than .*; give it in parts", read(tmp_path, content))


def test_an_archive_is_not_believed(tmp_path):
    content = body(b"<w:p/>" * 1_000_000)
    # In the list of what it holds, the body's size is said to be small.
    place = content.index(b"PK\x01\x02")
    while content[place + 46 :].startswith(DOCUMENT.encode()) is False:
        place = content.index(b"PK\x01\x02", place + 4)
    content = content[: place + 24] + struct.pack("<I", 50) + content[place + 28 :]
    assert "not a complete Word document" in read(tmp_path, content)


def test_tables_in_tables(tmp_path):
    start, end = b"<w:tbl><w:tr><w:tc><w:p/>", b"</w:tc></w:tr></w:tbl>"
    for depth in (30, 80):
        nested = start * depth + b"<w:p><w:r><w:t>36-38 DDA</w:t></w:r></w:p>" + end * depth
        assert "38 has no question" in str(read(tmp_path, body(nested)))
    assert "not a complete Word document" in read(tmp_path, body(start * 300 + end * 300))


def test_lines_with_nothing_in_them():
    for parts, text in (([], ""), ([" \t"], ""), (["", "It was", "", "dark."], "It was dark.")):
        assert join_lines(parts, frozenset(), []) == text


def test_a_page_as_wide_as_a_country(tmp_path):
    page = page_of(["36. A. made  B. lost  C. sold  D. found"] * 8)
    objects = [part.replace(b" 595 ", b" 99999999999 ") for part in objects_of([page])]
    (found,) = read(tmp_path, pdf_of(objects), "exam.pdf")
    assert found.papers
    away = [part.replace(b" 40 ", b" 99999999 ") for part in objects]
    assert "no text in it" in read(tmp_path, pdf_of(away), "exam.pdf")


# Where time runs out in a callback of the garbage collector, it does so again a second later.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_time_and_memory_have_an_end(tmp_path, monkeypatch):
    page = page_of(["It was a dark night. " * 4] * 80)
    slow = pdf_of(objects_of([page], times=500))
    monkeypatch.setattr(bounds, "LEAST_SECONDS", 1.0)
    monkeypatch.setattr(bounds, "SECONDS_A_MEGABYTE", 1.0)
    assert "more than 1 seconds" in read(tmp_path, slow, "exam.pdf")
    bomb = zlib.compressobj(1)
    packed = b"".join(bomb.compress(b" " * 10**7) for _ in range(40)) + bomb.flush()
    objects = objects_of([page])
    objects[3] = b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed)
    monkeypatch.setattr(bounds, "MOST_MEMORY", 200_000_000)
    monkeypatch.setattr(bounds, "LEAST_SECONDS", 60.0)
    assert "too much memory" in read(tmp_path, pdf_of(objects), "exam.pdf")
    # What was bounded is free again.
    assert len(bytearray(400_000_000)) == 400_000_000


def test_only_the_time_of_the_reading_thread_counts(tmp_path, monkeypatch):
    paper = tmp_path / "exam.txt"
    paper.write_text("")
    monkeypatch.setattr(bounds, "LEAST_SECONDS", 0.5)

    def work(seconds, task=lambda: sum(range(10_000))):
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            task()

    with bounds.bounded(paper):  # as if on many cores
        other = threading.Thread(target=work, args=(3,))
        other.start()
        other.join()
    began = time.thread_time()
    with pytest.raises(DataError, match="more than 0 seconds"), bounds.bounded(paper):
        work(10, lambda: os.urandom(2**18))  # the system's counts too
    assert time.thread_time() - began < 3


def test_the_timer_of_whoever_calls_goes_on(tmp_path):
    signal.setitimer(signal.ITIMER_PROF, 500, 7)
    try:
        with bounds.bounded(tmp_path):
            pass
        left, interval = signal.getitimer(signal.ITIMER_PROF)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    assert 400 < left < 501
    assert interval == 7


def test_a_picture_is_given_to_no_other_program(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="no Pillow; pip install 'albert-rc[ocr]'")
    from albert_rc.printed.scan.pictures import read_pictures

    ran, program = tmp_path / "ran", tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    picture = tmp_path / "exam.jpg"
    picture.write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    )
    with pytest.raises(DataError, match="not a readable picture"):
        list(read_pictures(picture))
    assert not ran.exists()
    for kind in ("JPEG", "MPO", "PNG", "WEBP", "BMP", "TIFF"):
        image.new("RGB", (40, 30), "white").save(picture, kind)
        assert [page.shape for page in read_pictures(picture)] == [(30, 40, 3)], kind


def test_what_is_no_file_is_no_picture(tmp_path):
    pytest.importorskip("rapidocr", reason="no rapidocr; pip install 'albert-rc[ocr]'")
    (tmp_path / "a.jpg").mkdir()
    os.mkfifo(tmp_path / "b.jpg")
    with pytest.raises(DataError, match="no pictures in this folder"):
        import_papers([tmp_path])


@pytest.mark.parametrize(("form", "count"), [("docx", 60), ("pdf", 40)])
def test_damaged_files_are_read_or_refused(tmp_path, monkeypatch, form, count):
    monkeypatch.setattr(bounds, "LEAST_SECONDS", 5.0)
    found = [
        read(tmp_path, damaged(form, Random(f"0.{number}")), f"exam.{form}")
        for number in range(count)
    ]
    refused = [one for one in found if isinstance(one, str)]
    assert 0 < len(refused) < count
    assert not any("Traceback" in said or len(said) > 300 for said in refused)
