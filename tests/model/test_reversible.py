"""Reversible layers: the function they say, exact gradients, and memory without regard to depth."""

import json
from dataclasses import replace

import pytest
import torch
from conftest import SHAPE as TRAINED
from conftest import run_until_power_cut
from small import SHAPE, task
from torch import nn
from torch.nn import functional

from albert_rc.checkpoints.inspect import layer_distances
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.model import encoder as encoder_module
from albert_rc.model import reversible
from albert_rc.model.config import Compute, LshConfig, sharing_shape, size_config
from albert_rc.model.cost import encoder_parameters
from albert_rc.model.encoder import Encoder
from albert_rc.model.linear import DTYPES
from albert_rc.training.checkpoint import states
from albert_rc.training.memory.footprint import predict_parts

REVERSIBLE = {"residual": "reversible"}
ATTENTION = {
    "dense": {},
    "lsh": {"attention": "lsh", "lsh": LshConfig(chunk=4, rounds=2, landmarks=(7,))},
    "faithful": {"attention": "lsh", "lsh": LshConfig(chunk=4, rounds=2, shared=True)},
}
READ_S = torch.tensor([*range(2, 12), *range(30, 35)])


def encoder_for(sharing="all", layers=4, **shape):
    torch.manual_seed(0)
    shape = REVERSIBLE | sharing_shape(sharing, layers) | shape
    encoder = Encoder(replace(SHAPE, num_layers=layers, **shape))
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.3)
    return encoder


def tokens(read=False):
    """Two sequences."""
    token_T = torch.randint(5, 1600, (50,), generator=torch.Generator().manual_seed(1))
    place_T = torch.cat([torch.arange(20), torch.arange(30)])
    given = (token_T, place_T, (20, 30), None)
    return (*given, READ_S, (10, 5)) if read else given


def passed(encoder, read=False, **compute):
    """Hidden states and all gradients."""
    encoder.compute = Compute(**compute)
    encoder.zero_grad()
    torch.manual_seed(3)  # what is dropped
    out = encoder(*tokens(read))
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    (out.float() * weight).sum().backward()
    return out.detach(), {name: p.grad for name, p in encoder.named_parameters()}


def plain(x_TD, stack, shared, final_norm, dropping):
    """The same function for autograd to keep everything of."""
    if dropping:
        shared.seed = int(torch.randint(2**31, ()))
    one = two = x_TD.to(reversible.STREAM)
    for layer, at in stack:
        one, two = layer(one, two, shared, at)
    return reversible._read((one + two) / 2, final_norm, shared)


def by_hand(encoder, token_T, place_T, lengths, _):
    """What the module's docstring says, in nothing but torch's own operations."""
    one = two = encoder.projection(encoder.embeddings(token_T, place_T, None))
    heads = SHAPE.num_heads
    for index in range(encoder.config.num_layers):
        layer = encoder.layers[index % len(encoder.layers)]
        mixed = []
        for part in layer.attention_norm(two).split(lengths):
            q, k, v = (
                matrix(part).unflatten(-1, (heads, -1)).transpose(0, 1)
                for matrix in (layer.query, layer.key, layer.value)
            )
            weight = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
            mixed.append((weight @ v).transpose(0, 1).flatten(1))
        one = one + layer.output(torch.cat(mixed))
        inside = functional.gelu(layer.up(layer.norm(one)), approximate="tanh")
        two = two + layer.down(inside)
    return encoder.final_norm((one + two) / 2)


@pytest.mark.parametrize("sharing", ["all", "none"])
def test_it_is_the_function_that_it_says(sharing):
    encoder = encoder_for(sharing)
    found, gradients = passed(encoder)
    encoder.zero_grad()
    expected = by_hand(encoder, *tokens())
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2))
    (expected * weight).sum().backward()
    for name, parameter in encoder.named_parameters():
        scale = parameter.grad.abs().max().clamp(min=1)
        torch.testing.assert_close(
            gradients[name] / scale, parameter.grad / scale, atol=1e-5, rtol=0, msg=name
        )


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("sharing", ["all", "none", "ffn"])
@pytest.mark.parametrize("attention", ATTENTION)
def test_gradients_are_those_that_autograd_would_keep_for(
    attention, sharing, dropout, read, monkeypatch
):
    encoder = encoder_for(sharing, dropout=dropout, attention_dropout=dropout)
    how = ATTENTION[attention]
    with monkeypatch.context() as patch:
        patch.setattr(encoder_module, "reversible", plain)
        expected_SD, expected = passed(encoder, read, **how)
    for more in ({}, {"in_place": True}, {"recompute": "activations", "ffn_chunk": 7}):
        found_SD, found = passed(encoder, read, **how, **more)
        torch.testing.assert_close(found_SD, expected_SD, atol=1e-5, rtol=1e-5)
        for name, gradient in expected.items():
            scale = gradient.abs().max().clamp(min=1)
            torch.testing.assert_close(
                found[name] / scale, gradient / scale, atol=1e-5, rtol=0, msg=name
            )


