"""The guard: each symptom provoked, healthy runs left alone, and the way back."""

import math
import random
from dataclasses import replace
from itertools import chain

import pytest
import torch
from conftest import SHAPE, run_until_power_cut, torchrun
from test_train import DROPOUT, metrics, weights

from albert_rc.checkpoints.load import load_model
from albert_rc.errors import DivergedError, UsageError
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store
from albert_rc.training import step
from albert_rc.training.config import TrainConfig
from albert_rc.training.health.guard import OVERFLOWS, SKIPS, Guard
from albert_rc.training.health.restart import START
from albert_rc.training.health.vitals import Answers, Vitals
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import LETTERS, Reading, answer_sums
from albert_rc.training.optim import linear_rate, settled_step


def break_gradients(run, steps):
    """Make a gradient of these steps (counted from 1, and over all attempts) no number."""
    parameter = next(run.model.parameters())
    take_step, taken = run._step, [0]

    def count(items, epoch):
        taken[0] += 1
        return take_step(items, epoch)

    run._step = count
    parameter.register_hook(lambda grad: grad * math.inf if taken[0] in steps else grad)


def symptoms(folder):
    return [line["symptom"] for line in metrics(folder, "guard")]


@pytest.mark.parametrize("warmup", [0.0, 0.02, 0.1, 0.5])
def test_settled_after_a_share_of_all_learning_rates(warmup):
    rates = [linear_rate(step, 1000, 1.0, warmup) for step in range(1000)]
    step = settled_step(1000, warmup, 0.03)
    assert sum(rates[:step]) / sum(rates) == pytest.approx(0.03, abs=0.002)
    assert 10 < step < 130


@pytest.mark.parametrize("name", ["cloze", "race", "dream"])
def test_what_is_told_of_answers(trainer, tmp_path, name):
    run = trainer(tmp_path, name=name)
    batch = run.objective.batch(range(5), 0)
    logits_QK = run.model(batch).logits_QK
    chance, guessed, *letters = answer_sums(batch, logits_QK).tolist()
    options = [int(row.isfinite().sum()) for row in logits_QK]
    assert chance == pytest.approx(sum(math.log(k) for k in options), rel=1e-5)
    assert guessed == pytest.approx(sum(1 / k for k in options), rel=1e-5)
    chosen = logits_QK.argmax(-1).bincount(minlength=LETTERS).tolist()
    assert letters == chosen + batch.answer_Q.bincount(minlength=LETTERS).tolist()


@pytest.mark.parametrize(
    ("name", "rate", "seed", "batch_size"),
    [("cloze", 1e-3, 0, 6), ("cloze", 3e-3, 1, 6), ("cloze", 1e-2, 2, 6), ("race", 1e-3, 0, 2)],
)
def test_a_healthy_run_is_left_alone(trainer, tmp_path, name, rate, seed, batch_size):
    settings = {"learning_rate": rate, "seed": seed, "batch_size": batch_size, "max_steps": 70}
    trainer(tmp_path, name=name, dev=False, on_collapse="stop", eval_steps=70, **settings).run()
    assert symptoms(tmp_path) == []


def test_batches_without_answers_alarm_nobody_and_count_for_nothing(trainer, stores, tmp_path):
    """Every second paper's answers are unknown, and each is a batch of its own."""
    store = stores["cloze", "train"]
    answer_Q = store.tensors["answer"].clone()
    answer_Q[store.passage_of_question % 2 == 0] = -1
    half = replace(store, tensors=store.tensors | {"answer": answer_Q})
    settings = {"batch_size": 1, "max_steps": 130, "on_collapse": "stop", "dev": False}
    run = trainer(tmp_path, train=half, **settings)
    run.run()
    assert symptoms(tmp_path) == []
    lost, known = 0.0, 0
    with torch.no_grad():
        for item in range(half.num_items):
            batch = run.objective.batch([item], 0)
            run.model.eval()
            output = run.model(batch)
            lost, known = lost + float(output.loss_sum), known + int((batch.answer_Q >= 0).sum())
    sums, counts, norm = run.stepper.take(list(range(half.num_items)), 0, 200, 0.0)
    assert run.objective.report(sums.tolist(), counts.tolist())["loss"] == pytest.approx(
        lost / known, rel=1e-4
    )
    empty = next(i for i in range(half.num_items) if not run.objective.counts(
        run.objective.batch([i], 0))[0])  # fmt: skip
    sums, counts, norm = run.stepper.take([empty], 0, 201, 0.0)
    assert (float(counts[0]), float(norm)) == (0.0, 0.0)


