"""The memory planner: how a training step fits into the available memory.

Peak memory is predicted from the shapes; then the fastest way to compute the same step that fits is
chosen. Micro-batches and recomputation affect only rounding. Only where nothing else fits are the
optimiser's moments stored in 8 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from albert_rc.corpus.shards import Corpus
from albert_rc.errors import OutOfMemoryError
from albert_rc.io.sizes import parse_size
from albert_rc.model.config import RECOMPUTE, EncoderConfig
from albert_rc.runtime.devices import Processes, free_memory, limit_memory
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.store import Store
from albert_rc.training.config import STATES, TrainConfig
from albert_rc.training.memory.footprint import StepShape, predict_parts, task_of

GIB = 2**30
COMFORT = 0.8
"""Share of the budget above which freed memory is returned to the system."""
WORTH = 0.15
"""Share of the peak that recomputation must save to be used although the step fits without it."""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """A way to compute a training step, and its predicted memory."""

    micro_batches: int
    """Number of micro-batches in each process's share of a batch."""
    micro_items: int
    """Number of items in the largest micro-batch."""
    recompute: str
    states: str
    parts: dict[str, int]
    """Bytes by purpose."""

    @property
    def total(self) -> int:
        """Predicted peak in bytes."""
        return sum(self.parts.values())

    @property
    def varying(self) -> int:
        """Bytes that are allocated and freed within a step."""
        return self.parts["activations"] + self.parts["working"]

    def is_tight(self, budget: int) -> bool:
        """Whether this budget leaves no room for fragmentation."""
        return self.total > COMFORT * budget

    def lines(self, budget: int) -> list[str]:
        """The plan as sentences."""
        parts = ", ".join(f"{name} {size / GIB:.2f}" for name, size in self.parts.items() if size)
        cut = f"{self.micro_batches} micro-batches of at most {self.micro_items} items"
        if self.micro_batches == 1:
            cut = "whole batches"
        return [
            f"memory: {self.total / GIB:.2f} of {budget / GIB:.2f} GiB ({parts})",
            f"plan: {cut}, recompute {self.recompute}, {STATES[self.states]}",
        ]


