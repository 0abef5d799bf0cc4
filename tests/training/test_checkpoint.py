"""States to resume from: the newest whole one, what is kept, and whose folder it is."""

import json
import multiprocessing
import os
import signal
import time

import pytest
import torch
from conftest import run_until_power_cut

from albert_rc.checkpoints.load import load_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.atomic import LOCK, atomic_path, only_run
from albert_rc.runtime.devices import Processes
from albert_rc.training.checkpoint import planned_before, states, step_of
from albert_rc.training.objective import DevScore
from albert_rc.training.runs.earlier import EARLIER, MARK
from albert_rc.training.tally import Tally


def flip_a_bit(path, share=0.5):
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 16
    path.write_bytes(content)


def steps(folder):
    return [int(path.stem.partition("-")[2]) for path in states(folder)]


def test_the_newest_states_are_kept(trainer, tmp_path):
    trainer(tmp_path, max_steps=6, save_steps=1, keep=3).run()
    assert steps(tmp_path) == [6, 5, 4]


@pytest.mark.parametrize(("every", "remembered"), [(20, 100), (200, 500), (1000, 100)])
def test_a_restart_finds_a_state_from_before_the_collapse(trainer, tmp_path, every, remembered):
    """What the guard finds may have begun where its memory does, long before the newest state."""
    plain = trainer(tmp_path, keep=2).checkpoints
    spared = trainer(tmp_path, keep=2, on_collapse="restart").checkpoints
    for step in range(every, 8 * (every + remembered), every):
        tmp_path.joinpath(f"resume-{step:08}.pt").touch()
        since = max(1, step - remembered)
        for old in spared._outdated(since):
            old.unlink()
        assert {step_of(x) for x in plain._outdated(since)} == set(steps(tmp_path)[2:])
        assert len(steps(tmp_path)) <= 4
        if step > 2 * (every + remembered):
            before = [x for x in steps(tmp_path) if x <= since]
            assert since - before[0] <= remembered + 2 * every


def test_another_model_is_not_resumed(sample, cli, works, tmp_path):
    """Its weights would be read for nothing, and named in the run's records."""
    vocabulary = ("--model", sample / "vocabulary")
    data = tmp_path / "data"
    works("preprocess", sample / "cloze", *vocabulary, "--out", data)
    for seed in (1, 2):
        works("train", "--data", data, *vocabulary, "--scratch", "tiny", "--max-steps", 1,
              "--out", tmp_path / f"model{seed}", "--seed", seed)  # fmt: skip
    run = ("train", "--data", data, "--out", tmp_path / "run", "--max-steps", 2)
    works(*run, "--model", tmp_path / "model1", "--minutes", 0.0001)
    other = cli(*run, "--model", tmp_path / "model2", "--resume")
    assert other.returncode == 2
    assert "started with other weights of --model;" in other.stderr
    assert json.loads((tmp_path / "run" / "train.json").read_bytes())["model"].endswith("model1")
    works(*run, "--model", tmp_path / "model1", "--resume")


def test_patience_counts_anew_after_a_restart(trainer, tmp_path, monkeypatch):
    run = trainer(tmp_path, patience=2)
    run.progress.best_score, run.progress.attempt = 0.62, 1
    found = iter([0.40, 0.50, 0.45, 0.44])
    monkeypatch.setattr(
        run.objective, "evaluate", lambda _: DevScore(score=next(found), values={}, line="dev")
    )
    assert [run._evaluate() for _ in range(4)] == [False, False, False, True]
    assert run.progress.best_score == 0.62


def test_a_skipped_step_leaves_the_figures_of_the_others():
    tally = Tally()
    for loss in (1.0, float("nan"), 3.0):
        tally.add(torch.tensor([loss, 1.0]), 1)
    assert tally.totals() == [4.0, 2.0]


