"""Ways to read some questions a second time, for more accurate answers.

A way is chosen with `--option-score`, or in the config.json of a model that gains from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from albert_rc.answering.excerpts import averaged, with_excerpts
from albert_rc.answering.pieces import readings, rescored, too_long
from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.answering.score import score
from albert_rc.errors import UsageError
from albert_rc.io.messages import listed
from albert_rc.model.config import READ_AGAIN, READ_ONCE
from albert_rc.model.heads import HeadedModel, ReadingModel
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

_PAPERS = {"cloze": "cloze papers", "choice": "questions with options"}


class Rescore(Protocol):
    """Reads again; see `rescored` and `averaged`."""

    def __call__(
        self,
        scored_QK: Tensor,
        processes: Processes,
        *,
        token_budget: int,
        progress: Callable[[int], None] | None = None,
    ) -> Tensor:
        """[Q, K] log-probabilities of the options, from those of the first reading."""
        ...


@dataclass(frozen=True)
class SecondReading:
    """The second reading of a store's questions."""

    title: str
    """For a progress bar."""
    count: int
    """What is read: windows, or questions."""
    rescore: Rescore
    left: tuple[str, ...] = ()
    """Questions that should be read again but cannot be."""

    @property
    def warning(self) -> str | None:
        """A sentence about the questions that are left out, if there are some."""
        if not self.left:
            return None
        return (
            "the model's window is too short for some options; their blanks are read only once:"
            f"{listed(list(self.left))}"
        )


def way_of(model: HeadedModel, given: str | None) -> str | None:
    """The way to read again: the given one, else the model's own; None to read once."""
    way = model.read_again if given is None else given
    return None if way == READ_ONCE else way


def require_way(model: ReadingModel, store: Store, way: str | None) -> None:
    """Refuse a store that cannot be read again in this way.

    Raises:
        UsageError: unknown way, or one for another kind of questions.
    """
    if way is None:
        return
    if way not in READ_AGAIN:
        raise UsageError(f"--option-score {way}: choose from {', '.join((READ_ONCE, *READ_AGAIN))}")
    if READ_AGAIN[way] != store.kind or store.kind != model.task:
        raise UsageError(f"--option-score {way} is for {_PAPERS[READ_AGAIN[way]]}; leave it out")


def read(
    model: ReadingModel,
    tokenizer: Tokenizer,
    store: Store,
    processes: Processes,
    way: str | None,
    token_budget: int = TOKEN_BUDGET,
) -> tuple[Tensor, str | None]:
    """Read a store's questions once, or twice if there is a way; without showing progress.

    Args:
        model: on the processes' device.
        tokenizer: the model's.
        store: the store to answer.
        processes: the ranks that share the work.
        way: see `way_of` and `require_way`.
        token_budget: tokens of a batch.

    Returns:
        [Q, K] as from `score`, and a warning about questions that are read only once.
    """
    scored_QK = score(model, tokenizer, store, processes, token_budget=token_budget)
    if way is None:
        return scored_QK, None
    second = second_reading(model, tokenizer, store, way)
    return second.rescore(scored_QK, processes, token_budget=token_budget), second.warning


def second_reading(
    model: ReadingModel, tokenizer: Tokenizer, store: Store, way: str
) -> SecondReading:
    """Prepare a second reading.

    Args:
        model: on its device.
        tokenizer: the model's.
        store: the store that is answered.
        way: a key of `READ_AGAIN` for such a store; see `require_way`.
    """
    if READ_AGAIN[way] == "cloze":
        longest = model.config.max_length
        windows = readings(store, tokenizer, longest)
        return SecondReading(
            "scoring options of several words",
            len(windows),
            partial(rescored, model, windows),
            tuple(too_long(store, longest)),
        )
    excerpts, again_Q = with_excerpts(store, tokenizer)
    return SecondReading(
        "reading excerpts of long passages",
        len(again_Q),
        partial(averaged, model, tokenizer, excerpts, again_Q),
    )
