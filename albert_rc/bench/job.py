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
            "Size of the model, with random weights: tiny, base (the default), large, xlarge, "
            "xxlarge, bert-base, ..."
        ),
    ] = "base"
    model: Annotated[
        str | None,
        Setting(
            "Instead of --size: folder or hub id whose config.json gives the shape, vocabulary "
            "size and dropout. The weights are random."
        ),
    ] = None
    precision: Annotated[
        str,
        Setting(
            "Precision of albert-rc: fp32, bf16, fp16 or int8 (default: as in train and predict).",
            choices=("fp32", "bf16", "fp16", "int8"),
        ),
    ] = "fp32"
    batch_size: Annotated[
        int,
        Setting(
            "Passages per step (default: 2), or sequences for bench pretrain (default: 32).",
            low=1, high=LARGEST_BATCH,
        ),
    ] = 2  # fmt: skip
    steps: Annotated[
        int,
        Setting(
            "Number of batches to time (default: 8); memory is shown after 10, 25, 50 and 100% of "
            "them. With resume: steps of each run (default: 12).", low=1, high=MOST,
        ),
    ] = 8  # fmt: skip
    data: Annotated[str | None, Setting("A store of cloze papers (default: random tokens).")] = None
    dropout: Annotated[
        float | None,
        Setting(
            "Training: dropout of layers and attention weights (default: the model's own).",
            low=0, high=1, below=True,
        ),
    ] = None  # fmt: skip
    length: Annotated[
        int | None,
        Setting(
            "Length of all passages or sequences of random tokens. By default, lengths of passages "
            "vary around 384 tokens as in exam papers; pretraining sequences have 256 tokens, one "
            "in ten fewer.",
            low=8, high=512,
        ),
    ] = None  # fmt: skip
    device: Annotated[
        str | None, Setting("Device to compute on: cpu or cuda (default: cuda if there is one).")
    ] = None
    recompute: Annotated[
        str | None,
        Setting(
            "Training, albert-rc: what the backward pass recomputes: nothing, activations or "
            "layers (default: as train chooses)."
        ),
    ] = None
    optimizer_states: Annotated[
        str | None,
        Setting(
            "Training, albert-rc: the optimiser's moments: fp32 or 8bit (default: chosen to fit "
            "memory)."
        ),
    ] = None
    memory: Annotated[
        str | None,
        Setting(
            "Training, albert-rc: memory to plan for, such as 8GiB (default: all free memory)."
        ),
    ] = None
    keep_freed: bool = True
    """Whether albert-rc, on a CPU, uses `heap.keep_freed_memory`, as the commands do."""
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
