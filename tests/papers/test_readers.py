"""Readers on good papers, and what they say of bad ones."""

import json
import re

import pytest

from albert_rc.errors import DataError, UsageError
from albert_rc.papers.formats import read_collection, read_split, rejects, require_good
from albert_rc.papers.splits import collections_in, find_splits, training_beside

GOOD = {
    "article": "She was _ and he was _ .",
    "options": [["glad", "sad", "bad", "mad"], ["tall", "short"]],
    "answers": ["A", "B"],
}


@pytest.fixture
def write(tmp_path):
    def _write(name, content):
        path = tmp_path / "papers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
        return tmp_path / "papers"

    return _write


def errors_of(folder, **kwargs):
    return [str(e) for e in read_split(folder, **kwargs).errors]


def test_sample_formats_are_sniffed(sample):
    for name in ("cloze", "race", "dream"):
        splits = read_collection(sample / name)
        assert [s.name for s in splits] == ["train", "dev", "test"]
        assert {s.format for s in splits} == {name}
        assert not [p for s in splits for p in s.problems]


def test_the_sample_is_as_large_as_promised(sample):
    papers = [
        p
        for n in ("cloze", "race", "dream")
        for s in read_collection(sample / n)
        for p in s.passages
    ]
    assert len(papers) >= 40
    cloze = [p for p in papers if p.kind == "cloze"]
    assert 9 <= sum(len(p.questions) for p in cloze) / len(cloze) <= 11
    assert {len(q.options) for p in cloze for q in p.questions} == {3, 4, 5}


def test_cloze_from_a_folder_a_file_a_list_and_lines(write):
    folder = write("a/test10.json", GOOD)
    write("a/test9.json", GOOD)
    assert [p.id for p in read_split(folder / "a").passages] == ["test9.json", "test10.json"]
    assert read_split(folder / "a" / "test9.json").passages[0].id == "test9.json"
    write("list.json", [GOOD, GOOD | {"id": "mine"}])
    assert [p.id for p in read_split(folder / "list.json").passages] == ["list.json[1]", "mine"]
    lines = "\n".join(json.dumps(GOOD | {"id": f"p{i}"}) for i in range(3))
    write("lines.jsonl", lines.encode())
    assert [p.id for p in read_split(folder / "lines.jsonl").passages] == ["p0", "p1", "p2"]


def test_race_keeps_ids_and_levels(sample):
    dev = read_split(sample / "race" / "dev")
    assert {p.level for p in dev.passages} == {"middle", "high"}
    assert all(p.id.startswith(p.level) for p in dev.passages)


def test_answers_may_be_missing(write):
    blind = {k: v for k, v in GOOD.items() if k != "answers"}
    folder = write("a.json", blind)
    write("b.json", blind | {"answers": []})
    assert [q.answer for p in read_split(folder).passages for q in p.questions] == [None] * 4


