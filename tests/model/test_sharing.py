"""Sharing strategies: what is one parameter, that it learns as one, and that files keep it so."""

from dataclasses import replace

import pytest
import torch
import transformers

from albert_rc.checkpoints.load import hub_weights, load_model, save_model
from albert_rc.checkpoints.shape import require_shape
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.json import parse_json, write_json
from albert_rc.model.config import SHARING, Compute, EncoderConfig, sharing_shape
from albert_rc.model.cost import encoder_parameters, layer_matrices, layer_parameters
from albert_rc.model.encoder import Encoder
from albert_rc.model.sharing import PARTS, schedule

SHAPE = EncoderConfig(
    vocab_size=1600, embedding_size=16, hidden_size=32, num_layers=4, num_heads=2, ffn_size=64
)
BASE = EncoderConfig()


def shaped(sharing, config=SHAPE, groups=None):
    return replace(config, **sharing_shape(sharing, config.num_layers, groups))


def test_the_papers_table():
    """Lan et al. 2020, Table 5: base with E = 128 and E = 768, in millions.

    At E = 768 ours has a projection more (0.6).
    """
    expected = {
        128: {"all": 12, "attention": 64, "ffn": 38, "none": 89},
        768: {"all": 31, "attention": 83, "ffn": 57, "none": 108},
    }
    for size, row in expected.items():
        for sharing, millions in row.items():
            config = shaped(sharing, replace(BASE, embedding_size=size))
            count = encoder_parameters(config) + config.hidden_size * (config.hidden_size + 1)
            assert count / 1e6 == pytest.approx(millions, abs=1.8), (size, sharing)


@pytest.mark.parametrize("sharing", SHARING)
def test_parameters_are_counted_once(sharing):
    encoder = Encoder(shaped(sharing))
    counted = sum(p.numel() for p in encoder.layers.parameters())
    assert layer_parameters(encoder.config) == counted
    matrices = sum(p.numel() for p in encoder.layers.parameters() if p.ndim > 1)
    assert layer_matrices(encoder.config) == matrices


def test_layers_draw_on_their_groups():
    assert schedule(shaped("all")) == [0, 0, 0, 0]
    assert schedule(shaped("all", groups=2)) == [0, 0, 1, 1]
    assert schedule(shaped("none")) == [0, 1, 2, 3]
    assert schedule(shaped("attention")) == [0, 1, 2, 3]


@pytest.mark.parametrize("recompute", ["nothing", "layers"])
@pytest.mark.parametrize("sharing", ["attention", "ffn"])
def test_what_is_common_gets_the_gradient_of_all_its_uses(sharing, recompute):
    """The same as the sum over the layers of an encoder with copies of it."""
    torch.manual_seed(0)
    tied, copies = Encoder(shaped(sharing)), Encoder(shaped("none"))
    for part in copies.named_parameters():
        part[1].data.normal_(std=0.3)
    for name, parameter in tied.named_parameters():
        parameter.data.copy_(copies.get_parameter(name))
    for layer in copies.layers[1:]:
        for part in PARTS[sharing]:
            getattr(layer, part).load_state_dict(getattr(copies.layers[0], part).state_dict())
    token_T, place_T = torch.randint(5, 1600, (20,)), torch.arange(20)
    outs = []
    for encoder in (tied, copies):
        encoder.compute = Compute(recompute=recompute, in_place=True)
        out = encoder(token_T, place_T, (20,))
        out.square().sum().backward()
        outs.append(out)
    torch.testing.assert_close(*outs, atol=1e-5, rtol=1e-5)
    for name, parameter in tied.named_parameters():
        expected = copies.get_parameter(name).grad
        if name.startswith("layers.") and name.split(".")[2] in PARTS[sharing]:
            names = [name.replace("layers.0.", f"layers.{i}.") for i in range(4)]
            expected = sum(copies.get_parameter(n).grad for n in names)
        torch.testing.assert_close(parameter.grad, expected, atol=2e-4, rtol=1e-4, msg=name)


@pytest.mark.parametrize("sharing", SHARING)
def test_files_keep_it(sharing, sample, tmp_path):
    shape = {"num_layers": 4, "sharing": sharing, "hidden_size": 32, "num_heads": 2}
    made = load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=shape)
    for parameter in made.model.parameters():
        parameter.data.normal_(std=0.2)
    save_model(made.model, made.tokenizer, tmp_path)
    loaded = load_model(tmp_path, "cloze").model
    assert loaded.config == made.model.config
    mine = dict(made.model.encoder.named_parameters())
    found = dict(loaded.encoder.named_parameters())
    assert mine.keys() == found.keys()
    assert all(torch.equal(value, found[name]) for name, value in mine.items())


