"""An average of the weights over the steps of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Averaged:
    """An exponential moving average of a model's weights (Polyak and Juditsky 1992).

    Early on it forgets faster, as min(decay, (1 + t) / (10 + t)) at step t: otherwise it would
    keep the random head that a run begins with for 1 / (1 - decay) steps.

    Args:
        model: whole on this process, on its device.
        decay: what stays of the average at each step, below 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = dict(model.named_parameters())
        self._average = {name: p.detach().clone() for name, p in self._weights.items()}

    def add(self, step: int) -> None:
        """Take in the weights after a step, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        ours = [p.detach() for p in self._weights.values()]
        torch._foreach_lerp_(list(self._average.values()), ours, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the average for its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        """Exchange what the tensors hold: the optimiser and graphs keep the tensors they know."""
        with torch.no_grad():
            for name, weight in self._weights.items():
                kept = weight.detach().clone()
                weight.copy_(self._average[name])
                self._average[name].copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs."""
        return self._average

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave."""
        for name, average in self._average.items():
            average.copy_(state[name])
