"""The feed-forward part of a layer: whole, or in chunks of rows to save memory."""

# S tokens, D hidden size, F ffn size

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.errors import CheckpointError
from albert_rc.model.config import Compute
from albert_rc.model.linear import Activation, Gradients, PreparedLinear, linear

# gelu_new is Hugging Face's name for the tanh form written out; torch has it fused.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def quick_activation(name: str, dtype: torch.dtype, device: torch.device) -> str:
    """The activation that is fastest here among those that differ by less than rounding.

    The two forms of GELU are at most 4.7e-4 apart. In bf16 that is lost in rounding: for normally
    distributed inputs the exact form differs from the tanh form by 1.138e-3 (root mean square), and
    rounding to bf16 alone by 1.129e-3. On CPUs torch's kernel of the exact form is four times as
    fast.
    """
    if name.startswith("gelu_") and dtype == torch.bfloat16 and device.type == "cpu":
        return "gelu"
    return name


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation function that a config names.

    Raises:
        CheckpointError: unknown name.
    """
    if name not in ACTIVATIONS:
        raise CheckpointError(f"activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class _InChunks(torch.autograd.Function):
    """`down(activation(up(x)))` in chunks of rows, each recomputed in the backward pass.

    The loop over chunks is explicit in both directions: autograd guarantees no order among chunks,
    and the collector of a matrix's gradient must know which application comes last.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x_SD: Tensor,
        up: PreparedLinear,
        down: PreparedLinear,
        gradients: Gradients,
        last: tuple[bool, bool],
        act: Activation,
        rows: int,
        *parameters: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x_SD)
        ctx.up, ctx.down, ctx.gradients, ctx.last = up, down, gradients, last
        ctx.act, ctx.rows = act, rows
        return torch.cat([down.product(act(up.product(part))) for part in x_SD.split(rows)])

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient_SD,) = output
        (x_SD,) = ctx.saved_tensors
        up, down = ctx.up, ctx.down
        last_up, last_down = ctx.last
        dx_SD = torch.empty_like(x_SD)
        due_up: list[Tensor] | None = None
        due_down: list[Tensor] | None = None
        for start in range(0, len(x_SD), ctx.rows):
            part = slice(start, start + ctx.rows)
            final = start + ctx.rows >= len(x_SD)
            with torch.enable_grad():
                wide_SF = up.product(x_SD[part].detach()).requires_grad_()
                inside_SF = ctx.act(wide_SF)
            dinside_SF = down.input_gradient(gradient_SD[part])
            due_down = ctx.gradients.add(
                down, inside_SF.detach(), gradient_SD[part], last_down and final
            )
            (dwide_SF,) = torch.autograd.grad(inside_SF, wide_SF, dinside_SF)
            del wide_SF, inside_SF, dinside_SF
            dx_SD[part] = up.input_gradient(dwide_SF)
            due_up = ctx.gradients.add(up, x_SD[part], dwide_SF, last_up and final)
        due: list[Tensor | None] = []
        for matrix, found in ((up, due_up), (down, due_down)):
            due += found or [None] * len(matrix.parameters)
        return dx_SD, None, None, None, None, None, None, *due


def feed_forward(
    x_SD: Tensor,
    up: PreparedLinear,
    down: PreparedLinear,
    name: str,
    compute: Compute,
    gradients: Gradients | None = None,
    first: Collection[str] = ("up", "down"),
) -> Tensor:
    """`down(activation(up(x)))`, token by token (Vaswani et al. 2017, section 3.3).

    With `compute.ffn_chunk`, chunks of that many rows are computed (Kitaev et al. 2020, section 3)
    and nothing of size F is kept for the backward pass; the result is the same up to rounding.

    Args:
        x_SD: inputs.
        up: the matrix to F dimensions.
        down: the matrix back to D.
        name: the activation's name in a config.
        compute: recomputation and chunk size.
        gradients: collects the matrices' gradients; None in prediction.
        first: which of `up` and `down` no earlier layer has applied.

    Returns:
        [S, D]
    """
    name = quick_activation(name, x_SD.dtype, x_SD.device)
    act = activation(name)
    rows = compute.ffn_chunk or max(1, len(x_SD))
    if gradients is None:
        fused = up.fuses(name)
        parts = [
            down.product(up.product(part, name) if fused else act(up.product(part)))
            for part in x_SD.split(rows)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)
    if rows < len(x_SD):
        last = ("up" in first, "down" in first)
        whole: Tensor = _InChunks.apply(  # type: ignore[no-untyped-call]
            x_SD, up, down, gradients, last, act, rows, *up.parameters, *down.parameters
        )
        return whole
    wide_SF = linear(x_SD, up, gradients, "up" in first)
    if compute.recompute == "activations":
        return linear(wide_SF, down, gradients, "down" in first, act)
    return linear(act(wide_SF), down, gradients, "down" in first)
