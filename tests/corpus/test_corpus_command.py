"""`pretrain data`: parts, stopping, and what is refused."""

import os
import signal
import subprocess
import sys
import time

import pytest
from stories import STORY, write_stories

from albert_rc.corpus.shards import Corpus
from albert_rc.errors import DataError


@pytest.fixture
def text(tmp_path):
    return write_stories(tmp_path / "text")


def test_the_command_makes_a_corpus_in_parts(text, cli, tmp_path, sample):
    def run(*more):
        done = cli(
            "pretrain", "data", text, "--model", sample / "vocabulary", "--out", tmp_path / "c",
            "--shard-size", "2kB", "--dev", 0.2, *more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    run("--part", "1/2", "--workers", 1)
    with pytest.raises(DataError, match="shards"):
        Corpus(tmp_path / "c" / "train")
    assert "documents" in run("--part", "2/2", "--workers", 2).stdout
    assert run().stderr.count("already there") == len(list((tmp_path / "c" / "train").iterdir()))
    Corpus(tmp_path / "c" / "train")
    Corpus(tmp_path / "c" / "dev")
    for wrong in ("0/2", "3/2", "half"):
        done = cli("pretrain", "data", text, "--model", sample / "vocabulary", "--part", wrong)
        assert done.returncode == 2


@pytest.fixture
def made_by(cli, tmp_path, sample):
    """Runs `pretrain data` on what lies in the test's folder."""

    def run(name, *more):
        return cli(
            "pretrain", "data", tmp_path / name, "--model", sample / "vocabulary",
            "--out", tmp_path / "new" / "c", *more,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("workers", [0, -1])
def test_nobody_can_make_no_corpus(text, made_by, tmp_path, workers):
    done = made_by("text", "--workers", workers)
    assert done.returncode == 2
    assert "--workers" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("name", "content", "more", "said"),
    [
        ("empty.txt", "", [], "empty.txt: there is no text in it"),
        ("tiny.txt", "Hello.", [], "tiny.txt: no document has at least 16 tokens"),
        ("open.json", '{"article": "A _", "options": [["b", "c"]]}', [], "no paper has an answer"),
        ("good.txt", STORY, ["--dev", 1], "--dev holds out all the text (1 sequence)"),
    ],
)
def test_a_corpus_of_nothing_is_not_left_behind(made_by, tmp_path, name, content, more, said):
    (tmp_path / name).write_text(content)
    done = made_by(name, *more)
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_no_document_kept_apart_is_said(made_by, tmp_path):
    (tmp_path / "one.txt").write_text(STORY)
    done = made_by("one.txt")
    assert done.returncode == 0, done.stderr
    assert "train: 1 document, 1 sequence, " in done.stdout
    assert "note: --dev 0.01 holds out none of the 1 document, so" in done.stderr


def test_a_corpus_of_no_sequence_is_refused(cli, made_by, text, tmp_path, sample):
    """A part may be empty, for others may hold something; all of them may not."""
    (tmp_path / "tiny.txt").write_text("Hello.")
    assert made_by("tiny.txt", "--part", "1/2").returncode == 0
    data = tmp_path / "new" / "c"
    done = cli(
        "pretrain", "--data", data, "--model", sample / "vocabulary", "--scratch", "tiny",
        "--out", tmp_path / "p",
    )  # fmt: skip
    assert done.returncode == 3
    assert f"{data / 'train'} has no sequences to train on" in done.stderr


def test_shards_of_another_corpus_are_not_mixed_in(made_by, text, tmp_path):
    place = tmp_path / "new" / "c"
    assert made_by("text", "--dev", 0.3).returncode == 0
    before = {path: path.read_bytes() for path in sorted(place.rglob("*.pt"))}
    assert len(before) == 2
    done = made_by("text", "--dev", 0.3, "--shard-size", "2kB")
    assert done.returncode == 2
    assert (
        "train/shard-00001-of-00001.pt already exists and belongs to another corpus" in done.stderr
    )
    assert f"remove {place / 'train'} and {place / 'dev'}" in done.stderr
    assert "--dev 0: " in made_by("text", "--dev", 0).stderr
    assert {path: path.read_bytes() for path in sorted(place.rglob("*.pt"))} == before
    one = next(iter(before))
    one.with_name("shard-00002-of-00003.pt").write_bytes(before[one])
    with pytest.raises(DataError, match=r"of 2 different sets \(of 1 and of 3 shards\); remove"):
        Corpus(one.parent)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_says_that_it_goes_on(text, tmp_path, sample, number):
    for i in range(300):
        (text / f"more{i}.txt").write_text(f"Tale {i}. {STORY * 200}")
    command = [
        sys.executable, "-m", "albert_rc", "pretrain", "data", text, "--out", tmp_path / "c",
        "--model", sample / "vocabulary", "--shard-size", "20kB", "--workers", 1,
    ]  # fmt: skip
    program = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("c/train/*.pt")):
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(program.pid, number)
    _, stderr = program.communicate(timeout=60)
    assert program.returncode == 130, stderr
    assert stderr.endswith("stopped; finished shards are kept, and the same command continues\n")