def test_blanks_at_the_edges_and_beside_signs_are_blanks(write):
    article = '_ is (_) he said: "_", "_"? He paid $_. Fixed._ and then _'
    paper = {"article": article, "options": [["a", "b"]] * 7}
    passage = read_split(write("a.json", paper)).passages[0]
    assert len(passage.blanks) == 7
    assert all(article[a:b] == "_" for a, b in passage.blanks)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"article": 5}, '"article" is a number; it must be text'),
        ({"article": None}, '"article" is null'),
        ({"article": "   "}, '"article" is empty'),
        ({"article": "No gap."}, "the article has no blanks"),
        ({"article": "He was _ and sing _ing ."}, r"blank 2 .*attached to a word"),
        ({"article": "It was un_ and _ ."}, r"blank 1 .*attached to a word"),
        ({"article": "A cafe\u0301_ing and _ ."}, r"blank 1 .*attached to a word"),
        ({"article": "It was ____ and _ ."}, r"blank 1 .*4 underscores in a row; write a blank as"),
        ({"article": "One _ two _ three _ ."}, "3 blanks but 2 option lists; blank 3 has none"),
        ({"article": "Only one _ ."}, "1 blank but 2 option lists; option list 2 belongs to none"),
        ({"options": "ABCD"}, '"options" is text; it must be a list'),
        ({"options": [["a", "b"], "c"]}, "blank 2: the options are text"),
        ({"options": [["a", "b"], ["c", 4]]}, "blank 2: option B is not text"),
        ({"options": [["a", "b"], ["c"]]}, r"blank 2: 1 option; at least 2"),
        ({"answers": ["A"]}, "2 option lists but 1 answer"),
        ({"options": [["a", "b"]], "answers": ["A"]}, "blank 2 has none"),
        ({"answers": ["A", "C"]}, "blank 2: the answer is C, but the last of its 2 options is B"),
        ({"answers": ["A", 1]}, "blank 2: the answer 1 is not a letter; write A to B"),
        (
            {"answers": ["A", "short"]},
            "the answer 'short' is not a letter; it is option B, so write B",
        ),
        ({"answers": "AB"}, '"answers" is text; it must be a list of letters'),
    ],
)
def test_every_fault_is_named_with_its_place(write, change, said):
    found = errors_of(write("bad.json", GOOD | change))
    assert len(found) == 1
    assert found[0].startswith("papers/bad.json: ")
    assert re.search(said, found[0]) or said in found[0]


def test_a_missing_field_is_named(write):
    assert errors_of(write("a.json", {"article": "A _ ."})) == [
        'papers/a.json: the field "options" is missing; add it'
    ]
    assert errors_of(write("a.json", {"article": "A _ .", "choices": [["b", "c"]]})) == [
        'papers/a.json: the field "options" is missing; rename "choices" to it'
    ]
    race = {"article": "A.", "questions": ["b"], "options": [["c", "d"]]}
    write("a.json", race)
    (said,) = errors_of(write("b.json", {"article": "A _ .", "options": [["b", "c"]]}))
    assert 'the field "questions" is missing, as in a cloze paper; put papers with' in said


def test_small_letters_are_letters_unless_they_are_options(write):
    article = {"article": "It is _ .", "options": [["an", "a", "the"]]}
    folder = write("a.json", article | {"answers": ["b"]})
    assert read_split(folder).passages[0].questions[0].answer == 1
    (said,) = errors_of(write("a.json", article | {"answers": ["a"]}))
    assert "the answer 'a' is not a letter; it is option B, so write B" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"%PDF-1.7 ...", "a PDF, not JSON"),
        (b"PK\3\4 ...", "a Word document or another zip archive"),
        (
            b"\x1f\x8b ...",
            "compressed by gzip; unpack it first, or if it holds papers, let its name end in .gz",
        ),
        (b"\xfd7zXZ ...", "compressed by xz; unpack it first"),
    ],
)
def test_files_that_are_no_text_are_called_by_what_they_are(write, content, said):
    (found,) = errors_of(write("a.json", content))
    assert said in found


def test_a_folder_of_stores_is_called_one(tmp_path):
    (tmp_path / "dev.pt").touch()
    (tmp_path / "train.pt").touch()
    (error,) = read_split(tmp_path).problems
    assert error.message == (
        "a folder of stores (dev.pt, train.pt), not of raw papers; give the raw papers, or for "
        "`predict --data` one of the stores"
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{not json", "not JSON at line 1"),
        (b'{"article": "caf\xe9 _ ."}', "is not UTF-8; save the file as UTF-8"),
        (b"[]", "the list is empty"),
        (b"7", "the paper is a number"),
    ],
)
def test_unreadable_content_is_an_error(write, content, said):
    write("good.json", GOOD)
    found = errors_of(write("bad.json", content), format_name="cloze")
    assert len(found) == 1
    assert found[0].startswith("papers/bad.json: ")
    assert said in found[0]


