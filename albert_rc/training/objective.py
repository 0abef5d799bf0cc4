"""What a run learns: where its batches come from, what they lose, and how good the weights are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor

from albert_rc.batch import Tokens
from albert_rc.checkpoints.load import save_model
from albert_rc.model.config import Compute
from albert_rc.model.encoder import Encoder
from albert_rc.model.heads import HeadedModel
from albert_rc.runtime.devices import Processes
from albert_rc.stores.batches import BatchOrder
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer
from albert_rc.training.health.vitals import Vitals

Kind = TypeVar("Kind", bound=Tokens)


@dataclass(frozen=True, kw_only=True)
class DevScore:
    """How good the weights are on held-out data."""

    score: float
    """Higher is better: decides which weights are kept."""
    values: dict[str, Any]
    """For metrics.jsonl."""
    line: str
    """For people."""


def attention_of(compute: Compute) -> str:
    """Attention and its settings, for `identity`."""
    return "dense" if compute.attention == "dense" else f"{compute.attention} {compute.lsh}"


class Objective(ABC, Generic[Kind]):
    """What the loop asks of a kind of training.

    Losses are sums, divided by what `counts` says of the whole global batch: so micro-batches and
    processes, over which the loop adds up both, change nothing but rounding.
    """

    model: HeadedModel
    tokenizer: Tokenizer
    order: BatchOrder
    """Which items make up each batch."""
    unit: str = "passages"
    """What an item is, for people."""
    score_name: str = "accuracy"
    """What decides which weights are kept, for people."""
    num_sums: int
    """Length of what `losses` sums up."""
    num_counts: int
    """Length of what `counts` gives."""

    @property
    def encoder(self) -> Encoder:
        """The model's."""
        return self.model.encoder

    def begin(self) -> None:
        """The model is on its device; called once, before anything else."""

    @abstractmethod
    def batch(self, items: Sequence[int], epoch: int) -> Kind:
        """The batch of these items."""

    @abstractmethod
    def counts(self, batch: Kind) -> list[int]:
        """What the sums of the losses will be divided by, over the global batch."""

    @abstractmethod
    def losses(self, batch: Kind, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The loss to descend, and sums to report, [N].

        Args:
            batch: on the model's device.
            counts: those of the global batch, each at least 1.
        """

    @abstractmethod
    def report(self, sums: Sequence[float], counts: Sequence[float]) -> dict[str, float]:
        """Figures of some steps, `loss` and `accuracy` among them."""

    def vitals(self, sums: Sequence[float], counts: Sequence[float]) -> Vitals:
        """What one step says about the health of the run."""
        return Vitals(self.report(sums, counts)["loss"])

    @abstractmethod
    def evaluate(self, processes: Processes) -> DevScore | None:
        """How good the weights are; None where there is nothing to tell it by."""

    def save(self, folder: Path) -> None:
        """Write the model, to be opened by `load_model`."""
        save_model(self.model, self.tokenizer, folder)

    def identity(self) -> dict[str, Any]:
        """What a run must not change when it is resumed, by what it is called."""
        return {
            "--attention": attention_of(self.encoder.compute),
            "model shape": asdict(self.model.config),
        }


def stores_identity(train: Store, dev: Store | None) -> dict[str, Any]:
    """What tells the stores of a run from others, for `identity`."""
    keys = ("split", "source_hash", "vocabulary", "max_length")
    return {
        name: None if store is None else {key: store.meta[key] for key in keys}
        for name, store in (("train store", train), ("dev store", dev))
    }
