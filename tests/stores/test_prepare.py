"""Papers as a stream: the same stores whoever encodes them, and nothing left behind."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import SAMPLE

from albert_rc.errors import DataError, UsageError
from albert_rc.papers import files as sources
from albert_rc.papers import raw
from albert_rc.papers.files import Sources
from albert_rc.papers.formats import read_collection, require_good
from albert_rc.papers.splits import find_splits
from albert_rc.stores import preprocess as prepare
from albert_rc.stores.preprocess import prepare_collection
from albert_rc.stores.store import load_store, make_store
from albert_rc.stores.writer import MAX_OFFSET, check_total

VOCABULARY = SAMPLE / "vocabulary"
WORDS = "the old farmer walked home and she was glad to see him naïve ten -year-old .".split()


def cloze_paper(rng, blanks, words=40):
    text = [rng.choice(WORDS) for _ in range(words)]
    for place in rng.sample(range(words), blanks):
        text[place] = "_"
    options = [[f"{rng.choice(WORDS)}{k}" for k in range(rng.randint(2, 5))] for _ in range(blanks)]
    answers = [rng.choice("AB") for _ in range(blanks)]
    return {"article": " ".join(text), "options": options, "answers": answers}


def choice_paper(rng, questions):
    return {
        "article": " ".join(rng.choice(WORDS) for _ in range(90)),
        "questions": [rng.choice(["Who was _ ?", "What did he see?"]) for _ in range(questions)],
        "options": [[f"{rng.choice(WORDS)}" * k for k in range(1, 5)] for _ in range(questions)],
        "answers": [rng.choice("ABCD") for _ in range(questions)],
    }


def lay_out(root: Path) -> None:
    """Two collections with everything that can be wrong, in files of every form."""
    rng = random.Random(5)

    def write(name, content):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())

    lines = []
    for i in rng.sample(range(150), 150):  # in no order
        paper = cloze_paper(rng, rng.randint(1, 9), rng.choice([20, 40, 300])) | {"id": f"p{i}"}
        if i % 17 == 0:
            paper["answers"].append("A")
        if i % 23 == 0:
            paper["id"] = f"p{i // 23}"  # taken, perhaps by a paper with an error
        if i % 29 == 0:
            paper["options"][0][1] = paper["options"][0][0]
        lines.append(json.dumps(paper))
        if i % 31 == 0:
            lines += ["", "{torn", "   ", "[1, 2]", "7"]
    write("cloze/train/many.jsonl", "\n".join(lines).encode())
    for i in range(60):
        write(f"cloze/train/high/unit{i}.json", cloze_paper(rng, 3))
        write(f"cloze/train/b/{i % 50}.json", cloze_paper(rng, 2))
    write("cloze/train/list.json", [cloze_paper(rng, 2) for _ in range(50)] + [5, {"id": "p3"}])
    write("cloze/train/b/unit7.json", cloze_paper(rng, 2))  # its name is taken
    write("cloze/train/latin.json", b'{"article": "caf\xe9 _ ."}')
    write("cloze/train/empty.json", b"")
    write("cloze/train/none.json", [])
    write("cloze/train/.hidden/x.json", b"{")
    (root / "cloze/train/gone.json").symlink_to("nowhere.json")
    write("cloze/dev.jsonl", b"\n\n" + json.dumps(cloze_paper(rng, 4)).encode() + b"\r\n")
    for i in rng.sample(range(80), 80):
        paper = choice_paper(rng, rng.randint(1, 4))
        if i % 19 == 0:
            paper["options"].pop()
        if i % 13 == 0:
            paper["id"] = f"high{i % 4}.txt"
        write(f"race/train/{'high' if i % 2 else 'middle'}/{i}.txt", paper)


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    root = tmp_path_factory.mktemp("messy")
    lay_out(root)
    return root


def digest(tensors, meta, problems):
    """Everything about a split that has to stay as it is."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].dtype} ".encode() + tensors[name].numpy().tobytes())
    said = {k: v for k, v in meta.items() if k not in ("made_with", "vocabulary")}
    found.update(json.dumps([said, [str(p) for p in problems]]).encode())
    return found.hexdigest()[:16]


