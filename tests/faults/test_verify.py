"""verify-resume: it finds what differs, and runs that are killed end as they should."""

import json

import pytest
import torch
from safetensors.torch import save_file

from albert_rc.errors import DataError, UsageError
from albert_rc.training.checkpoint import state_path
from albert_rc.training.runs.verify import _differences, _of_best, _of_metrics, kill_and_resume

STATE = {
    "model": {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3])},
    "optimizer": {"state": {0: {"step": torch.tensor(4.0), "exp_avg": torch.zeros(2)}}},
    "averaged": {},
    "random": [{"cpu": torch.tensor([1, 2, 3], dtype=torch.uint8)}],
    "progress": {"step": 2, "best_score": 0.5},
}


def written(folder, state, loss=0.25):
    folder.mkdir()
    torch.save(state, state_path(folder, 2))
    record = {"kind": "train", "step": 2, "loss": loss, "passages_per_second": 3.0}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    return folder


def test_alike_is_alike_and_every_difference_is_found(tmp_path):
    one = written(tmp_path / "one", STATE)
    same = _differences(one, written(tmp_path / "same", STATE), 2)
    assert [part.part for part in same] == ["weights", "moments", "random states", "progress"]
    assert all(part.equal for part in same)
    zeros = torch.zeros(2)
    changes = {
        "weights": {"model": {"a": torch.tensor([1.0, 2.5]), "b": torch.tensor([3])}},
        "moments": {"optimizer": {"state": {0: {"step": torch.tensor(5.0), "exp_avg": zeros}}}},
        "random states": {"random": [{"cpu": torch.tensor([1, 9, 3], dtype=torch.uint8)}]},
        "progress": {"progress": {"step": 2, "best_score": 0.25}},
    }  # fmt: skip
    for number, (part, change) in enumerate(changes.items()):
        other = written(tmp_path / str(number), STATE | change)
        unequal = [found for found in _differences(one, other, 2) if not found.equal]
        assert [(found.part, found.unequal) for found in unequal] == [(part, 1)]
    assert unequal[0].largest == 0.25


def test_metrics_count_but_not_their_speed(tmp_path):
    one = written(tmp_path / "one", STATE)
    faster = written(tmp_path / "two", STATE)
    path = faster / "metrics.jsonl"
    path.write_text(path.read_text().replace("3.0", "9.0"))
    assert _of_metrics(one, faster).equal
    assert not _of_metrics(one, written(tmp_path / "three", STATE, loss=0.5)).equal


def test_the_weights_that_users_get_are_compared(tmp_path):
    for name, value in (("one", 1.0), ("same", 1.0), ("other", 2.0)):
        (tmp_path / name).mkdir()
        save_file({"a": torch.full((3,), value)}, tmp_path / name / "model.safetensors")
    assert _of_best(tmp_path / "one", tmp_path / "same").equal
    assert _of_best(tmp_path / "one", tmp_path / "other").unequal == 3


@pytest.mark.parametrize("option", ["--out", "--resume", "--max-steps=3", "--seeds"])
def test_what_the_trial_sets_itself_is_refused(tmp_path, option):
    with pytest.raises(UsageError, match=f"{option.partition('=')[0]} is set by the test"):
        kill_and_resume([option, "x"], tmp_path)


def test_an_earlier_trial_is_not_taken_for_this_one(tmp_path):
    (tmp_path / "broken").mkdir()
    with pytest.raises(UsageError, match="broken is from an earlier test"):
        kill_and_resume([], tmp_path)


def test_there_must_be_steps_to_kill_between(tmp_path):
    with pytest.raises(UsageError, match="--kills 3 must be at least 1"):
        kill_and_resume([], tmp_path, steps=3, kills=3)


def test_a_run_that_fails_ends_the_trial_as_it_ended(sample, tmp_path):
    options = ["--data", str(tmp_path / "none"), "--model", str(sample / "vocabulary")]
    with pytest.raises(DataError, match=r"the run failed: .*train\.pt: no such store"):
        kill_and_resume([*options, "--scratch", "tiny"], tmp_path, steps=3, kills=1)


@pytest.mark.slow
def test_a_killed_run_ends_bit_for_bit(sample, stores, tmp_path, works):
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev"):
        stores["cloze", split].save(data / f"{split}.pt")
    done = works(
        "bench", "resume", "--steps", 6, "--json", "--",
        "--data", data, "--model", sample / "vocabulary", "--scratch", "tiny",
        "--dropout", 0.1, "--batch-size", 4, "--learning-rate", 1e-3,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["equal"]
    names = {part["part"] for part in found["parts"]}
    assert {"weights", "moments", "random states", "metrics"} <= names
    assert done.stderr.count("killed at step") == 2