@pytest.mark.parametrize("clip", [1.0, 0.0])
def test_watching_changes_nothing(trainer, tmp_path, monkeypatch, clip):
    settings = {"shape": DROPOUT, "mask_rate": 0.2, "clip": clip}
    watched = trainer(tmp_path / "watched", on_collapse="restart", **settings)
    watched.run()
    alone = trainer(tmp_path / "alone", **settings)
    alone.guard.add = lambda step, sums: None
    monkeypatch.setattr(step, "step_if_finite", lambda optimizer, norm: optimizer.step())
    alone.run()
    for a, b in zip(watched.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert metrics(tmp_path / "watched", "dev") == metrics(tmp_path / "alone", "dev")
    assert not (tmp_path / "watched" / START).exists()


@pytest.mark.parametrize(
    ("optimizer", "clip"), [("adamw", 1.0), ("adamw", 0.0), ("lamb", 1.0), ("adafactor", 1.0)]
)
def test_a_gradient_that_is_no_number_never_reaches_the_weights(trainer, tmp_path, optimizer, clip):
    run = trainer(tmp_path, optimizer=optimizer, clip=clip, eval_steps=50)
    break_gradients(run, {4})
    seen = []
    update = run.stepper.update

    def watched(rate):
        before = [p.detach().clone() for p in run.model.parameters()]
        norm = update(rate)
        after = run.model.parameters()
        seen.append(any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)))
        return norm

    run.stepper.update = watched
    run.run()
    assert seen == [step != 4 for step in range(1, 13)]
    assert symptoms(tmp_path) == ["skipped"]
    assert "step 4: the gradient is NaN or infinite; the step is skipped" in (
        (tmp_path / "log.txt").read_text()
    )
    assert all(bool(p.isfinite().all()) for p in run.model.parameters())


@pytest.mark.parametrize(("policy", "restarts"), [("warn", 0), ("stop", 0), ("restart", 2)])
def test_dev_scores_that_are_no_numbers_end_the_run_as_diverged(
    trainer, tmp_path, policy, restarts
):
    """The checkpoint that it began with is not to blame."""
    rate = {"learning_rate": 1e20, "warmup": 0.0, "clip": 0.0}
    run = trainer(tmp_path, eval_steps=1, on_collapse=policy, **rate)
    with pytest.raises(DivergedError, match="step 1: scores of dev papers are NaN or infinite"):
        run.run()
    assert run.progress.attempt == restarts


@pytest.mark.parametrize("policy", ["warn", "stop"])
def test_gradients_that_stay_no_numbers_end_the_run(trainer, tmp_path, policy):
    run = trainer(tmp_path, save_steps=3, max_steps=60, eval_steps=60, on_collapse=policy)
    break_gradients(run, range(11, 99))
    said = rf"step {10 + SKIPS}: the gradient was NaN or infinite in {SKIPS} consecutive steps: "
    said += ".*diverged"
    with pytest.raises(UsageError, match=said) as caught:
        run.run()
    assert caught.value.exit_code == 2
    assert metrics(tmp_path, "guard")[-1]["action"] == "stop"
    again = trainer(tmp_path, save_steps=3, max_steps=60, eval_steps=60)
    again._step = lambda items, epoch: (_ for _ in ()).throw(RuntimeError("here"))
    with pytest.raises(RuntimeError, match="here"):
        again.run(resume=True)
    assert again.progress.step <= 12  # the state of before it was seen stayed
    assert all(bool(p.isfinite().all()) for p in again.model.parameters())


def test_weights_that_are_no_numbers_are_never_kept(trainer, tmp_path):
    run = trainer(tmp_path, eval_steps=4)
    update = run.stepper.update

    def overflow(rate):
        norm = update(rate)
        if run.progress.step == 7:  # a finite gradient, but a step beyond fp32
            next(run.model.parameters()).data.fill_(math.inf)
        return norm

    run.stepper.update = overflow
    with pytest.raises(UsageError, match="step 8: weights are NaN or infinite"):
        run.run()
    assert all(bool(value.isfinite().all()) for value in weights(tmp_path).values())


