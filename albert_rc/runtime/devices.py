"""Devices, precision, and groups of processes."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from albert_rc.errors import Interrupted, UsageError
from albert_rc.io.messages import counted, quoted
from albert_rc.runtime.heap import resident
from albert_rc.runtime.heartbeat import Watch
from albert_rc.runtime.pool import ResultT, TaskT
from albert_rc.runtime.waiting import adapted

Model = TypeVar("Model")
PRECISIONS = ("fp32", "bf16", "fp16", "int8")
_OF_TORCHRUN = ("RANK", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Processes:
    """The process group as seen by this process; a single process by default."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    def share(self, tasks: Sequence[TaskT]) -> Sequence[TaskT]:
        """This process's part of tasks that do not depend on each other."""
        return tasks[self.rank :: self.world]

    def each(
        self, work: Callable[[Model, TaskT], ResultT], model: Model, tasks: Iterable[TaskT]
    ) -> Iterator[tuple[TaskT, ResultT]]:
        """Run a model on tasks, one after the other.

        Args:
            work: a function of a module, without state, of the model and a task.
            model: in `evaluating`.
            tasks: this process's; read when they are needed.
        """
        for task in tasks:
            yield task, work(model, task)

    def sum(self, *tensors: Tensor) -> None:
        """Replace each tensor by its sum over all processes, in one message per data type."""
        if self.world == 1:
            return
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            by_type.setdefault(tensor.dtype, []).append(tensor)
        for group in by_type.values():
            flat = torch.cat([tensor.flatten() for tensor in group])
            dist.all_reduce(flat)
            for tensor, part in zip(
                group, torch.split(flat, [t.numel() for t in group]), strict=True
            ):
                tensor.copy_(part.view_as(tensor))

    def summed(self, *tensors: Tensor) -> list[Tensor]:
        """Each tensor's sum over all processes, on the CPU."""
        on_device = [tensor.to(self.device) for tensor in tensors]
        self.sum(*on_device)
        return [tensor.cpu() for tensor in on_device]

    def gather(self, parts: list[Any]) -> list[Any]:
        """The lists of all processes, concatenated."""
        if self.world == 1:
            return parts
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, parts)
        return [part for one in found for part in one]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        if self.world == 1:
            return flag
        count = torch.tensor(int(flag), device=self.device)
        self.sum(count)
        return bool(count)

    def least(self, number: int) -> int:
        """The minimum over all processes."""
        if self.world == 1:
            return number
        smallest = torch.tensor(number, dtype=torch.int64, device=self.device)
        dist.all_reduce(smallest, dist.ReduceOp.MIN)
        return int(smallest)

    def copy_from_main(self, tensors: list[Tensor]) -> None:
        """Broadcast the main process's values, in place."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def from_main(self, value: Any) -> Any:
        """Broadcast a value from the main process."""
        if self.world == 1:
            return value
        shared = [value]
        dist.broadcast_object_list(shared, 0)
        return shared[0]

    def wait(self) -> None:
        """Barrier: wait for all processes."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def processes(device: str | None = None, considerate: bool = True) -> Iterator[Processes]:
    """Join the process group that torchrun started (nccl, or gloo on CPU), or run alone.

    Args:
        device: `cpu` or `cuda`; a GPU where there is one by default.
        considerate: whether on a CPU waiting threads leave the cores to others, see `waiting`.
    """
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", kind):
        raise UsageError(f"--device {kind}: choose cpu or cuda")
    if kind.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"--device {kind}: no GPU was found; leave the option out")
    number, gpus = kind.removeprefix("cuda:"), torch.cuda.device_count()
    if number.isdecimal() and int(number) >= gpus:
        raise UsageError(f"--device {kind}: {counted(gpus, 'GPU')} found, and they count from 0")
    with adapted() if considerate and kind == "cpu" else nullcontext():
        yield from _joined(kind)


def _number_of_processes() -> int:
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"WORLD_SIZE is {quoted(text)}; unset it, or start with torchrun")
    missing = [name for name in _OF_TORCHRUN if name not in os.environ]
    if int(text) > 1 and missing:
        raise UsageError(
            f"WORLD_SIZE is {text}, but not set: {', '.join(missing)}; unset WORLD_SIZE, or start "
            "with torchrun"
        )
    return int(text)


