"""LAMB, the optimiser that ALBERT was pretrained with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class Lamb(torch.optim.Optimizer):
    """Layer-wise adaptive moments (You et al. 2020, Algorithm 2).

    Adam's update r, plus the decay, is scaled for each parameter by ||w|| / ||r + decay w||, so
    that all change by the same share of their norm. Parameters without decay (biases, norms)
    take Adam's update unscaled, as in ALBERT's own implementation.

    Args:
        groups: parameters, or groups of them with their own `weight_decay`, and with `adapt` to
            say whether their update is scaled (by default if they have decay).
        lr: learning rate.
        betas: decay rates of the two moments.
        eps: added to the root of the second moment.
        weight_decay: weight decay of matrices.
        bias_correction: divide the moments by 1 - beta^t, as the paper does. ALBERT's own
            implementation does not.
    """

    def __init__(
        self,
        groups: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
    ) -> None:
        settings = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
        }
        super().__init__(groups, settings)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if moved:
                self._move(group, moved)
        return loss

    def _move(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros(())
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
            state["step"] += 1
        gradients = [p.grad for p in parameters if p.grad is not None]
        first = [self.state[p]["exp_avg"] for p in parameters]
        second = [self.state[p]["exp_avg_sq"] for p in parameters]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        root = torch._foreach_sqrt(second)
        steps = [float(self.state[p]["step"]) for p in parameters]
        if group["bias_correction"]:
            torch._foreach_div_(root, [(1 - beta2**t) ** 0.5 for t in steps])
        torch._foreach_add_(root, group["eps"])
        update = torch._foreach_div(first, root)
        if group["bias_correction"]:
            torch._foreach_div_(update, [1 - beta1**t for t in steps])
        if group["weight_decay"]:
            torch._foreach_add_(update, parameters, alpha=group["weight_decay"])
        if group.get("adapt", bool(group["weight_decay"])):
            lengths = torch._foreach_norm(parameters)
            paces = torch._foreach_norm(update)
            # The ratio is undefined for a zero parameter or a zero update.
            ratios = [
                torch.where((w > 0) & (r > 0), w / r, torch.ones_like(w))
                for w, r in zip(lengths, paces, strict=True)
            ]
            torch._foreach_mul_(update, ratios)
        torch._foreach_add_(parameters, update, alpha=-group["lr"])