@pytest.mark.parametrize("attention", ATTENTION)
def test_in_bf16_gradients_are_as_exact(attention, monkeypatch):
    encoder = encoder_for(layers=12, dropout=0.1)
    how = ATTENTION[attention] | {"precision": "bf16"}
    found_SD, found = passed(encoder, **how)
    monkeypatch.setattr(encoder_module, "reversible", plain)
    expected_SD, expected = passed(encoder, **how)
    assert torch.equal(found_SD, expected_SD)
    size = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
    for name, gradient in expected.items():
        # Streams' gradients are added in fp32 here and in fp64 there, then rounded to bf16.
        assert (found[name] - gradient).norm() <= 3e-3 * size, name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_layers_read_the_very_numbers_again(precision, monkeypatch):
    read = {True: [], False: []}
    normed = reversible.normed

    def watched(x_TD, norm):
        read[torch.is_grad_enabled()].append(x_TD.detach().clone())
        return normed(x_TD, norm)

    monkeypatch.setattr(reversible, "normed", watched)
    passed(encoder_for("none", layers=24), precision=precision)
    final, *again = read[True]
    assert final.dtype == torch.float32
    assert len(again) == len(read[False]) == 48
    assert all(torch.equal(*pair) for pair in zip(read[False], reversed(again), strict=True))


@pytest.mark.parametrize("sharing", ["all", "none"])
@pytest.mark.parametrize("attention", ["dense", "faithful"])
def test_gradcheck(attention, sharing, monkeypatch):
    monkeypatch.setitem(DTYPES, "fp32", torch.float64)
    torch.manual_seed(0)
    shape = {"embedding_size": 2, "hidden_size": 4, "num_heads": 2, "ffn_size": 6}
    shape |= {"vocab_size": 8, "max_positions": 9, "num_layers": 2, "attention_dropout": 0.2}
    encoder = Encoder(replace(SHAPE, **shape, **REVERSIBLE, **sharing_shape(sharing, 2))).double()
    encoder.compute = Compute(**ATTENTION[attention])
    parameters = [p for p in encoder.parameters() if p is not encoder.embeddings.word.weight]
    for parameter in parameters:
        nn.init.normal_(parameter, std=0.5)
    token_T, place_T = torch.tensor([1, 5, 3, 7, 2, 6, 4]), torch.tensor([0, 1, 2, 3, 0, 1, 2])

    def run(*_):
        torch.manual_seed(0)
        return encoder(token_T, place_T, (4, 3), None, torch.tensor([1, 2, 5]), (2, 1))

    assert torch.autograd.gradcheck(run, parameters, atol=2e-5, fast_mode=True)


