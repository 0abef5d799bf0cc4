"""Label smoothing, R-Drop, adversarial passes and averaged weights: each is what its paper says."""

import json

import pytest
import torch
from conftest import run_until_power_cut
from safetensors.torch import load_file
from torch.nn import functional

from albert_rc.checkpoints.load import load_model
from albert_rc.cli.options import seconds_of
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.runtime.devices import Processes
from albert_rc.training.averaging import Averaged
from albert_rc.training.checkpoint import state_path
from albert_rc.training.config import TrainConfig
from albert_rc.training.objectives.adversarial import moved
from albert_rc.training.objectives.answer_loss import disagreement, smoothed_loss
from albert_rc.training.runs.mean_weights import of_folders, of_states, write_mean

NEVER = float("-inf")
DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}
ALL = {"label_smoothing": 0.1, "r_drop": 0.5, "fgm": 0.3, "ema": 0.9}


@pytest.fixture
def logits_QK():  # noqa: N802
    torch.manual_seed(0)
    logits = torch.randn(6, 4)
    logits[2, 3] = logits[4, 2:] = NEVER
    return logits.requires_grad_()


def test_smoothed_targets_are_spread_over_the_options_there_are(logits_QK):
    answer_Q = torch.tensor([0, 3, 1, -1, 1, 2])
    expected = 0.0
    for row, answer in zip(logits_QK.detach(), answer_Q.tolist(), strict=True):
        if answer < 0:
            continue
        there = row[row.isfinite()]
        # torch's own smoothing spreads over all columns, so each question is cut to its options.
        expected += float(
            functional.cross_entropy(there, torch.tensor(answer), label_smoothing=0.2)
        )
    found = smoothed_loss(logits_QK, answer_Q, 0.2)
    assert found.item() == pytest.approx(expected, abs=1e-5)
    found.backward()
    assert logits_QK.grad.isfinite().all()
    assert (logits_QK.grad[3] == 0).all()
    plain = functional.cross_entropy(logits_QK, answer_Q, ignore_index=-1, reduction="sum")
    torch.testing.assert_close(smoothed_loss(logits_QK, answer_Q, 0.0), plain)


def test_disagreement_is_the_mean_of_both_divergences(logits_QK):
    answer_Q = torch.tensor([0, 3, 1, -1, 1, 2])
    other_QK = (logits_QK.detach() * 0.3).requires_grad_()
    expected = 0.0
    for one, two, answer in zip(logits_QK, other_QK, answer_Q.tolist(), strict=True):
        if answer < 0:
            continue
        p, q = (x[x.isfinite()].log_softmax(-1) for x in (one, two))
        for a, b in ((p, q), (q, p)):
            expected += functional.kl_div(a, b, log_target=True, reduction="sum").item() / 2
    found = disagreement(logits_QK, other_QK, answer_Q)
    assert found.item() == pytest.approx(expected, abs=1e-5)
    assert disagreement(logits_QK, logits_QK, answer_Q).item() == 0
    found.backward()
    assert logits_QK.grad.isfinite().all()
    assert other_QK.grad.isfinite().all()


def test_words_are_moved_to_where_the_loss_is_worse_and_put_back():
    torch.manual_seed(0)
    words = torch.randn(7, 3, requires_grad=True)
    before = words.detach().clone()
    target = torch.randn(3)

    def loss():
        return (words.mean(0) - target).square().sum()

    loss().backward()
    gradient, there = words.grad.clone(), loss().item()
    with moved(words, 0.5, Processes(torch.device("cpu"))):
        step = words.detach() - before
        assert float(step.norm()) == pytest.approx(0.5)
        torch.testing.assert_close(step / 0.5, gradient / gradient.norm())
        assert loss().item() > there
    assert torch.equal(words.detach(), before)
    assert torch.equal(words.grad, gradient)


@pytest.mark.parametrize("gradient", [None, 0.0, float("nan"), float("inf")])
def test_words_stay_where_a_gradient_says_nothing(gradient):
    words = torch.ones(2, 2, requires_grad=True)
    if gradient is not None:
        words.grad = torch.full((2, 2), gradient)
    with moved(words, 0.5, Processes(torch.device("cpu"))):
        assert torch.equal(words.detach(), torch.ones(2, 2))


def test_words_come_back_when_a_pass_fails():
    words = torch.ones(2, 2, requires_grad=True)
    words.grad = torch.ones(2, 2)
    with pytest.raises(MemoryError), moved(words, 0.5, Processes(torch.device("cpu"))):
        raise MemoryError
    assert torch.equal(words.detach(), torch.ones(2, 2))


