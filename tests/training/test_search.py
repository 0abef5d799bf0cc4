"""A search for the learning rate: trials, what is kept of them, and going on."""

import json
import os
import signal
import sys
from dataclasses import replace

import pytest
import torch
from conftest import SAMPLE, SHAPE

from albert_rc.errors import DivergedError, Interrupted, OutOfMemoryError, UsageError
from albert_rc.runtime.devices import Processes
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.memory.planner import Levers
from albert_rc.training.runs.finetune import FineTuning
from albert_rc.training.runs.search import Space, _open, search

pytest.importorskip("optuna")


@pytest.fixture
def tuning():
    return FineTuning(
        model=str(SAMPLE / "vocabulary"),
        how={"scratch": "tiny", "shape": SHAPE},
        settings=TrainConfig(max_steps=4, eval_steps=2, batch_size=4),
        levers=Levers(),
        memory=None,
        data=SAMPLE,
        group=Processes(torch.device("cpu")),
        workers=0,
    )


def test_the_best_run_stays_and_the_search_goes_on(tuning, stores, tmp_path):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    space, said = Space(1e-4, 1e-2, (4, 8)), []
    found = search(tuning, both, space, 2, tmp_path, said.append)
    assert len(found["trials"]) == 2
    again = search(tuning, both, space, 4, tmp_path, said.append)
    assert again["trials"][:2] == found["trials"]
    rates = [trial["learning_rate"] for trial in again["trials"]]
    assert len(set(rates)) == 4
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    scores = [trial["dev"] for trial in again["trials"] if not trial["given_up"]]
    assert again["best"]["dev"] == max(scores)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"best", "search.json", "trials.log"}
    assert json.loads((tmp_path / "search.json").read_text()) == again
    settings = json.loads((tmp_path / "best" / "train.json").read_bytes())
    assert settings["learning_rate"] == again["best"]["learning_rate"]
    dev = [json.loads(x) for x in (tmp_path / "best" / "metrics.jsonl").read_text().splitlines()]
    kept = max(line["accuracy"] for line in dev if line["kind"] == "dev")
    assert kept == pytest.approx(max(scores), abs=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_trials_are_spread_over_the_space(tuning, stores, tmp_path, seed):
    """Four random ones may be nearly equal, and the later ones are compared with them."""
    both = stores["cloze", "train"], stores["cloze", "dev"]
    seeded = replace(tuning, settings=replace(tuning.settings, seed=seed, max_steps=1))
    space = Space(1e-6, 1e-2, (4, 8))
    search(seeded, both, space, 2, tmp_path, list)
    trials = search(seeded, both, space, 4, tmp_path, list)["trials"]
    rates = [trial["learning_rate"] for trial in trials]
    assert rates == pytest.approx([10**-4.5, 10**-3.5, 10**-5.5, 10**-2.5])
    assert [trial["batch_size"] for trial in trials] == [4, 8, 4, 8]


def test_memory_that_no_batch_fits_into_ends_the_search(tuning, stores, tmp_path):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    small = replace(tuning, memory="1MiB")
    for _ in range(2):  # it is no trial that was given up, so the same command says it again
        with pytest.raises(OutOfMemoryError):
            search(small, both, Space(1e-4, 1e-2, (4,)), 2, tmp_path, list)
    found = search(tuning, both, Space(1e-4, 1e-2, (4,)), 1, tmp_path, list)
    assert [trial["given_up"] for trial in found["trials"]] == [False]


def test_a_trial_that_diverges_is_given_up(tuning, stores, tmp_path, monkeypatch):
    run, calls = Trainer.run, []

    def first_diverges(self, *arguments, **more):
        calls.append(1)
        if len(calls) == 1:
            raise DivergedError("the run has diverged")
        return run(self, *arguments, **more)

    monkeypatch.setattr(Trainer, "run", first_diverges)
    said = []
    both = stores["cloze", "train"], stores["cloze", "dev"]
    found = search(tuning, both, Space(1e-4, 1e-2, (4,)), 2, tmp_path, said.append)
    assert [trial["given_up"] for trial in found["trials"]] == [True, False]
    assert "trial 0: stopped early, the run has diverged" in said


def test_a_stop_in_the_step_that_ends_a_trial_ends_the_search(
    tuning, stores, tmp_path, monkeypatch
):
    import optuna

    def stopped_here(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    monkeypatch.setattr(optuna.trial.Trial, "should_prune", stopped_here)
    both, said = (stores["cloze", "train"], stores["cloze", "dev"]), []
    with pytest.raises(Interrupted, match="stopped after trial 0, 1 of 3"):
        search(tuning, both, Space(1e-4, 1e-2, (4,)), 3, tmp_path, said.append)
    assert "trial 0: stopped early, worse than the other trials so far" in said


def test_a_trial_that_was_given_up_is_not_the_best(tuning, stores, tmp_path, monkeypatch):
    run, calls = Trainer.run, []

    def second_diverges_at_its_end(self, *arguments, **more):
        calls.append(1)
        result = run(self, *arguments, **more)
        if len(calls) == 2:
            raise DivergedError("the run has diverged")
        return result

    monkeypatch.setattr(Trainer, "run", second_diverges_at_its_end)
    both = stores["cloze", "train"], stores["cloze", "dev"]
    found = search(tuning, both, Space(1e-6, 1e-2, (4,)), 2, tmp_path, lambda line: None)
    assert [trial["given_up"] for trial in found["trials"]] == [False, True]
    assert found["trials"][1]["dev"] is None
    assert found["best"] == found["trials"][0]


def test_a_search_goes_on_only_as_what_it_was_begun_as(tuning, stores, tmp_path):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    space, said = Space(1e-4, 1e-2, (4,)), []
    search(tuning, both, space, 1, tmp_path, said.append)
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("[!t]*")}
    longer = replace(tuning, settings=replace(tuning.settings, max_steps=8))
    warmer = replace(tuning, settings=replace(tuning.settings, warmup=0.5))
    rarer = replace(tuning, settings=replace(tuning.settings, eval_steps=4))
    for asked, papers, where, what in (
        (longer, both, space, r"with --max-steps 4, not 8"),
        (warmer, both, space, r"with --warmup 0\.1, not 0\.5"),
        (rarer, both, space, r"with --eval-steps 2, not 4"),
        (replace(tuning, model="another"), both, space, r"with --model .*vocabulary, not another"),
        (
            tuning,
            both[::-1],
            space,
            r"with a different train store: split train, not dev; source_hash",
        ),
        (tuning, both, Space(1e-5, 1e-2, (4,)), r"with --low 0\.0001, not 1e-05"),
        (tuning, both, Space(1e-4, 1e-3, (4,)), r"with --high 0\.01, not 0\.001"),
        (tuning, both, Space(1e-4, 1e-2, (4, 8)), r"with --batch-sizes 4, not 4,8"),
    ):
        with pytest.raises(UsageError, match=f"were started {what}.*; use their original options"):
            search(asked, papers, where, 2, tmp_path, said.append)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("[!t]*")} == kept
    assert len(said) == 2
    # The journal of a version that kept no record.
    lines = (tmp_path / "trials.log").read_text().splitlines(keepends=True)
    (tmp_path / "trials.log").write_text("".join(x for x in lines if "made_of" not in x))
    with pytest.raises(UsageError, match=r"trials\.log was written by an older version and lacks"):
        search(tuning, both, space, 2, tmp_path, said.append)


