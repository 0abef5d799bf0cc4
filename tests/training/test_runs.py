"""What decides how a run goes on, and means of weights."""

import json

import pytest
import torch
from conftest import SAMPLE, SHAPE, run_until_power_cut
from safetensors.torch import load_file

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.cli.options import seconds_of
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.training.checkpoint import state_path
from albert_rc.training.config import TrainConfig
from albert_rc.training.runs.mean_weights import of_folders, of_states, write_mean

DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}


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
    how = {"name": name, "max_steps": 1, "shape": {"classifier_dropout": 0.0}}
    whole = first_gradients(trainer(tmp_path / "whole", **how))
    assert_same_gradients(whole, first_gradients(trainer(tmp_path / "cut", accumulation=3, **how)))


def test_with_dropout_a_resumed_run_ends_bit_for_bit(trainer, tmp_path):
    how = {"shape": DROPOUT, "save_steps": 1, "eval_steps": 4}
    whole = trainer(tmp_path / "whole", **how)
    whole.run()
    run_until_power_cut(trainer(tmp_path / "cut", **how), 7)
    resumed = trainer(tmp_path / "cut", **how)
    resumed.run(resume=True)
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)
    one, other = (load_file(tmp_path / x / "model.safetensors") for x in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("change", [{"clip": 0.5}, {"weight_decay": 0.1}, {"mask_rate": 0.1}])
def test_resume_refuses_another_recipe(trainer, tmp_path, change):
    trainer(tmp_path, max_steps=2).run()
    flag = "--" + next(iter(change)).replace("_", "-")
    with pytest.raises(UsageError, match=f"started with {flag}"):
        trainer(tmp_path, max_steps=2, **change).run(resume=True)


def test_runs_of_earlier_versions_go_on_unless_they_had_what_is_gone(trainer, tmp_path):
    trainer(tmp_path, max_steps=2).run()
    path = state_path(tmp_path, 2)
    content = torch.load(path, weights_only=True)
    for decay in (0.0, 0.9):
        content["settings"]["ema"] = decay
        torch.save(content, path)
        again = trainer(tmp_path, max_steps=2)
        if decay:
            with pytest.raises(UsageError, match=r"started with --ema 0\.9, not without"):
                again.run(resume=True)
        else:
            assert again.run(resume=True).steps == 2


def test_resume_names_what_is_otherwise_in_the_model(trainer, tmp_path):
    trainer(tmp_path, max_steps=2).run()
    other = trainer(tmp_path, max_steps=2, how={"dropout": 0.25})
    said = r"a different model shape: dropout .*, not 0\.25; attention_dropout .*, not 0\.25; use"
    with pytest.raises(UsageError, match=said):
        other.run(resume=True)


def test_what_would_do_nothing_is_refused(trainer, tmp_path):
    with pytest.raises(UsageError, match=r"--dropout 1\.5"):
        trainer(tmp_path, how={"dropout": 1.5})
    with pytest.raises(UsageError, match="--mask-weight 2 needs --mask-rate"):
        TrainConfig(mask_weight=2)
    for minutes in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="--minutes"):
            seconds_of(minutes)
    assert (seconds_of(None), seconds_of(0.5)) == (None, 30)
    run = trainer(tmp_path, how={"dropout": 0.2})
    assert (run.model.config.dropout, run.model.config.attention_dropout) == (0.2, 0.2)


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
    torch.save({"model": torch.zeros(1)}, tmp_path / "run" / "resume-00000008.pt")
    with pytest.raises(CheckpointError, match=r"resume-00000008\.pt: cannot be read"):
        of_states(tmp_path / "run", 3)
    (tmp_path / "run" / "resume-00000008.pt").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=r"resume-00000008\.pt: cannot be read"):
        of_states(tmp_path / "run", 3)


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
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file; name a new folder"):
        write_mean(of_folders([tmp_path / "0", tmp_path / "1"]), tmp_path / "0", tmp_path / "file")
    with pytest.raises(UsageError, match="at least two"):
        write_mean(of_folders([tmp_path / "0"]), tmp_path / "0", tmp_path / "new")
    with pytest.raises(UsageError, match="is given twice"):
        of_folders([tmp_path / "0", tmp_path / "1" / ".." / "0"])
    with pytest.raises(UsageError, match="at least two states"):
        of_states(tmp_path / "0", -1)
    other = trainer(tmp_path / "other", shape={"ffn_size": 48}, max_steps=1)
    other.run()
    with pytest.raises(CheckpointError, match=r"differs from .*0 in ffn_size; only checkpoints"):
        of_folders([tmp_path / "0", tmp_path / "other"])
    dropped = tmp_path / "1" / "config.json"
    dropped.write_text(json.dumps(json.loads(dropped.read_text()) | {"hidden_dropout_prob": 0.1}))
    assert len(of_folders([tmp_path / "0", tmp_path / "1"])) == 2


def test_models_of_different_tasks_have_no_mean(trainer, tokenizer, tmp_path):
    for name, task in (("mrpc", "label"), ("sst-2", "label"), ("race", "choice")):
        loaded = load_model(
            SAMPLE / "vocabulary", task, scratch="tiny", shape=SHAPE,
            **({"labels": ("0", "1"), "format_name": name} if task == "label" else {}),
        )  # fmt: skip
        save_model(loaded.model, tokenizer, tmp_path / name)
    for other, what in (("sst-2", "task"), ("race", r"kind of questions \(architectures\)")):
        with pytest.raises(CheckpointError, match=f"differs from .*mrpc in {what}"):
            of_folders([tmp_path / "mrpc", tmp_path / other])
