"""Papers in compressed files, in Parquet, and in object stores: the same papers."""

import gzip
import json

import orjson
import pytest
from conftest import SAMPLE

from albert_rc.errors import DataError, UsageError
from albert_rc.papers.files import Sources
from albert_rc.papers.formats import read_collection, read_split
from albert_rc.papers.opening import content_name, remote_path, stem_of
from albert_rc.papers.splits import find_splits

PAPERS = [orjson.loads(path.read_bytes()) for path in sorted((SAMPLE / "cloze/dev").iterdir())]
LINES = b"".join(json.dumps(paper).encode() + b"\n" for paper in PAPERS)


def write(folder, suffix):
    """The sample's dev papers as one file of lines."""
    path = folder / f"dev.jsonl{suffix}"
    if suffix == ".gz":
        path.write_bytes(gzip.compress(LINES))
    elif suffix == ".zst":
        zstandard = pytest.importorskip("zstandard")
        path.write_bytes(zstandard.compress(LINES))
    elif suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        path = folder / "dev.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(PAPERS), path)
    else:
        path.write_bytes(LINES)
    return path


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".parquet"])
def test_every_kind_of_file_gives_the_same_papers(tmp_path, suffix):
    path = write(tmp_path, suffix)
    found = read_split(path)
    assert found.name == "dev"
    plain = (tmp_path / "plain.jsonl", LINES)
    plain[0].write_bytes(plain[1])
    expected = read_split(plain[0])
    assert [p.text for p in found.passages] == [p.text for p in expected.passages]
    assert [p.questions for p in found.passages] == [p.questions for p in expected.passages]
    name = "dev.parquet" if suffix == ".parquet" else "dev.jsonl"
    assert [p.id for p in found.passages] == [f"{name}:{n}" for n in range(1, len(PAPERS) + 1)]
    assert not found.problems


def test_a_paper_of_its_own_file_may_be_compressed(tmp_path):
    for number, paper in enumerate(PAPERS):
        (tmp_path / f"{number}.json.gz").write_bytes(gzip.compress(orjson.dumps(paper)))
    found = read_split(tmp_path)
    assert [p.id for p in found.passages] == [f"{n}.json" for n in range(len(PAPERS))]


def test_splits_are_found_by_their_names(tmp_path):
    for name in ("train", "test", "dev"):
        write(tmp_path, ".gz").rename(tmp_path / f"{name}.jsonl.gz")
    assert list(find_splits(tmp_path)) == ["train", "dev", "test"]


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".parquet"])
def test_damage_is_named(tmp_path, suffix):
    path = write(tmp_path, suffix)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    problems = read_split(path, format_name="cloze").problems
    assert any("damaged" in problem.message for problem in problems)
    path.write_bytes(b"{}")
    (problem,) = read_split(path, format_name="cloze").problems
    assert path.name in str(problem)
    assert "damaged" in problem.message


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".parquet"])
def test_names_in_capitals_are_the_same_kinds(tmp_path, suffix):
    path = write(tmp_path, suffix)
    capitals = path.rename(tmp_path / path.name.upper())
    found = read_split(capitals)
    assert not found.problems
    assert len(found.passages) == len(PAPERS)
    assert len(read_split(tmp_path).passages) == len(PAPERS)  # found in a folder, too


def test_a_column_that_json_has_not_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "dev.parquet"
    rows = [{**paper, "scan": b"\x00\x01"} for paper in PAPERS]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    (problem,) = read_split(path, format_name="cloze").errors
    assert "column 'scan' holds bytes, not text or numbers" in str(problem)


def test_problems_name_the_line(tmp_path):
    bad = LINES + b'{"article": "a _ b", "options": []}\n'
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(bad))
    (problem,) = read_split(tmp_path / "dev.jsonl.gz").errors
    assert f"dev.jsonl.gz:{len(PAPERS) + 1}" in str(problem)


def test_names():
    assert content_name("a/b.jsonl.gz") == "a/b.jsonl"
    assert content_name("b.parquet") == "b.jsonl"
    assert content_name("b.json") == "b.json"
    assert stem_of(SAMPLE / "dev.jsonl.zst") == "dev"


def test_an_object_store_gives_what_a_folder_gives(tmp_path):
    pytest.importorskip("upath")
    place = remote_path("memory://bucket/papers")
    for split in ("train", "dev"):
        for path in (SAMPLE / "cloze" / split).iterdir():
            target = place / split / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (place / "dev" / ".hidden.json").write_bytes(b"{}")
    local = {found.name: found for found in read_collection(SAMPLE / "cloze")}
    for found in read_collection(place):
        assert found.source_hash == local[found.name].source_hash
        assert [p.id for p in found.passages] == [p.id for p in local[found.name].passages]
    assert len(Sources(place / "dev")) == len(PAPERS)


def test_an_address_of_no_known_kind_is_refused():
    pytest.importorskip("upath")
    with pytest.raises(UsageError, match="nowhere://bucket"):
        remote_path("nowhere://bucket")


def test_a_pattern_is_a_split(tmp_path):
    for number in (10, 9, 1):
        write(tmp_path, ".gz").rename(tmp_path / f"train-{number}.jsonl.gz")
    (tmp_path / "other.jsonl").write_bytes(b"{}")
    assert find_splits(tmp_path / "train-*.jsonl.gz") == {"train": tmp_path / "train-*.jsonl.gz"}
    assert list(find_splits(tmp_path / "*.gz")) == ["papers"]
    found = read_split(tmp_path / "train-*")
    assert len(found.passages) == 3 * len(PAPERS)
    assert [p.id for p in found.passages][:: len(PAPERS)] == [
        f"train-{number}.jsonl:1" for number in (1, 9, 10)
    ]
    with pytest.raises(DataError, match="no file of papers matches this pattern"):
        find_splits(tmp_path / "dev-*")
