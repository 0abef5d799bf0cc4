"""Description of the machine, and its matrix product rate: the reference for all measurements.

python -m albert_rc.bench.machine < settings.json
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc import __version__
from albert_rc.io.json import parse_json, to_json
from albert_rc.model.int8 import has_int8
from albert_rc.model.linear import DTYPES, PreparedLinear
from albert_rc.runtime.devices import has_bf16, processes
from albert_rc.runtime.heap import highest, resident

ROWS, INPUTS, OUTPUTS = 704, 4096, 16384  # two ELE passages through xxlarge's feed-forward
GPU_ROWS = 8192
INSTRUCTIONS = {
    "avx2": "avx2",
    "avx512_f": "avx512f",
    "avx512_bf16": "avx512_bf16",
    "avx512_fp16": "avx512_fp16",
    "avx512_vnni": "avx512_vnni",
    "avx_vnni": "avx_vnni",
    "amx_bf16": "amx_bf16",
    "amx_fp16": "amx_fp16",
    "amx_int8": "amx_int8",
    "neon": "neon",
    "fp16_arith": "fp16",
    "bf16": "bf16",
    "dot": "dotprod",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
    "sve_bf16": "sve_bf16",
    "sme": "sme",
    "sme2": "sme2",
}
"""Instruction sets that affect the speed of products: torch's names, and Linux's if different. The
first nine are for x86, the others for ARM."""


def synchronise(device: torch.device) -> None:
    """Wait for the device's work to be done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_rate(precision: str, device: torch.device, repeats: int = 5) -> float:
    """Operations per second of a large matrix product, with the fastest kernel known here.

    Args:
        precision: fp32, bf16, fp16 or int8.
        device: the device to measure.
        repeats: number of repetitions, of which the fastest counts.
    """
    rows = GPU_ROWS if device.type == "cuda" else ROWS
    x_TI = torch.randn(rows, INPUTS, device=device, dtype=DTYPES[precision])
    linear = nn.Linear(INPUTS, OUTPUTS, device=device, dtype=DTYPES[precision])
    prepared = PreparedLinear([linear], precision, learning=False)
    ways: list[Callable[[Tensor], Tensor]] = [prepared.product, linear]
    if prepared.int8 is not None:
        ways = [prepared.int8.bare_product]
        x_TI = prepared.int8.quantise(x_TI)[0]
    with torch.inference_mode():
        fastest = min(_seconds(way, x_TI, device) for way in ways for _ in range(repeats))
    return 2.0 * rows * INPUTS * OUTPUTS / fastest


def _seconds(way: Callable[[Tensor], Tensor], x_TI: Tensor, device: torch.device) -> float:
    synchronise(device)
    started = time.perf_counter()
    way(x_TI)
    synchronise(device)
    return time.perf_counter() - started


def memory_in_use(device: torch.device) -> int:
    """Memory of this process now, in bytes: of the GPU, or resident on a CPU.

    On systems that do not report resident memory (all but Linux), the peak so far.
    """
    if device.type == "cuda":
        return torch.cuda.memory_reserved(device)
    return resident() or peak_memory(device)


def peak_memory(device: torch.device) -> int:
    """Largest memory of this process so far, in bytes: of the GPU, or resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    # On Linux getrusage also counts the peak of the parent process.
    if most := highest():
        return most
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def processor_name() -> str:
    """Name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        if named:
            return named[1].strip()
    return platform.processor() or platform.machine()


def instruction_sets() -> list[str]:
    """The processor's subset of `INSTRUCTIONS`; empty if torch does not report them."""
    there = _capabilities()
    return [name for key, name in INSTRUCTIONS.items() if there.get(key)]


def _capabilities() -> Mapping[str, Any]:
    # Older versions of torch do not report them.
    there: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return there


def describe(device: torch.device) -> dict[str, Any]:
    """The device and the versions that a measurement depends on."""
    name = processor_name()
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "device": name,
        "processor": processor_name(),
        "instruction_sets": instruction_sets(),
        "cores": _capabilities().get("num_physical_cores"),
        "logical_cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "albert_rc": __version__,
    }


def measured(device: str | None) -> dict[str, Any]:
    """Description of the machine, with its matrix product rate in each supported precision."""
    with processes(device) as group:
        precisions = (
            ["fp32"] + ["bf16"] * has_bf16(group.device) + ["int8"] * has_int8(group.device)
        )
        rates = {name: matrix_rate(name, group.device, repeats=2) for name in precisions}
        return describe(group.device) | {"matrix_flops_per_second": rates}


if __name__ == "__main__":
    settings = parse_json(sys.stdin.buffer.read())
    sys.stdout.buffer.write(to_json(measured(settings["device"]), indent=False))
