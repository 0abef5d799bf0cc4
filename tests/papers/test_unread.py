"""What lies in a folder of papers is read, or it is said that it was not."""

import gzip
import json
import os
import shutil

import pytest

from albert_rc.cli.outputs import check_outputs
from albert_rc.corpus.documents import Source
from albert_rc.errors import DataError, UsageError
from albert_rc.papers.formats import read_split, unread_beside
from albert_rc.papers.splits import find_splits

CLOZE = {"article": "It _ late .", "options": [["is", "are"]], "answers": ["A"]}
RACE = {"id": "r", "article": "It is late.", "questions": ["When?"], "options": [["Now", "Never"]],
        "answers": ["A"]}  # fmt: skip


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_suffixes_in_capitals_and_linked_folders_are_read(tmp_path):
    put(tmp_path / "train" / "a.json", CLOZE)
    put(tmp_path / "train" / "B.JSON", CLOZE)
    put(tmp_path / "elsewhere" / "c.json", CLOZE)
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path)
    (tmp_path / "train" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "train" / "again").symlink_to(tmp_path / "train")
    found = read_split(tmp_path / "train")
    assert sorted(passage.id for passage in found.passages) == ["B.JSON", "a.json", "c.json"]
    assert not found.problems


def test_papers_named_like_other_files_are_read(tmp_path):
    names = ["Copying homework-1.json", "License to drive.json", "readme.exercise.json"]
    for name in names:
        put(tmp_path / name, CLOZE)
    for name in ("README", "readme.txt", "LICENSE", "COPYING.txt", "Licence-MIT", "README.md"):
        put(tmp_path / name, "Read this first.")
    found = read_split(tmp_path)
    assert sorted(passage.id for passage in found.passages) == names
    assert not found.problems


def test_a_pattern_leaves_out_hidden_files(tmp_path):
    put(tmp_path / "a.json", CLOZE)
    put(tmp_path / "._a.json", "\0\5\x16\7")  # as macOS writes next to a file on a USB stick
    assert [passage.id for passage in read_split(tmp_path / "*.json").passages] == ["a.json"]


def test_lines_have_the_same_ids_whatever_the_case_of_the_suffix(tmp_path):
    put(tmp_path / "A.JSONL", CLOZE)
    (passage,) = read_split(tmp_path).passages
    assert passage.id == "A.JSONL:1"


def test_files_that_do_not_end_as_the_format_does_are_counted(tmp_path):
    put(tmp_path / "a.json", CLOZE)
    for name in ("README.md", "LICENCE.txt", "dev.pt", "rejects.jsonl"):  # not meant to be papers
        put(tmp_path / name, "36. A. is B. are")
    assert not read_split(tmp_path).problems
    for name in ("exam.txt", "b.jsn", "c.zip", "more/d.json.xz"):
        put(tmp_path / name, "36. A. is B. are")
    (problem,) = read_split(tmp_path).problems
    assert problem.severity == "warning"
    assert problem.message == (
        "4 files skipped (b.jsn, c.zip, exam.txt, ... and 1 more); file names of papers must end "
        "in .json, .jsonl (or, if compressed, then in .gz or .zst)"
    )


def test_a_torn_first_line_does_not_decide_the_format(tmp_path):
    lines = [json.dumps(RACE)[:40], *(json.dumps(RACE | {"id": str(n)}) for n in range(3))]
    put(tmp_path / "train.jsonl", "\n".join(lines) + "\n")
    found = read_split(tmp_path / "train.jsonl")
    assert (found.format, len(found.passages)) == ("race", 3)


def test_the_first_name_of_a_split_counts_and_the_others_are_told(tmp_path):
    for name in ("train", "dev", "valid"):
        put(tmp_path / name / "a.json", CLOZE)
    loose = put(tmp_path / "exam-1.json", CLOZE)
    put(tmp_path / "answers.json", {"a.json": ["A"]})
    assert find_splits(tmp_path)["dev"].name == "dev"
    told = dict(unread_beside(tmp_path))
    assert told == {
        tmp_path / "valid": "dev is used as dev", loose: "it is next to train, dev",
    }  # fmt: skip


def test_splits_have_names_in_any_case_and_other_folders_are_told(tmp_path):
    for name in ("Train", "EVAL", "more", "notes", "race/train"):
        put(tmp_path / name / "a.json", CLOZE if name != "notes" else {"to": "do"})
    names = {split: place.name for split, place in find_splits(tmp_path).items()}
    assert names == {"train": "Train", "dev": "EVAL"}
    told = dict(unread_beside(tmp_path))
    assert told == {tmp_path / "more": "it is next to train, dev"}
    assert find_splits(tmp_path / "Train") == {"train": tmp_path / "Train"}