def test_a_graph_can_be_gone_through_twice():
    encoder = encoder_for()
    loss = encoder(*tokens()).square().sum()
    parameters = list(encoder.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    # Sums of matrices' gradients are handed over whole each time.
    again = torch.autograd.grad(loss, parameters)
    for one, other in zip(first, again, strict=True):
        torch.testing.assert_close(one, other)


def kept_bytes(encoder, **compute):
    """What a forward pass keeps for the backward pass, each storage once."""
    held = {}

    def keep(tensor):
        held[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    encoder.compute = Compute(**compute)
    parameters = {p.data_ptr() for p in encoder.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        encoder(*tokens())
    return sum(
        tensor.untyped_storage().nbytes()
        for place, tensor in held.items()
        if place not in parameters
    )


@pytest.mark.parametrize("attention", ATTENTION)
def test_what_is_kept_does_not_grow_with_depth(attention):
    how = ATTENTION[attention] | {"in_place": True}
    shallow, deep = (kept_bytes(encoder_for(layers=n), **how) for n in (2, 12))
    assert shallow == deep
    # Two streams in fp64, and in fp32 what the embeddings and the final norm keep.
    states = 50 * SHAPE.hidden_size
    assert deep <= (2 * 8 + 4) * states + 4 * 50 * 8 * SHAPE.embedding_size
    usual = [kept_bytes(encoder_for(layers=n, residual="post"), **how) for n in (2, 12)]
    assert usual[1] > 4 * usual[0] > deep


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_not_read_is_not_computed(precision):
    encoder = encoder_for()
    encoder.compute = Compute(precision=precision)
    with torch.inference_mode():
        part, whole = encoder(*tokens(read=True)), encoder(*tokens())
    assert len(part) == len(READ_S)
    close = {"atol": 1e-5, "rtol": 1e-5} if precision == "fp32" else {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(part, whole[READ_S], **close)


def test_training_resumes_bit_for_bit(trainer, tmp_path):
    shape = REVERSIBLE | {"dropout": 0.1, "attention_dropout": 0.1}
    settings = {"max_steps": 6, "precision": "bf16", "mask_rate": 0.2}
    whole = trainer(tmp_path / "whole", shape, **settings)
    whole.run()
    broken = trainer(tmp_path / "broken", shape, save_steps=1, **settings)
    run_until_power_cut(broken, 3)
    again = trainer(tmp_path / "broken", shape, save_steps=1, **settings)
    again.run(resume=True)
    for one, other in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(UsageError, match="a different model shape"):
        trainer(tmp_path / "broken", **settings).run(resume=True)


def test_a_state_that_knows_no_residual_is_gone_on_from(trainer, tmp_path):
    trainer(tmp_path, max_steps=4).run()
    newest = states(tmp_path)[0]
    state = torch.load(newest, weights_only=True)
    del state["data"]["model shape"]["residual"]
    torch.save(state, newest)
    said = []
    trainer(tmp_path, max_steps=4).run(resume=True, on_event=said.append)
    assert said[0] == "step 4 of 4"


def test_it_learns(trainer, tmp_path):
    run = trainer(tmp_path, REVERSIBLE, max_steps=60, learning_rate=3e-3, dev=False)
    losses = []
    run.run(on_step=lambda report: losses.append(report.figures["loss"]))
    assert losses[-1] < 0.9 * losses[0]


def test_files_keep_it(sample, tmp_path):
    given = {"scratch": "tiny", "shape": TRAINED | REVERSIBLE | {"sharing": "ffn"}}
    made = load_model(sample / "vocabulary", "pretraining", **given)
    for parameter in made.model.parameters():
        parameter.data.normal_(std=0.2)
    save_model(made.model, made.tokenizer, tmp_path)
    raw = json.loads((tmp_path / "config.json").read_bytes())
    assert raw["albert_rc"]["residual"] == "reversible"
    loaded = load_model(tmp_path, "cloze").model
    assert loaded.config == made.model.config
    assert encoder_parameters(loaded.config) == sum(p.numel() for p in loaded.encoder.parameters())
    mine, found = (dict(m.encoder.named_parameters()) for m in (made.model, loaded))
    assert mine.keys() == found.keys()
    assert all(torch.equal(value, found[name]) for name, value in mine.items())
    with torch.inference_mode():
        assert torch.equal(loaded.encoder(*tokens()), made.model.encoder(*tokens()))
    raw["albert_rc"]["residual"] = "sideways"
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(CheckpointError, match="residual sideways: choose from post, reversible"):
        load_model(tmp_path, "cloze")


def test_a_checkpoint_keeps_its_residual(sample, tmp_path):
    made = load_model(sample / "vocabulary", "cloze", scratch="tiny", shape=TRAINED)
    save_model(made.model, made.tokenizer, tmp_path)
    refused = "--residual reversible: the checkpoint has post; .*--scratch SIZE"
    with pytest.raises(UsageError, match=refused):
        load_model(tmp_path, "cloze", shape=REVERSIBLE)
    with pytest.raises(UsageError, match=refused):
        load_model(tmp_path, "pretraining", shape=REVERSIBLE)
    load_model(tmp_path, "cloze", shape={"residual": "post"})
    with pytest.raises(UsageError, match="--residual sideways"):
        load_model(tmp_path, "cloze", scratch="tiny", shape={"residual": "sideways"})


def test_what_layers_do_can_be_looked_at(sample):
    shape = TRAINED | REVERSIBLE | {"num_layers": 3}
    made = load_model(sample / "vocabulary", "cloze", scratch="tiny", shape=shape)
    found = layer_distances(made.model.encoder, made.tokenizer, ["A small boat on a lake."])
    assert len(found) == 3
    assert all(layer.distance > 0 for layer in found)


def test_the_planner_knows_that_depth_costs_nothing():
    config = replace(size_config("base"), **REVERSIBLE)
    deep = replace(config, num_layers=48)
    for recompute in ("nothing", "activations", "layers"):
        one, other = (
            predict_parts(task(config=shape), 1024, recompute, "fp32") for shape in (config, deep)
        )
        assert one == other
    post = predict_parts(task(config=size_config("base")), 1024, "nothing", "fp32")
    assert one["activations"] < post["activations"] / 3


@pytest.mark.slow
def test_the_commands_take_it(sample, stores, cli, tmp_path):
    for split in ("train", "dev"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    data, run = ("--data", tmp_path), tmp_path / "run"
    start = ("--model", sample / "vocabulary", "--scratch", "tiny", "--residual", "reversible")
    done = cli("train", *data, *start, "--max-steps", 2, "--out", run)
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "train.json").read_bytes())["residual"] == "reversible"
    out = tmp_path / "answer.json"
    done = cli("predict", "--data", tmp_path / "dev.pt", "--model", run, "--out", out)
    assert done.returncode == 0, done.stderr
    other = ("--model", run, "--residual", "post", "--max-steps", 2, "--out", tmp_path / "other")
    done = cli("train", *data, *other)
    assert done.returncode == 2
    assert "--residual post: the checkpoint has reversible" in done.stderr