def test_the_average_of_weights_by_hand():
    model = torch.nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    averaged = Averaged(model, 0.5)
    expected = 1.0
    for step, value in enumerate((2.0, 3.0, 5.0, 7.0)):
        model.weight.data.fill_(value)
        averaged.add(step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
    parameter = model.weight
    with averaged.in_place():
        assert model.weight.item() == pytest.approx(expected)
        assert model.weight is parameter
    assert model.weight.item() == 7.0
    assert averaged.state()["weight"].item() == pytest.approx(expected)


def test_the_average_is_what_is_measured_and_kept(trainer, tmp_path):
    run = trainer(tmp_path / "average", ema=0.9, eval_steps=12)
    run.run()
    plain = trainer(tmp_path / "plain", eval_steps=12)
    plain.run()
    kept, last = (load_file(tmp_path / x / "model.safetensors") for x in ("average", "plain"))
    # The run itself is none the wiser.
    for one, other in zip(run.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert any(not torch.equal(kept[name], last[name]) for name in last)
    with run.averaged.in_place():
        score = run.objective.evaluate(run.processes).score
    assert run.progress.best_score == score


def first_gradients(run):
    """Run a step; the gradients that it was taken with."""
    update, found = run.stepper.update, []

    def watched(rate):
        found.extend(p.grad.clone() for p in run.model.parameters())
        return update(rate)

    run.stepper.update = watched
    run.run()
    return found


def assert_same_gradients(one, other):
    """Relative to the largest: Adam would make much of the rounding of the smallest."""
    largest = max(float(gradient.abs().max()) for gradient in one)
    for ours, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4 * largest, rtol=0)


@pytest.mark.parametrize("name", ["cloze", "race"])
def test_micro_batches_change_nothing_but_rounding(trainer, tmp_path, name):
    """Without dropout: with it they would draw other numbers."""
    how = {"name": name, "max_steps": 1, "label_smoothing": 0.1, "fgm": 0.3}
    how["shape"] = {"classifier_dropout": 0.0}
    whole = first_gradients(trainer(tmp_path / "whole", **how))
    assert_same_gradients(whole, first_gradients(trainer(tmp_path / "cut", accumulation=3, **how)))
    alone = first_gradients(trainer(tmp_path / "alone", **how | {"fgm": 0.0}))
    assert any(not torch.equal(x, y) for x, y in zip(whole, alone, strict=True))


def test_with_all_of_them_a_resumed_run_ends_bit_for_bit(trainer, tmp_path):
    how = {"shape": DROPOUT, "save_steps": 1, "eval_steps": 4, **ALL}
    whole = trainer(tmp_path / "whole", **how)
    whole.run()
    run_until_power_cut(trainer(tmp_path / "cut", **how), 7)
    resumed = trainer(tmp_path / "cut", **how)
    resumed.run(resume=True)
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    for key, average in whole.averaged.state().items():
        assert torch.equal(average, resumed.averaged.state()[key])
    one, other = (load_file(tmp_path / x / "model.safetensors") for x in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("change", [{name: value * 0.5} for name, value in ALL.items()])
def test_resume_refuses_another_recipe(trainer, tmp_path, change):
    how = {"shape": DROPOUT, "max_steps": 2, **ALL}
    trainer(tmp_path, **how).run()
    flag = "--" + next(iter(change)).replace("_", "-")
    with pytest.raises(UsageError, match=f"begun with {flag}"):
        trainer(tmp_path, **(how | change)).run(resume=True)


def test_resume_names_what_is_otherwise_in_the_model(trainer, tmp_path):
    trainer(tmp_path, max_steps=2).run()
    other = trainer(tmp_path, max_steps=2, how={"dropout": 0.25})
    said = r"another model shape: dropout .*, not 0\.25; attention_dropout .*, not 0\.25; give"
    with pytest.raises(UsageError, match=said):
        other.run(resume=True)


def test_each_of_them_moves_the_weights_elsewhere(trainer, tmp_path):
    ends = []
    for change in ({}, *({name: value} for name, value in ALL.items() if name != "ema")):
        run = trainer(tmp_path / str(len(ends)), shape=DROPOUT, max_steps=2, **change)
        run.run()
        ends.append(torch.cat([p.detach().flatten() for p in run.model.parameters()]))
    for number, end in enumerate(ends):
        assert all(not torch.equal(end, other) for other in ends[:number])


def test_what_would_do_nothing_is_refused(trainer, tmp_path):
    with pytest.raises(UsageError, match=r"--dropout 0\.1"):
        trainer(tmp_path, r_drop=1.0)
    with pytest.raises(UsageError, match=r"--dropout 1\.5"):
        trainer(tmp_path, how={"dropout": 1.5})
    with pytest.raises(UsageError, match="--mask-weight 2 needs --mask-rate"):
        TrainConfig(mask_weight=2)
    for minutes in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="--minutes"):
            seconds_of(minutes)
    assert (seconds_of(None), seconds_of(0.5)) == (None, 30)
    run = trainer(tmp_path, r_drop=1.0, how={"dropout": 0.2})
    assert (run.model.config.dropout, run.model.config.attention_dropout) == (0.2, 0.2)


def test_out_of_memory_in_the_second_pass_is_taken_again(trainer, tmp_path):
    how = {"max_steps": 1, "fgm": 0.3}
    alone = first_gradients(trainer(tmp_path / "alone", **how))
    cut = trainer(tmp_path / "cut", **how)
    passes, calls = cut.stepper.passes, []

    def failing(micro, counts):
        calls.append(cut.objective.model.words.detach().clone())
        found = passes(micro, counts)
        if len(calls) == 2:
            torch.empty(1 << 60, dtype=torch.uint8)
        return found

    cut.stepper.passes = failing
    assert_same_gradients(alone, first_gradients(cut))
    assert cut.stepper.micro_batches == 2
    assert torch.equal(calls[2], calls[0])


def test_the_mean_of_a_runs_last_states(trainer, tmp_path):
    run = trainer(tmp_path / "run", save_steps=2, keep=3, eval_steps=12, max_steps=8)
    run.run()
    written = {
        step: torch.load(state_path(tmp_path / "run", step), weights_only=True)["model"]
        for step in (4, 6, 8)
    }
    sources = of_states(tmp_path / "run", 3)
    write_mean(sources, tmp_path / "run", tmp_path / "mean")
    mean = load_model(tmp_path / "mean", "cloze").model
    for name, weight in mean.named_parameters():
        expected = sum(state[name].double() for state in written.values()) / 3
        torch.testing.assert_close(weight, expected.float(), atol=1e-7, rtol=0)
    with pytest.raises(UsageError, match="has 3 states; train with --set keep=4"):
        of_states(tmp_path / "run", 4)
    (tmp_path / "run" / "resume-00000006.pt").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=r"resume-00000006\.pt: cannot be read"):
        of_states(tmp_path / "run", 3)


