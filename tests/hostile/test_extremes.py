"""Papers of extreme size or depth, and files that are none: read or refused, in time and memory."""

import json
import os
import time

import pytest
from oracle import check_cloze, check_problems, check_read

from albert_rc.errors import DataError
from albert_rc.papers import files as sources
from albert_rc.papers.formats import read_collection, read_split, require_good
from albert_rc.papers.parse import MAX_PROBLEMS
from albert_rc.papers.schema import letter, letter_index
from albert_rc.stores.pack import pack
from albert_rc.stores.store import make_store

SECONDS = 10  # of this process; each of these takes two at most, on a slow core


@pytest.fixture(autouse=True)
def in_time():
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS


@pytest.fixture
def read(tmp_path):
    """Reads one paper, as bytes or as JSON."""

    def _read(paper, name="a.json", kind="cloze"):
        folder = tmp_path / "papers"
        folder.mkdir(exist_ok=True)
        content = paper if isinstance(paper, bytes) else json.dumps(paper).encode()
        (folder / name).write_bytes(content)
        return read_split(folder, format_name=kind)

    return _read


def errors(split):
    check_problems(split.problems, ("papers/",))
    return [str(error) for error in split.errors]


@pytest.mark.parametrize(
    "unit", ["word ", "é", "a\u0301\u0323", "漢", "\u200b", "\x00", "Σ", "'", "ﷺ"]
)
def test_a_megabyte_of_anything(read, tokenizer, unit):
    size = 2**20 // len(unit.encode())
    paper = {"article": f"It {unit * size} _ . {unit * 9} _ !", "options": [["a", "b"]] * 2}
    split = read(paper)
    assert not errors(split)
    check_read("cloze", split.passages[0], json.dumps(paper).encode())
    check_cloze(split.passages, tokenizer, 512)


def test_a_row_as_long_as_a_book(tmp_path, tokenizer):
    (tmp_path / "test.tsv").write_text(f"sentence\tlabel\n{'it ' * 50_000}\t1")
    split = read_split(tmp_path / "test.tsv", format_name="sst-2")
    store = make_store(split, tokenizer, 100_000)
    assert store.lengths.tolist() == [2**15 - 1]