def release_unused(device: torch.device) -> None:
    """Free what nobody uses any more, such as the model and the moments of an earlier run.

    Objects that refer to each other are only freed by the garbage collector, which may not run for
    a long time, because models are few objects.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _joined(kind: str) -> Iterator[Processes]:
    world = _number_of_processes()
    if world == 1:
        if kind == "cuda":  # some of torch's functions want an index
            kind = f"cuda:{torch.cuda.current_device()}"
        elif kind.startswith("cuda:"):  # pinned memory belongs to the current GPU
            torch.cuda.set_device(kind)
        yield Processes(torch.device(kind))
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if kind.startswith("cuda:"):
        raise UsageError(
            f"--device {kind}: with torchrun each process has its own GPU; give --device cuda"
        )
    if kind == "cuda":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", world)), torch.cuda.device_count()
        if here > gpus:
            raise UsageError(
                f"{here} processes but {counted(gpus, 'GPU')} on this machine; "
                "start as many processes as GPUs, or give --device cpu"
            )
        kind = f"cuda:{local}"
        torch.cuda.set_device(local)
    store, rank, world = next(rendezvous("env://"))
    watch = Watch(PrefixStore("watch", store.clone()), rank, world)
    dist.init_process_group(
        "nccl" if kind.startswith("cuda") else "gloo", store=store, rank=rank, world_size=world
    )
    try:
        yield Processes(torch.device(kind), rank, world)
        dist.barrier()  # gloo aborts if one process leaves while another still listens
        watch.end()
    except BaseException as error:
        verdict = None
        if _is_lost_message(error):
            # torchrun stops this process too when another dies; first report which one.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            verdict = watch.verdict()
        watch.end(error)
        if verdict is not None:
            raise UsageError(verdict) from None
        raise
    finally:
        dist.destroy_process_group()


def _is_lost_message(error: BaseException) -> bool:
    """Whether an error may be caused by the end of another process."""
    return isinstance(error, (dist.DistError, Interrupted)) or (
        isinstance(error, RuntimeError) and "gloo" in str(error)
    )


def device_of(model: torch.nn.Module) -> torch.device:
    """The device of a model's weights."""
    return next(model.parameters()).device


def free_memory(device: torch.device) -> int:
    """Bytes that this process may use: on the GPU, or on the machine within its cgroup limit.

    Memory that this process already holds counts as free.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    held, meminfo = resident(), Path("/proc/meminfo")
    if meminfo.is_file():
        available = re.search(r"^MemAvailable:\s*(\d+) kB", meminfo.read_text(), re.MULTILINE)
        limits += [int(available[1]) * 1024 + held] if available else []
    for folder in _cgroups():
        within = _free_in_cgroup(folder)
        limits += [] if within is None else [within + held]
    return min(limits)


def _cgroups(listed: Path = Path("/proc/self/cgroup")) -> list[Path]:
    """Folders of the control groups that this process is in, with all those around them.

    Batch systems such as Slurm limit a job's own group, deep below the mount.
    """
    root = Path("/sys/fs/cgroup")
    found = [root, root / "memory"]
    try:
        lines = listed.read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, inside = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        base = root / "memory" if controllers else root
        parts = [part for part in inside.split("/") if part not in ("", "..")]
        found += [base.joinpath(*parts[: n + 1]) for n in range(len(parts))]
    return found


def _free_in_cgroup(folder: Path) -> int | None:
    """Bytes that a control group may still take, or None if it has no limit.

    Cached files that are not in use do not count as taken, since the system gives them up; see
    "Memory Interface Files" in Linux's documentation of control groups, version 2 and version 1.
    """
    for names in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, usage = folder / names[0], folder / names[1]
        if limit.is_file() and usage.is_file() and (most := limit.read_text().strip()).isdigit():
            stat = folder / "memory.stat"
            cached = re.search(rf"^{names[2]} (\d+)$", stat.read_text(), re.MULTILINE)
            return int(most) - int(usage.read_text()) + (int(cached[1]) if cached else 0)
    return None


def be_deterministic() -> None:
    """Make torch deterministic, or raise if it cannot be; call before a GPU is used.

    The settings follow torch's notes on reproducibility.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def limit_memory(device: torch.device, budget: int) -> None:
    """Limit the GPU's allocator to the budget. Has no effect on a CPU."""
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, budget / total), device)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    said = str(error)
    # Libraries that map files, such as safetensors, raise their own error with the system's text.
    return "Cannot allocate memory" in said or (
        isinstance(error, RuntimeError)
        and (
            "out of memory" in said
            or "can't allocate memory" in said
            # oneDNN gives no reason; errors about descriptors mean unsupported operations.
            or bool(re.search(r"could not create a (?:primitive|memory)(?! desc)", said))
        )
    )


def has_bf16(device: torch.device) -> bool:
    """Whether the device has native bf16 products, not emulated ones."""
    if device.type == "cuda":
        with torch.cuda.device(device):  # the question is about the current one
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return any(map(cpu_reports, ("avx512_bf16", "amx_tile", "arm_bf16")))


@cache
def has_matrix_units(dtype: torch.dtype) -> bool:
    """Whether the processor multiplies matrices of this type in units of their own (AMX)."""
    return dtype == torch.bfloat16 and cpu_reports("amx_tile")


def cpu_reports(instructions: str) -> bool:
    """Whether the processor has these instructions, such as `amx_tile`, by torch's names."""
    # A private interface, so a missing attribute counts as no.
    return bool(getattr(torch.cpu, f"_is_{instructions}_supported", bool)())


def choose_precision(precision: str | None, device: torch.device, learning: bool = False) -> str:
    """The precision of computation: as requested, or bf16 if the device has it, else fp32.

    Args:
        precision: the request, or None.
        device: the device.
        learning: whether for training, which int8 does not support.

    Raises:
        UsageError: unknown, or not supported here.
    """
    if precision is None:
        return "bf16" if has_bf16(device) else "fp32"
    known = tuple(p for p in PRECISIONS if not learning or p != "int8")
    if precision not in known:
        raise UsageError(f"--precision {precision}: choose from {', '.join(known)}")
    if precision == "fp16" and device.type == "cpu":
        raise UsageError("--precision fp16 needs a GPU; use bf16 or fp32 here")
    return precision
