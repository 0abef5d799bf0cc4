"""The definition of a measurement: implementation, work and items."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any

from albert_rc.errors import UsageError
from albert_rc.fields import LARGEST_BATCH, MOST, Setting, check

WORKS = ("train", "predict", "pretrain")


@dataclass(frozen=True, kw_only=True)
class Job:
    """One measurement: implementation, work and items. Sent to its process as JSON."""

    who: str
    """Implementation: ours, transformers or transformers-best."""
    work: str
    """One of `WORKS`."""
    size: Annotated[
        str,
        Setting(
            "tiny, base (the default), large, xlarge, xxlarge, bert-base, ...; random weights."
        ),
    ] = "base"
    model: Annotated[
        str | None,
        Setting(
            "Instead of --size: folder or hub id whose config.json gives the shape, its "
            "vocabulary's size and dropout; random weights."
        ),
    ] = None
    precision: Annotated[
        str,
        Setting(
            "Ours: fp32, bf16, fp16 or int8 (default: as for train and predict).",
            choices=("fp32", "bf16", "fp16", "int8"),
        ),
    ] = "fp32"
    batch_size: Annotated[
        int,
        Setting(
            "Passages of a step (default: 2), or sequences of bench pretrain (default: 32).",
            low=1, high=LARGEST_BATCH,
        ),
    ] = 2  # fmt: skip
    steps: Annotated[
        int,
        Setting(
            "Batches that are timed; memory is shown after 10, 25, 50 and 100% of them (default: "
            "8). With resume: steps of each run (default: 12).", low=1, high=MOST,
        ),
    ] = 8  # fmt: skip
    data: Annotated[str | None, Setting("A cloze store; random tokens without one.")] = None
    dropout: Annotated[
        float | None,
        Setting(
            "In training: of the layers and attention (default: the shape's own).",
            low=0, high=1, below=True,
        ),
    ] = None  # fmt: skip
    length: Annotated[
        int | None,
        Setting(
            "Tokens of every passage or sequence of random tokens. By default passages vary around "
            "384 as exam papers do, and sequences of pretrain have 256, one in ten fewer.",
            low=8, high=512,
        ),
    ] = None  # fmt: skip
    device: Annotated[str | None, Setting("cpu or cuda.")] = None
    recompute: Annotated[
        str | None,
        Setting("Ours, in training: nothing, activations or layers (default: as train chooses)."),
    ] = None
    optimizer_states: Annotated[str | None, Setting("Ours, in training: fp32 or 8bit.")] = None
    memory: Annotated[
        str | None, Setting("Ours, in training: memory to plan for, such as 8GiB.")
    ] = None
    keep_freed: bool = True
    """Whether ours, on a CPU, uses `heap.keep_freed_memory`, as the commands do."""
    busy: int = 0
    """Processes that keep one core busy each during the measurement."""
    seed: int = 0

    def __post_init__(self) -> None:
        check(self)
        if self.work not in WORKS:
            raise UsageError(f"bench {self.work}: choose from {', '.join(WORKS)}")

    @property
    def unit(self) -> str:
        """Name of an item."""
        return "sequences" if self.work == "pretrain" else "passages"

    @property
    def learns(self) -> bool:
        """Whether the work is training."""
        return self.work != "predict"

    def to_json(self) -> dict[str, Any]:
        """The job as plain values."""
        return asdict(self)