def test_all_problems_of_all_files_come_in_one_run(write):
    write("a.json", GOOD | {"answers": ["E", "F"], "options": [["x", "y"], ["x"]]})
    write("b.json", b"{")
    folder = write("c.json", GOOD | {"article": "a_ and _b"})
    found = errors_of(folder)
    assert len(found) == 5
    with pytest.raises(DataError) as caught:
        require_good([read_split(folder)], "stop")
    for problem in found:
        assert problem in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_dangling_link_is_a_paper_that_cannot_be_read(write):
    folder = write("a.json", GOOD)
    (folder / "b.json").symlink_to(folder / "nowhere.json")
    (found,) = errors_of(folder)
    assert found.startswith("papers/b.json: cannot be read")


def test_duplicate_ids_name_both_places(write):
    lines = "\n".join(json.dumps(GOOD | {"id": "same"}) for _ in range(2))
    (found,) = errors_of(write("l.jsonl", lines.encode()))
    assert found == (
        "papers/l.jsonl:2: the id 'same' is already used by papers/l.jsonl:1; give each its own id"
    )


def test_odd_options_are_warnings(write):
    paper = GOOD | {"options": [["a", "a", "b", " "], ["c", "d"]]}
    split = read_split(write("a.json", paper))
    assert not split.errors
    said = [p.message for p in split.problems]
    assert said[0].startswith("blank 1: options A and B are both 'a'")
    assert said[1].startswith("blank 1: option D is empty")


def test_a_number_left_at_a_blank_is_a_warning(write):
    split = read_split(write("a.json", GOOD | {"article": "It led _31 me to 69_ ."}))
    assert not split.errors
    assert len(split.problems) == 2


GLUED = {
    "An introductory _course and _ .": "An introductory _ course and _ .",
    "They left their_handbags and _ .": "They left their _ handbags and _ .",
    "He went_, and _then fell.": "He went _, and _ then fell.",
    "_The cat _ .": "_ The cat _ .",
    "She reached her_\nand _ .": "She reached her _\nand _ .",
}


@pytest.mark.parametrize("article", GLUED)
def test_a_blank_that_only_lacks_a_space_is_read_with_a_warning(write, article):
    path = write("a.json", GOOD | {"article": article})
    split = read_split(path)
    assert split.passages[0].text == GLUED[article]
    assert all(split.passages[0].text[a:b] == "_" for a, b in split.passages[0].blanks)
    assert "the blank is attached to a word; put a space between them; read as" in str(
        split.problems[0]
    )
    assert {problem.severity for problem in split.problems} == {"warning"}
    refused = read_split(path, strict=True)
    assert not refused.passages
    assert "attached to a word; put a space between them" in str(refused.errors[0])


@pytest.mark.parametrize(
    "article", ["_ing", "un_", "happi_ness", "some_one", "over_", "_less", "_xqzv", "beaut_"]
)
def test_a_part_of_a_word_next_to_a_blank_is_an_error(write, article):
    split = read_split(write("a.json", GOOD | {"article": f"One _ was {article} ."}))
    assert "blank 2 " in str(split.errors[0])


def test_options_that_are_parts_of_words_tell_of_another_convention(write):
    options = [["ing", "ed", "tion"], ["a", "b"]]
    paper = GOOD | {"article": "Some work_ and _ .", "options": options, "answers": ["A", "B"]}
    assert read_split(write("a.json", paper)).errors


def test_an_empty_folder_is_refused(tmp_path):
    assert "the folder is empty" in errors_of(tmp_path)[0]
    with pytest.raises(DataError, match="the folder is empty") as refused:
        require_good([read_split(tmp_path)], "stop")
    assert "paper" not in str(refused.value).partition(":")[0]
    assert "--on-error skip" not in str(refused.value)
    with pytest.raises(DataError, match="no usable paper"):
        require_good([read_split(tmp_path)], "skip")
    (tmp_path / "list.csv").write_text("a,b")
    assert "or has no .json or .jsonl file; put papers there" in errors_of(tmp_path)[0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("dev.jsonl", b""),
        ("dev.jsonl", b" \n\n"),
        ("dev.tsv", b"sentence\tlabel\n"),
        ("dev.json", []),
    ],
)
def test_an_empty_file_is_an_error(write, name, content):
    (said,) = errors_of(
        write(name, content) / name, format_name="sst-2" if "tsv" in name else "cloze"
    )
    assert "has no papers" in said or "empty" in said


