"""Linear maps with prepared matrices, for matrices applied many times per step.

ALBERT multiplies by the same few matrices in every layer. So each is converted to the precision
and memory layout of the processor's kernels once per step, for the forward and the backward pass,
and the gradient contributions of its applications are accumulated here.
"""

# T tokens, I inputs, O outputs of a matrix

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from albert_rc.model.int8 import Int8Matrix
from albert_rc.runtime.devices import has_matrix_units

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.bfloat16,  # between the integer products
}

ROWS = 512
"""Rows of a matrix whose gradient is computed and added at a time."""
GPU_NUMBERS = 2**23
"""Size of such a block of rows on a GPU, in numbers: small products leave most of it idle."""
ONES = 16
"""Rows of ones by which rows are summed: with fewer, oneDNN takes a third longer on AMX."""

AT_A_TIME = 256
"""Rows of a product at a time where oneDNN would otherwise use one core, see `_uses_one_core`."""

Activation = Callable[[Tensor], Tensor]

# Hugging Face's names of activations that oneDNN can fuse with a product.
_FUSED = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}


def has_packing(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether oneDNN can pack matrices of this type on this device."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    ops = torch.ops.mkldnn
    if not hasattr(ops, "_linear_pointwise") or not hasattr(ops, "_reorder_linear_weight"):
        return False
    if dtype == torch.bfloat16:
        return bool(ops._is_mkldnn_bf16_supported())
    return dtype == torch.float32


class PreparedLinear:
    """Linear maps that share their input, as one matrix ready for the products of a step.

    Args:
        linears: maps of the same input; their outputs are concatenated.
        precision: a key of `DTYPES`.
        learning: also prepare the transposed matrix, for the backward pass.
    """

    @torch.no_grad()  # prepared matrices must not reference the weights
    def __init__(self, linears: Sequence[nn.Linear], precision: str, learning: bool) -> None:
        self.linears = tuple(linears)
        self.outputs = [linear.out_features for linear in linears]
        self.dtype = DTYPES[precision]
        weight_OI = _joined([linear.weight for linear in linears]).to(self.dtype)
        bias_O = _joined([linear.bias for linear in linears])
        self.bias_O: Tensor = bias_O.to(self.dtype)
        self.packed = has_packing(self.dtype, weight_OI.device)
        self.int8: Int8Matrix | None = None
        self.weight_OI = weight_OI
        self.weight_IO = None
        if precision == "int8":
            self.int8 = Int8Matrix(weight_OI, self.bias_O)
            self.weight_OI = weight_OI.new_empty(0)
        elif self.packed:
            # With a transposed view oneDNN would transpose in each product.
            if learning:
                self.weight_IO = _pack(weight_OI.t().contiguous())
            self.weight_OI = _pack(weight_OI)

    @property
    def parameters(self) -> list[Tensor]:
        """Weights, then biases, of the maps."""
        return [linear.weight for linear in self.linears] + [m.bias for m in self.linears]

    def product(self, x_TI: Tensor, activation: str | None = None) -> Tensor:
        """Outputs, [T, O], through an activation if one is named that can be fused here."""
        if self.int8 is not None:
            return self.int8.product(x_TI)
        if not self.packed:
            return F.linear(x_TI, self.weight_OI, self.bias_O)
        learning = self.weight_IO is not None
        return _packed_product(x_TI, self.weight_OI, self.bias_O, activation, in_parts=learning)

    def fuses(self, activation: str) -> bool:
        """Whether `product` can apply this activation."""
        return self.packed and self.int8 is None and activation in _FUSED

    def input_gradient(self, gradient_TO: Tensor) -> Tensor:
        """Gradient of the inputs, [T, I]."""
        if self.weight_IO is None:
            return gradient_TO @ self.weight_OI
        return _packed_product(gradient_TO.contiguous(), self.weight_IO)

    def add_gradients(
        self, x_TI: Tensor, gradient_TO: Tensor, sums: Sequence[Tensor | None]
    ) -> list[Tensor]:
        """Add one application's contribution to the gradients of `parameters`, in fp32.

        Args:
            x_TI: the application's inputs.
            gradient_TO: the gradient of its outputs.
            sums: the sums so far, changed in place; None for none.
        """
        count = len(self.linears)
        parts = gradient_TO.split(self.outputs, 1)
        weights = [
            _add_product(part_TO, x_TI, sum_OI)
            for part_TO, sum_OI in zip(parts, sums[:count], strict=True)
        ]
        shares = _sum_of_rows(gradient_TO).split(self.outputs)
        biases = [
            share_O.clone() if sum_O is None else sum_O.add_(share_O)
            for share_O, sum_O in zip(shares, sums[count:], strict=True)
        ]
        return [*weights, *biases]


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))


def _add_product(gradient_TO: Tensor, x_TI: Tensor, sum_OI: Tensor | None) -> Tensor:
    """`sum_OI` plus the matrix's gradient, in fp32, with little extra memory."""
    outputs, inputs = gradient_TO.shape[1], x_TI.shape[1]
    if x_TI.dtype == torch.float32:
        if sum_OI is None:
            return gradient_TO.t() @ x_TI
        return sum_OI.addmm_(gradient_TO.t(), x_TI)
    new = sum_OI is None
    total_OI = torch.empty(outputs, inputs, device=x_TI.device) if sum_OI is None else sum_OI
    # In blocks of rows: besides the sum, the product is needed in 16 bits, and on CPUs in 32.
    on_cpu = x_TI.device.type == "cpu"
    size = gradient_rows(inputs, x_TI.device.type)
    for rows_OI, rows_TO in zip(total_OI.split(size), gradient_TO.split(size, 1), strict=True):
        product_OI = rows_TO.t() @ x_TI
        if new:
            rows_OI.copy_(product_OI)
        else:
            rows_OI.add_(product_OI.float() if on_cpu else product_OI)
    return total_OI


