"""Smaller ALBERTs made of checkpoints: what they begin with, and that they can be trained."""

import json

import pytest
import torch
from commands import run_cli

from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import UsageError
from albert_rc.model.config import EncoderConfig
from albert_rc.model.heads import ReadingModel
from albert_rc.runtime.devices import Processes


def saved(tokenizer, folder, task="cloze", **shape):
    """A checkpoint whose every weight is random, norms and biases too."""
    torch.manual_seed(3)
    usual = {"family": "albert", "embedding_size": 16, "num_layers": 4, "num_groups": 4}
    config = EncoderConfig(
        vocab_size=tokenizer.size, hidden_size=32, num_heads=4, ffn_size=64, **usual | shape
    )
    model = ReadingModel(config, task)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    save_model(model, tokenizer, folder)
    return model


@pytest.fixture
def albert(tokenizer, tmp_path):
    return saved(tokenizer, tmp_path / "large"), tmp_path / "large"


def up(model):
    return [layer.up.weight for layer in model.encoder.layers]


def test_layers_that_share_weights_begin_with_their_mean(albert):
    model, folder = albert
    loaded = load_model(folder, "cloze", shape={"num_groups": 2})
    assert loaded.model.config.num_layers == 4
    before, now = up(model), up(loaded.model)
    assert len(now) == 2
    torch.testing.assert_close(now[0], (before[0] + before[1]) / 2)
    torch.testing.assert_close(now[1], (before[2] + before[3]) / 2)
    for name in ("encoder.embeddings.word.weight", "head.dense.weight", "head.bias"):
        assert torch.equal(loaded.model.get_parameter(name), model.get_parameter(name))
    assert any("2 groups of layers instead of 4" in line for line in loaded.report.lines())


def test_fewer_layers_are_spread_evenly(albert):
    model, folder = albert
    half, one = (load_model(folder, "cloze", shape={"num_layers": n}).model for n in (2, 1))
    assert half.config.num_groups == 2
    assert all(torch.equal(now, up(model)[at]) for now, at in zip(up(half), (0, 2), strict=True))
    assert torch.equal(up(one)[0], up(model)[0])
    both = load_model(folder, "cloze", shape={"num_layers": 2, "num_groups": 1}).model
    torch.testing.assert_close(up(both)[0], (up(model)[0] + up(model)[2]) / 2)


def test_one_shared_layer_is_applied_less_often(tokenizer, tmp_path):
    model = saved(tokenizer, tmp_path, num_groups=1)
    loaded = load_model(tmp_path, "cloze", shape={"num_layers": 2})
    assert loaded.model.config.num_layers == 2
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weight), name


@pytest.mark.parametrize("task", ["cloze", "choice"])
def test_embeddings_of_low_rank_lose_nothing(tokenizer, tmp_path, task):
    """Half of the directions are empty, so the half that is kept computes nearly the same."""
    model = saved(tokenizer, tmp_path, task)
    for table in ("word", "position", "segment"):
        weight = getattr(model.encoder.embeddings, table).weight.data
        weight[:, 6:] = 0
        weight -= weight.mean(1, keepdim=True)
    model.encoder.embeddings.norm.bias.data.zero_()
    save_model(model, tokenizer, tmp_path)
    small = load_model(tmp_path, task, shape={"embedding_size": 8}).model.eval()
    assert small.words.shape[1] == 8
    ids = torch.tensor([tokenizer.cls_id, 40, 50, 60, tokenizer.sep_id])
    given = ids, torch.arange(5), (5,)
    with torch.no_grad():
        expected, found = (one.encoder.eval()(*given) for one in (model, small))
    cosine = torch.cosine_similarity(expected, found, dim=1)
    assert cosine.min() > 0.98


def test_a_bert_becomes_an_albert_only_where_it_must(tokenizer, tmp_path):
    model = saved(tokenizer, tmp_path, family="bert", embedding_size=32)
    fewer = load_model(tmp_path, "cloze", shape={"num_layers": 2}).model
    assert fewer.config.family == "bert"
    shared = load_model(tmp_path, "cloze", shape={"num_groups": 1})
    assert shared.model.config.family == "albert"
    torch.testing.assert_close(up(shared.model)[0], torch.stack(up(model)).mean(0))
    assert "an ALBERT instead of a BERT" in shared.report.notes[-1]
    same = load_model(tmp_path, "cloze", shape={"num_layers": 4, "num_groups": 4}).model
    assert same.config == load_model(tmp_path, "cloze").model.config


