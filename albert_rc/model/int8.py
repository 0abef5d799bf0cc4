"""Int8 matrices, for prediction."""

# T tokens, I inputs, O outputs of a matrix

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from albert_rc.errors import UsageError
from albert_rc.runtime.devices import cpu_reports

LARGEST = 127
# For inputs: their scale is stored in bf16, and rounding it must not push values past 127.
LARGEST_INPUT = 126
ROWS = 512  # rows of a matrix quantised together
NEEDED = "8-bit products need a GPU or a CPU with AVX-512 and its VNNI instructions"


def has_int8(device: torch.device) -> bool:
    """Whether torch has a kernel for 8-bit integer products on this device."""
    if device.type == "cuda":
        return True
    ops = torch.ops.onednn
    if not hasattr(ops, "qlinear_prepack"):
        return False
    # Without these instructions sums of pairs of products are cut off at 16 bits.
    exact = cpu_reports("vnni")
    return exact and "AVX512" in torch.backends.cpu.get_cpu_capability()


class Int8Matrix:
    """A matrix quantised per output channel; its inputs are quantised dynamically per token.

    Symmetric, to the nearest: w = scale_O * q with q in [-127, 127] (Jacob et al. 2018, section
    2.1, with zero points of 0). Sums are exact in 32 bits.

    Args:
        weight_OI: in any precision.
        bias_O: in the inputs' precision.

    Raises:
        UsageError: the processor does not support int8 products.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor) -> None:
        if not has_int8(weight_OI.device):
            raise UsageError(f"--precision int8: {NEEDED}; leave it out here")
        scale_O = (weight_OI.abs().amax(1).float() / LARGEST).clamp(min=1e-12)
        quantised_OI = torch.empty_like(weight_OI, dtype=torch.int8)
        # In parts: the whole in fp32 would take more memory than the quantised matrices.
        for start in range(0, len(scale_O), ROWS):
            rows = slice(start, start + ROWS)
            quantised_OI[rows] = (weight_OI[rows].float() / scale_O[rows, None]).round()
        self.bias_O = bias_O
        self.scale_O = scale_O
        self.on_cpu = weight_OI.device.type == "cpu"
        if self.on_cpu:
            self.packed = torch.ops.onednn.qlinear_prepack(quantised_OI, None)
            self.zero_O = torch.zeros(len(scale_O), dtype=torch.int64)
        else:
            self.packed = quantised_OI.t()

    def quantise(self, x_TI: Tensor) -> tuple[Tensor, Tensor]:
        """Quantised inputs, and their scale per token, [T, 1].

        Elementwise operations stay in 16 bits: in 32 bits they would take as long as the integer
        products themselves.
        """
        if self.on_cpu and x_TI.dtype == torch.bfloat16:
            # Magnitudes are ordered like their bits, whose maximum takes a quarter of the time.
            bits_TI = x_TI.view(torch.int16).bitwise_and(0x7FFF)
            largest_T1 = bits_TI.amax(1, keepdim=True).view(x_TI.dtype)
        else:
            largest_T1 = x_TI.abs().amax(1, keepdim=True)
        scale_T1 = (largest_T1 / LARGEST_INPUT).clamp(min=1e-12)
        step_TI = (x_TI * scale_T1.reciprocal()).round_().to(torch.int8)
        if self.on_cpu:
            # oneDNN's fast kernels take inputs from 0 to 255: flipping the top bit adds 128.
            step_TI = step_TI.view(torch.uint8).bitwise_xor_(128)
        return step_TI, scale_T1

    def bare_product(self, step_TI: Tensor) -> Tensor:
        """Integer products, scaled per output channel only, [T, O]."""
        if not self.on_cpu:
            # cuBLAS needs more than 16 rows, in multiples of 8.
            count = len(step_TI)
            rows = max(24, -(-count // 8) * 8)
            sum_TO = torch._int_mm(F.pad(step_TI, (0, 0, 0, rows - count)), self.packed)
            return sum_TO[:count].float() * self.scale_O
        out_TO: Tensor = torch.ops.onednn.qlinear_pointwise(
            step_TI, 1.0, 128, self.packed, self.scale_O, self.zero_O, None,
            1.0, 0, self.bias_O.dtype, "none", [], "",
        )  # fmt: skip
        return out_TO

    def product(self, x_TI: Tensor) -> Tensor:
        """Outputs in the inputs' precision, [T, O]."""
        step_TI, scale_T1 = self.quantise(x_TI)
        out_TO = self.bare_product(step_TI)
        return torch.addcmul(self.bias_O, out_TO.to(x_TI.dtype), scale_T1)