def gradient_rows(inputs: int, device_type: str) -> int:
    """Number of rows of a matrix's gradient that are computed at a time.

    Args:
        inputs: length of a row.
        device_type: cpu or cuda.
    """
    return ROWS if device_type == "cpu" else max(ROWS, GPU_NUMBERS // inputs)


def _sum_of_rows(x_TO: Tensor) -> Tensor:
    """Sum over the tokens, in fp32.

    In bf16 on CPUs it is a product with ones, rounded as the gradients of matrices are: it takes
    half to a third of the time of a sum, which first converts all numbers to fp32 in memory.
    """
    if x_TO.dtype != torch.bfloat16 or x_TO.device.type != "cpu":
        return x_TO.sum(0, dtype=torch.float32)
    return (x_TO.new_ones(ONES, len(x_TO)) @ x_TO)[0].float()


def _packed_product(
    x_TI: Tensor,
    packed_OI: Tensor,
    bias_O: Tensor | None = None,
    activation: str | None = None,
    in_parts: bool = True,
) -> Tensor:
    """Outputs, [T, O], of a packed matrix, through an activation of `_FUSED` if one is named.

    Args:
        x_TI: inputs.
        packed_OI: the matrix.
        bias_O: added to each row.
        activation: applied to the outputs.
        in_parts: whether to divide the rows where that is faster. A row's last bits then depend on
            its place, which does not matter in training, but predictions must not depend on the
            papers next to a paper.
    """
    name, algorithm = _FUSED[activation] if activation else ("none", "")

    def product(rows_TI: Tensor) -> Tensor:
        out_TO: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows_TI, packed_OI, bias_O, name, [], algorithm
        )
        return out_TO

    if (
        in_parts
        and has_matrix_units(x_TI.dtype)
        and _uses_one_core(len(x_TI), x_TI.shape[1], packed_OI.shape[0])
    ):
        return torch.cat([product(rows_TI) for rows_TI in x_TI.split(AT_A_TIME)])
    return product(x_TI)


def _uses_one_core(rows: int, inputs: int, outputs: int) -> bool:
    """Whether oneDNN leaves cores idle in a product on AMX.

    Measured for two cores: a product of 704 rows from 3072 numbers to 768 takes 3.1 ms, in parts of
    256 rows 1.9. Its choice of blocks jumps from shape to shape; these are base models' with two
    exam papers, and parts are faster at nearly all of them.
    """
    return 512 <= rows <= 1152 and inputs <= 3072 and 640 <= outputs <= 1024


def _pack(weight_OI: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
    return packed


class Gradients:
    """Accumulates the gradients of shared matrices over their applications.

    Args:
        in_place: add to the parameters' `grad` instead of returning the sums to autograd.
    """

    def __init__(self, in_place: bool = False) -> None:
        self.in_place = in_place
        self._sums: dict[PreparedLinear, Sequence[Tensor | None]] = {}

    def add(
        self, prepared: PreparedLinear, x_TI: Tensor, gradient_TO: Tensor, last: bool
    ) -> list[Tensor] | None:
        """Add an application's share; returns the gradients of `prepared.parameters` when complete.

        Args:
            prepared: the matrix.
            x_TI: the application's inputs.
            gradient_TO: gradient of the outputs.
            last: whether this is the matrix's last application in this backward pass.
        """
        parameters = prepared.parameters
        if self.in_place:
            sums = prepared.add_gradients(x_TI, gradient_TO, [p.grad for p in parameters])
            for parameter, gradient in zip(parameters, sums, strict=True):
                parameter.grad = gradient
            return None
        none: list[Tensor | None] = [None] * len(parameters)
        found = prepared.add_gradients(x_TI, gradient_TO, self._sums.pop(prepared, none))
        if not last:
            self._sums[prepared] = found
            return None
        return found


class _Linear(torch.autograd.Function):
    """`activation(x) W' + b`, with the activation recomputed in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x_TI: Tensor,
        prepared: PreparedLinear,
        gradients: Gradients,
        last: bool,
        activation: Activation | None,
        *parameters: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(x_TI)
        ctx.prepared, ctx.gradients, ctx.last = prepared, gradients, last
        ctx.activation = activation
        return prepared.product(x_TI if activation is None else activation(x_TI))

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (gradient_TO,) = output
        (before_TI,) = ctx.saved_tensors
        x_TI, gradient_TI = before_TI, ctx.prepared.input_gradient(gradient_TO)
        if ctx.activation is not None:
            with torch.enable_grad():
                before_TI = before_TI.detach().requires_grad_()
                x_TI = ctx.activation(before_TI)
            (gradient_TI,) = torch.autograd.grad(x_TI, before_TI, gradient_TI)
        due = ctx.gradients.add(ctx.prepared, x_TI.detach(), gradient_TO, ctx.last)
        return gradient_TI, None, None, None, None, *(due or [None] * len(ctx.prepared.parameters))


def linear(
    x_TI: Tensor,
    prepared: PreparedLinear,
    gradients: Gradients | None = None,
    last: bool = True,
    activation: Activation | None = None,
) -> Tensor:
    """Apply a prepared matrix, differentiably if `gradients` is given.

    Args:
        x_TI: inputs, in the matrix's precision.
        prepared: the matrix.
        gradients: collects its gradient; None in prediction.
        last: whether the backward pass reaches this application last.
        activation: applied to the inputs first.

    Returns:
        [T, O]
    """
    if gradients is None:
        return prepared.product(x_TI if activation is None else activation(x_TI))
    result: Tensor = _Linear.apply(  # type: ignore[no-untyped-call]
        x_TI, prepared, gradients, last, activation, *prepared.parameters
    )
    return result
