"""Two processes that share a batch: the same result as one process, and resuming.

One torchrun takes all the runs of two processes, for starting it costs more than they do: this
file is also what it runs.
"""

import json
import sys
from pathlib import Path

import pytest
import torch
from conftest import assert_same_but_rounding, run_until_power_cut, starved, torchrun
from safetensors.torch import load_file

from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.cli.app import leave
from albert_rc.runtime.devices import Processes, processes
from albert_rc.stores.store import load_store
from albert_rc.text.tokenizer import load_tokenizer
from albert_rc.training.checkpoint import states
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import Reading

VOCABULARY = Path(__file__).parents[2] / "data" / "sample" / "vocabulary"
SHAPE = {"hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 2, "ffn_size": 64}
UNSHARED = SHAPE | {"num_groups": 2}
DROPOUT = SHAPE | {"dropout": 0.1, "attention_dropout": 0.1}
STEPS, HALF = 6, 3

CASES = {
    "plain": {},
    "accumulation": {"accumulation": 2},
    "masking": {"mask_rate": 0.2, "option_score": "salience"},
    # Tight enough that AdamW's epsilon counts: else it would hide a wrong norm.
    "clipping": {"clip": 1e-3},
    "layers": {"recompute": "layers"},
    "unshared": {"shape": UNSHARED},
    # Not for long: words that all options share have little gradient but rounding.
    "choice": {"store": "race", "shape": SHAPE | {"classifier_dropout": 0.0}, "max_steps": HALF},
    # The second process has no passage at all, and evaluations have fewer batches than processes.
    "idle": {"batch_size": 1, "dev": True, "eval_steps": 3},
}
"""Settings of runs; two processes must reach the weights of one."""
RESUMED = {"fp32": {}, "bf16": {"precision": "bf16"}}
"""Settings of runs that are cut off and resumed."""


def trainer(folder, data, group, **settings):
    store, dev = settings.pop("store", "cloze"), settings.pop("dev", False)
    train = load_store(data / f"{store}.pt")
    loaded = load_model(
        VOCABULARY,
        train.kind,
        scratch="tiny",
        shape=settings.pop("shape", SHAPE),
        option_score=settings.pop("option_score", None),
        seed=group.rank,  # the main process's weights are those that count
    )
    defaults = {"learning_rate": 2e-4, "batch_size": 5, "max_steps": STEPS, "save_steps": HALF}
    config = TrainConfig(**(defaults | settings))
    held_out = load_store(data / "dev.pt") if dev else None
    objective = Reading(loaded.model, load_tokenizer(VOCABULARY), train, held_out, config)
    return Trainer(objective, config, folder, group)


def the_second_alone(run):
    """Fails in one step, in the middle of the backward passes."""
    return run.processes.rank == 1 and run.progress.step == 2 and run.stepper.micro_batches == 1


def work(folder):
    """What each of two processes does."""
    with processes("cpu") as group:

        def make(name, **settings):
            return trainer(folder / "two" / name, folder, group, **settings)

        for name, settings in CASES.items():
            make(name, **settings).run()
        run = make("starved")
        starved(run, the_second_alone)
        run.run()
        held = {"micro_batches": run.stepper.micro_batches}
        for name, settings in RESUMED.items():
            of = {"shape": DROPOUT, "mask_rate": 0.2} | settings
            make(name, **of).run()
            run_until_power_cut(make(f"{name}_broken", **of), HALF)
            make(f"{name}_broken", **of).run(resume=True)
        run_until_power_cut(make("half"), HALF)
        make("begun_by_one").run(resume=True)
        (folder / f"held{group.rank}.json").write_text(json.dumps(held))
        answers(folder, group, f"answers{group.rank}.pt")


def answers(folder, group, name):
    """Score the dev papers, one way for all numbers of processes."""
    loaded = load_model(VOCABULARY, "cloze", scratch="tiny", shape=SHAPE, seed=0)
    store = load_store(folder / "dev.pt")
    # Several batches, so that each process has some.
    scored = score(loaded.model, load_tokenizer(VOCABULARY), store, group, token_budget=512)
    torch.save(scored, folder / name)


@pytest.fixture(scope="module")
def alone():
    return Processes(torch.device("cpu"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, stores, alone):
    """With the weights of two processes in `two/CASE`, and of one in `one/CASE`."""
    folder = tmp_path_factory.mktemp("parallel")
    stores["cloze", "train"].save(folder / "cloze.pt")
    stores["cloze", "dev"].save(folder / "dev.pt")
    stores["race", "train"].save(folder / "race.pt")
    run_until_power_cut(trainer(folder / "two" / "begun_by_one", folder, alone), HALF)
    torchrun(2, __file__, folder)
    for name, settings in CASES.items():
        trainer(folder / "one" / name, folder, alone, **settings).run()
    return folder


def assert_close(one, two):
    one, two = (load_file(f / "model.safetensors") for f in (one, two))
    assert_same_but_rounding(one, two)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_reach_the_weights_of_one(folder, case):
    assert_close(folder / "one" / case, folder / "two" / case)


def test_two_processes_answer_as_one(folder, alone):
    answers(folder, alone, "answers.pt")
    one, *two = (
        torch.load(folder / f"{name}.pt", weights_only=True)
        for name in ("answers", "answers0", "answers1")
    )
    assert all(torch.equal(one, other) for other in two)


def test_a_process_that_runs_out_of_memory_halves_for_all(folder):
    assert_close(folder / "one" / "plain", folder / "two" / "starved")
    held = [json.loads((folder / f"held{rank}.json").read_text()) for rank in (0, 1)]
    assert [of["micro_batches"] for of in held] == [2, 2]


@pytest.mark.parametrize("name", RESUMED)
def test_resuming_two_processes_is_bit_for_bit(folder, name):
    whole, broken = folder / "two" / name, folder / "two" / f"{name}_broken"
    one, two = (load_file(f / "model.safetensors") for f in (whole, broken))
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    one, two = (torch.load(states(f)[0], weights_only=True) for f in (whole, broken))
    for index, moments in one["optimizer"]["state"].items():
        for key, value in moments.items():
            assert torch.equal(value, two["optimizer"]["state"][index][key])


def test_one_process_goes_on_from_two_and_the_other_way_round(folder, alone):
    trainer(folder / "two" / "half", folder, alone).run(resume=True)
    assert_close(folder / "one" / "plain", folder / "two" / "half")
    assert_close(folder / "one" / "plain", folder / "two" / "begun_by_one")


def test_the_state_is_the_same_file_as_of_one_process(folder):
    one, two = (
        torch.load(states(folder / world / "plain")[0], weights_only=True)
        for world in ("one", "two")
    )
    assert one.keys() == two.keys()
    assert one["model"].keys() == two["model"].keys()
    assert one["optimizer"]["param_groups"] == two["optimizer"]["param_groups"]
    assert_same_but_rounding(one["model"], two["model"])
    for index, moments in one["optimizer"]["state"].items():
        for name, value in moments.items():
            other = two["optimizer"]["state"][index][name]
            assert (type(other), other.shape) == (type(value), value.shape)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
    leave(0)
