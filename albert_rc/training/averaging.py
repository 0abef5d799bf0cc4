"""Exponential moving average of the weights over a run's steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Averaged:
    """An exponential moving average of a model's weights (Polyak and Juditsky 1992).

    The decay at step t is min(decay, (1 + t) / (10 + t)): otherwise the average would contain
    the random initial head for 1 / (1 - decay) steps.

    Args:
        model: complete (not sharded), on its device.
        decay: factor of the old average at each step, below 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._weights = dict(model.named_parameters())
        self._average = {name: p.detach().clone() for name, p in self._weights.items()}

    def add(self, step: int) -> None:
        """Update the average with the weights after a step, counted from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        ours = [p.detach() for p in self._weights.values()]
        torch._foreach_lerp_(list(self._average.values()), ours, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Context in which the model's weights are the average."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        """Swap the values in place: the optimiser and graphs hold references to the tensors."""
        with torch.no_grad():
            for name, weight in self._weights.items():
                kept = weight.detach().clone()
                weight.copy_(self._average[name])
                self._average[name].copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """The average, for resuming."""
        return self._average

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the result of `state`."""
        for name, average in self._average.items():
            average.copy_(state[name])