@pytest.mark.parametrize("harm", ["flipped", "cut", "emptied", "directory", "foreign", "newer"])
def test_a_damaged_state_is_passed_over_and_said(trainer, tmp_path, harm):
    whole = trainer(tmp_path / "whole", save_steps=1)
    whole.run()
    broken = tmp_path / "broken"
    run_until_power_cut(trainer(broken, save_steps=1), 7)
    newest = states(broken)[0]
    if harm == "flipped":
        flip_a_bit(newest)
    elif harm == "directory":  # torch reads flags there that Python passes over
        content = bytearray(newest.read_bytes())
        content[content.index(b"PK\1\2") + 9] ^= 32
        newest.write_bytes(content)
    elif harm == "foreign":
        torch.save({"model": {}}, newest)
    elif harm == "newer":
        content = torch.load(newest, weights_only=True)
        content["progress"]["mood"] = 1
        torch.save(content, newest)
    else:
        newest.write_bytes(newest.read_bytes()[: 5000 if harm == "cut" else 0])
    again, said = trainer(broken, save_steps=1), []
    again.run(resume=True, on_event=said.append)
    assert any(f"{newest} is skipped: " in line for line in said)
    assert "step 6 of 12" in said
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    for path in states(broken):
        flip_a_bit(path)
    with pytest.raises(CheckpointError, match="are truncated, damaged or invalid; start without"):
        trainer(broken, save_steps=1).run(resume=True)


def test_a_damaged_state_does_not_count_as_kept(trainer, tmp_path):
    """Else the only intact state would be deleted with the next save."""
    rarely = {"save_steps": 4, "eval_steps": 12, "keep": 2}
    run_until_power_cut(trainer(tmp_path, **rarely), 9)
    (tmp_path / "resume-00000008.pt").rename(tmp_path / "resume-00000007.pt")  # another distance
    flip_a_bit(tmp_path / "resume-00000007.pt")
    run_until_power_cut(trainer(tmp_path, **rarely), 9, resume=True)
    assert steps(tmp_path) == [8, 4]
    flip_a_bit(tmp_path / "resume-00000008.pt")
    trainer(tmp_path, **rarely).run(resume=True)


def test_the_best_score_is_that_of_the_weights_also_after_a_crash(trainer, tmp_path):
    """Weights that are newer than the state would be named after an older evaluation."""

    def one_score(run, step, score):
        values = {"accuracy": score}
        run.objective.evaluate = lambda _: (
            DevScore(score=score, values=values, line="")
            if run.progress.step == step
            else DevScore(score=0.1, values={}, line="")
        )
        return run

    often = {"eval_steps": 1, "save_steps": 10}
    run_until_power_cut(one_score(trainer(tmp_path, **often), 7, 0.5), 9)
    weights = (tmp_path / "model.safetensors").read_bytes()
    again = trainer(tmp_path, **often | {"eval_steps": 12})
    result = one_score(again, 12, 0.3).run(resume=True)
    assert (result.first_step, result.best_step, result.best_score) == (7, 7, 0.5)
    assert (tmp_path / "model.safetensors").read_bytes() == weights
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_bytes().splitlines()]
    best = [line for line in lines if line["kind"] == "dev" and line["best"]]
    assert (best[-1]["step"], best[-1]["accuracy"]) == (7, 0.5)


def test_a_resumed_run_records_what_was_changed(trainer, tmp_path):
    run = trainer(tmp_path, save_steps=1)
    run.about = {"train.json": {"patience": 1}}
    run_until_power_cut(run, 3)
    again = trainer(tmp_path, save_steps=1)
    again.about = {"train.json": {"patience": 3}}
    again.run(resume=True)
    assert json.loads((tmp_path / "train.json").read_bytes()) == {"patience": 3}
    refused = trainer(tmp_path, save_steps=1, learning_rate=0.5)
    refused.about = {"train.json": {"patience": 5}}
    with pytest.raises(UsageError, match="started with --learning-rate"):
        refused.run(resume=True)
    assert json.loads((tmp_path / "train.json").read_bytes()) == {"patience": 3}


def test_forgetting_to_resume_loses_nothing(trainer, tmp_path):
    run_until_power_cut(trainer(tmp_path, save_steps=1), 7)
    again, said = trainer(tmp_path, save_steps=1), []
    again._step = lambda items, epoch: (_ for _ in ()).throw(RuntimeError("at once"))
    with pytest.raises(RuntimeError, match="at once"):
        again.run(on_event=said.append)
    assert "new run; the earlier one is kept in" in said[0]
    # A second start over an unfinished one keeps what the first put aside, and what that one has.
    run_until_power_cut(trainer(tmp_path, save_steps=1), 2)
    run = trainer(tmp_path)
    run._step = again._step
    with pytest.raises(RuntimeError, match="at once"):
        run.run()
    assert steps(tmp_path / EARLIER) == [7, 6]
    assert load_model(tmp_path / EARLIER, "cloze").tokenizer.size
    assert steps(tmp_path / f"{EARLIER}-2") == [2, 1]
    trainer(tmp_path).run()
    assert not list(tmp_path.glob(f"{EARLIER}*"))


