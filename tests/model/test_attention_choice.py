"""Which attention a model uses: asked for, kept in the checkpoint, and the same in prediction."""

import json

import pytest
import torch
from conftest import SHAPE, run_until_power_cut

from albert_rc.checkpoints.load import _repeated, load_model, save_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.stores.batches import Collator

LSH = {"chunk": 16, "rounds": 2}


def made(sample, **how):
    return load_model(sample / "vocabulary", "cloze", scratch="tiny", shape=SHAPE, seed=1, **how)


@pytest.fixture
def batch(stores):
    return Collator(stores["cloze", "dev"], None)([0, 1, 2])


def logits(model, batch):
    with torch.inference_mode():
        return model.eval()(batch).logits_QK


def test_a_checkpoint_says_how_it_attends(sample, tmp_path, batch):
    loaded = made(sample, attention="lsh", lsh=LSH)
    save_model(loaded.model, loaded.tokenizer, tmp_path)
    saved = json.loads((tmp_path / "config.json").read_bytes())["albert_rc"]
    assert saved["attention"] == "lsh"
    assert saved["lsh"]["seed"] == 1
    again = load_model(tmp_path, "cloze").model
    assert again.encoder.compute.lsh == loaded.model.encoder.compute.lsh
    hashed = logits(loaded.model, batch)
    assert torch.equal(logits(again, batch), hashed)
    dense = load_model(tmp_path, "cloze", attention="dense").model
    assert not torch.equal(logits(dense, batch), hashed)
    assert torch.equal(logits(dense, batch), logits(made(sample).model, batch))
    other = load_model(tmp_path, "cloze", lsh={"rounds": 1}).model.encoder.compute.lsh
    assert (other.rounds, other.chunk) == (1, 16)


def test_special_tokens_are_landmarks_unless_told_otherwise(sample, tokenizer, tmp_path):
    special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    assert made(sample, attention="lsh").model.encoder.compute.lsh.landmarks == special
    without = made(sample, attention="lsh", lsh={"landmarks": ()})
    assert without.model.encoder.compute.lsh.landmarks == ()
    save_model(without.model, without.tokenizer, tmp_path)
    for asked, found in (({}, ()), ({"landmarks": True}, special)):
        assert load_model(tmp_path, "cloze", lsh=asked).model.encoder.compute.lsh.landmarks == found


def test_large_chunks_are_dense_attention(sample, batch):
    dense = logits(made(sample).model, batch)
    hashed = logits(made(sample, attention="lsh", lsh={"chunk": 512}).model, batch)
    torch.testing.assert_close(hashed, dense, atol=1e-5, rtol=1e-5)


def test_what_cannot_be_is_refused(sample, tmp_path):
    with pytest.raises(UsageError, match="--attention sparse: choose from dense, lsh"):
        made(sample, attention="sparse")
    with pytest.raises(UsageError, match="--lsh-rounds 0"):
        made(sample, attention="lsh", lsh={"rounds": 0})
    for ours in ({"hash": "rotations"}, {"landmarks": ()}):
        with pytest.raises(UsageError, match="need --lsh-form ours"):
            made(sample, attention="lsh", lsh={"shared": True} | ours)
    with pytest.raises(UsageError, match="need --attention lsh"):
        made(sample, lsh={"rounds": 1})
    for unused in ({"hash": "rotations"}, {"probes": 1}):
        with pytest.raises(UsageError, match="need --lsh-rounds of at least 2"):
            made(sample, attention="lsh", lsh={"rounds": 1} | unused)
    # Reformer's form has no round that uses neighbours.
    made(sample, attention="lsh", lsh={"rounds": 1, "shared": True, "probes": 2})
    loaded = made(sample, attention="lsh")
    save_model(loaded.model, loaded.tokenizer, tmp_path)
    raw = json.loads((tmp_path / "config.json").read_bytes())
    raw["albert_rc"]["lsh"]["colour"] = "blue"
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(CheckpointError, match="colour in albert_rc"):
        load_model(tmp_path, "cloze")


@pytest.mark.parametrize("shared", [False, True])
def test_training_resumes_bit_for_bit(trainer, tmp_path, shared):
    how = {"attention": "lsh", "lsh": {"chunk": 16, "rounds": 2, "shared": shared}}
    shape = {"attention_dropout": 0.1}
    whole = trainer(tmp_path / "whole", shape, how=how, max_steps=6)
    whole.run()
    broken = trainer(tmp_path / "broken", shape, how=how, max_steps=6, save_steps=1)
    run_until_power_cut(broken, 3)
    again = trainer(tmp_path / "broken", shape, how=how, max_steps=6, save_steps=1)
    again.run(resume=True)
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(
        UsageError, match=r"started with --attention lsh .* not dense; use its original"
    ):
        trainer(tmp_path / "broken", shape, max_steps=6).run(resume=True)


def test_recomputed_layers_change_nothing(trainer, tmp_path):
    """Hashes are made again in the backward pass, of the same numbers."""
    found = []
    for recompute in ("nothing", "activations", "layers"):
        how = {"attention": "lsh", "lsh": LSH}
        run = trainer(tmp_path / recompute, how=how, max_steps=3, recompute=recompute)
        run.run()
        found.append([p.clone() for p in run.model.parameters()])
    for one, *others in zip(*found, strict=True):
        assert all(torch.equal(one, other) for other in others)


def test_more_positions_repeat_what_was_learned(sample, tmp_path):
    shape = SHAPE | {"max_positions": 128}
    loaded = load_model(sample / "vocabulary", "cloze", scratch="tiny", shape=shape, max_length=64)
    assert loaded.model.config.max_length == 128
    save_model(loaded.model, loaded.tokenizer, tmp_path)
    longer = load_model(tmp_path, "cloze", max_length=300)
    assert longer.model.config.max_length == 300
    assert any("172 more positions" in line for line in longer.report.lines())
    before = loaded.model.encoder.embeddings.position.weight
    after = longer.model.encoder.embeddings.position.weight
    assert torch.equal(after, torch.cat([before, before, before[:44]]))
    save_model(longer.model, longer.tokenizer, tmp_path / "longer")
    assert load_model(tmp_path / "longer", "cloze").model.config.max_length == 300


def test_robertas_first_positions_are_not_repeated():
    table = torch.arange(6)[:, None]
    assert _repeated(table, 12, 2)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 2, 3, 4, 5, 2, 3]


@pytest.mark.slow
def test_the_commands_take_it(sample, cli, tmp_path):
    data = tmp_path / "data"
    vocabulary = sample / "vocabulary"
    done = cli("preprocess", sample / "cloze", "--model", vocabulary, "--out", data)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    done = cli(
        "train", "--data", data, "--model", vocabulary, "--scratch", "tiny", "--out", run,
        "--max-steps", 2, "--attention", "lsh", "--lsh-chunk", 16, "--lsh-rounds", 2,
        "--lsh-form", "faithful", "--max-length", 600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "train.json").read_bytes())["lsh"]["shared"] is True
    answers = []
    for more in ((), ("--attention", "dense"), ("--lsh-form", "ours", "--no-lsh-landmarks")):
        out = tmp_path / "answer.json"
        done = cli("predict", "--data", data / "dev.pt", "--model", run, "--out", out, *more)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(out.read_bytes()))
    assert answers[0].keys() == answers[1].keys()
    done = cli("predict", "--data", data / "dev.pt", "--model", run, "--lsh-form", "other")
    assert done.returncode == 2
