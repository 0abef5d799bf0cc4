"""What several processes send each other in training: weights at the start, gradients in each step.

Whatever is sent, is sent between the passes and never in one. A process may have fewer
micro-batches than another, or none, and may run out of memory in the middle of one; hooks that
send in the forward or backward pass would leave the others waiting for it.
"""

from __future__ import annotations

import torch
from torch import nn

from albert_rc.runtime.devices import Processes


def copy_weights(model: nn.Module, processes: Processes) -> None:
    """Give every process the main process's weights."""
    processes.copy_from_main([p.data for p in model.parameters()])


def sum_gradients(model: nn.Module, processes: Processes) -> None:
    """Turn the gradients of this process's passes into the sum over all processes."""
    if processes.world == 1:
        return
    # With shared layers every gradient is complete only at the end of the backward pass, so there
    # is nothing to overlap: one message does.
    gradients = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            if parameter.grad is None:  # no pass of this process came by
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
    processes.sum(*gradients)