# Made by the code that read everything into memory, in one process (commit 0ef0333); sentences
# of problems have changed since, and no tensor but `start`, which choice stores did not have.
BEFORE = {
    "cloze/train": "2945cffd5f894559",
    "cloze/dev": "1c63bdacd0b19bec",
    "race/train": "2dd68ce4eb18447c",
}


def splits_of(root):
    return {
        f"{name}/{s.name}": s for name in ("cloze", "race") for s in read_collection(root / name)
    }


def test_reading_it_all_gives_the_stores_of_before(messy, tokenizer):
    found = {}
    for name, split in splits_of(messy).items():
        store = make_store(split, tokenizer, 64)
        found[name] = digest(store.tensors, store.meta, split.problems)
    assert found == BEFORE


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ["cloze", "race"])
def test_streams_give_the_stores_of_before(messy, tokenizer, tmp_path, monkeypatch, name, workers):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 2000)  # a few papers
    with prepare_collection(
        find_splits(messy / name), tokenizer, 64, scratch=tmp_path, workers=workers
    ) as splits:
        require_good(splits, "skip")
        for split in splits:
            path = tmp_path / "x.pt"
            split.save(path)
            store = load_store(path)
            problems = split.problems
            assert digest(store.tensors, store.meta, problems) == BEFORE[f"{name}/{split.name}"]
            assert split.summary() == store.summary()
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ["cloze", "race", "dream"])
def test_the_sample_as_a_stream(tokenizer, stores, tmp_path, monkeypatch, name, workers):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 1500)
    monkeypatch.setattr(prepare, "FEW_CHUNKS", 2)
    with prepare_collection(
        find_splits(SAMPLE / name), tokenizer, 512, scratch=tmp_path, workers=workers
    ) as splits:
        for split in splits:
            split.save(tmp_path / "x.pt")
            found, before = load_store(tmp_path / "x.pt"), stores[name, split.name]
            assert found.meta == before.meta
            assert found.tensors.keys() == before.tensors.keys()
            assert all(torch.equal(found.tensors[k], before.tensors[k]) for k in found.tensors)


def test_few_papers_start_no_process(tokenizer, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("a process was started for the sample")

    monkeypatch.setattr(prepare.TaskEngine, "map_in_order", refuse)
    with prepare_collection(
        find_splits(SAMPLE / "cloze"), tokenizer, 512, scratch=tmp_path
    ) as splits:
        assert [split.num_papers for split in splits] == [28, 8, 8]


def test_chunks_are_bounded_and_lose_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(raw, "CHUNK_BYTES", 1000)
    papers = [{"article": f"It was _ {i} .", "options": [["a", "b"]]} for i in range(200)]
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "a.jsonl").write_text("\n".join(map(json.dumps, papers)))
    (tmp_path / "papers" / "b.json").write_text(json.dumps(papers))
    for i, paper in enumerate(papers):
        (tmp_path / "papers" / f"c{i}.json").write_text(json.dumps(paper))
    chunks = list(Sources(tmp_path / "papers").chunks(False))
    assert len(chunks) > 40
    assert all(sum(raw.size for raw in chunk) < 2200 for chunk in chunks)
    values = [value for chunk in chunks for raw in chunk for _, value in raw.records(False)]
    assert values == papers * 3


def test_a_large_list_may_hold_what_is_nested_too_deeply(tmp_path, monkeypatch, tokenizer):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 100)
    good = json.dumps({"article": "It was _ .", "options": [["a", "b"]]})
    deep = "[" * 900 + "]" * 900
    (tmp_path / "a.json").write_text(f"[{good}, {deep}]")
    with prepare_collection(find_splits(tmp_path), tokenizer, 64, scratch=tmp_path, workers=2) as (
        split,
    ):
        (problem,) = split.errors
    assert "[2]: the paper is a list" in str(problem)


def unfit(rng, words):
    paper = choice_paper(rng, 1)
    return paper | {"questions": ["Who " * words]}


