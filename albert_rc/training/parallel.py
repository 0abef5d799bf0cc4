"""How several processes share the work of training: what each of them holds, and what they send.

Whatever is sent, is sent between the passes and never in one. A process may have fewer
micro-batches than another, or none, and may run out of memory in the middle of one; hooks that
send in the forward or backward pass would leave the others waiting for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc.errors import UsageError
from albert_rc.runtime.devices import Processes
from albert_rc.training.config import PARALLEL


class DataParallel:
    """Every process holds the whole model and its optimiser's state; gradients are summed.

    Args:
        model: on the processes' device; takes the main process's weights.
        processes: who works along.
    """

    divides = False
    """Whether a process holds only a part of the weights between the steps."""

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        self.model = model
        self.processes = processes
        processes.copy_from_main([p.data for p in model.parameters()])

    def gather(self) -> None:
        """Make the model's parameters whole, for forward and backward passes."""

    def release(self) -> None:
        """Keep only this process's part of them, for the optimiser."""

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Whole parameters inside, to predict with or to write."""
        self.gather()
        try:
            yield
        finally:
            self.release()

    def reduce(self) -> None:
        """Turn the gradients of this process's passes into the sum over all; then `release`."""
        if self.processes.world == 1:
            return
        # With shared layers every gradient is complete only at the end of the backward pass,
        # so there is nothing to overlap: one message does.
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.processes.sum(*(_gradient(parameter) for parameter in parameters))

    def own(self) -> list[Tensor]:
        """This process's part of each parameter, plain tensors."""
        return [p.data for p in self.model.parameters()]

    def whole(self, state: Any) -> Any:
        """A state of model or optimiser with whole tensors on the main process.

        What the others get is of no use, but all have to ask.
        """
        return state

    def part(self, state: Any) -> Any:
        """What `whole` gave, as this process holds it."""
        return state

    def plain(self, figure: Tensor) -> Tensor:
        """A figure of all parameters or gradients, whole on every process."""
        return figure


class FullySharded(DataParallel):
    """Every process holds a part of each parameter and of its moments (torch's FSDP2).

    The parts are rows. `gather` puts them together for a whole step, as one unit: ALBERT's layers
    share their parameters, and `Prepared` reads all layers' at the beginning of a pass.

    Args:
        model: as for `DataParallel`.
        processes: at least two.

    Raises:
        UsageError: a single process.
    """

    divides = True

    def __init__(self, model: nn.Module, processes: Processes) -> None:
        # Slow to import, and without use to those who do not ask for it.
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor import DTensor, Partial, Shard

        count_shards("fsdp", processes)
        super().__init__(model, processes)
        self._mesh = init_device_mesh(processes.device.type, (processes.world,))
        self._dtensor, self._rows, self._partial = DTensor, Shard(0), Partial()
        # Hooks go to the module that is wrapped, and this one is never called.
        self._unit = fully_shard(_Unit(model), mesh=self._mesh, reshard_after_forward=False)

    def gather(self) -> None:
        self._unit.unshard()

    def release(self) -> None:
        self._unit.reshard()

    def reduce(self) -> None:
        gradients = []
        for parameter in self.model.parameters():
            gradients.append(_gradient(parameter) if parameter.requires_grad else None)
            parameter.grad = None
        self.release()
        gradients.reverse()
        for parameter in self.model.parameters():
            # One by one, so that the whole ones go while the parts come.
            if (gradient := gradients.pop()) is not None:
                summand = self._dtensor.from_local(gradient, self._mesh, [self._partial])
                parameter.grad = summand.redistribute(placements=[self._rows])

    def own(self) -> list[Tensor]:
        return [p.to_local() for p in self.model.parameters() if isinstance(p, self._dtensor)]

    def whole(self, state: Any) -> Any:
        if isinstance(state, self._dtensor):
            tensor = state.full_tensor()
            return tensor.cpu() if self.processes.is_main else None
        return _mapped(self.whole, state)

    def part(self, state: Any) -> Any:
        if not isinstance(state, Tensor) or state.ndim == 0:  # AdamW counts its steps in scalars
            return _mapped(self.part, state)
        rows = -(-len(state) // self.processes.world)
        first = rows * self.processes.rank
        mine = state[first : first + rows].to(self.processes.device, copy=True)
        return self._dtensor.from_local(
            mine, self._mesh, [self._rows], shape=state.shape, stride=state.stride()
        )

    def plain(self, figure: Tensor) -> Tensor:
        whole: Tensor = figure.full_tensor() if isinstance(figure, self._dtensor) else figure
        return whole


class _Unit(nn.Module):
    """What `fully_shard` takes the parameters of."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def _gradient(parameter: Tensor) -> Tensor:
    """The gradient, made zero where no pass of this process came by."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def _mapped(function: Any, state: Any) -> Any:
    """A state with the function applied one level below, in the order that all processes have."""
    if isinstance(state, dict):
        return {key: function(value) for key, value in state.items()}
    if isinstance(state, list):
        return [function(value) for value in state]
    return state


_CLASSES = {"ddp": DataParallel, "fsdp": FullySharded}
assert _CLASSES.keys() == PARALLEL.keys()


def make_parallel(name: str, model: nn.Module, processes: Processes) -> DataParallel:
    """The way of sharing that a key of `PARALLEL` names."""
    return _CLASSES[name](model, processes)


def count_shards(name: str, processes: Processes) -> int:
    """Parts that the weights and their moments lie in.

    Raises:
        UsageError: nobody to share with.
    """
    if name == "ddp":
        return 1
    if processes.world == 1:
        raise UsageError(
            "--parallel fsdp divides the weights among processes, but there is only one; start "
            "several: torchrun --nproc-per-node N -m albert_rc train ... --parallel fsdp"
        )
    return processes.world
