"""The loop: two processes as one, resuming bit for bit, the recipe's parts, and that it learns."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import assert_same_but_rounding, run_until_power_cut, torchrun
from safetensors.torch import load_file

from albert_rc.checkpoints.load import load_model
from albert_rc.errors import DataError, Interrupted, UsageError
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import choose_precision, has_bf16
from albert_rc.stores.store import make_store
from albert_rc.training.checkpoint import states
from albert_rc.training.config import TrainConfig
from albert_rc.training.objective import DevScore
from albert_rc.training.optim import linear_rate, make_optimizer

DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}


def weights(folder):
    return load_file(folder / "model.safetensors")


def metrics(folder, kind):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def test_a_run_leaves_what_it_promises(trainer, tmp_path):
    result = trainer(tmp_path).run()
    names = {p.name for p in tmp_path.iterdir()}
    promised = {"model.safetensors", "config.json", "spiece.model", "log.txt", "metrics.jsonl"}
    assert promised | {"resume-00000010.pt", "resume-00000012.pt"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)
    assert result.steps == 12
    dev = metrics(tmp_path, "dev")
    assert [line["step"] for line in dev] == [5, 10, 12]
    assert result.best_score == pytest.approx(max(line["accuracy"] for line in dev), abs=1e-5)


def test_the_best_weights_are_kept_not_the_last(trainer, tmp_path):
    run = trainer(tmp_path, max_steps=10, eval_steps=1)
    accuracies = []
    evaluate = run._evaluate

    def watched():
        stop = evaluate()
        accuracies.append(metrics(tmp_path, "dev")[-1]["accuracy"])
        if accuracies[-1] == max(accuracies) and accuracies.count(accuracies[-1]) == 1:
            watched.best = {k: v.clone() for k, v in run.model.state_dict().items()}
        return stop

    run._evaluate = watched
    run.run()
    saved = load_model(tmp_path, "cloze").model.state_dict()
    assert all(torch.equal(saved[k], v) for k, v in watched.best.items())


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("stop_at", [3, 7])
def test_a_resumed_run_ends_bit_for_bit_as_an_unbroken_one(trainer, tmp_path, stop_at, precision):
    settings = {"shape": DROPOUT, "mask_rate": 0.2, "precision": precision, "save_steps": 1}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    one = trainer(whole, **settings)
    one.run()
    two = trainer(broken, **settings)
    run_until_power_cut(two, stop_at)
    three = trainer(broken, **settings)
    three.run(resume=True)
    for a, b in zip(one.model.parameters(), three.model.parameters(), strict=True):
        assert torch.equal(a, b)
    assert weights(whole).keys() == weights(broken).keys()
    assert all(torch.equal(v, weights(broken)[k]) for k, v in weights(whole).items())
    assert metrics(whole, "dev") == metrics(broken, "dev")
    timeless = [
        [line | {"windows_per_second": 0} for line in metrics(folder, "train")]
        for folder in (whole, broken)
    ]
    assert timeless[0] == timeless[1]


def test_resume_refuses_another_recipe(trainer, tmp_path):
    trainer(tmp_path, max_steps=6).run()
    with pytest.raises(UsageError, match=r"started with --learning-rate 0\.001, not 0\.1"):
        trainer(tmp_path, max_steps=6, learning_rate=0.1).run(resume=True)
    with pytest.raises(UsageError, match="a different model shape"):
        trainer(tmp_path, max_steps=6, shape={"hidden_size": 48}).run(resume=True)
    with pytest.raises(UsageError, match=r"--resume: no saved state in .*nothing"):
        trainer(tmp_path / "nothing").run(resume=True)


@pytest.mark.parametrize("name", ["cloze", "race"])
def test_accumulation_changes_nothing_but_rounding(trainer, tmp_path, name):
    one = trainer(tmp_path / "1", name=name, max_steps=4, accumulation=1)
    many = trainer(tmp_path / "3", name=name, max_steps=4, accumulation=3)
    one.run()
    many.run()
    assert_same_but_rounding(one.model.state_dict(), many.model.state_dict())


def test_recomputing_changes_nothing(trainer, tmp_path):
    plain, lean = trainer(tmp_path / "p"), trainer(tmp_path / "c", recompute="layers")
    plain.run()
    lean.run()
    for a, b in zip(plain.model.parameters(), lean.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_evaluations_can_be_rarer_than_epochs(trainer, tmp_path):
    trainer(tmp_path, max_steps=17, eval_steps=8).run()  # an epoch has 5 steps
    assert [line["step"] for line in metrics(tmp_path, "dev")] == [8, 16, 17]
    assert [line["step"] for line in metrics(tmp_path, "train")] == [8, 16, 17]
    assert "masked_loss" not in metrics(tmp_path, "train")[0]


def test_a_diverged_run_is_no_success(trainer, tmp_path):
    with pytest.raises(UsageError, match=r"diverged; lower --learning-rate"):
        trainer(tmp_path, learning_rate=1e30, dev=False).run()
    assert not (tmp_path / "model.safetensors").exists()


def test_starting_over_forgets_the_earlier_state(trainer, tmp_path):
    trainer(tmp_path).run()
    again = trainer(tmp_path)
    again._step = lambda items, epoch: (_ for _ in ()).throw(RuntimeError("at once"))
    with pytest.raises(RuntimeError, match="at once"):
        again.run()
    with pytest.raises(UsageError, match="start without --resume"):
        trainer(tmp_path).run(resume=True)


def test_another_vocabulary_in_the_folder_is_cleared_away(trainer, tmp_path):
    (tmp_path / "vocab.txt").write_text("of an earlier run")
    trainer(tmp_path, max_steps=1).run()
    assert not (tmp_path / "vocab.txt").exists()


def test_early_stopping(trainer, tmp_path):
    result = trainer(tmp_path, learning_rate=1e-9, max_steps=50, eval_steps=1, patience=3).run()
    assert result.stopped_early
    assert result.steps == 4


def test_a_gain_gives_patience_back(trainer, tmp_path):
    run = trainer(tmp_path, max_steps=50, eval_steps=1, patience=2)
    scores = iter([0.1, 0.0, 0.2, 0.0, 0.3, *[0.0] * 50])
    run.objective.evaluate = lambda processes: DevScore(score=next(scores), values={}, line="")
    result = run.run()
    assert (result.steps, result.best_step, result.stopped_early) == (7, 5, True)


def test_a_heads_dropout_goes_on_where_it_was(trainer, tmp_path):
    """It draws from torch's generator, whose state is a part of the run's."""
    settings = {
        "name": "race", "shape": {"classifier_dropout": 0.3}, "save_steps": 1, "max_steps": 6,
        "dev": False,
    }  # fmt: skip
    one = trainer(tmp_path / "whole", **settings)
    one.run()
    run_until_power_cut(trainer(tmp_path / "broken", **settings), 3)
    torch.rand(5)
    three = trainer(tmp_path / "broken", **settings)
    three.run(resume=True)
    for a, b in zip(one.model.parameters(), three.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_every_micro_batch_drops_other_units(trainer, tmp_path):
    run = trainer(tmp_path, accumulation=3, max_steps=2, shape=DROPOUT)
    losses, places = run.objective.losses, []

    def watched(batch, counts):
        places.append(run.encoder.place)
        return losses(batch, counts)

    run.objective.losses = watched
    run.run()
    assert len(places) == len(set(places))
    assert {number for *_, number in places} == {0, 1, 2}


def test_a_run_that_stopped_early_is_over(trainer, tmp_path):
    """Resuming does not train on, unless there is more patience than was used up."""
    settings = {"learning_rate": 1e-9, "max_steps": 6, "eval_steps": 1}
    trainer(tmp_path, patience=2, **settings).run()
    before, log = weights(tmp_path), (tmp_path / "metrics.jsonl").read_bytes()
    said = []
    for _ in range(2):
        result = trainer(tmp_path, patience=2, **settings).run(resume=True, on_event=said.append)
        assert (result.stopped_early, result.steps) == (True, 3)
    assert "stopped early at step 3, after 2 evaluations without improvement" in said[1]
    assert "raise --patience above 2" in said[1]
    assert all(torch.equal(v, before[k]) for k, v in weights(tmp_path).items())
    assert (tmp_path / "metrics.jsonl").read_bytes() == log
    result = trainer(tmp_path, patience=4, **settings).run(resume=True)
    assert (result.stopped_early, result.steps) == (True, 5)


def test_without_dev_papers_the_last_weights_are_kept(trainer, tmp_path):
    run = trainer(tmp_path, dev=False)
    result = run.run()
    assert result.best_score is None
    saved = load_model(tmp_path, "cloze").model
    for a, b in zip(saved.parameters(), run.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_salience_of_pieces_is_learned_and_saved(trainer, tmp_path):
    trainer(tmp_path, option_score="salience", learning_rate=1e-2).run()
    again = load_model(tmp_path, "cloze").model
    assert again.option_score == "salience"
    assert again.head.salience.abs().max() > 0


def test_it_learns_the_training_papers(trainer, tmp_path, stores, tokenizer):
    from albert_rc.answering.score import score

    run = trainer(tmp_path, max_steps=150, learning_rate=3e-3, dev=False)
    run.run()
    store = stores["cloze", "train"]
    scored = score(run.model, tokenizer, store, run.processes)
    right = scored.argmax(-1) == store.tensors["answer"]
    assert right.double().mean() > 0.9


def test_decay_leaves_biases_and_norms_alone(trainer, tmp_path):
    model = trainer(tmp_path).model
    optimizer = make_optimizer(model, 1e-3, 0.01)
    decayed, kept = optimizer.param_groups
    assert (decayed["weight_decay"], kept["weight_decay"]) == (0.01, 0.0)
    names = {id(p): n for n, p in model.named_parameters()}
    assert all("bias" in names[id(p)] or "norm" in names[id(p)] for p in kept["params"])
    assert not any("bias" in names[id(p)] or "norm" in names[id(p)] for p in decayed["params"])
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(names)


def test_the_schedule_rises_and_falls_linearly():
    rates = [linear_rate(step, 100, 2.0, 0.1) for step in range(101)]
    assert rates[:10] == pytest.approx([2 * (i + 1) / 11 for i in range(10)])
    assert rates[10:] == pytest.approx([2 * (1 - i / 90) for i in range(91)])
    assert linear_rate(0, 100, 2.0, 0.0) == 2.0


def test_gradients_are_clipped(trainer, tmp_path):
    seen = []
    run = trainer(tmp_path, clip=1e-3, max_steps=2)
    step = run.optimizer.step

    def watch(*args, **kwargs):
        grads = [p.grad for p in run.model.parameters() if p.grad is not None]
        seen.append(float(torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))))
        return step(*args, **kwargs)

    run.optimizer.step = watch
    run.run()
    assert seen == pytest.approx([1e-3, 1e-3], rel=1e-3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epochs": 0}, "--epochs 0 must be from 1"),
        ({"batch_size": 0}, "--batch-size 0"),
        ({"learning_rate": 0.0}, r"--learning-rate 0\.0 must be above 0"),
        ({"learning_rate": float("nan")}, "--learning-rate nan"),
        ({"warmup": 1.5}, "--warmup 1.5"),
        ({"clip": -1.0}, r"--clip -1\.0 must be"),
        ({"weight_decay": float("inf")}, "--weight-decay inf must be finite, and at least 0"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_settings_name_their_flag(change, said):
    with pytest.raises(UsageError, match=said):
        TrainConfig(**change)


def test_precisions_are_checked():
    cpu = torch.device("cpu")
    assert choose_precision(None, cpu) == ("bf16" if has_bf16(cpu) else "fp32")
    with pytest.raises(UsageError, match="needs a GPU"):
        choose_precision("fp16", cpu)
    with pytest.raises(UsageError, match="choose from fp32, bf16, fp16"):
        choose_precision("fp8", cpu)


def test_ctrl_c_saves_and_says_how_to_go_on(trainer, tmp_path):
    run = trainer(tmp_path, max_steps=500)
    steps = run._step

    def pressed(items, epoch):
        if run.progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return steps(items, epoch)

    run._step = pressed
    with pytest.raises(Interrupted, match=r"stopped at step 4 of 500; .*--resume"):
        run.run()
    again = trainer(tmp_path, max_steps=500)
    again._step = lambda items, epoch: (_ for _ in ()).throw(RuntimeError("here"))
    with pytest.raises(RuntimeError, match="here"):
        again.run(resume=True)
    assert again.progress.step == 4


@pytest.mark.parametrize("when", ["the step", "its evaluation", "its saving"])
def test_ctrl_c_in_the_last_step_ends_the_run_and_is_told(trainer, tmp_path, when):
    run = trainer(tmp_path, max_steps=4)
    place = {"the step": "_step", "its evaluation": "_evaluate", "its saving": "_save_state"}[when]
    work = getattr(run, place)

    def pressed(*arguments):
        if run.progress.step == 4 - (when == "the step"):
            os.kill(os.getpid(), signal.SIGINT)
        return work(*arguments)

    setattr(run, place, pressed)
    result = run.run()
    assert (result.steps, result.stop_asked, result.stopped_early) == (4, True, False)
    assert (tmp_path / "model.safetensors").is_file()
    assert not trainer(tmp_path, max_steps=4).run().stop_asked


def test_two_processes_reach_the_weights_of_one(sample, stores, tmp_path, cli):
    """Same global batch, 8 steps, fp32: only sums are rounded in another order.

    `test_parallel` compares more settings, and answers.
    """
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "dev"):
        stores["cloze", split].save(data / f"{split}.pt")
    options = ["--data", data, "--model", sample / "vocabulary", "--scratch", "tiny",
               "--max-steps", 8, "--batch-size", 5, "--learning-rate", 1e-3, "--mask-rate", 0.1,
               "--device", "cpu", "--precision", "fp32"]  # fmt: skip
    done = cli("train", *options, "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    torchrun(2, "-m", "albert_rc", "train", *options, "--out", tmp_path / "two")
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert_same_but_rounding(one, two)


def test_sigterm_exits_with_130_after_saving(sample, stores, tmp_path):
    stores["cloze", "train"].save(tmp_path / "train.pt")
    out = tmp_path / "run"
    options = ["--data", tmp_path, "--model", sample / "vocabulary", "--scratch", "tiny"]
    command = [sys.executable, "-m", "albert_rc", "train", *options, "--out", out, "--epochs", 999]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as run:
        for line in run.stderr:
            if line.startswith("step 1/"):
                break
        time.sleep(0.2)
        run.terminate()
        said = run.stderr.read()
        assert run.wait(timeout=60) == 130
    assert "run the same command with --resume to continue" in said
    assert len(states(out)) == 1


def test_training_papers_without_answers_are_mentioned(sample, tokenizer, tmp_path, works):
    (tmp_path / "raw").mkdir()
    papers = sorted((sample / "cloze" / "train").glob("*.json"))[:4]
    for number, path in enumerate(papers):
        paper = json.loads(path.read_bytes())
        if number % 2:
            del paper["answers"]
        (tmp_path / "raw" / path.name).write_text(json.dumps(paper))
    store = make_store(read_split(tmp_path / "raw"), tokenizer, 512)
    store.save(tmp_path / "train.pt")
    unknown = int((store.tensors["answer"] < 0).sum())
    assert 0 < unknown < store.num_questions
    done = works("train", "--data", tmp_path, "--model", sample / "vocabulary", "--scratch",
                 "tiny", "--max-steps", 1, "--out", tmp_path / "run")  # fmt: skip
    assert (
        f"note: {unknown} of {store.num_questions} training blanks have no answer; nothing is "
        "learned from these"
    ) in done.stderr


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("number", "why"),
    [
        (signal.SIGKILL, "was killed, probably because the system ran out of memory"),
        (signal.SIGABRT, "ended unexpectedly ("),
    ],
)
def test_a_lost_process_that_prepares_batches_is_no_bug(
    stores, sample, tmp_path, workers, number, why
):
    """As the system kills one when memory runs out; the others must not be waited for."""
    stores["cloze", "train"].save(tmp_path / "train.pt")
    run = subprocess.Popen(
        [sys.executable, "-m", "albert_rc", "train", "--data", tmp_path, "--model",
         sample / "vocabulary", "--scratch", "tiny", "--max-steps", "100000", "--out",
         tmp_path / "run", "--set", f"workers={workers}", "--device", "cpu"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while "step 1/" not in (line := run.stderr.readline()):
        assert line, "ended too early"
    listed = Path(f"/proc/{run.pid}/task/{run.pid}/children")
    if not listed.is_file():
        run.kill()
        pytest.skip("this system does not list the children of a process")
    children = listed.read_text().split()
    commands = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    lost = next(int(child) for child, command in commands.items() if b"albert_rc" in command)
    os.kill(lost, number)
    _, stderr = run.communicate(timeout=60)
    assert run.returncode == 2, stderr
    assert f"error: a process that prepares batches {why}" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_process_that_prepares_batches_is_the_error(trainer, tmp_path, workers):
    """And not the end of the process; nor are these processes waited for."""
    run = trainer(tmp_path, max_steps=50)
    run.stepper.workers = workers
    make = run.objective.batch

    def broken(items, epoch):
        if epoch > 0:
            raise DataError("the store is damaged")
        return make(items, epoch)

    run.objective.batch = broken
    before = set(multiprocessing.active_children())
    with pytest.raises(DataError, match="the store is damaged") as caught:
        run.run()
    assert set(multiprocessing.active_children()) == before
    assert caught.value


def test_a_test_paper_is_nothing_to_learn_from(sample, tokenizer, tmp_path, cli):
    make_store(read_split(sample / "cloze" / "test"), tokenizer, 512).save(tmp_path / "train.pt")
    done = cli("train", "--data", tmp_path, "--model", sample / "vocabulary", "--scratch", "tiny")
    assert done.returncode == 3
    assert "no answers to learn from" in done.stderr