def test_ctrl_c_forgets_the_trial_in_hand_and_the_search_goes_on(
    tuning, stores, tmp_path, monkeypatch
):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    space, step = Space(1e-4, 1e-2, (4,)), Trainer._step
    when, said = {"trial-1": 1, "trial-2": 3}, []

    def pressed(self, items, epoch):
        if when.get(self.folder.name) == self.progress.step:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, items, epoch)

    monkeypatch.setattr(Trainer, "_step", pressed)
    with pytest.raises(
        Interrupted, match=r"^stopped in trial 1; the same command continues the search$"
    ):
        search(tuning, both, space, 3, tmp_path, said.append)
    assert {path.name for path in tmp_path.iterdir()} == {"best", "trials.log"}
    # In its last step a trial ends, and counts.
    with pytest.raises(Interrupted, match=r"^stopped after trial 2, 2 of 3; the same command"):
        search(tuning, both, space, 3, tmp_path, lambda line: None)
    assert {path.name for path in tmp_path.iterdir()} == {"best", "trials.log"}
    assert len(search(tuning, both, space, 3, tmp_path, said.append)["trials"]) == 3
    # The learning rate of the trial that was stopped is tried after the others in the queue.
    found = search(tuning, both, space, 4, tmp_path, said.append)
    stopped = next(line for line in said if line.startswith("trial 1: learning rate"))
    rates = [f"{trial['learning_rate']:.3g}" for trial in found["trials"]]
    assert stopped.split()[4].strip(",") in rates


