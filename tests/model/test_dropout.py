"""Dropout: its rate, its independence, and masks that follow from the place alone."""

import numpy as np
import pytest
import torch

from albert_rc.model.config import Compute, EncoderConfig
from albert_rc.model.dropout import Dropout, masked
from albert_rc.model.encoder import Encoder, initialise

SHAPE = (12, 200, 200)


def stays(dropout, shape):
    """Which units stay: of a mask, all bits or none."""
    mask = dropout.mask(shape)
    assert set(mask.unique().tolist()) <= {-1, 0}
    return mask == -1


def masks(*keys, rate=0.1):
    return [stays(Dropout(rate, key), SHAPE).double() for key in keys]


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_the_one_asked_for(rate):
    dropout = Dropout(rate, (7,))
    mask = stays(dropout, SHAPE).double()
    # The scale is that of the rounded rate, which misses the one asked for by 2% of it at most.
    assert 1 - 1 / dropout.scale == pytest.approx(rate, rel=0.02)
    spread = (rate * (1 - rate) / mask.numel()) ** 0.5
    assert float(mask.mean()) == pytest.approx(1 / dropout.scale, abs=5 * spread)


def correlation(one, other):
    return float(np.corrcoef(one.flatten(), other.flatten())[0, 1])


def test_masks_of_other_places_have_nothing_to_do_with_each_other():
    """Steps, micro-batches, layers and parts that follow each other; five standard errors."""
    bound = 5 / (SHAPE[0] * SHAPE[1] * SHAPE[2]) ** 0.5
    keys = [(0, 1, 0, 0, 1, 1), (0, 2, 0, 0, 1, 1), (1, 1, 0, 0, 1, 1), (0, 1, 0, 1, 1, 1),
            (0, 1, 0, 0, 2, 1), (0, 1, 0, 0, 1, 2), (0, 1, 0, 0, 1, 1, 0)]  # fmt: skip
    found = masks(*keys)
    for i, one in enumerate(found):
        assert all(abs(correlation(one, other)) < bound for other in found[:i])


@pytest.mark.parametrize("rate", [0.001, 0.1])
def test_neighbours_have_nothing_to_do_with_each_other(rate):
    (mask,) = masks((5, 6), rate=rate)
    row, flat = mask[0], mask.flatten()
    for step in (1, 2, 4, 8, 64, SHAPE[2]):
        assert abs(correlation(flat[step:], flat[:-step])) < 5 / len(flat) ** 0.5
    # No row, and no column, is dropped more often than chance has it.
    for axis in (0, 1):
        share = row.mean(axis)
        assert float(share.var()) == pytest.approx(rate * (1 - rate) / len(share), rel=0.5)


def test_the_gradient_passes_what_stays():
    x = torch.randn(40, 50, dtype=torch.float64, requires_grad=True)
    dropout = Dropout(0.3, (1,))
    torch.testing.assert_close(dropout(x), x * stays(dropout, (40, 50)) * dropout.scale)
    assert torch.autograd.gradcheck(dropout, x)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_clearing_is_multiplying_by_nothing(kind):
    x = torch.randn(30, 40, dtype=kind).t()
    x[0, 0], x[0, 1] = torch.inf, torch.nan
    mask = Dropout(0.5, (3,)).mask((40, 30))
    mask[0, :2] = torch.tensor([0, -1])
    found, wanted = masked(x, mask), x * (mask == -1)
    wanted[0, 0] = 0  # multiplied it would be no number
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


CONFIG = EncoderConfig(
    vocab_size=50, embedding_size=8, hidden_size=16, num_layers=3, num_heads=2, ffn_size=32,
    dropout=0.2, attention_dropout=0.2,
)  # fmt: skip


def outcome(place, residual="post", attention="dense", **compute):
    """Hidden states and gradients of a forward pass in training, in a place of a run."""
    config = CONFIG.__class__(**{**CONFIG.__dict__, "residual": residual})
    torch.manual_seed(0)
    encoder = Encoder(config)
    initialise(encoder, 0.2)
    encoder.compute = Compute(attention=attention, **compute)
    encoder.place = place
    token_T = torch.arange(1, 41)
    hidden_TD = encoder(token_T, torch.arange(40) % 20, (20, 20))
    (hidden_TD * torch.linspace(-1, 1, 16)).sum().backward()
    return [hidden_TD.detach(), *(p.grad for p in encoder.parameters() if p.grad is not None)]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(("residual", "attention"), [("post", "dense"), ("post", "lsh"),
                                                     ("reversible", "dense")])  # fmt: skip
def test_what_is_dropped_follows_from_the_place_alone(residual, attention):
    kinds = {"residual": residual, "attention": attention}
    first = outcome((0, 5, 0, 0), **kinds)
    torch.randn(3)  # whatever else was drawn
    assert same(first, outcome((0, 5, 0, 0), **kinds))
    for other in ((1, 5, 0, 0), (0, 6, 0, 0), (0, 5, 1, 0), (0, 5, 0, 1)):
        assert not torch.equal(first[0], outcome(other, **kinds)[0])


@pytest.mark.parametrize("recompute", ["activations", "layers"])
def test_layers_that_are_computed_again_drop_the_same(recompute):
    first = outcome((0, 5, 0, 0))
    for one, other in zip(first, outcome((0, 5, 0, 0), recompute=recompute), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


def test_two_passes_in_one_place_drop_differently():
    """As R-Drop wants it."""
    encoder = Encoder(CONFIG)
    encoder.place = (0, 0, 0, 0)
    given = torch.arange(1, 21), torch.arange(20), (20,)
    one, other = encoder(*given), encoder(*given)
    assert not torch.equal(one, other)
    encoder.place = (0, 0, 0, 0)
    assert torch.equal(encoder(*given), one)
    encoder.eval()
    assert torch.equal(encoder(*given), encoder(*given))


def test_a_rate_next_to_one_leaves_something_to_scale():
    for rate in (0.998, 0.999, 0.99999):
        dropout = Dropout(rate, (0,))
        assert 0 < 1 / dropout.scale < 0.003
        assert stays(dropout, (1000,)).float().mean() < 0.02


def test_without_a_place_torchs_seed_decides():
    encoder = Encoder(CONFIG)
    given = torch.arange(1, 21), torch.arange(20), (20,)
    found = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(encoder(*given))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