def test_thousands_of_blanks(read, tokenizer):
    count = 20_000
    paper = {
        "article": "It was _ , " * count,
        "options": [[f"x{i}", "y"] for i in range(count)],
        "answers": ["A", "B"] * (count // 2),
    }
    split = read(paper)
    assert not errors(split)
    check_read("cloze", split.passages[0], json.dumps(paper).encode())
    packed = pack("cloze", split.passages, tokenizer, 64)
    assert len(packed.columns["blank_position"]) == count
    assert packed.columns["answer"].tolist() == [0, 1] * (count // 2)


def test_as_many_options_as_have_letters(read, tokenizer):
    texts = [f"o{i}" for i in range(702)]
    split = read({"article": "It _ .", "options": [texts], "answers": ["ZZ"]})
    assert not errors(split)
    assert split.passages[0].questions[0].answer == 701
    assert check_cloze(split.passages, tokenizer, 64) > 0
    for count in (703, 100_000):
        (said,) = errors(read({"article": "It _ .", "options": [["o"] * count]}))
        assert "at most 702" in said


def test_letters_and_options_agree():
    for index in (0, 25, 26, 701):
        assert letter_index(letter(index)) == index
    for name in ("", "a", "А", "Ａ", "1", "A B", "AAAA", "A" * 10**6):
        assert letter_index(name) is None


def test_a_megabyte_for_an_answer(read):
    (said,) = errors(read({"article": "It _ .", "options": [["a", "b"]], "answers": ["A" * 10**6]}))
    assert "not a letter" in said


def test_errors_without_end_are_cut_short(read):
    split = read({"article": "a_ " * 100_000, "options": [["a", "b"]] * 100_000})
    said = errors(split)
    assert len(said) == MAX_PROBLEMS + 1
    assert "more than 100 errors in this paper" in said[-1]


MEGABYTE = "_" * 10**6


@pytest.mark.parametrize(
    "paper",
    [
        {"article": MEGABYTE, "options": [["a", "b"]]},
        {"article": f"{MEGABYTE} _ _a {MEGABYTE}", "options": [["a", "b"]] * 4},
        {"article": "It _ .", "options": [[1] * 300_000]},
        {"article": "It _ .", "options": [["x" * 10**6] * 2, ["a"]]},
    ],
)
def test_what_is_quoted_of_a_paper_is_short(read, paper):
    said = errors(read(paper))  # which checks their lengths
    assert said
    assert sum(map(len, said)) < 2000


def test_a_command_names_the_first_of_many_problems(tmp_path):
    (tmp_path / "a.jsonl").write_text("{}\n" * 5000)
    split = read_split(tmp_path, format_name="cloze")
    assert len(split.errors) == 10_000
    with pytest.raises(DataError, match="and 9,800 more; `albert-rc doctor` lists all") as raised:
        require_good([split])
    assert len(str(raised.value)) < 20_000


@pytest.mark.parametrize("depth", [300, 900, 1100, 10**6])
@pytest.mark.parametrize("field", ["article", "options", "answers", "else"])
def test_nesting(read, depth, field):
    deep = b"[" * depth + b"]" * depth
    paper = {"article": "It _ .", "options": [["a", "b"]], "answers": ["A"], "else": 1}
    content = json.dumps(paper | {field: "HERE"}).encode().replace(b'"HERE"', deep)
    said = errors(read(content))
    assert not said if field == "else" and depth < 1000 else said


NO_PAPERS = (
    b"", b" ", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe{\x00}\x00", b"null", b"[]", b"{}", b"7", b'"x"',
    b"[[]]", b"[[[],[],5]]", b'{"data":[5]}', b'{"data":[{"paragraphs":[5]}]}', b"\t\t\n", b"\r",
    b'{"data":[{}],"number":1}', b'[[["x"],[{}]]]', b"[" * 10**6, b'{"article":' * 10**4,
    b"sentence\tlabel\nonly one", b"sentence\tlabel\nx\tevil",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["cloze", "race", "dream", "squad", "sts-b"])
@pytest.mark.parametrize("content", NO_PAPERS)
def test_files_that_hold_no_paper(tmp_path, kind, content):
    folder = tmp_path / "papers"
    folder.mkdir()
    suffix = {"race": "txt", "sts-b": "tsv"}.get(kind, "json")
    (folder / f"a.{suffix}").write_bytes(content)
    split = read_split(folder, format_name=kind)
    check_problems(split.problems, ("papers/",))
    # Blank lines of a table are no rows; everything else is something, and wrong.
    assert not split.passages
    assert split.errors or (suffix == "tsv" and not content.strip())


def test_a_key_that_stands_twice_is_named_with_its_line(read):
    content = (
        b'{"article": "It _ .",\n "options": [["a", "b"]],\n "answers": ["A"],\n "answers": ["B"]}'
    )
    (said,) = errors(read(content))
    assert "line 4: the key 'answers' occurs twice" in said
    lines = b'{"article": "It _ .", "options": [["a", "b"]]}\n{"id": "x", "id": "y"}\n'
    said = errors(read(lines, "b.jsonl"))[-1]
    assert "b.jsonl:2: line 1: the key 'id'" in said


def test_a_named_pipe_is_not_waited_for(read, tmp_path):
    read({"article": "It _ .", "options": [["a", "b"]]})
    os.mkfifo(tmp_path / "papers" / "b.json")
    os.mkfifo(tmp_path / "papers" / "c.jsonl")
    split = read_split(tmp_path / "papers")
    assert [p.id for p in split.passages] == ["a.json"]
    assert all("must be an ordinary file" in said for said in errors(split))
    assert len(errors(split)) == 2


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    # Root may list everything, so the system is asked to refuse.
    monkeypatch.setattr(sources.os, "scandir", denied)
    with pytest.raises(DataError, match=r"papers: cannot be listed \(Permission denied\)"):
        (tmp_path / "papers").mkdir()
        read_split(tmp_path / "papers")


def test_links_in_a_circle(tmp_path):
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "a.json").symlink_to(folder / "a.json")
    (folder / "again").symlink_to(folder)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "b.json").symlink_to(folder / "deeper" / "b.json")
    said = errors(read_split(folder, format_name="cloze"))
    assert [line.partition(":")[0] for line in said] == ["papers/a.json", "papers/deeper/b.json"]
    assert all("cannot be read" in line for line in said)
    # The folder is also looked at for splits, before its papers are read.
    (alone,) = read_collection(tmp_path / "papers" / "deeper", "cloze")
    assert "cannot be read" in str(alone.errors[0])
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(DataError, match="no such file or folder"):
        read_split(tmp_path / "loop")


def test_a_torn_paper_does_not_decide_the_format(read):
    """It may look like a table, or like another format's row, and hide all the others."""
    good = {"article": "It _ .", "options": [["a", "b"]]}
    read(b'{\t"article"', "0.json")
    read({"question": "a field of QNLI's", "options": []}, "1.json")
    split = read(good, "2.json", None)
    assert split.format == "cloze"
    assert len(split.passages) == 1
    assert len({said.partition(":")[0] for said in errors(split)}) == 2


def squad(*paragraphs):
    return {"data": [{"title": "t", "paragraphs": list(paragraphs)}]}


def paragraph(*keys):
    asked = [{"id": key, "question": "Who?", "answers": []} for key in keys]
    return {"context": "It was he.", "qas": asked}


def test_a_question_id_that_stands_twice_is_refused(read):
    """Answers go by it: one of the two would be lost."""
    split = read(squad(paragraph("a", "b"), paragraph("c", "b"), paragraph("d", "d")), kind="squad")
    assert [p.id for p in split.passages] == ["t#1"]
    said = errors(split)
    assert "[2]: the question id 'b' is also used in papers/a.json[1]" in said[0]
    assert "[3]: the question id 'd' is used twice" in said[1]


def test_what_is_no_paragraph_is_placed(read):
    content = {"data": [5, {"title": "t"}, {"paragraphs": ["x", paragraph("a")]}]}
    split = read(content, kind="squad")
    assert [p.id for p in split.passages] == ["article 3#2"]
    said = errors(split)
    assert 'article 1 has no list "paragraphs"' in said[0]
    assert "paragraph 1 of article 3 is text" in said[2]


@pytest.mark.parametrize("given", [True, 1.5, ["a"], {"a": 1}])
def test_an_id_must_be_text_or_a_number(tmp_path, given):
    line = json.dumps({"article": "It _ .", "options": [["a", "b"]], "id": given})
    (tmp_path / "papers.jsonl").write_text(line)
    (error,) = read_split(tmp_path / "papers.jsonl").errors
    assert "must be text or a whole number" in str(error)
