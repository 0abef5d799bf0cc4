"""Several runs of one recipe: over seeds, over folds, and over train and dev."""

import json

import pytest

from albert_rc.data.shards import load_store
from albert_rc.errors import DataError, UsageError
from albert_rc.score_files import read_scores
from albert_rc.train.finetune import open_stores
from albert_rc.train.several import over_folds, over_seeds

TINY = ("--scratch", "tiny", "--max-steps", 3, "--batch-size", 4, "--learning-rate", 1e-3)


@pytest.fixture
def data(stores, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev"):
        stores["cloze", split].save(folder / f"{split}.pt")
    return folder


def test_folds_share_the_papers_out(data):
    train, dev = open_stores(data)
    parts = over_folds(3, 7, train, dev)
    held = [set(part.held_out.meta["ids"]) for part in parts]
    assert sorted(x for ids in held for x in ids) == sorted(train.meta["ids"])
    assert max(map(len, held)) - min(map(len, held)) <= 1
    for part, ids in zip(parts, held, strict=True):
        assert set(part.train.meta["ids"]) == set(train.meta["ids"]) - ids
        assert part.dev is dev
    others = over_folds(3, 8, train, dev)
    assert [set(part.held_out.meta["ids"]) for part in others] != held


def test_what_makes_no_sense_is_refused(data):
    train, dev = open_stores(data)
    with pytest.raises(UsageError, match="--seeds 1"):
        over_seeds(1, 0, train, dev)
    for count in (1, len(train.meta["ids"]) + 1):
        with pytest.raises(UsageError, match=f"--folds {count} must be from 2"):
            over_folds(count, 0, train, dev)
    (data / "dev.pt").unlink()
    with pytest.raises(DataError, match="--with-dev"):
        open_stores(data, with_dev=True)


def test_dev_papers_can_be_learned_from_too(data):
    train, dev = open_stores(data)
    both, none = open_stores(data, with_dev=True)
    assert none is None
    assert both.num_questions == train.num_questions + dev.num_questions
    assert both.meta["ids"] == train.meta["ids"] + dev.meta["ids"]


def test_folds_answer_every_paper_once_and_go_on_where_they_stopped(data, sample, tmp_path, works):
    out = tmp_path / "runs"
    given = ("--data", data, "--model", sample / "vocabulary", "--out", out, *TINY, "--folds", 2)
    done = works("train", *given)
    assert "2 runs, held-out papers accuracy" in done.stdout
    found = json.loads((out / "runs.json").read_text())
    assert [row["name"] for row in found["runs"]] == ["fold-1", "fold-2"]
    scores = read_scores(out / "scores.jsonl")
    train = load_store(data / "train.pt")
    assert list(dict.fromkeys(scores.papers)) == train.meta["ids"]
    assert len(scores.keys) == train.num_questions
    # As if the second had been stopped before its end.
    found["runs"].pop()
    (out / "runs.json").write_text(json.dumps(found))
    before = (out / "scores.jsonl").read_bytes()
    weights = (out / "fold-1" / "model.safetensors").stat().st_mtime_ns
    again = works("train", *given, "--resume")
    assert "fold-1:" not in again.stderr
    assert (out / "scores.jsonl").read_bytes() == before
    assert (out / "fold-1" / "model.safetensors").stat().st_mtime_ns == weights


@pytest.mark.slow
def test_seeds_differ_and_their_spread_is_told(data, sample, tmp_path, works):
    out = tmp_path / "runs"
    given = ("--data", data, "--model", sample / "vocabulary", "--out", out, *TINY, "--seeds", 2)
    done = works("train", *given, "--seed", 5)
    assert "standard deviation" in done.stdout
    names = [row["name"] for row in json.loads((out / "runs.json").read_text())["runs"]]
    assert names == ["seed-5", "seed-6"]
    one, other = ((out / name / "model.safetensors").read_bytes() for name in names)
    assert one != other