@pytest.mark.parametrize("sharing", SHARING)
def test_hugging_face_gives_the_same_hidden_states(sharing, sample, tmp_path):
    """Its classes know no common parts: the file holds them once per layer."""
    shape = {"num_layers": 4, "sharing": sharing, "hidden_size": 32, "num_heads": 2}
    made = load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=shape)
    for parameter in made.model.parameters():
        parameter.data.normal_(std=0.2)
    save_model(made.model, made.tokenizer, tmp_path)
    theirs = transformers.AlbertForPreTraining.from_pretrained(tmp_path).eval()
    token_T = torch.randint(5, made.tokenizer.size, (30,))
    with torch.no_grad():
        expected = theirs.albert(input_ids=token_T[None]).last_hidden_state[0]
        found = made.model.encoder(token_T, torch.arange(30), (30,))
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_copies_that_differ_are_not_merged_in_silence(sample, tmp_path):
    shape = {"num_layers": 2, "sharing": "none", "hidden_size": 32, "num_heads": 2}
    made = load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=shape)
    save_model(made.model, made.tokenizer, tmp_path)
    raw = parse_json((tmp_path / "config.json").read_bytes())
    raw["albert_rc"]["common"] = "attention"
    write_json(tmp_path / "config.json", raw)
    with pytest.raises(CheckpointError, match="differs from the first layer's"):
        load_model(tmp_path, "cloze")
    raw["albert_rc"]["common"] = "heads"
    write_json(tmp_path / "config.json", raw)
    with pytest.raises(CheckpointError, match="common 'heads'"):
        load_model(tmp_path, "cloze")


def test_a_deeper_run_starts_from_a_shallower_one(sample, tmp_path):
    shape = {"num_layers": 2, "hidden_size": 32, "num_heads": 2}
    made = load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=shape)
    save_model(made.model, made.tokenizer, tmp_path)
    deep = load_model(tmp_path, "pretraining", shape={"num_layers": 6}).model
    assert deep.config == replace(made.model.config, num_layers=6)
    assert all(
        torch.equal(value, hub_weights(deep)[key]) for key, value in hub_weights(made.model).items()
    )
    with pytest.raises(UsageError, match="--hidden-size 64: the checkpoint has 32"):
        load_model(tmp_path, "pretraining", shape={"hidden_size": 64})
    load_model(tmp_path, "pretraining", shape={"sharing": "all"})
    with pytest.raises(UsageError, match="--sharing ffn: the checkpoint shares other parameters"):
        load_model(tmp_path, "pretraining", shape={"sharing": "ffn", "num_groups": 1})
    unshared = load_model(
        sample / "vocabulary", "pretraining", scratch="tiny", shape=shape | {"sharing": "none"}
    )
    save_model(unshared.model, unshared.tokenizer, tmp_path / "unshared")
    with pytest.raises(UsageError, match="only a checkpoint whose layers are all shared"):
        load_model(tmp_path / "unshared", "pretraining", shape={"num_layers": 4})


def test_unknown_strategies_are_refused():
    with pytest.raises(UsageError, match="--sharing heads: choose from all, attention, ffn, none"):
        sharing_shape("heads", 4)


def test_groups_of_layers_that_share_nothing_are_refused(sample):
    shape = {"sharing": "none", "num_layers": 4, "num_groups": 2}
    with pytest.raises(UsageError, match="--num-groups 2: with --sharing none, each of the 4"):
        load_model(sample / "vocabulary", "pretraining", scratch="tiny", shape=shape)


def test_a_checkpoint_that_shares_otherwise_is_refused():
    config = EncoderConfig(vocab_size=100, num_layers=4)
    require_shape(config, {"sharing": "all", "num_layers": 4})
    for sharing in ("none", "ffn"):
        with pytest.raises(
            UsageError, match=f"--sharing {sharing}: the checkpoint shares other parameters"
        ):
            require_shape(config, {"sharing": sharing})


def test_a_dropout_of_everything_is_refused():
    with pytest.raises(UsageError, match=r"--dropout 1 must be at least 0 and below 1"):
        EncoderConfig(vocab_size=100, dropout=1)
