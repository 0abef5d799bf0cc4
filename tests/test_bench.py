"""The benchmark's own honesty: everybody on the same passages, ratios from the rounds."""

import json

import pytest
import torch

from albert_rc.bench.jobs import Job, batches, made_up_store, passages
from albert_rc.bench.machine import matrix_rate
from albert_rc.cli.bench import bench
from albert_rc.errors import UsageError

SMALL = ["--size", "tiny", "--steps", "1", "--rounds", "1", "--length", "32", "--device", "cpu"]


def test_everybody_gets_the_same_passages(stores, tmp_path):
    path = tmp_path / "train.pt"
    stores["cloze", "train"].save(path)
    seen = []
    for who in ("ours", "transformers", "transformers-best"):
        for work in ("train", "predict"):
            job = Job(who=who, work=work, data=str(path), steps=4, batch_size=2)
            store, chosen = passages(job)
            made = batches(job, store, chosen, 4096)
            seen.append(sorted(item for batch in made for item in batch))
    assert all(items == seen[0] for items in seen)
    assert len(seen[0]) == 8


def test_made_up_passages_are_a_store_like_any_other():
    store = made_up_store(3, 40, seed=0)
    assert store.lengths.tolist() == [40, 40, 40]
    assert store.num_questions == 60
    assert store.num_options.eq(4).all()
    assert store.has_answers


@pytest.mark.slow
def test_training_beside_transformers(cli, tmp_path):
    out = tmp_path / "result.json"
    done = cli("bench", "train", *SMALL, "--against", "transformers", "--json", "--out", out)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert json.loads(out.read_bytes()) == result
    ours, plain, best = result["results"]
    assert [row["who"] for row in (ours, plain, best)] == [
        "ours", "transformers", "transformers-best",
    ]  # fmt: skip
    for peer in (plain, best):
        assert peer["ratio"] == pytest.approx(ours["rounds"][0] / peer["rounds"][0])
        assert peer["memory_ratio"] == pytest.approx(ours["peak_bytes"] / peer["peak_bytes"])
    assert ours["plan"]["total"] > 2**20
    assert ours["machine"]["torch"] == torch.__version__
    assert 0 < ours["matrix_share"] < 1


@pytest.mark.slow
def test_a_planned_training_says_its_plan(cli):
    done = cli("bench", "train", *SMALL, "--memory", "2GiB")
    assert done.returncode == 0, done.stderr
    assert "micro-batches, recompute nothing" in done.stdout
    done = cli("bench", "train", *SMALL, "--memory", "1MiB")
    assert done.returncode != 0
    assert "the leanest plan needs more" in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        {"work": "both"},
        {"against": "fairseq"},
        {"steps": 0},
        {"length": 9000},
        {"recompute": "all"},
        {"memory": "much"},
        {"precision": "int8"},
    ],
)
def test_bad_usage_is_refused(wrong):
    with pytest.raises(UsageError):
        bench(**({"work": "train", "device": "cpu"} | wrong))


def test_the_matrix_rate_is_a_rate():
    assert 1e8 < matrix_rate("fp32", torch.device("cpu"), repeats=1) < 1e15
