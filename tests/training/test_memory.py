"""Running out of memory in a step: it is taken again in smaller pieces, with the same result."""

import pytest
import torch
from conftest import assert_same_but_rounding, run_until_power_cut, starved, too_large

from albert_rc.errors import OutOfMemoryError
from albert_rc.runtime.devices import _free_in_cgroup, free_memory, is_out_of_memory


def test_the_allocators_refusal_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        too_large()
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_micro_batches_are_halved_and_the_result_stays(trainer, tmp_path):
    whole, cut = trainer(tmp_path / "whole"), trainer(tmp_path / "cut")
    starved(cut, lambda run: run.progress.step >= 3 and run.stepper.micro_batches < 4)
    said = []
    whole.run()
    cut.run(on_event=said.append)
    assert [line for line in said if "out of memory" in line] == [
        "out of memory: 2 micro-batches per step from now on",
        "out of memory: 4 micro-batches per step from now on",
    ]
    assert_same_but_rounding(whole.model.state_dict(), cut.model.state_dict())


@pytest.mark.parametrize("what", ["micro-batches", "layers"])
def test_what_was_cut_stays_cut_when_the_run_goes_on(trainer, tmp_path, what):
    """Smaller pieces round otherwise, and a resumed run ends bit for bit as an unbroken one."""

    def wide(run):
        if what == "layers":
            return run.model.encoder.compute.recompute != "layers"
        return run.stepper.micro_batches < 4

    def begun(name):
        batch_size = 1 if what == "layers" else 6
        run = trainer(tmp_path / name, batch_size=batch_size, save_steps=3)
        starved(run, lambda run: run.progress.step == 2 and wide(run))
        return run

    unbroken, broken = begun("unbroken"), begun("broken")
    unbroken.run()
    run_until_power_cut(broken, 4)
    again = begun("broken")
    again.run(resume=True)
    assert not wide(again)
    for one, other in zip(unbroken.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_layers_are_recomputed_before_giving_up(trainer, tmp_path):
    run = trainer(tmp_path, batch_size=2)
    starved(run, lambda run: run.model.encoder.compute.recompute != "layers")
    said = []
    run.run(on_event=said.append)
    assert "out of memory: layers are recomputed from now on" in said
    hopeless = trainer(tmp_path / "hopeless", batch_size=2)
    starved(hopeless, lambda run: True)
    with pytest.raises(OutOfMemoryError, match="--set optimizer_states=8bit"):
        hopeless.run()


def test_other_errors_are_not_swallowed(trainer, tmp_path):
    run = trainer(tmp_path)

    def broken(items, epoch):
        raise RuntimeError("shapes do not match")

    run.stepper.passes = broken
    with pytest.raises(RuntimeError, match="shapes do not match"):
        run.run()


def test_free_memory_is_a_sensible_number():
    assert 2**28 < free_memory(torch.device("cpu")) < 2**45


@pytest.mark.parametrize(
    "files",
    [
        {"memory.max": "1000", "memory.current": "700", "memory.stat": "anon 5\ninactive_file 90"},
        {"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "700",
         "memory.stat": "inactive_file 1\ntotal_inactive_file 90"},
    ],
    ids=["version 2", "version 1"],
)  # fmt: skip
def test_a_control_group_leaves_what_it_has_not_taken(files, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert _free_in_cgroup(tmp_path) == 1000 - 700 + 90


def test_a_control_group_without_a_limit_is_none(tmp_path):
    assert _free_in_cgroup(tmp_path) is None
    for name, text in {"memory.max": "max", "memory.current": "700", "memory.stat": ""}.items():
        (tmp_path / name).write_text(f"{text}\n")
    assert _free_in_cgroup(tmp_path) is None