def _cuts(items: int) -> Iterator[int]:
    """Numbers of micro-batches to try: 1, 2, 3, 4, 6, 8, ..., each giving smaller ones."""
    seen = set()
    for count in range(1, items + 1):
        piece = -(-items // count)
        if piece not in seen:
            seen.add(piece)
            yield count


@dataclass(frozen=True)
class Levers:
    """The user's choices; None is left to the planner."""

    accumulation: int | None = None
    recompute: str | None = None
    states: str | None = None

    def __post_init__(self) -> None:
        given: dict[str, Any] = {
            "accumulation": self.accumulation,
            "recompute": self.recompute,
            "optimizer_states": self.states,
        }
        TrainConfig(**{name: value for name, value in given.items() if value is not None})


def _levels(task: StepShape, levers: Levers) -> list[str]:
    """Recomputation levels to try, fastest first.

    On CPUs recomputing activations costs a few percent of a step (`docs/speed-details.md`), so they
    are kept only if they are a small part of the peak.
    """
    if levers.recompute:
        return [levers.recompute]
    if task.device == "cpu":
        piece = -(-task.items // (levers.accumulation or 1))
        tokens = sum(sorted(task.lengths, reverse=True)[:piece])
        kept, again = (
            sum(predict_parts(task, tokens, level, levers.states or "fp32").values())
            for level in ("nothing", "activations")
        )
        if kept - again >= WORTH * kept:
            return [level for level in RECOMPUTE if level != "nothing"]
    return list(RECOMPUTE)


def candidates(task: StepShape, levers: Levers) -> Iterator[MemoryPlan]:
    """Ways to compute a step, fastest first, within the user's choices."""
    lengths = sorted(task.lengths, reverse=True)
    for states in [levers.states] if levers.states else task.moments:
        for recompute in _levels(task, levers):
            for count in [levers.accumulation] if levers.accumulation else _cuts(task.items):
                piece = -(-task.items // count)
                yield MemoryPlan(
                    micro_batches=count,
                    micro_items=piece,
                    recompute=recompute,
                    states=states,
                    parts=predict_parts(task, sum(lengths[:piece]), recompute, states),
                )


def make_plan(task: StepShape, budget: int, levers: Levers | None = None) -> MemoryPlan:
    """The first candidate that fits.

    Args:
        task: the model, data and device.
        budget: memory in bytes.
        levers: the user's choices.

    Raises:
        OutOfMemoryError: none fits; states what the smallest would need.
    """
    plans = list(candidates(task, levers or Levers()))
    for plan in plans:
        if plan.total <= budget:
            return plan
    leanest = min(plans, key=lambda plan: plan.total)
    raise OutOfMemoryError(
        f"{budget / GIB:,.3g} GiB of memory are not enough even for the plan that needs least. "
        f"{'; '.join(leanest.lines(budget))}. "
        "Raise --memory if you gave it, use a smaller model, or shorter windows (--max-length of "
        "`preprocess` or `pretrain data`)"
    )


def fit(
    settings: TrainConfig,
    config: EncoderConfig,
    store: Store | Corpus,
    processes: Processes,
    memory: str | None,
    levers: Levers,
    masked_share: float = 0.0,
    attention: str = "dense",
    before: Levers | None = None,
    teacher: EncoderConfig | None = None,
) -> tuple[TrainConfig, list[str]]:
    """Settings that fit the available memory, and the plan as sentences.

    Args:
        settings: the user's settings.
        config: the encoder's shape.
        store: the training data.
        processes: the ranks that share the work.
        memory: the user's budget for each process; None for the free memory.
        levers: the user's choices.
        masked_share: share of the tokens predicted over the whole vocabulary.
        attention: a key of `ATTENTION`.
        before: the plan of the resumed run; it is reused if it fits and the user does not
            choose another, because other micro-batches round differently.
        teacher: shape of the model that reads each micro-batch too, for hidden words.

    Raises:
        OutOfMemoryError: nothing fits.
        UsageError: `memory` is not a size, or the settings are incompatible.
    """
    if levers.states is not None:
        settings = replace(settings, optimizer_states=levers.states)  # refuses some combinations
    device = processes.device
    if memory is None:
        budget = free_memory(device)
        if device.type == "cpu":
            budget //= processes.world  # assume that all of them run on this machine
    else:
        budget = parse_size("--memory", memory)
        limit_memory(device, budget)
    budget = processes.least(budget)  # one plan for all: their optimisers must match
    task = task_of(config, store, settings, processes, masked_share, attention, teacher)
    plan, said = _plan_as_before(task, budget, levers, before)
    if device.type == "cpu":
        keep_freed_memory(plan.is_tight(budget), plan.total, plan.varying)
    fitted = replace(
        settings,
        accumulation=plan.micro_batches,
        recompute=plan.recompute,
        optimizer_states=plan.states,
    )
    return fitted, [*plan.lines(budget), *said, *_unused(levers, task, config)]


def _unused(levers: Levers, task: StepShape, config: EncoderConfig) -> list[str]:
    """Messages about choices that have no effect, or not the full one."""
    said = []
    if levers.recompute == "layers" and config.residual == "reversible":
        said.append(
            "note: --recompute layers has no effect on reversible layers, which are recomputed "
            "anyway"
        )
    if levers.accumulation is not None and levers.accumulation > task.items:
        said.append(
            f"note: --accumulation {levers.accumulation} has the effect of {task.items}, because "
            "each process's share of a batch has no more items"
        )
    return said


def _plan_as_before(
    task: StepShape, budget: int, levers: Levers, before: Levers | None
) -> tuple[MemoryPlan, list[str]]:
    """The plan of the resumed run, unless the user or the memory requires another one.

    Returns:
        The plan, and a message about it.
    """
    if before is None:
        return make_plan(task, budget, levers), []
    given = {name: value for name, value in asdict(levers).items() if value is not None}
    try:
        plan = make_plan(task, budget, replace(before, **given))
    except OutOfMemoryError:
        # The moments' format cannot change during a run.
        plan = make_plan(task, budget, replace(levers, states=levers.states or before.states))
    differ = "from here on, results may differ by rounding"
    config = task.config
    dropout = max(config.dropout, config.attention_dropout, config.classifier_dropout)
    if dropout and plan.micro_batches != before.accumulation:
        differ += ", and with dropout by other masks"
    if before.accumulation is None:
        return plan, [f"note: the run continues with another number of processes; {differ}"]
    rows = (
        ("micro-batches", before.accumulation, levers.accumulation, plan.micro_batches),
        ("recompute", before.recompute, levers.recompute, plan.recompute),
    )
    changed = [row for row in rows if row[1] not in (None, row[3])]
    if not changed:
        return plan, []
    requested = all(asked == now for _, _, asked, now in changed)
    why = "as requested" if requested else "since the earlier plan does not fit this memory"
    what = "; ".join(f"{name} {was} before, {now} now" for name, was, _, now in changed)
    return plan, [
        f"note: the memory plan differs from the run's earlier one, {why} ({what}); {differ}"
    ]