def test_what_the_user_calls_so_is_not_ours(trainer, tmp_path):
    """Runs that lie in the folder of another are not removed with what that one set aside."""
    names = ("start", ".startled", EARLIER, f"{EARLIER}-2", f"{EARLIER}-9", f"{EARLIER}-kept")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"a day's work")
    (tmp_path / f"{EARLIER}-kept" / MARK).touch()  # renamed, to stay
    run_until_power_cut(trainer(tmp_path, save_steps=1), 3)
    events = next(tmp_path.glob("events.*")).name
    again, said = trainer(tmp_path, save_steps=1, on_collapse="restart"), []
    again._step = lambda items, epoch: (_ for _ in ()).throw(RuntimeError("at once"))
    with pytest.raises(RuntimeError, match="at once"):
        again.run(on_event=said.append)
    assert str(tmp_path / f"{EARLIER}-3") in said[0]
    assert (tmp_path / f"{EARLIER}-3" / events).is_file()
    trainer(tmp_path, on_collapse="restart").run()
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == set(names)
    assert all((tmp_path / name / "model.safetensors").is_file() for name in names)


def test_a_pipe_is_no_state(trainer, tmp_path):
    run_until_power_cut(trainer(tmp_path, save_steps=1), 3)
    os.mkfifo(tmp_path / "resume-00000099.pt")
    said = []
    trainer(tmp_path, save_steps=1).run(resume=True, on_event=said.append)
    assert said[0] == "step 3 of 12"


def test_what_the_dead_left_is_cleared_away_by_the_next_run(tmp_path):
    left, mine = tmp_path / ".resume-00000010.pt.7alens5d.tmp", tmp_path / ".notes.tmp"
    in_use = tmp_path / "resume-00000011.pt"
    for path in (left, mine):
        path.write_bytes(b"half")
    with atomic_path(in_use) as temporary:
        with only_run(tmp_path):
            assert not left.exists()
            assert mine.exists()
        temporary.write_bytes(b"whole")
    assert in_use.read_bytes() == b"whole"


def _hold(folder, ready):
    with only_run(folder):
        ready.set()
        time.sleep(60)


def test_a_folder_is_for_one_run(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready))
    other.start()
    assert ready.wait(30)
    said = rf"is in use by another run \(process {other.pid} on"
    with pytest.raises(UsageError, match=said), only_run(tmp_path):
        pass
    other.kill()
    other.join()
    assert (tmp_path / LOCK).exists()  # and yet nobody holds it
    with only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def _write(target, ready):
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        ready.set()
        time.sleep(60)


def test_what_the_dead_left_half_written_is_cleared_away(tmp_path):
    target = tmp_path / "answer.json"
    context = multiprocessing.get_context("spawn")
    ready = [context.Event(), context.Event()]
    dead, alive = (context.Process(target=_write, args=(target, event)) for event in ready)
    dead.start()
    alive.start()
    assert all(event.wait(30) for event in ready)
    assert len(list(tmp_path.iterdir())) == 2
    os.kill(dead.pid, signal.SIGKILL)
    dead.join()
    with atomic_path(target) as temporary:
        assert len(list(tmp_path.iterdir())) == 2, "the living one's was taken away, or none"
        temporary.write_text("whole")
    alive.kill()
    alive.join()
    assert target.read_text() == "whole"


def test_lost_weights_of_a_finished_run_are_saved_again(trainer, tmp_path):
    run = trainer(tmp_path)
    run.run()
    kept = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").unlink()
    again, said = trainer(tmp_path), []
    again.run(resume=True, on_event=said.append)
    assert any("model.safetensors is missing: the weights of step 12" in line for line in said)
    saved = (tmp_path / "model.safetensors").read_bytes()
    assert (saved == kept) == (run.progress.best_step == 12)
    assert not any("missing" in line for line in _said(trainer(tmp_path)))


def _said(run):
    said = []
    run.run(resume=True, on_event=said.append)
    return said


def test_a_plan_that_is_gone_is_named(trainer, tmp_path):
    """Moments in the processor's memory were removed; a run that had them cannot go on."""
    trainer(tmp_path, max_steps=2, save_steps=2).run()
    path = states(tmp_path)[0]
    content = torch.load(path, weights_only=True)
    content["settings"]["optimizer_states"] = "cpu"
    torch.save(content, path)
    with pytest.raises(UsageError, match=r"an older version, with optimizer states .*cpu"):
        planned_before(tmp_path, Processes(torch.device("cpu")))
