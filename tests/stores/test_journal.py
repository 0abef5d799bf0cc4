"""Preprocessing that was stopped goes on with what was encoded; its stores are the same bytes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import count

import pytest
from conftest import SAMPLE
from test_prepare import cloze_paper, lay_out

from albert_rc.errors import DataError
from albert_rc.papers import files as sources
from albert_rc.papers import raw
from albert_rc.papers.splits import find_splits
from albert_rc.stores import journal
from albert_rc.stores.chunks import ChunkEncoder
from albert_rc.stores.journal import JOURNAL
from albert_rc.stores.preprocess import PreparedSplit, prepare_collection

VOCABULARY = SAMPLE / "vocabulary"


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    root = tmp_path_factory.mktemp("messy")
    lay_out(root)
    return root


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(sources, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(raw, "CHUNK_BYTES", 2000)
    monkeypatch.setattr(journal, "HELD", 1)


def stored(places, tokenizer, out, *, window=64, on_event=lambda said: None):
    """Preprocess; the bytes of the stores, and the problems."""
    with prepare_collection(
        places, tokenizer, window, scratch=out, workers=1, on_event=on_event
    ) as splits:
        found = {}
        for split in splits:
            split.save(out / "x.pt")
            found[split.name] = ((out / "x.pt").read_bytes(), list(map(str, split.problems)))
            (out / "x.pt").unlink()
    return found


def stop_after(monkeypatch, chunks):
    """Ctrl-C after some chunks."""
    number, add = count(1), PreparedSplit.add

    def stopping(*arguments):
        add(*arguments)
        if next(number) == chunks:
            raise KeyboardInterrupt

    monkeypatch.setattr(PreparedSplit, "add", stopping)


def stopped(places, tokenizer, out, monkeypatch, chunks):
    """Stop preprocessing; returns what it said."""
    said = []
    with monkeypatch.context() as patched:
        stop_after(patched, chunks)
        with pytest.raises(KeyboardInterrupt):
            stored(places, tokenizer, out, on_event=said.append)
    return said


def encoded_chunks(monkeypatch):
    """Counts the chunks that are encoded from now on."""
    found, encode = [], ChunkEncoder.__call__
    monkeypatch.setattr(
        ChunkEncoder, "__call__", lambda self, task: (found.append(task), encode(self, task))[1]
    )
    return found


@pytest.mark.parametrize("name", ["cloze", "race"])
def test_it_goes_on_where_it_was_stopped(messy, tokenizer, tmp_path, monkeypatch, name):
    places = find_splits(messy / name)
    total = encoded_chunks(monkeypatch)
    whole = stored(places, tokenizer, tmp_path)
    assert list(tmp_path.iterdir()) == []
    chunks = len(total)
    assert chunks > 8
    said = stopped(places, tokenizer, tmp_path, monkeypatch, 4)
    assert [path.name for path in tmp_path.iterdir()] == [JOURNAL]
    assert said == [
        f"the papers encoded so far are in {tmp_path / JOURNAL}; "
        "run the same command again to continue"
    ]
    stopped(places, tokenizer, tmp_path, monkeypatch, 6)  # further on
    total.clear()
    said = []
    assert stored(places, tokenizer, tmp_path, on_event=said.append) == whole
    assert len(total) == chunks - 6
    assert said[0].startswith("continuing after ")
    assert list(tmp_path.iterdir()) == []


def test_a_torn_entry_is_encoded_again(messy, tokenizer, tmp_path, monkeypatch):
    places = find_splits(messy / "cloze")
    whole = stored(places, tokenizer, tmp_path)
    for damage in (lambda old: old[:-7], lambda old: old[:-7] + b"nothing", lambda old: old[:20]):
        stopped(places, tokenizer, tmp_path, monkeypatch, 5)
        path = tmp_path / JOURNAL
        path.write_bytes(damage(path.read_bytes()))
        assert stored(places, tokenizer, tmp_path) == whole


def test_other_papers_or_another_window_begin_anew(messy, tokenizer, tmp_path, monkeypatch):
    places = find_splits(messy / "cloze")
    narrow = stored(places, tokenizer, tmp_path, window=48)
    other = stored(find_splits(messy / "race"), tokenizer, tmp_path)
    total = encoded_chunks(monkeypatch)
    for again, before, window in ((places, narrow, 48), (find_splits(messy / "race"), other, 64)):
        stopped(places, tokenizer, tmp_path, monkeypatch, 5)
        total.clear()
        said = []
        assert stored(again, tokenizer, tmp_path, window=window, on_event=said.append) == before
        assert said == []


def test_a_paper_that_changed_is_encoded_again(tokenizer, tmp_path, monkeypatch, random_papers):
    papers, out = tmp_path / "papers", tmp_path / "out"
    papers.mkdir()
    out.mkdir()
    for number, paper in enumerate(random_papers):
        (papers / f"{number}.json").write_bytes(paper)
    places = find_splits(papers)
    stopped(places, tokenizer, out, monkeypatch, 10)
    changed = papers / "30.json"
    changed.write_bytes(changed.read_bytes().replace(b"article", b"article", 1)[:-1] + b" }")
    total = encoded_chunks(monkeypatch)
    found = stored(places, tokenizer, out)
    gone_on = len(total)
    total.clear()
    assert stored(places, tokenizer, out) == found
    assert 0 < len(total) - gone_on < 10


@pytest.fixture
def random_papers():
    rng = random.Random(3)
    return [json.dumps(cloze_paper(rng, 5)).encode() for _ in range(100)]


def test_refused_papers_leave_nothing(messy, tokenizer, tmp_path):
    with (
        pytest.raises(DataError),
        prepare_collection(
            find_splits(messy / "cloze"), tokenizer, 64, scratch=tmp_path, workers=1
        ),
    ):
        assert (tmp_path / JOURNAL).is_file()
        raise DataError("a paper is bad")
    assert list(tmp_path.iterdir()) == []


def test_it_stands_where_the_stores_will_be(messy, tokenizer, tmp_path, monkeypatch):
    out = tmp_path / "new" / "out"
    (said,) = stopped(find_splits(messy / "cloze"), tokenizer, out, monkeypatch, 3)
    assert str(out / JOURNAL) in said
    assert [path.name for path in out.iterdir()] == [JOURNAL]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_bad_papers_leave_no_folder(messy, tokenizer, tmp_path):
    out = tmp_path / "new" / "out"
    with (
        pytest.raises(DataError),
        prepare_collection(find_splits(messy / "cloze"), tokenizer, 64, scratch=out, workers=1),
    ):
        assert (out / JOURNAL).is_file()
        raise DataError("a paper is bad")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_costs_the_journal_only(messy, tokenizer, tmp_path, monkeypatch):
    places = find_splits(messy / "cloze")
    whole = stored(places, tokenizer, tmp_path)
    number = count(1)

    def full(self, *_):
        if next(number) == 3:
            raise OSError(28, "No space left on device")
        return flush(self)

    flush = journal.Journal._flush
    monkeypatch.setattr(journal.Journal, "_flush", full)
    assert stored(places, tokenizer, tmp_path) == whole
    assert next(number) == 4
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_kill_costs_a_minute_not_an_hour(tmp_path):
    """Real processes and a real kill: 200,000 papers."""
    rng = random.Random(1)
    block = [json.dumps(cloze_paper(rng, 15, 300)) for _ in range(500)]
    papers = tmp_path / "train.jsonl"
    papers.write_text("\n".join(block * 400))
    command = [sys.executable, "-m", "albert_rc", "preprocess", papers, "--model", VOCABULARY]

    def begun(out):
        return subprocess.Popen(
            [*map(str, command), "--out", str(out)], stderr=subprocess.PIPE, text=True
        )

    whole = begun(tmp_path / "whole")
    whole.communicate()
    again = begun(tmp_path / "out")
    path, deadline = tmp_path / "out" / JOURNAL, time.monotonic() + 300
    while not path.is_file() or path.stat().st_size < journal.HELD + 2**25:
        assert time.monotonic() < deadline
        assert again.poll() is None
        time.sleep(0.01)
    os.kill(again.pid, signal.SIGKILL)
    again.wait()
    last = begun(tmp_path / "out")
    _, said = last.communicate()
    assert "continuing after " in said
    (store,) = (tmp_path / "out").iterdir()
    assert store.read_bytes() == (tmp_path / "whole" / store.name).read_bytes()
