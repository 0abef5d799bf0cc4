"""Adversarial training: the same batch once more, with words moved to where they hurt most."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from albert_rc.runtime.devices import Processes


@contextmanager
def moved(words: Tensor, distance: float, processes: Processes) -> Iterator[None]:
    """Inside, word embeddings are off by a step of this length that makes the loss worse.

    The step is e * g / |g|, g being the batch's gradient (Miyato et al. 2017, equation 5, where
    it is taken for each sequence; here the table moves, so that a word moves alike wherever it
    stands, and neither micro-batches nor processes change anything but rounding).

    Args:
        words: the table, [V, E], with this process's gradient. The gradient stays as it is.
        distance: e, of the whole table; in the units of the embeddings.
        processes: who has the rest of the gradient.
    """
    # A process without passages of its own takes part in the sum all the same.
    gradient = torch.zeros_like(words) if words.grad is None else words.grad.detach().clone()
    processes.sum(gradient)
    norm = gradient.norm()
    kept = words.detach().clone()
    try:
        with torch.no_grad():
            # No number (fp16 overflows now and then), or nothing: the words stay where they are.
            usable = norm.isfinite() & (norm > 0)
            scale = torch.where(usable, distance / norm, torch.zeros_like(norm))
            words.add_(torch.where(usable, gradient, 0) * scale)
        yield
    finally:
        # Taking the step back would leave rounding behind.
        with torch.no_grad():
            words.copy_(kept)
