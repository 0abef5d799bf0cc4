"""Adversarial training (FGM): a second pass with perturbed word embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from albert_rc.runtime.devices import Processes


@contextmanager
def moved(words: Tensor, distance: float, processes: Processes) -> Iterator[None]:
    """Context in which the word embeddings are perturbed in the direction that raises the loss.

    The perturbation is e * g / |g|, g being the batch's gradient (Miyato et al. 2017, equation 5,
    where it is taken for each sequence; here it is added to the table, so that a word changes
    equally wherever it occurs, and micro-batches and processes affect only rounding).

    Args:
        words: the table, [V, E], with this process's gradient, which stays unchanged.
        distance: e, the norm over the whole table, in the units of the embeddings.
        processes: the ranks that hold the rest of the gradient.
    """
    # A process without passages takes part in the sum too.
    gradient = torch.zeros_like(words) if words.grad is None else words.grad.detach().clone()
    processes.sum(gradient)
    norm = gradient.norm()
    kept = words.detach().clone()
    try:
        with torch.no_grad():
            # NaN or infinity (fp16 overflows occasionally), or zero: no perturbation.
            usable = norm.isfinite() & (norm > 0)
            scale = torch.where(usable, distance / norm, torch.zeros_like(norm))
            words.add_(torch.where(usable, gradient, 0) * scale)
        yield
    finally:
        # Subtracting the perturbation would leave rounding errors.
        with torch.no_grad():
            words.copy_(kept)
