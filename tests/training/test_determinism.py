"""The same numbers in every run, whatever else the machine does."""

import json
from dataclasses import replace

import pytest
import torch

from albert_rc.batch import Batch
from albert_rc.model.config import size_config
from albert_rc.model.heads import ReadingModel
from albert_rc.runtime.busy import busy_processes
from albert_rc.runtime.devices import Processes, has_bf16
from albert_rc.training.checkpoint import planned_before, states
from albert_rc.training.config import TrainConfig
from albert_rc.training.memory.planner import GIB, Levers, fit


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def many_pieces(questions=5, options=301, length=240):
    """A batch whose options' pieces pick each blank and each word many times.

    Pieces stand in the order of their blanks, of which two threads take half each: only few blanks
    with many pieces make both add to the same one.
    """
    generator = torch.Generator().manual_seed(0)
    count = questions * options
    blank_Q = torch.randperm(length, generator=generator)[:questions].sort().values
    return Batch(
        token_T=torch.randint(5, 500, (length,), generator=generator),
        place_T=torch.arange(length),
        lengths=(length,),
        read_S=blank_Q,
        reads=(questions,),
        question_Q=torch.arange(questions),
        answer_Q=torch.randint(options, (questions,), generator=generator),
        option_slot_O=torch.arange(count),
        num_options=options,
        blank_index_Q=torch.arange(questions),
        piece_P=torch.randint(5, 60, (count,), generator=generator),
        piece_option_P=torch.arange(count),
        piece_place_P=torch.zeros(count, dtype=torch.long),
    )


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_a_gradient_is_the_same_on_a_busy_machine(two_threads, precision):
    # Blanks' states wide enough for two threads to add to them at the same time.
    config = replace(size_config("tiny", vocab_size=500), embedding_size=1024)
    torch.manual_seed(0)
    model = ReadingModel(config, "cloze")
    model.encoder.compute = type(model.encoder.compute)(precision=precision)
    batch = many_pieces()
    found = set()
    # Emulated products take ten times as long.
    times = 6 if precision == "fp32" or has_bf16(torch.device("cpu")) else 3
    with busy_processes(3):
        for _ in range(times):
            model.zero_grad()
            model(batch).loss_sum.backward()
            gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
            found.add(torch.cat(gradients).numpy().tobytes())
    assert len(found) == 1


def planned(stores, memory, levers, before=None, **shape):
    config = replace(size_config("base"), **{"classifier_dropout": 0.0} | shape)
    settings, lines = fit(
        TrainConfig(batch_size=6), config, stores["cloze", "train"],
        Processes(torch.device("cpu")), memory, levers, before=before,
    )  # fmt: skip
    plan = (settings.accumulation, settings.recompute, settings.optimizer_states)
    return plan, [line for line in lines if line.startswith("note:")]


def test_a_resumed_run_keeps_its_plan(stores):
    before = Levers(3, "layers", "8bit")
    assert planned(stores, "20GiB", Levers())[0] == (1, "activations", "fp32")
    assert planned(stores, "20GiB", Levers(), before) == ((3, "layers", "8bit"), [])
    plan, (said,) = planned(stores, "20GiB", Levers(accumulation=1), before)
    assert plan == (1, "layers", "8bit")
    assert "as requested (micro-batches 3 before, 1 now)" in said
    # A run of other processes leaves no plan but the precision of its moments.
    plan, (said,) = planned(stores, "20GiB", Levers(), Levers(None, None, "8bit"))
    assert plan == (1, "activations", "8bit")
    assert "another number of processes" in said
    assert said.endswith("results may differ by rounding")


def test_other_micro_batches_drop_other_units_and_it_is_said(stores):
    masks = "results may differ by rounding, and with dropout by other masks"
    for before, more in ((Levers(None, None, "8bit"), {}), (Levers(3, "layers", "8bit"), {})):
        asked = Levers(accumulation=1)
        _, (said,) = planned(stores, "20GiB", asked, before, classifier_dropout=0.1, **more)
        assert said.endswith(masks)
    # Recomputing alone changes no mask.
    before = Levers(1, "layers", "8bit")
    _, (said,) = planned(stores, "20GiB", Levers(recompute="activations"), before, dropout=0.1)
    assert said.endswith("by rounding")


def test_a_plan_that_does_not_fit_any_more_is_made_anew_and_said(stores):
    before = Levers(1, "nothing", "fp32")
    plan, (said,) = planned(stores, f"{1.1 * GIB:.0f}", Levers(), before)
    assert plan[0] > 1
    assert plan[2] == "fp32"
    assert "does not fit this memory" in said


def test_a_run_that_is_resumed_with_more_memory_ends_as_the_unbroken_one(
    works, stores, sample, tmp_path
):
    for split in ("train", "dev"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    begin = [
        "train", "--data", tmp_path, "--model", sample / "vocabulary", "--scratch", "tiny",
        "--max-steps", 4, "--batch-size", 6, "--learning-rate", 1e-3, "--device", "cpu",
    ]  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    works(*begin, "--out", whole, "--accumulation", 3, "--recompute", "layers")
    works(*begin, "--out", broken, "--accumulation", 3, "--recompute", "layers", "--minutes", 1e-5)
    alone = Processes(torch.device("cpu"))
    assert planned_before(broken, alone) == Levers(3, "layers", "fp32")
    works(*begin, "--out", broken, "--resume")
    one, two = (
        torch.load(states(folder)[0], weights_only=True)["model"] for folder in (whole, broken)
    )
    assert all(torch.equal(value, two[name]) for name, value in one.items())


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_change_nothing_of_a_run_that_drops_units(trainer, tmp_path, workers):
    """Also one that is broken off: its feed of batches begins a second time."""
    dropout = {"dropout": 0.1, "attention_dropout": 0.1}
    whole = trainer(tmp_path / "whole", shape=dropout, save_steps=1)
    whole.run()
    part = trainer(tmp_path / "part", shape=dropout, save_steps=1)
    part.stepper.workers = workers
    part.run(seconds=1e-3)
    again = trainer(tmp_path / "part", shape=dropout, save_steps=1)
    again.stepper.workers = workers
    again.run(resume=True)
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_on_a_busy_machine_every_run_leaves_the_same_file(works, stores, sample, tmp_path, workers):
    """Three unbroken runs and one that is killed ten times, on two threads, with dropout."""
    for split in ("train", "dev"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    done = works(
        "bench", "resume", "--steps", 16, "--kills", 10, "--runs", 3, "--busy", 3, "--json", "--",
        "--data", tmp_path, "--model", sample / "vocabulary", "--scratch", "tiny",
        "--batch-size", 12, "--learning-rate", 1e-3, "--dropout", 0.1, "--mask-rate", 0.2,
        "--workers", workers, env={"OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["equal"]
    assert {part["run"] for part in found["parts"]} == {"run 2", "run 3", "killed"}
    assert done.stderr.count("killed at step") == 10