@pytest.mark.parametrize(
    ("shape", "family"),
    [
        ({"num_layers": 2}, "bert"),
        ({"num_layers": 2, "hidden_size": 64}, "bert"),
        ({"num_layers": 2, "num_groups": 1}, "albert"),
        ({"num_layers": 2, "embedding_size": 16}, "albert"),
        ({"num_layers": 2, "sharing": "all"}, "albert"),
        ({"num_layers": 2, "sharing": "attention"}, "bert"),
    ],
)
def test_random_berts_of_any_shape_can_be_opened_again(sample, tmp_path, shape, family):
    shape = {"hidden_size": 32, "num_heads": 2, "ffn_size": 64} | shape
    made = load_model(sample / "vocabulary", "cloze", scratch="bert-base", shape=shape)
    assert made.model.config.family == family
    save_model(made.model, made.tokenizer, tmp_path)
    again = load_model(tmp_path, "cloze").model
    ids = torch.tensor([made.tokenizer.cls_id, 40, 50, 60, made.tokenizer.sep_id])
    with torch.no_grad():
        expected, found = (
            one.encoder.eval()(ids, torch.arange(5), (5,)) for one in (made.model, again)
        )
    assert torch.equal(expected, found)


def test_a_checkpoint_that_shares_all_may_lose_layers_and_say_so(tokenizer, tmp_path):
    saved(tokenizer, tmp_path, num_groups=1)
    shape = {"sharing": "all", "num_layers": 2}
    assert load_model(tmp_path, "pretraining", shape=shape).model.config.num_layers == 2
    with pytest.raises(UsageError, match="--sharing none: the checkpoint shares other parameters"):
        load_model(tmp_path, "pretraining", shape=shape | {"sharing": "none"})


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"num_layers": 8}, "--num-layers 8: the checkpoint has 4"),
        ({"embedding_size": 17}, "--embedding-size 17: the checkpoint has 16"),
        ({"num_groups": 3}, "--num-layers 4 must be divisible by --num-groups 3"),
        ({"hidden_size": 16}, "--hidden-size 16: the checkpoint has 32"),
    ],
)
def test_what_cannot_be_made_smaller_is_refused(albert, shape, said):
    with pytest.raises(UsageError, match=said):
        load_model(albert[1], "cloze", shape=shape)


def test_learned_weights_of_pieces_get_smaller_with_the_embeddings(tokenizer, stores, tmp_path):
    config = EncoderConfig(
        family="albert", embedding_size=16, num_layers=2, num_groups=1, hidden_size=32, num_heads=4,
        ffn_size=64, vocab_size=tokenizer.size,
    )  # fmt: skip
    save_model(ReadingModel(config, "cloze", "salience"), tokenizer, tmp_path)
    smaller = load_model(tmp_path, "cloze", shape={"embedding_size": 8}).model
    assert smaller.head.salience.shape == (8,)
    score(smaller, tokenizer, stores["cloze", "dev"], Processes(torch.device("cpu")))


def test_other_families_only_lose_layers(tokenizer, tmp_path):
    saved(tokenizer, tmp_path, family="mpnet", embedding_size=32, relative_buckets=32)
    assert load_model(tmp_path, "cloze", shape={"num_layers": 2}).model.config.num_layers == 2
    with pytest.raises(UsageError, match="in the family mpnet, layers cannot share weights"):
        load_model(tmp_path, "cloze", shape={"num_groups": 2})
    with pytest.raises(UsageError, match="--attention lsh: MPNet's attention has biases"):
        load_model(tmp_path, "cloze", attention="lsh")


def test_a_student_learns_from_the_model_that_it_was_made_of(sample, tokenizer, tmp_path):
    saved(tokenizer, tmp_path / "large")
    given = ("--model", tmp_path / "large", "--out", tmp_path / "data")
    assert run_cli("preprocess", sample / "cloze", *given).returncode == 0
    run = run_cli(
        "train", "--data", tmp_path / "data", "--model", tmp_path / "large",
        "--teacher", tmp_path / "large", "--num-groups", "1", "--set", "embedding_size=8",
        "--max-steps", "2", "--batch-size", "2", "--out", tmp_path / "run",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "made smaller, and still to be trained: 1 groups of layers instead of 4" in run.stderr
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["num_hidden_groups"], config["embedding_size"]) == (1, 8)
    again = run_cli(
        "train", "--config", tmp_path / "run/run.toml", "--out", tmp_path / "run", "--resume"
    )
    assert again.returncode == 0, again.stderr
    repeated = (tmp_path / "run/run.toml").read_text()
    assert "num_groups = 1" in repeated