def test_an_empty_split_hides_no_other_problem(write):
    folder = write("train/a.json", b"{")
    (folder / "test").mkdir()
    said = [e.message for s in read_collection(folder) for e in s.errors]
    assert any("not JSON" in m for m in said)
    assert any("folder is empty" in m for m in said)


def test_a_paper_called_test_among_others_is_no_split(write):
    for name in ("unit1.json", "unit2.json", "test.json"):
        folder = write(name, GOOD)
    (only,) = read_collection(folder)
    assert len(only.passages) == 3


def test_levels_are_whole_words(write):
    for name in ("high1.json", "highlights.json", "middle.json"):
        folder = write(name, GOOD)
    assert [p.level for p in read_split(folder).passages] == ["high", None, "middle"]


def test_odd_names_and_ids_are_no_traceback(write):
    folder = write("a.json", [GOOD | {"id": "9" * 5000}, GOOD | {"id": "../../x"}])
    assert len(read_split(folder / "a.json").passages) == 2
    (folder / "b\udcff.json").write_text("{}")
    (found,) = errors_of(folder)
    assert "name is not UTF-8" in found
    found.encode()


def test_an_unknown_format_is_refused(sample):
    with pytest.raises(UsageError, match="--format clozee: choose from cloze, race, dream"):
        read_split(sample / "cloze" / "dev", format_name="clozee")


@pytest.mark.parametrize(
    ("name", "split"),
    [("training", "train"), ("validation", "dev"), ("val", "dev"), ("development", "dev"),
     ("Test", "test")],
)  # fmt: skip
def test_other_names_of_splits(tmp_path, name, split):
    (tmp_path / name).mkdir()
    assert find_splits(tmp_path) == {split: tmp_path / name}


def test_only_whole_names_are_splits(tmp_path):
    inside = tmp_path / "test" / "latest_papers"
    (inside / "contest").mkdir(parents=True)
    assert find_splits(inside) == {"latest_papers": inside}
    (inside / "valid").mkdir()
    assert find_splits(inside) == {"dev": inside / "valid"}


def test_collections_inside_a_folder_are_named(tmp_path):
    """`import --out papers` makes papers/cloze/dev; `preprocess papers` must not mix formats."""
    for place in ("cloze/dev", "race/dev", "notes"):
        (tmp_path / "papers" / place).mkdir(parents=True)
    papers = tmp_path / "papers"
    with pytest.raises(DataError) as refused:
        find_splits(papers)
    assert str(refused.value) == (
        f"{papers}: its splits are in subfolders; give {papers / 'cloze'} or {papers / 'race'}, "
        "one at a time"
    )
    (papers / "train").mkdir()
    assert find_splits(papers) == {"train": papers / "train"}
    assert collections_in(papers) == [papers / "cloze", papers / "race"]
    assert training_beside(tmp_path / "gold.json") is None


def test_collections_whose_splits_are_files_are_named(tmp_path):
    """As of DREAM and GLUE; a single paper named test.json does not make a collection."""
    for place in ("dream/train.json", "dream/dev.json", "mrpc/train.tsv", "mrpc/dev.tsv",
                  "one/test.json", "some/train.json", "some/7.json"):  # fmt: skip
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch()
    assert collections_in(tmp_path) == [tmp_path / "dream", tmp_path / "mrpc"]


def test_skip_keeps_the_good_and_names_the_bad(write):
    write("good.json", GOOD)
    split = read_split(write("bad.json", GOOD | {"answers": ["A", "Z"]}))
    require_good([split], "skip")
    assert [p.id for p in split.passages] == ["good.json"]
    (line,) = rejects(split.errors).splitlines()
    assert json.loads(line)["file"] == "papers/bad.json"


