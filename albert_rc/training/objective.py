"""The interface of training objectives: batches, losses and evaluation."""

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
from albert_rc.training.identity import OF_MODEL

BatchT = TypeVar("BatchT", bound=Tokens)


@dataclass(frozen=True, kw_only=True)
class DevScore:
    """Evaluation of the weights on held-out data."""

    score: float
    """Score that selects the best weights; higher is better."""
    values: dict[str, Any]
    """Figures for metrics.jsonl."""
    line: str
    """Sentence for the user."""


def attention_of(compute: Compute) -> str:
    """Attention type and settings, for `identity`."""
    return "dense" if compute.attention == "dense" else f"{compute.attention} {compute.lsh}"


class Objective(ABC, Generic[BatchT]):
    """A training objective, as the loop uses it.

    Losses are sums, divided by `counts` of the whole global batch. The loop adds up both over
    micro-batches and processes, so their number affects only rounding.
    """

    model: HeadedModel
    tokenizer: Tokenizer
    order: BatchOrder
    """Which items make up each batch."""
    unit: str
    """Name of the items of a batch, in messages."""
    score_name: str = "accuracy"
    """Name in messages of the score that selects the best weights."""
    num_sums: int
    """Number of sums that `losses` returns."""
    num_counts: int
    """Number of counts that `counts` returns."""
    answer_names: Sequence[str] = ()
    """Names of the answers that `vitals` counts, in order; letters if empty."""
    origin: str | None = None
    """Identifier of the weights that the run started from; None for random ones."""

    @property
    def encoder(self) -> Encoder:
        """The model's encoder."""
        return self.model.encoder

    def begin(self) -> None:
        """Called once, before anything else, when the model is on its device."""

    @abstractmethod
    def batch(self, items: Sequence[int], epoch: int) -> BatchT:
        """The batch of these items."""

    @abstractmethod
    def counts(self, batch: BatchT) -> list[int]:
        """Divisors of the summed losses; added up over the global batch."""

    @abstractmethod
    def losses(self, batch: BatchT, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The loss to minimise, and sums to report, [N].

        Args:
            batch: on the model's device.
            counts: the global batch's, each at least 1.
        """

    @abstractmethod
    def report(self, sums: Sequence[float], counts: Sequence[float]) -> dict[str, float]:
        """Metrics of some steps, including `loss` and, if answers are known, `accuracy`."""

    def vitals(self, sums: Sequence[float], counts: Sequence[float]) -> Vitals:
        """Health statistics of one step."""
        return Vitals(self.report(sums, counts)["loss"])

    @abstractmethod
    def evaluate(self, processes: Processes) -> DevScore | None:
        """Evaluate the weights; None without held-out data."""

    def save(self, folder: Path) -> None:
        """Write the model in the format that `load_model` opens."""
        save_model(self.model, self.tokenizer, folder)

    def identity(self) -> dict[str, Any]:
        """Properties that must match on resuming, by name."""
        return {
            "--attention": attention_of(self.encoder.compute),
            "model shape": asdict(self.model.config),
            OF_MODEL: self.origin,
        }


def stores_identity(train: Store, dev: Store | None) -> dict[str, Any]:
    """Fingerprints of a run's stores, for `identity`."""
    return {
        name: None if store is None else store.identity
        for name, store in (("train store", train), ("dev store", dev))
    }
