"""The feed-forward in chunks: the same result and gradients, and an inside that never is whole."""

import json
from dataclasses import replace

import pytest
import torch
from small import SHAPE, model_for, task
from torch import nn

from albert_rc.errors import UsageError
from albert_rc.model.config import RECOMPUTE, Compute, sharing_shape
from albert_rc.model.encoder import Encoder
from albert_rc.model.feed_forward import feed_forward
from albert_rc.model.int8 import has_int8
from albert_rc.model.linear import DTYPES, Gradients, PreparedLinear
from albert_rc.stores.batches import Collator
from albert_rc.training.config import TrainConfig
from albert_rc.training.memory.footprint import predict_parts

CHUNK = 7  # does not divide the tokens below
FFN = 96  # unlike any other size
RUNS = {"whole": None, "chunked": 32}


def encoder_for(sharing="all"):
    torch.manual_seed(0)
    config = replace(SHAPE, num_layers=3, ffn_size=FFN, **sharing_shape(sharing, 3))
    encoder = Encoder(config)
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.2)
    return encoder


def passed(encoder, **compute):
    """Hidden states of two sequences, read at some tokens only, and all gradients."""
    encoder.compute = Compute(**compute)
    encoder.zero_grad()
    generator = torch.Generator().manual_seed(1)
    token_T = torch.randint(5, 1600, (50,), generator=generator)
    place_T = torch.cat([torch.arange(20), torch.arange(30)])
    read_S = torch.tensor([*range(2, 12), *range(30, 35)])
    given = (token_T, place_T, (20, 30), None, read_S, (10, 5))
    with encoder.unchanged():
        for _ in range(2):  # two micro-batches: their gradients add up
            out_SD = encoder(*given)
            weight_SD = torch.randn(out_SD.shape, generator=generator)
            (out_SD.float() * weight_SD).sum().backward()
            generator.manual_seed(2)
    return out_SD.detach(), {name: p.grad for name, p in encoder.named_parameters()}


def shared_with(test):
    """All the ways in which a matrix's gradient comes together."""
    for name, values in {
        "in_place": [False, True],
        "sharing": ["all", "none", "ffn"],
        "recompute": RECOMPUTE,
    }.items():
        test = pytest.mark.parametrize(name, values)(test)
    return test


@shared_with
def test_chunks_change_nothing_but_rounding(recompute, sharing, in_place):
    encoder = encoder_for(sharing)
    out, gradients = passed(encoder)
    how = {"recompute": recompute, "in_place": in_place, "ffn_chunk": CHUNK}
    found, others = passed(encoder, **how)
    torch.testing.assert_close(found, out, atol=1e-5, rtol=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, atol=1e-4, rtol=1e-4, msg=name)


@shared_with
def test_in_bf16_they_are_as_far_from_fp32_as_the_whole(recompute, sharing, in_place):
    encoder = encoder_for(sharing)
    exact_SD, exact = passed(encoder)
    whole_SD, whole = passed(encoder, precision="bf16")
    how = {"recompute": recompute, "in_place": in_place, "ffn_chunk": CHUNK}
    found_SD, found = passed(encoder, precision="bf16", **how)
    assert (found_SD - exact_SD).norm() <= 1.05 * (whole_SD - exact_SD).norm()
    for name, gradient in exact.items():
        error, usual = (float((x[name] - gradient).norm()) for x in (found, whole))
        assert error <= 1.2 * usual + 1e-6, name


def test_gradcheck(monkeypatch):
    monkeypatch.setitem(DTYPES, "fp32", torch.float64)
    up, down = nn.Linear(3, 8).double(), nn.Linear(8, 3).double()
    compute = Compute(ffn_chunk=2)

    def run(x_SD, *parameters):
        prepared = [PreparedLinear([linear], "fp32", learning=True) for linear in (up, down)]
        return feed_forward(x_SD, *prepared, "gelu_new", compute, Gradients())

    x_SD = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x_SD, *up.parameters(), *down.parameters()))