@pytest.mark.parametrize("workers", [1, 2])
def test_papers_that_do_not_fit_are_rejected_like_others(tokenizer, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 3000)
    rng = random.Random(0)
    folder = tmp_path / "race"
    folder.mkdir()
    for i in range(60):
        paper = unfit(rng, 90) if i in (21, 35, 40) else choice_paper(rng, 2)
        paper["id"] = f"x{100 - i}"
        if i == 21:
            paper["answers"] = ["Z"]
        (folder / f"{i}.txt").write_text(json.dumps(paper))
    with pytest.raises(DataError, match="x60: question 1 with its longest option has"):
        make_store(read_collection(folder)[0], tokenizer, 64)
    with prepare_collection(
        find_splits(folder), tokenizer, 64, scratch=tmp_path, workers=workers
    ) as splits:
        with pytest.raises(DataError, match="3 problems in 3 papers"):
            require_good(splits, "stop")
        require_good(splits, "skip")
        (split,) = splits
        assert [Path(problem.file).name for problem in split.errors] == [
            "21.txt", "35.txt", "40.txt",
        ]  # fmt: skip
        assert "and a window 64; shorten it" in split.errors[-1].message
        assert (split.num_papers, split.num_rejected) == (57, 3)
        split.save(tmp_path / "train.pt")
    store = load_store(tmp_path / "train.pt")
    for number in (21, 35, 40):
        (folder / f"{number}.txt").unlink()
    expected = make_store(read_collection(folder)[0], tokenizer, 64)
    assert store.meta["ids"] == expected.meta["ids"]
    for name, tensor in expected.tensors.items():
        assert torch.equal(store.tensors[name], tensor), name


def test_a_store_that_is_too_large_is_refused():
    check_total("token", MAX_OFFSET)
    with pytest.raises(DataError, match="2,147,483,648 tokens are too many for one store"):
        check_total("token", MAX_OFFSET + 1)


def test_there_must_be_a_worker(tokenizer, tmp_path):
    with (
        pytest.raises(UsageError, match="--workers 0 must be at least 1"),
        prepare_collection(
            find_splits(SAMPLE / "cloze"), tokenizer, 64, scratch=tmp_path, workers=0
        ),
    ):
        pass


def children_of(pid):
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(status.parent.name))
    return found


def alive(pid):
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty where only the name is left
    except OSError:
        return False


def workers_of(pid):
    """The worker processes, without multiprocessing's own helper."""
    found = []
    for child in children_of(pid):
        try:
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Enough papers to keep two workers busy for some seconds."""
    path = tmp_path_factory.mktemp("many") / "train.jsonl"
    rng = random.Random(1)
    block = [json.dumps(cloze_paper(rng, 15, 300)) for _ in range(500)]
    path.write_text("\n".join(block * 20))
    return path


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize(
    ("victim", "number", "code", "said"),
    [
        ("program", signal.SIGTERM, 130, "stopped; no store was written"),
        ("program", signal.SIGINT, 130, "stopped; no store was written"),
        ("program, twice", signal.SIGINT, 130, "stopped; no store was written"),
        ("program", signal.SIGKILL, -signal.SIGKILL, ""),
        ("worker", signal.SIGKILL, 5, "a worker process was killed, most likely because memory"),
        ("worker", signal.SIGTERM, 1, "a worker process ended unexpectedly (code -15)"),
    ],
)
def test_whoever_is_stopped_nothing_stays_behind(many, tmp_path, victim, number, code, said):
    command = [sys.executable, "-m", "albert_rc", "preprocess", many, "--model", VOCABULARY]
    program = subprocess.Popen(
        [*map(str, command), "--out", str(tmp_path / "out"), "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(workers_of(program.pid)) < 2:
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.4)  # some chunks are under way
    family = children_of(program.pid)
    os.kill(workers_of(program.pid)[0] if victim == "worker" else program.pid, number)
    if victim.endswith("twice"):  # as where a launcher passes on what the terminal sends
        time.sleep(0.01)
        os.kill(program.pid, number)
    _, stderr = program.communicate(timeout=60)
    assert program.returncode == code, stderr
    assert said in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []
    while any(map(alive, family)):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.05)
