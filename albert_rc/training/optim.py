"""The optimisers and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc.errors import UsageError
from albert_rc.training.lamb import Lamb

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": partial(torch.optim.AdamW, fused=True),
    "lamb": Lamb,
    "lamb-albert": partial(Lamb, bias_correction=False),
    "adafactor": lambda groups, lr, betas, eps: torch.optim.Adafactor(groups, lr=lr),
}


def make_optimizer(
    model: nn.Module,
    learning_rate: float,
    weight_decay: float,
    states: str = "fp32",
    name: str = "adamw",
) -> torch.optim.Optimizer:
    """An optimiser with weight decay on matrices only, not on biases, norms and other vectors.

    Betas and epsilon are those of ALBERT's and BERT's fine-tuning (0.9, 0.999, 1e-6).

    Args:
        model: the model to optimise; parameters that need no gradient are left out.
        learning_rate: initial learning rate.
        weight_decay: weight decay of matrices.
        states: a key of `config.STATES`. In 8 bits the moments are quantised by blocks of 256
            (Dettmers et al. 2022).
        name: a key of `OPTIMIZERS`.

    Raises:
        UsageError: unknown optimiser, one that does not support these moments, or torchao is
            missing.
    """
    if name not in OPTIMIZERS:
        raise UsageError(f"--optimizer {name}: choose from {', '.join(OPTIMIZERS)}")
    learned = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in learned if p.ndim > 1]
    kept = [p for p in learned if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": weight_decay, "adapt": True},  # see `Lamb`
        {"params": kept, "weight_decay": 0.0, "adapt": False},
    ]
    settings: dict[str, Any] = {"lr": learning_rate, "betas": (0.9, 0.999), "eps": 1e-6}
    if states == "fp32":
        return OPTIMIZERS[name](groups, **settings)
    if name != "adamw":
        raise UsageError(f"--optimizer-states {states} needs --optimizer adamw")
    try:
        # A maintained library's 8-bit states; its compiled step needs a C++ compiler on CPUs.
        from torchao.optim import AdamW8bit
    except ImportError:
        raise UsageError(
            f"--optimizer-states {states} needs torchao: pip install 'albert-rc[lean]'"
        ) from None
    lean: torch.optim.Optimizer = AdamW8bit(groups, **settings)
    return lean


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all groups."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):  # the compiled step takes the rate as a tensor
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def linear_rate(step: int, total_steps: int, peak: float, warmup_share: float) -> float:
    """Learning rate of a step: linear warm-up over `warmup_share` of the steps, then decay to 0.

    A pure function, so that it needs no state for resuming.
    """
    warmup = max(1, round(total_steps * warmup_share)) if warmup_share else 0
    if step < warmup:
        # Step 0 already has a positive rate; at 0 its batch would be wasted.
        return peak * (step + 1) / (warmup + 1)
    return peak * max(0.0, (total_steps - step) / max(1, total_steps - warmup))


def settled_step(total_steps: int, warmup_share: float, share: float) -> int:
    """The first step before which `linear_rate` has summed to this share of its total."""
    warmup = total_steps * warmup_share
    # Area under the triangle: up to `warmup` it is step^2 / (2 warmup), of total / 2 in all.
    if share * total_steps <= warmup:
        return math.ceil(math.sqrt(share * total_steps * warmup))
    return math.ceil(total_steps - math.sqrt((1 - share) * total_steps * (total_steps - warmup)))


def step_if_finite(optimizer: torch.optim.Optimizer, norm: Tensor) -> None:
    """Take the optimiser's step, unless the gradient's norm is not finite.

    Weights and moments then stay unchanged. Optimisers that take the flag as a tensor, as fused
    ones do for `torch.amp.GradScaler`, need no GPU synchronisation; others do.
    """
    if getattr(optimizer, "_step_supports_amp_scaling", False):
        told: Any = optimizer
        told.grad_scale, told.found_inf = None, norm.isfinite().logical_not().float()
        optimizer.step()
        del told.grad_scale, told.found_inf
    elif bool(norm.isfinite()):
        optimizer.step()