def test_chance_is_said_once_and_stops_only_who_asks(trainer, tmp_path):
    settings = {"learning_rate": 1e-9, "max_steps": 60, "eval_steps": 60, "dev": False}
    lines = []
    trainer(tmp_path / "warn", **settings).run(on_event=lines.append)
    said = [line for line in lines if "no better than guessing" in line]
    assert len(said) == 1
    assert "step 50: " in said[0]
    assert "lower --learning-rate 1e-09" in said[0]
    [found] = metrics(tmp_path / "warn", "guard")
    assert found["action"] == "warn"
    assert found["loss"] == pytest.approx(found["chance"], abs=0.05)
    assert found["chance"] == pytest.approx(math.log(4), abs=0.05)
    with pytest.raises(UsageError, match=r"step 50: no better than guessing.* has diverged"):
        trainer(tmp_path / "stop", on_collapse="stop", **settings).run()
    assert not (tmp_path / "stop" / "model.safetensors").exists()


def test_nearly_constant_answers_are_said(sample, tokenizer, tmp_path):
    rows = [f"film number {number}\t{number % 2}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("\n".join(["sentence\tlabel", *rows, ""]))
    store = make_store(read_split(tmp_path / "train.tsv"), tokenizer, 512)
    loaded = load_model(
        sample / "vocabulary", "label", scratch="tiny", shape=SHAPE, labels=store.labels
    )
    settings = TrainConfig(learning_rate=1e-9, batch_size=20, max_steps=60)
    objective = Reading(loaded.model, tokenizer, store, None, settings)
    Trainer(objective, settings, tmp_path, Processes(torch.device("cpu"))).run()
    found = {line["symptom"]: line for line in metrics(tmp_path, "guard")}
    assert found["constant"]["one_letter"] >= 0.95
    assert found["constant"]["one_letter_right"] == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("hit", ["weights", "gradient"])
def test_spikes_are_found(trainer, tmp_path, hit):
    run = trainer(tmp_path, max_steps=80, eval_steps=80, dev=False)
    word = run.encoder.embeddings.word.weight
    take_step = run._step

    def struck(items, epoch):
        if run.progress.step == 60 and hit == "weights":
            word.data.normal_(std=3.0)
        return take_step(items, epoch)

    run._step = struck
    if hit == "gradient":
        word.register_hook(lambda grad: grad * (1000 if run.progress.step >= 60 else 1))
    run.run()
    found, *others = metrics(tmp_path, "guard")
    assert (found["symptom"], found["step"], found["began"]) == ("spike", 70, 61)
    assert {other["symptom"] for other in others} <= ({"chance"} if hit == "weights" else set())
    assert ("rise" if hit == "weights" else "times") in found


def test_steps_without_answers_are_no_spike_with_a_teacher():
    """Three steps in ten have the teacher alone, and no loss to compare with chance."""
    fours = ((5.0,) * 4, (5.0,) * 4)
    answered = Vitals(0.6, 20, 12, 20 * math.log(4), 15, 5, *fours)
    taught = Vitals(0.9, 0, 0, 0, 0, 0, *fours)
    draw = random.Random(0)
    read = iter(taught if draw.random() < 0.3 else answered for _ in range(2000))
    guard = Guard(lambda row: next(read), lambda share: 0, False, torch.device("cpu"))
    found = []
    for number in range(2000):
        guard.add(number, torch.tensor([0.0, 1.0]))
        found += guard.look()
    assert [symptom for symptom in found if symptom.name == "spike"] == []


def test_a_loss_far_above_chance_is_seen_however_it_varies(trainer, tmp_path):
    run = trainer(tmp_path, max_steps=90, eval_steps=90, dev=False, on_collapse="stop")
    take_step = run._step

    def wild(items, epoch):
        run.encoder.embeddings.word.weight.data.normal_(std=20.0 + 15 * (-1) ** run.progress.step)
        return take_step(items, epoch)

    run._step = wild
    with pytest.raises(UsageError, match=r"worse than guessing: .* the run has diverged"):
        run.run()
    assert run.progress.step <= 70
    assert symptoms(tmp_path) == ["chance"]


def test_constant_answers_are_named_as_the_task_names_them(trainer, stores, tmp_path):
    rows = [Vitals(0.7, 20, 14, 20 * math.log(2), 10, 10, (0.0, 20.0), (10.0, 10.0))] * 60
    (letters,) = (Answers(rows, early=False).symptoms()["constant"],)
    assert "answers are B, which is right for only 50.0%" in letters
    named = Answers(rows, False, ("entailment", "neutral")).symptoms()["constant"]
    assert "answers are neutral, which is right" in named
    assert trainer(tmp_path).objective.answer_names == list("ABCDEFGH")


def test_a_verdict_on_a_loss_far_above_chance():
    def rows(losses):
        return [
            Vitals(loss / 20, 20, loss, 20 * math.log(4), 5, 5, (5,) * 4, (5,) * 4, step, 1.0)
            for step, loss in enumerate(losses, 1)
        ]

    wild = [20 * (100 + 60 * (-1) ** step) for step in range(60)]
    assert Answers(rows(wild), early=True).worse
    assert Answers(rows(wild), early=True).at_chance
    falling = [20 * (160 - 2 * step) for step in range(60)]
    assert not Answers(rows(falling), early=True).at_chance
    # As far above chance as the first steps of many sound runs.
    near = [20 * math.log(4) * (1.2 + 0.5 * (-1) ** step) for step in range(60)]
    assert not Answers(rows(near), early=True).worse


def test_restart_goes_to_the_start_with_half_the_rate_and_another_order(trainer, tmp_path):
    settings = {"save_steps": 4, "max_steps": 40, "on_collapse": "restart", "warmup": 0.0}
    run = trainer(tmp_path, **settings)
    first = run.objective.order.epoch(0)
    start = {name: value.clone() for name, value in run.model.state_dict().items()}
    break_gradients(run, {11, 12, 13})
    go_back, seen = run._go_back, []

    def watched(began):
        go_back(began)
        state = run.model.state_dict()
        seen.append(
            (run.progress.step, began, all(map(torch.equal, start.values(), state.values())))
        )

    run._go_back = watched
    take, taken = run.stepper.take, []

    def watched_step(items, epoch, step, rate):
        taken.append((run.progress.attempt, step, rate))
        return take(items, epoch, step, rate)

    run.stepper.take = watched_step
    lines = []
    result = run.run(on_event=lines.append)
    assert {attempt for attempt, *_ in taken} == {0, 1}
    for attempt, at, rate in taken:
        assert rate == pytest.approx(linear_rate(at, 40, 1e-3, 0.0) / 2**attempt)
    assert seen == [(0, 11, True)]
    assert (result.restarts, result.steps) == (1, 40)
    again = run.objective.order.epoch(0)
    assert again != first
    assert sorted(chain(*again)) == sorted(chain(*first))
    assert [line["action"] for line in metrics(tmp_path, "guard")] == ["warn", "restart"]
    assert "restarting from the start with learning rate 0.0005 and a different data order" in lines
    assert "restarting from the start" in (tmp_path / "log.txt").read_text()
    assert result.best_score is not None
    assert not (tmp_path / START).exists()


def test_restart_goes_to_the_last_good_state_and_then_to_the_start(trainer, tmp_path):
    settings = {"save_steps": 60, "max_steps": 80, "eval_steps": 80, "on_collapse": "restart"}
    run = trainer(tmp_path, **settings)
    # The second time nothing was saved since the first, so that state has not helped.
    break_gradients(run, {64, 65, 66, 75, 76, 77})
    lines = []
    result = run.run(on_event=lines.append)
    back = [line for line in lines if line.startswith("restarting from")]
    assert back == [
        "restarting from the state of step 60 with learning rate 0.0005 and a different data order",
        "restarting from the start with learning rate 0.00025 and a different data order",
    ]
    assert (result.restarts, result.steps) == (2, 80)


def test_restarts_are_limited(trainer, tmp_path):
    run = trainer(tmp_path, max_steps=40, eval_steps=40, on_collapse="restart", max_restarts=1)
    break_gradients(run, range(99))
    with pytest.raises(UsageError, match=r"1 restart did not help; lower --learning-rate"):
        run.run()
    assert [line["action"] for line in metrics(tmp_path, "guard")][1::2] == ["restart", "stop"]


def test_a_slow_starter_goes_on_when_no_restart_is_left(trainer, tmp_path):
    settings = {"learning_rate": 1e-9, "max_steps": 60, "eval_steps": 60, "dev": False}
    result = trainer(tmp_path, on_collapse="restart", max_restarts=1, **settings).run()
    assert (result.restarts, result.steps) == (1, 60)
    assert [line["action"] for line in metrics(tmp_path, "guard")] == ["restart", "warn"]
    assert "1 restart did not help, so the run continues" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(("cut", "left"), [(12, {1}), (22, ())])
def test_a_restarted_run_resumes_bit_for_bit(trainer, tmp_path, cut, left):
    """Cut between the steps of a symptom, so that the guard itself resumes, or after going back."""
    settings = {
        "shape": DROPOUT, "save_steps": 2, "max_steps": 30, "eval_steps": 6,
        "on_collapse": "restart",
    }  # fmt: skip
    one = trainer(tmp_path / "whole", **settings)
    break_gradients(one, {11, 12, 13})
    one.run()
    two = trainer(tmp_path / "broken", **settings)
    break_gradients(two, {11, 12, 13})
    run_until_power_cut(two, cut)
    three = trainer(tmp_path / "broken", **settings)
    break_gradients(three, left)
    assert three.run(resume=True).restarts == 1
    for a, b in zip(one.model.parameters(), three.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert metrics(tmp_path / "whole", "dev") == metrics(tmp_path / "broken", "dev")
    found = [metrics(tmp_path / name, "guard") for name in ("whole", "broken")]
    assert found[0] == found[1]


def test_the_state_says_all_that_decides(trainer, tmp_path):
    settings = {"learning_rate": 1e-9, "max_steps": 60, "eval_steps": 60, "dev": False}
    trainer(tmp_path / "whole", **settings).run()
    run_until_power_cut(trainer(tmp_path / "broken", save_steps=7, **settings), 44)
    trainer(tmp_path / "broken", save_steps=7, **settings).run(resume=True)
    found = [metrics(tmp_path / name, "guard") for name in ("whole", "broken")]
    assert found[0] == found[1] != []


def test_fp16_overflow_is_the_scalers_business(trainer, tmp_path):
    run = trainer(tmp_path, precision="fp16", max_steps=30, eval_steps=30, dev=False)
    break_gradients(run, {2, 3, 4, 5, 6, 7})
    run.run()
    assert symptoms(tmp_path) == []
    assert run.scaler.get_scale() == 2.0**16 / 2**6
    again = trainer(tmp_path, precision="fp16", max_steps=30, eval_steps=30, dev=False)
    break_gradients(again, range(5, 99))
    said = f"step {4 + OVERFLOWS}: .*although the scale of the fp16 loss"
    with pytest.raises(UsageError, match=said):
        again.run()


@pytest.mark.slow
def test_two_processes_decide_alike(sample, stores, tmp_path):
    """Both go back at the same step, or they would wait for each other for ever."""
    stores["race", "train"].save(tmp_path / "train.pt")
    options = ["--data", tmp_path, "--model", sample / "vocabulary", "--scratch", "tiny",
               "--max-steps", 24, "--batch-size", 4, "--learning-rate", 1e30, "--max-restarts", 1,
               "--on-collapse", "restart", "--device", "cpu", "--precision", "fp32"]  # fmt: skip
    command = ["-m", "albert_rc", "train", *options, "--out", tmp_path / "two"]
    done = torchrun(2, *command, check=False)
    assert "1 restart did not help" in done.stderr
    log = (tmp_path / "two" / "log.txt").read_text()
    assert "restarting from the start with learning rate 5e+29" in log


def test_a_policy_that_is_none_is_refused():
    with pytest.raises(UsageError, match="--on-collapse panic: choose from warn, stop, restart"):
        TrainConfig(on_collapse="panic")
    with pytest.raises(UsageError, match="--max-restarts 0 must be from 1"):
        TrainConfig(max_restarts=0)
