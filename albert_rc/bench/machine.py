"""What the machine is and how fast it multiplies: the measure that all else is held against."""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc import __version__
from albert_rc.model.products import DTYPES, Prepared

ROWS, INPUTS, OUTPUTS = 704, 4096, 16384  # two ELE passages through xxlarge's feed-forward
GPU_ROWS = 8192


def synchronise(device: torch.device) -> None:
    """Wait for the device's work to be done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matrix_rate(precision: str, device: torch.device, repeats: int = 5) -> float:
    """Operations per second of a large matrix product, by the fastest way that we know here.

    Args:
        precision: fp32, bf16, fp16 or int8.
        device: to measure.
        repeats: the fastest of so many counts.
    """
    rows = GPU_ROWS if device.type == "cuda" else ROWS
    x_TI = torch.randn(rows, INPUTS, device=device, dtype=DTYPES[precision])
    linear = nn.Linear(INPUTS, OUTPUTS, device=device, dtype=DTYPES[precision])
    prepared = Prepared([linear], precision, learning=False)
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


def peak_memory(device: torch.device) -> int:
    """Largest memory of this process so far, in bytes: of the GPU, or resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    # What getrusage says counts the peak of the process that began this one, too, on Linux.
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak(device: torch.device) -> None:
    """Let `peak_memory` begin anew from what is in use now.

    Where the system cannot do that (only Linux can), it goes on from the highest so far.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def processor_name() -> str:
    """What the processor calls itself."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        if named:
            return named[1].strip()
    return platform.processor() or platform.machine()


def describe(device: torch.device) -> dict[str, Any]:
    """The device and the versions that a figure depends on."""
    name = processor_name()
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "albert_rc": __version__,
    }
