"""The optimiser and its schedule."""

from __future__ import annotations

from torch import nn
from torch.optim import AdamW


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float) -> AdamW:
    """AdamW with decay on matrices only: biases, norms and other vectors are left alone.

    Betas and epsilon are those that ALBERT and BERT were fine-tuned with (0.9, 0.999, 1e-6).
    """
    decayed = [p for p in model.parameters() if p.ndim > 1]
    kept = [p for p in model.parameters() if p.ndim <= 1]
    return AdamW(
        [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}],
        lr=learning_rate,
        betas=(0.9, 0.999),
        eps=1e-6,
        fused=True,
    )


def linear_rate(step: int, total_steps: int, peak: float, warmup_share: float) -> float:
    """Learning rate of a step: up to `peak` over `warmup_share` of the steps, then down to 0.

    A pure function, so that resuming needs no state of it.
    """
    warmup = max(1, round(total_steps * warmup_share)) if warmup_share else 0
    if step < warmup:
        # Step 0 already learns: with a rate of 0 it would be a batch read for nothing.
        return peak * (step + 1) / (warmup + 1)
    return peak * max(0.0, (total_steps - step) / max(1, total_steps - warmup))