def test_the_mean_of_averaged_states_is_of_what_was_kept(trainer, tmp_path):
    run = trainer(tmp_path / "run", save_steps=2, keep=2, eval_steps=12, max_steps=4, ema=0.9)
    run.run()
    states = [
        torch.load(state_path(tmp_path / "run", step), weights_only=True)["averaged"]
        for step in (2, 4)
    ]
    write_mean(of_states(tmp_path / "run", 2), tmp_path / "run", tmp_path / "mean")
    mean = load_model(tmp_path / "mean", "cloze").model
    moved = 0
    for name, weight in mean.named_parameters():
        expected = sum(state[name].double() for state in states) / 2
        torch.testing.assert_close(weight, expected.float(), atol=1e-7, rtol=0)
        raw = dict(run.model.named_parameters())[name]
        moved += not torch.allclose(raw, weight, atol=1e-6)
    assert moved


def test_the_mean_of_folders(trainer, tokenizer, tmp_path, cli):
    models = []
    for number in (0, 1):
        run = trainer(tmp_path / f"{number}", max_steps=1 + number)
        run.run()
        models.append(run.model)
    done = cli("export", tmp_path / "0", tmp_path / "1", "--out", tmp_path / "mean")
    assert done.returncode == 0
    mean = load_model(tmp_path / "mean", "cloze").model
    pairs = zip(*(model.parameters() for model in (*models, mean)), strict=True)
    for one, other, found in pairs:
        torch.testing.assert_close(found, (one + other) / 2, atol=1e-7, rtol=0)
    for taken in ("0", "1", "mean"):
        with pytest.raises(UsageError, match="is not empty; name a new folder"):
            write_mean(
                of_folders([tmp_path / "0", tmp_path / "1"]), tmp_path / "0", tmp_path / taken
            )
    with pytest.raises(UsageError, match="at least two"):
        write_mean(of_folders([tmp_path / "0"]), tmp_path / "0", tmp_path / "new")
    with pytest.raises(UsageError, match="is given twice"):
        of_folders([tmp_path / "0", tmp_path / "1" / ".." / "0"])
    with pytest.raises(UsageError, match="at least two states"):
        of_states(tmp_path / "0", -1)
    other = trainer(tmp_path / "other", shape={"ffn_size": 48}, max_steps=1)
    other.run()
    with pytest.raises(CheckpointError, match=r"differs from .*0 in ffn_size; only weights"):
        of_folders([tmp_path / "0", tmp_path / "other"])
    dropped = tmp_path / "1" / "config.json"
    dropped.write_text(json.dumps(json.loads(dropped.read_text()) | {"hidden_dropout_prob": 0.1}))
    assert len(of_folders([tmp_path / "0", tmp_path / "1"])) == 2