def saved_bytes(encoder, **compute):
    """What a forward pass keeps, each storage once."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        held.append(tensor)
        return tensor

    held = []
    encoder.compute = Compute(**compute)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        encoder(torch.randint(5, 1600, (200,)), torch.arange(200), (200,))
    return sum(kept.values())


def test_nothing_of_the_inside_is_kept():
    encoder = encoder_for()
    inside = 3 * 200 * FFN * 4
    whole, chunked = saved_bytes(encoder), saved_bytes(encoder, ffn_chunk=16)
    assert whole - chunked >= 2 * inside  # before the activation, and after it


def test_the_inside_never_is_whole(monkeypatch):
    """In prediction and in both directions of learning no product has more rows than a chunk."""
    rows = []
    product = PreparedLinear.product

    def watched(self, x_TI, activation=None):
        out = product(self, x_TI, activation)
        if out.shape[1] == FFN:
            rows.append(len(out))
        return out

    monkeypatch.setattr(PreparedLinear, "product", watched)
    encoder = encoder_for()
    passed(encoder, ffn_chunk=CHUNK)
    with torch.inference_mode():
        encoder(torch.zeros(20).long(), torch.arange(20), (20,))
    assert max(rows) == CHUNK


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_answers_stay(stores, tokenizer, precision):
    if precision == "int8" and not has_int8(torch.device("cpu")):
        pytest.skip("no 8-bit products here")
    batch = Collator(stores["cloze", "dev"], tokenizer)([0, 1])
    model = model_for("cloze")
    found = []
    for chunk in (None, 16, 10_000):
        model.encoder.compute = Compute(precision=precision, ffn_chunk=chunk)
        with torch.inference_mode():
            found.append(model(batch).logits_QK)
    close = {"atol": 1e-4, "rtol": 1e-5} if precision == "fp32" else {"atol": 0.5, "rtol": 2e-2}
    torch.testing.assert_close(found[1], found[0], **close)
    assert torch.equal(found[2], found[0])


def test_training_in_chunks_ends_where_training_does(trainer, tmp_path):
    whole, chunked = (
        trainer(tmp_path / name, max_steps=4, ffn_chunk=chunk) for name, chunk in RUNS.items()
    )
    assert chunked.encoder.compute.ffn_chunk == 32
    whole.run()
    chunked.run()
    for one, other in zip(whole.model.parameters(), chunked.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_the_planner_counts_on_it():
    for recompute in RECOMPUTE:
        whole = predict_parts(task(), 1024, recompute, "fp32")
        chunked = predict_parts(task(ffn_chunk=128), 1024, recompute, "fp32")
        assert sum(chunked.values()) < sum(whole.values())
        assert predict_parts(task(ffn_chunk=1024), 1024, recompute, "fp32") == whole


def test_a_chunk_has_at_least_a_token():
    for settings in (Compute, TrainConfig):
        with pytest.raises(UsageError, match="--ffn-chunk 0 must be from 1"):
            settings(ffn_chunk=0)


@pytest.mark.slow
def test_the_commands_take_it(sample, stores, cli, tmp_path):
    for split in ("train", "dev"):
        stores["cloze", split].save(tmp_path / f"{split}.pt")
    given = ("--data", tmp_path, "--model", sample / "vocabulary", "--scratch", "tiny")
    run = tmp_path / "run"
    done = cli("train", *given, "--out", run, "--max-steps", 1, "--ffn-chunk", 64)
    assert done.returncode == 0, done.stderr
    assert json.loads((run / "train.json").read_bytes())["ffn_chunk"] == 64
    answers = []
    for chunk in (16, 100_000):
        out = tmp_path / "answer.json"
        ask = ("--data", tmp_path / "dev.pt", "--model", run, "--precision", "fp32")
        done = cli("predict", *ask, "--ffn-chunk", chunk, "--out", out)
        assert done.returncode == 0, done.stderr
        answers.append(out.read_bytes())
    assert answers[0] == answers[1]