def test_dream_faults(write):
    item = {"question": "Q?", "choice": ["a", "b"], "answer": "c"}
    folder = write("d.json", [[["M: hi"], [item], "1-1"], [["W: no"], [], "1-2"]])
    found = errors_of(folder / "d.json", format_name="dream")
    assert found[0].startswith("d.json[1]: question 1: the answer 'c' is not one of")
    assert "the dialogue has no questions" in found[1]
    folder = write("d.json", [[["M: hi"], [{"question": "Q?", "answer": "c"}], "1-1"]])
    (said,) = errors_of(folder / "d.json", format_name="dream")
    assert 'question 1: "choice" is missing or not a list' in said


def test_a_single_dialogue_is_a_paper(write, sample):
    dialogue = json.loads((sample / "dream" / "dev.json").read_bytes())[0]
    alone = read_split(write("d.json", dialogue) / "d.json")
    (passage,) = alone.passages
    listed = read_split(write("d.json", [dialogue]) / "d.json")
    assert [passage] == list(listed.passages)
    assert passage.id == dialogue[2]
    lines = write("d.json", dialogue) / "d.jsonl"
    lines.write_text(f"{json.dumps(dialogue)}\n")
    assert list(read_split(lines).passages) == [passage]


def test_lines_that_are_not_json_are_named_once(tmp_path):
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(GOOD)}\n{{x\n")
    (error,) = read_split(tmp_path / "a.jsonl").errors
    assert str(error).startswith("a.jsonl:2: not JSON at column 2")
    good = json.dumps(GOOD).encode()
    (tmp_path / "b.jsonl").write_bytes(good + b'\n{"article": "caf\xe9"}\n')
    (error,) = read_split(tmp_path / "b.jsonl").errors
    assert str(error) == "b.jsonl:2: byte 0xe9 is not UTF-8; save the file as UTF-8"


def test_race_faults(write):
    paper = {"article": "Text.", "questions": ["Q?", 5], "options": [["a", "b"]], "answers": ["A"]}
    found = errors_of(write("high1.txt", paper))
    assert any("question 2 is a number; it must be text" in f for f in found)
    found = errors_of(write("high2.txt", paper | {"questions": ["Q?", " "]}))
    assert any("question 2 is empty; add its text" in f for f in found)
    assert any("2 questions but 1 option list; question 2 has none" in f for f in found)


def test_the_real_papers_are_read_whole(real_data):
    counts = {
        s.name: (len(s.passages), s.num_questions) for s in read_collection(real_data / "ele")
    }
    assert counts == {"train": (4603, 83395), "dev": (400, 7798), "test": (400, 7829)}


def test_printed_papers_are_pointed_to_import(tmp_path):
    printed = tmp_path / "exam.txt"
    printed.write_text("It was 21 today.\n21. A. sunny B. rainy\n")
    (error,) = read_split(printed).errors
    assert "not JSON at line 1" in error.message
    assert "`albert-rc import` converts it to JSON" in error.message
    for first in ("Section A\tCloze\n", "1.\tA. good\tB. bad\tC. new\n"):  # not SST-2, not CoLA
        (tmp_path / "tabs.txt").write_text(first + "It _ late.")
        (error,) = read_split(tmp_path / "tabs.txt").problems
        assert "`albert-rc import` converts it to JSON" in error.message
    folder = tmp_path / "papers"
    folder.mkdir()
    for name in ("exam.docx", "exam.PDF"):
        (folder / name).write_bytes(b"PK")
        (error,) = read_split(folder / name).errors
        assert "`albert-rc import`" in error.message
    (error,) = read_split(folder).errors
    assert "no .json, .jsonl file in it, and 2 Word or PDF files skipped" in error.message
    (folder / "a.json").write_text(json.dumps(GOOD))
    found = read_split(folder)
    assert not found.errors
    assert ["2 Word or PDF" in p.message for p in found.problems] == [True]
    torn = tmp_path / "torn.txt"
    torn.write_text('{"article": "It _')
    assert "import" not in read_split(torn).errors[0].message