def test_a_trial_that_kills_its_process_is_not_repeated_for_ever(tuning, stores, tmp_path):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    space = Space(1e-6, 1e-2, (4,))
    search(tuning, both, space, 1, tmp_path, list)
    asked = []
    for _ in range(6):  # each call is killed in its first trial
        trial = _open(tuning, both, space, tmp_path).ask()
        asked.append(trial.suggest_float("learning_rate", space.low, space.high, log=True))
        trial.suggest_categorical("batch_size", space.batch_sizes)
    assert asked[:3] == pytest.approx([10**-3.5, 10**-5.5, 10**-2.5])
    assert asked[3] == asked[0]
    assert len(set(asked[3:])) == 3
    assert max(asked.count(rate) for rate in asked) == 2


def test_what_a_killed_search_left_is_cleared_away(tuning, stores, tmp_path, monkeypatch):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    step = Trainer._step

    def cut(self, items, epoch):
        if self.progress.step == 2:
            raise RuntimeError("power cut")
        return step(self, items, epoch)

    monkeypatch.setattr(Trainer, "_step", cut)
    with pytest.raises(RuntimeError, match="power cut"):
        search(tuning, both, Space(1e-4, 1e-2, (4,)), 2, tmp_path, lambda line: None)
    assert (tmp_path / "trial-0").is_dir()
    (tmp_path / "trial-run").mkdir()  # somebody else's
    monkeypatch.setattr(Trainer, "_step", step)
    # Nothing is there to be mixed up with others, so the options are free again.
    found = search(tuning, both, Space(1e-4, 1e-2, (4, 8)), 1, tmp_path, lambda line: None)
    assert len(found["trials"]) == 1
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"best", "search.json", "trials.log", "trial-run"}


def test_the_best_run_is_found_again_where_its_folder_was_not_named_yet(tuning, stores, tmp_path):
    both = stores["cloze", "train"], stores["cloze", "dev"]
    space = Space(1e-4, 1e-2, (4,))
    search(tuning, both, space, 1, tmp_path, lambda line: None)
    weights = (tmp_path / "best" / "model.safetensors").read_bytes()
    (tmp_path / "best").rename(tmp_path / "trial-0")
    search(tuning, both, space, 1, tmp_path, lambda line: None)
    assert (tmp_path / "best" / "model.safetensors").read_bytes() == weights
    assert not (tmp_path / "trial-0").exists()


def test_what_makes_no_sense_is_refused(tuning, stores, tmp_path, monkeypatch):
    for low, high in ((0, 1e-3), (1e-3, 1e-4), (1e-3, 2)):
        with pytest.raises(UsageError, match="--low"):
            Space(low, high, (4,))
    with pytest.raises(UsageError, match="--batch-sizes"):
        Space(1e-5, 1e-3, ())
    monkeypatch.setitem(sys.modules, "optuna", None)
    both = stores["cloze", "train"], stores["cloze", "dev"]
    with pytest.raises(UsageError, match=r"albert-rc\[search\]"):
        search(tuning, both, Space(1e-5, 1e-3, (4,)), 2, tmp_path, print)
