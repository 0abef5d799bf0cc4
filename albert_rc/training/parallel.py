"""Data-parallel communication: weights at the start, gradients in each step.

Processes communicate between passes, never within one. A process may have fewer micro-batches
than another, or none, and may run out of memory during one; hooks that communicate in the forward
or backward pass would leave the others waiting.
"""

from __future__ import annotations

import torch
from torch import nn

from albert_rc.runtime.devices import Processes


def copy_weights(model: nn.Module, processes: Processes) -> None:
    """Broadcast the main process's weights to every process."""
    processes.copy_from_main([p.data for p in model.parameters()])


def sum_gradients(model: nn.Module, processes: Processes) -> None:
    """Sum the gradients over all processes, in place."""
    if processes.world == 1:
        return
    # With shared layers every gradient is complete only at the end of the backward pass, so there
    # is nothing to overlap: one message is enough.
    gradients = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:  # not used in this process's passes
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
    processes.sum(*gradients)
