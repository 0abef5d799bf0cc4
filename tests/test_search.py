"""A search for the learning rate: trials, what is kept of them, and going on."""

import json
import sys

import pytest
import torch
from conftest import SAMPLE, SHAPE

from albert_rc.config import TrainConfig
from albert_rc.devices import Processes
from albert_rc.errors import DivergedError, UsageError
from albert_rc.train.finetune import FineTuning
from albert_rc.train.loop import Trainer
from albert_rc.train.planner import Levers
from albert_rc.train.search import Space, search

pytest.importorskip("optuna")


@pytest.fixture
def tuning():
    return FineTuning(
        model=str(SAMPLE / "vocabulary"),
        how={"scratch": "tiny", "scratch_shape": SHAPE},
        option_score=None,
        settings=TrainConfig(max_steps=4, eval_steps=2, batch_size=4),
        levers=Levers(),
        memory=None,
        max_length=None,
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
    dev = [json.loads(x) for x in (tmp_path / "best" / "metrics.jsonl").read_text().splitlines()]
    kept = max(line["accuracy"] for line in dev if line["kind"] == "dev")
    assert kept == pytest.approx(max(scores), abs=1e-5)


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
    assert "trial 0: given up, the run has diverged" in said


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
