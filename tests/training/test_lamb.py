"""LAMB against its definition, written out in double precision."""

import numpy as np
import pytest
import torch
from torch import nn

from albert_rc.errors import UsageError
from albert_rc.training.lamb import Lamb
from albert_rc.training.optim import OPTIMIZERS, make_optimizer


def reference(weight, gradients, lr, decay, corrected, betas=(0.9, 0.999), eps=1e-6):
    """You et al. 2020, Algorithm 2, with phi(z) = z."""
    w, m, v = weight.astype(np.float64), 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        mc, vc = (m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)) if corrected else (m, v)
        r = mc / (np.sqrt(vc) + eps) + decay * w
        ratio = 1.0
        if decay:  # what is not decayed moves by Adam's direction as it is
            length, pace = np.linalg.norm(w), np.linalg.norm(r)
            ratio = length / pace if length > 0 and pace > 0 else 1.0
        w = w - lr * ratio * r
        yield w


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("start", ["normal", "zeros"])
def test_every_step_is_the_definitions(start, decay, corrected):
    draw = np.random.default_rng(0)
    weight = draw.normal(size=(7, 5)) * (start == "normal")
    gradients = [draw.normal(size=(7, 5)) * 10.0 ** draw.integers(-3, 3) for _ in range(20)]
    parameter = nn.Parameter(torch.tensor(weight, dtype=torch.float32))
    optimizer = Lamb([parameter], lr=0.01, weight_decay=decay, bias_correction=corrected)
    for expected, gradient in zip(
        reference(weight, gradients, 0.01, decay, corrected), gradients, strict=True
    ):
        parameter.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), expected, atol=1e-6)


def test_matrices_move_by_a_share_of_their_length_without_decay_too():
    """Algorithm 2 with lambda = 0; only vectors take Adam's step as it is."""
    torch.manual_seed(0)
    model = nn.Linear(16, 16)
    before = model.weight.detach().clone(), model.bias.detach().clone()
    model(torch.randn(4, 16)).square().sum().backward()
    make_optimizer(model, 0.01, 0.0, name="lamb").step()
    moved = [
        float((now.detach() - was).norm() / was.norm())
        for now, was in zip((model.weight, model.bias), before, strict=True)
    ]
    assert moved[0] == pytest.approx(0.01, rel=1e-3)
    assert moved[1] > 0.02


def test_alberts_own_lamb_does_not_correct_the_moments():
    made = [make_optimizer(nn.Linear(2, 2), 0.1, 0.0, name=n) for n in ("lamb", "lamb-albert")]
    assert [optimizer.defaults["bias_correction"] for optimizer in made] == [True, False]


def test_its_state_is_saved_and_goes_on_bit_for_bit():
    torch.manual_seed(0)
    gradients = torch.randn(6, 4, 3)
    models = [nn.Linear(3, 4) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [make_optimizer(m, 0.01, 0.01, name="lamb") for m in models]
    for step, gradient in enumerate(gradients):
        if step == 3:
            state = optimizers[1].state_dict()
            optimizers[1] = make_optimizer(models[1], 0.01, 0.01, name="lamb")
            optimizers[1].load_state_dict(state)
        for model, optimizer in zip(models, optimizers, strict=True):
            model.weight.grad, model.bias.grad = gradient.clone(), gradient[:, 0].clone()
            optimizer.step()
    assert torch.equal(models[0].weight, models[1].weight)
    assert torch.equal(models[0].bias, models[1].bias)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_descends(name):
    torch.manual_seed(0)
    model, goal = nn.Linear(4, 3), torch.randn(3, 4)
    optimizer = make_optimizer(model, 0.02, 0.01, name=name)
    losses = []
    for _ in range(60):
        loss = (model.weight - goal).square().mean() + model.bias.square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]


def test_unknown_names_and_pairs_that_do_not_go_together_are_refused():
    with pytest.raises(UsageError, match="--optimizer adam: choose from adamw, lamb"):
        make_optimizer(nn.Linear(2, 2), 0.1, 0.0, name="adam")
    with pytest.raises(UsageError, match="8bit needs --optimizer adamw"):
        make_optimizer(nn.Linear(2, 2), 0.1, 0.0, states="8bit", name="lamb")