def test_mrpcs_own_split_is_preferred_to_the_published_tables(tmp_path):
    """Whose training table holds the dev rows."""
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "train.tsv", "dev.tsv"):
        put(tmp_path / name, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb\n")
    names = {split: place.name for split, place in find_splits(tmp_path).items()}
    assert names == {"train": "train.tsv", "dev": "dev.tsv", "test": "msr_paraphrase_test.txt"}
    assert unread_beside(tmp_path) == []


def test_compressed_papers_are_part_of_a_source(tmp_path):
    put(tmp_path / "a.json", CLOZE)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps(CLOZE).encode()))
    names = [path.name for path in Source(tmp_path, False, 1).files()]
    assert names == ["a.json", "b.jsonl.gz"]


def test_a_result_does_not_replace_a_paper_of_a_pattern(tmp_path):
    for name in ("p1.json", "p2.json"):
        put(tmp_path / name, CLOZE)
    for name in ("p2.json", "p99.json"):
        with pytest.raises(UsageError, match="the input papers; choose another"):
            check_outputs({"--out": tmp_path / name}, [tmp_path / "p*.json"])
    check_outputs({"--out": tmp_path / "answer.json"}, [tmp_path / "p*.json"])
    shutil.rmtree(tmp_path)


def test_a_store_is_no_file_of_papers(tmp_path):
    put(tmp_path / "dev.pt", "PK")
    with pytest.raises(DataError, match=r"dev\.pt is a store of `preprocess`; give the raw"):
        read_split(tmp_path / "dev.pt")


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_another_file_does_not_make_splits_one(tmp_path, suffix):
    for name in ("train", "dev", "test"):
        put(tmp_path / f"{name}{suffix}", CLOZE)
    put(tmp_path / "test_answers.json", {"a.json": ["A"]})
    extra = put(tmp_path / f"extra{suffix}", CLOZE)
    found = {split: place.name for split, place in find_splits(tmp_path).items()}
    assert found == {name: f"{name}{suffix}" for name in ("train", "dev", "test")}
    assert dict(unread_beside(tmp_path)) == {extra: "it is next to train, dev, test"}
    # In a collection of collections as well.
    shutil.copytree(tmp_path, tmp_path / "whole" / "inner")
    with pytest.raises(DataError, match=r"its splits are in subfolders; give .*inner"):
        find_splits(tmp_path / "whole")


def test_one_paper_called_test_is_no_split(tmp_path):
    for name in ("test", "second", "third"):
        put(tmp_path / f"{name}.json", CLOZE)
    assert list(find_splits(tmp_path).values()) == [tmp_path]


def test_tables_are_splits_next_to_other_files(tmp_path):
    for name in ("train", "dev", "train_part2"):
        put(tmp_path / f"{name}.tsv", "sentence\tlabel\nIt is good.\t1\n")
    put(tmp_path / "dataset_infos.json", {"sst2": {}})
    assert list(find_splits(tmp_path)) == ["train", "dev"]
    assert [path.name for path, _ in unread_beside(tmp_path)] == ["train_part2.tsv"]


def test_files_that_the_hub_writes_are_splits(tmp_path):
    for name in ("train", "validation"):
        put(tmp_path / f"{name}-00000-of-00001.jsonl", CLOZE)
    assert list(find_splits(tmp_path)) == ["train", "dev"]


def test_the_format_of_a_pattern_is_that_of_its_files(tmp_path):
    put(tmp_path / "a-race.jsonl", RACE)
    for number in (1, 2):
        put(tmp_path / f"dev-{number}.jsonl", CLOZE)
    found = read_split(tmp_path / "dev-*.jsonl")
    assert (found.format, len(found.passages)) == ("cloze", 2)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(DataError, match=r"pipe\.json: is a pipe or a device; write its content"):
        read_split(tmp_path / "pipe.json")


@pytest.mark.parametrize("name", ["answer", "Answers", "key"])
def test_answers_of_another_name_are_told(tmp_path, name):
    put(tmp_path / "a.json", {key: CLOZE[key] for key in ("article", "options")} | {name: ["A"]})
    (problem,) = read_split(tmp_path).problems
    assert problem.severity == "warning"
    assert f'the field "answers" is missing, and "{name}" is not read' in problem.message


def test_lines_in_a_file_of_one_paper_have_a_way_out(tmp_path):
    put(tmp_path / "train.json", f"{json.dumps(CLOZE)}\n{json.dumps(CLOZE)}\n")
    (problem,) = read_split(tmp_path).problems
    assert problem.message.endswith("if each line is a paper, let the file's name end in .jsonl")


def test_hidden_files_do_not_change_the_name_of_a_split(tmp_path):
    """Such as those of macOS next to each file of an unpacked archive."""
    (tmp_path / "train.jsonl").write_text(json.dumps(CLOZE))
    (tmp_path / "._train.jsonl").write_bytes(b"\x00\x05")
    put(tmp_path / "__MACOSX" / "train" / "._a.json", "")
    put(tmp_path / "__MACOSX" / "dev" / "._a.json", "")
    assert not unread_beside(tmp_path)
    assert list(find_splits(tmp_path)) == ["train"]
