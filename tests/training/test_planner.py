"""Plans: what fits is taken, the fastest first, and what cannot fit is refused."""

from dataclasses import replace

import pytest
import torch
from small import task

from albert_rc.errors import OutOfMemoryError, UsageError
from albert_rc.io.sizes import parse_size
from albert_rc.model.config import RECOMPUTE, size_config
from albert_rc.model.cost import encoder_parameters
from albert_rc.runtime.devices import Processes
from albert_rc.training.config import TrainConfig
from albert_rc.training.memory.footprint import predict_parts, task_of
from albert_rc.training.memory.planner import GIB, Levers, fit, make_plan


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8 * GIB),
        ("8 gib", 8 * GIB),
        ("7.5GB", 7.5e9),
        ("500m", 5e8),
        ("12345678", 12345678),
    ],
)
def test_sizes_are_read(text, size):
    assert parse_size("--memory", text) == size


def test_a_batch_has_no_more_items_than_the_data(stores):
    store, alone = stores["cloze", "train"], Processes(torch.device("cpu"))
    shape = task_of(size_config("tiny"), store, TrainConfig(batch_size=4096), alone)
    assert shape.items == len(store.tokens) == len(shape.lengths)


@pytest.mark.parametrize("text", ["", "eight", "8 TiB", "-1GiB", "0", "8GiB!", "6"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="--memory"):
        parse_size("--memory", text)


def test_a_number_that_lacks_its_unit_is_not_taken_for_bytes():
    with pytest.raises(UsageError, match="--memory 6: that is in bytes; write 6GiB or 6MB"):
        parse_size("--memory", "6")


def test_choices_without_their_effect_are_reported(stores):
    def said(levers, **shape):
        config = replace(size_config("tiny"), **shape)
        alone = Processes(torch.device("cpu"))
        settings = TrainConfig(batch_size=2)
        lines = fit(settings, config, stores["cloze", "train"], alone, None, levers)[1]
        return [line for line in lines if line.startswith("note:")]

    assert said(Levers(accumulation=2, recompute="layers")) == []
    assert said(Levers(recompute="activations"), residual="reversible") == []
    (layers,) = said(Levers(recompute="layers"), residual="reversible")
    assert "--recompute layers has no effect on reversible layers" in layers
    (pieces,) = said(Levers(accumulation=8))
    assert "--accumulation 8 has the effect of 2, because" in pieces


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_xxlarge_fits_6_gib_with_the_same_mathematics_and_4_without(device):
    six = make_plan(task(device=device), 6 * GIB)
    assert six.states == "fp32"
    assert six.total <= 6 * GIB
    four = make_plan(task(device=device), 4 * GIB)
    assert four.states == "8bit"
    assert four.total <= 4 * GIB


def test_only_adamw_has_moments_in_8_bits():
    lamb = replace(task(), moments=("fp32",))
    with pytest.raises(OutOfMemoryError, match="even for the plan"):
        make_plan(lamb, 4 * GIB)


def test_plenty_of_memory_changes_nothing():
    plan = make_plan(task("base"), 80 * GIB)
    assert (plan.micro_batches, plan.recompute, plan.states) == (1, "nothing", "fp32")


def test_activations_are_kept_on_cpus_where_that_is_a_small_part():
    small = task("tiny", device="cpu", lengths=[64] * 2, longest=64)
    assert make_plan(small, 80 * GIB).recompute == "nothing"
    large = task("base", device="cpu")
    assert make_plan(large, 80 * GIB).recompute == "activations"
    assert make_plan(large, 80 * GIB, Levers(recompute="nothing")).recompute == "nothing"
    # What counts is a micro-batch.
    pieces = task("base", items=8, device="cpu", lengths=[420] * 8, longest=420)
    assert make_plan(pieces, 80 * GIB).recompute == "activations"
    assert make_plan(pieces, 80 * GIB, Levers(accumulation=8)).recompute == "nothing"


def test_less_memory_never_takes_more():
    totals = []
    for budget in range(80, 2, -1):
        try:
            plan = make_plan(task(items=16), budget * GIB)
        except OutOfMemoryError:
            break
        assert plan.total <= budget * GIB
        totals.append(plan.total)
    assert totals == sorted(totals, reverse=True)
    assert len(set(totals)) > 3


def test_what_the_user_decides_is_kept():
    plan = make_plan(task(items=8), 80 * GIB, Levers(4, "layers", "8bit"))
    assert (plan.micro_batches, plan.micro_items) == (4, 2)
    assert (plan.recompute, plan.states) == ("layers", "8bit")
    with pytest.raises(OutOfMemoryError, match="even for the plan that needs least"):
        make_plan(task(), GIB)


def test_every_lever_saves():
    by_level = [sum(predict_parts(task(), 1024, level, "fp32").values()) for level in RECOMPUTE]
    assert by_level == sorted(by_level, reverse=True)
    assert len(set(by_level)) == 3
    by_states = [sum(predict_parts(task(), 1024, "layers", s).values()) for s in ("fp32", "8bit")]
    assert by_states == sorted(by_states, reverse=True)


def test_a_teacher_that_reads_every_micro_batch_is_counted():
    alone = replace(task("base", device="cpu"), masked_share=0.15)
    taught = replace(alone, teacher=task("xxlarge").config)
    parts = predict_parts(taught, 1024, "layers", "fp32")
    assert parts["teacher"] > 4 * encoder_parameters(taught.teacher)
    assert parts.items() > predict_parts(alone, 1024, "layers", "fp32").items()
    plans = [make_plan(each, 80 * GIB, Levers(recompute="layers")) for each in (alone, taught)]
    assert plans[1].total - plans[0].total == plans[1].parts["teacher"]
