"""Training with the first layers left as they are."""

from dataclasses import replace

import pytest
import torch
from conftest import SAMPLE
from safetensors.torch import load_file
from small import SHAPE, task

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import UsageError
from albert_rc.model.config import EncoderConfig
from albert_rc.model.encoder import Encoder
from albert_rc.training.memory.footprint import predict_parts

DEEP = replace(SHAPE, num_layers=3, num_groups=3)
MPNET = EncoderConfig(
    family="mpnet", vocab_size=1600, embedding_size=32, hidden_size=32, num_layers=3, num_groups=3,
    num_heads=4, ffn_size=64, relative_buckets=8, position_offset=2, max_positions=40,
    num_segments=1,
)  # fmt: skip


def gradients(config, held, recompute="nothing", in_place=False):
    """The hidden states of two sequences, and the gradient of each parameter; None without one."""
    torch.manual_seed(0)
    encoder = Encoder(config)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    encoder.hold(held)
    encoder.compute = replace(encoder.compute, recompute=recompute, in_place=in_place)
    token_T = torch.randint(10, 1600, (16,))
    place_T = torch.cat([torch.arange(9), torch.arange(7)])
    hidden_TD = encoder(token_T, place_T, (9, 7))
    hidden_TD.square().mean().backward()
    return hidden_TD.detach(), {name: p.grad for name, p in encoder.named_parameters()}


@pytest.mark.parametrize("recompute", ["nothing", "activations", "layers"])
@pytest.mark.parametrize("config", [DEEP, MPNET], ids=["albert", "mpnet"])
def test_gradients_above_are_those_of_the_whole_model(config, recompute):
    hidden_TD, whole = gradients(config, 0)
    same_TD, upper = gradients(config, 2, recompute)
    assert torch.equal(hidden_TD, same_TD)
    for name, found in upper.items():
        if name.startswith("layers.2."):
            torch.testing.assert_close(found, whole[name])
        else:
            assert found is None, name
            assert whole[name] is not None


def test_all_layers_may_be_held():
    token_T, place_T = torch.tensor([5, 6, 7]), torch.arange(3)
    for config in (DEEP, replace(DEEP, num_groups=1)):
        encoder = Encoder(config)
        encoder.hold(3)
        assert not encoder(token_T, place_T, (3,)).requires_grad
        assert not any(p.requires_grad for p in encoder.parameters())


@pytest.mark.parametrize(
    ("shape", "layers", "said"),
    [
        ({}, 4, "--set frozen_layers=4: the model has 3 layers"),
        ({"num_groups": 1}, 1, "share weights with them; only all 3 can stay as they are"),
        ({"num_layers": 6}, 3, "share weights with them; choose one of 2, 4, 6"),
        ({"common": "ffn"}, 1, "share weights with them; only all 3"),
        ({"residual": "reversible"}, 1, "reversible layers are trained together"),
    ],
)
def test_borders_within_shared_layers_are_refused(shape, layers, said):
    with pytest.raises(UsageError, match=said):
        Encoder(replace(DEEP, **shape)).hold(layers)


def test_they_are_saved_as_they_were_and_a_run_goes_on(tmp_path, works, cli):
    loaded = load_model(
        SAMPLE / "vocabulary", "cloze", scratch="tiny",
        shape={"num_layers": 3, "num_groups": 3, "hidden_size": 32, "num_heads": 4, "ffn_size": 64},
    )  # fmt: skip
    start, data = tmp_path / "start", tmp_path / "data"
    save_model(loaded.model, loaded.tokenizer, start)
    works("preprocess", SAMPLE / "cloze", "--model", start, "--out", data)
    options = (
        "train", "--data", data, "--model", start, "--max-steps", 6, "--save-steps", 3,
        "--learning-rate", 1e-3, "--precision", "fp32", "--set", "frozen_layers=2",
    )  # fmt: skip
    works(*options, "--out", tmp_path / "whole")
    before = load_file(start / "model.safetensors")
    after = load_file(tmp_path / "whole" / "model.safetensors")
    groups = "albert.encoder.albert_layer_groups"
    for name, value in before.items():
        held = name.startswith(("albert.embeddings.", f"{groups}.0.", f"{groups}.1."))
        held |= name.startswith("albert.encoder.embedding_hidden_mapping_in.")
        if held or name.startswith(f"{groups}.2."):
            assert torch.equal(value, after[name]) == held, name
    works(*options, "--out", tmp_path / "parts", "--minutes", 1e-6)
    works(*options, "--out", tmp_path / "parts", "--resume")
    whole, parts = (tmp_path / n / "model.safetensors" for n in ("whole", "parts"))
    assert whole.read_bytes() == parts.read_bytes()
    done = cli(*options, "--out", tmp_path / "parts", "--resume", "--set", "frozen_layers=1")
    assert "was started with --frozen-layers 2, not 1" in done.stderr
    done = cli(*options[:3], "--model", start, "--scratch", "tiny", *options[-2:])
    assert "these layers would stay random" in done.stderr


def test_the_plan_counts_what_they_save():
    def parts(held, device="cpu"):
        return predict_parts(task("base", device=device, held=held), 1024, "nothing", "fp32")

    config = task("base").config
    assert config.num_groups == 1  # only its whole stack can be held
    none, all_ = parts(0), parts(12)
    assert all_["gradients"] == all_["optimiser"] == 0
    assert all_["weights"] == none["weights"]
    assert all_["activations"] < 0.1 * none["activations"]
    assert all_["matrices"] == none["matrices"] / 2
    half = parts(6)
    assert none["activations"] * 0.45 < half["activations"] < none["activations"] * 0.55
