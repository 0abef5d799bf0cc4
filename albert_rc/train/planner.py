"""Plans how a training step fits into the memory at hand, before the first one is taken.

Peak memory is predicted from the shape; then the fastest way to compute the same step that fits is
chosen. Micro-batches and recomputation change nothing but rounding. Only where nothing else fits
are the optimiser's moments kept in 8 bits, or on the processor's side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from albert_rc.config import RECOMPUTE, EncoderConfig, TrainConfig, parse_size
from albert_rc.costs import encoder_parameters, layer_matrices
from albert_rc.data.corpus import Corpus
from albert_rc.data.shards import Store
from albert_rc.devices import Processes, free_memory, keep_freed_memory, limit_memory
from albert_rc.errors import OutOfMemoryError, UsageError
from albert_rc.model.products import ROWS
from albert_rc.model.word_loss import block_rows
from albert_rc.train.parallel import count_shards

GIB = 2**30
STATES = {
    "fp32": "AdamW's moments in fp32",
    "8bit": "AdamW's moments in 8 bits (torchao)",
    "cpu": "AdamW's moments, and its step, in the processor's memory (torchao)",
}
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}

# What is there before any tensor: Python, torch and its libraries, resident; a CUDA context.
RUNTIME = {"cpu": 400 * 2**20, "cuda": 600 * 2**20}
# What stays of the compiler that torchao's step of 8-bit moments is made by, in the same process.
COMPILER = 300 * 2**20
# Freed blocks of other lengths that the allocator holds back: measured, see docs/experiments.md.
SLACK = {"cpu": 1.15, "cuda": 1.08}
COMFORT = 0.8
"""Share of a budget that a plan may fill before freed memory is handed back."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A way to take a training step, and what it is predicted to need."""

    micro_batches: int
    """Pieces that each process cuts its share of a batch into."""
    micro_items: int
    """Items of the largest of them."""
    recompute: str
    states: str
    parts: dict[str, int]
    """Bytes by purpose."""

    @property
    def total(self) -> int:
        """Predicted peak in bytes."""
        return sum(self.parts.values())

    def is_tight(self, budget: int) -> bool:
        """Whether so many bytes leave no room for freed memory in pieces."""
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


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a plan is made for."""

    config: EncoderConfig
    lengths: Sequence[int]
    """Tokens of each item of the data, all its sequences together."""
    longest: int
    """Tokens of the longest sequence."""
    items: int
    """Items of a process's share of a batch."""
    precision: str
    device: str
    """cpu or cuda."""
    masked_share: float = 0.0
    """Share of the words that the auxiliary loss asks for."""
    join: int = 1
    attention: str = "dense"
    shards: int = 1
    """Processes that the weights and the optimiser's moments are divided among."""


def task_of(
    config: EncoderConfig,
    store: Store | Corpus,
    settings: TrainConfig,
    processes: Processes,
    masked_share: float = 0.0,
    attention: str = "dense",
) -> Task:
    """The task of training a model of this shape on a store."""
    items = -(-settings.batch_size // processes.world)
    # Of millions of items only the longest matter: those that could meet in one micro-batch.
    longest = store.tokens.topk(min(items, len(store.tokens))).values
    return Task(
        config=config,
        lengths=longest.tolist(),
        longest=int(store.lengths.max()),
        items=items,
        precision=settings.precision,
        device=processes.device.type,
        masked_share=masked_share,
        join=settings.join,
        attention=attention,
        shards=count_shards(settings.parallel, processes),
    )


def predict_parts(task: Task, tokens: int, recompute: str, states: str) -> dict[str, int]:
    """Bytes that a training step holds at its fullest, by purpose.

    Args:
        task: the model, the data, the device.
        tokens: of the largest micro-batch.
        recompute: a key of `RECOMPUTE`.
        states: a key of `STATES`.
    """
    config, wide = task.config, task.config.ffn_size
    hidden, size = config.hidden_size, BYTES[task.precision]
    on_cpu = task.device == "cpu"
    parameters = encoder_parameters(config)
    matrices = layer_matrices(config)
    # A layer keeps its input, q, k, v, what attention mixed, two sums before norms, and the
    # feed-forward's input, then the feed-forward's inside before and after the activation. On
    # CPUs attention's weights come on top; GPUs compute them again.
    one_layer = tokens * (8 * hidden + wide) * size
    if task.attention != "dense":
        # What is hashed, sorted and mixed in fp32, and the block of logits that is at work.
        one_layer += tokens * 3 * 4 * hidden
    elif on_cpu:
        one_layer += tokens * task.longest * config.num_heads * size
    layers = config.num_layers * config.inner_layers
    kept = {
        "nothing": layers * (one_layer + tokens * wide * size),
        "activations": layers * one_layer,
        "layers": layers * tokens * hidden * size + one_layer + tokens * wide * size,
    }[recompute]
    # In the backward pass: gradients of the feed-forward's inside, rows of one matrix's gradient
    # that are about to be added, and pairs that wait for their joined product.
    working = tokens * (2 * wide + 4 * hidden) * size + ROWS * wide * (size + 4)
    working += (task.join - 1) * tokens * (2 * wide + 8 * hidden) * size
    # The head: logits over the vocabulary at hidden words, gradients of the word embeddings.
    rows = block_rows(config.vocab_size, task.device)
    head = 2 * 4 * config.vocab_size * min(int(task.masked_share * tokens), rows)
    head += 3 * 4 * config.vocab_size * config.embedding_size
    prepared = matrices * size * (2 if on_cpu else task.precision != "fp32")
    # In a step the weights are whole once more, and so are the gradients until the backward pass
    # is over: with shared layers none is complete before. Their parts come when the whole ones go.
    parts = {
        "weights": 4 * parameters // task.shards,
        "gathered": 4 * parameters * (task.shards > 1),
        "gradients": 4 * parameters,
        "optimiser": {"fp32": 8, "8bit": 2, "cpu": 0}[states] * parameters // task.shards,
        "matrices": prepared,
        "activations": kept,
        "working": working + head,
    }
    if states == "cpu" and on_cpu:
        parts["optimiser"] = 8 * parameters
    if states == "8bit" and on_cpu:
        parts["optimiser"] += COMPILER
    slack = SLACK[task.device]
    parts["activations"] = int(parts["activations"] * slack)
    parts["working"] = int(parts["working"] * slack)
    return parts | {"runtime": RUNTIME[task.device]}


def _cuts(items: int) -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, ...: counts that a share can be cut into, each a smaller piece."""
    seen = set()
    for count in range(1, items + 1):
        piece = -(-items // count)
        if piece not in seen:
            seen.add(piece)
            yield count


@dataclass(frozen=True)
class Levers:
    """What the user decided instead of the planner; None is left to it."""

    accumulation: int | None = None
    recompute: str | None = None
    states: str | None = None

    def __post_init__(self) -> None:
        if self.accumulation is not None and self.accumulation < 1:
            raise UsageError(f"--accumulation {self.accumulation} must be at least 1")
        if self.recompute is not None and self.recompute not in RECOMPUTE:
            raise UsageError(f"--recompute {self.recompute}: choose from {', '.join(RECOMPUTE)}")
        if self.states is not None and self.states not in STATES:
            raise UsageError(f"--optimizer-states {self.states}: choose from {', '.join(STATES)}")


def candidates(task: Task, levers: Levers) -> Iterator[Plan]:
    """Ways to take a step, the fastest first; what the user decided is kept to."""
    lengths = sorted(task.lengths, reverse=True)
    free = [s for s in STATES if s != "cpu" or task.device != "cpu"]
    if task.shards > 1:
        free = ["fp32"]
    for states in [levers.states] if levers.states else free:
        for recompute in [levers.recompute] if levers.recompute else RECOMPUTE:
            for count in [levers.accumulation] if levers.accumulation else _cuts(task.items):
                piece = -(-task.items // count)
                yield Plan(
                    micro_batches=count,
                    micro_items=piece,
                    recompute=recompute,
                    states=states,
                    parts=predict_parts(task, sum(lengths[:piece]), recompute, states),
                )


def make_plan(task: Task, budget: int, levers: Levers | None = None) -> Plan:
    """The first way that fits.

    Args:
        task: what to plan for.
        budget: bytes.
        levers: what the user decided.

    Raises:
        OutOfMemoryError: none fits; says what the leanest would need.
    """
    plans = list(candidates(task, levers or Levers()))
    for plan in plans:
        if plan.total <= budget:
            return plan
    leanest = min(plans, key=lambda plan: plan.total)
    raise OutOfMemoryError(
        f"--memory {budget / GIB:.2f}GiB: even the leanest plan needs more. "
        f"{'; '.join(leanest.lines(budget))}. "
        "Take a smaller model, or shorter windows (preprocess --max-length)"
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
) -> tuple[TrainConfig, list[str]]:
    """Settings that fit the memory at hand, and the plan as sentences.

    Args:
        settings: what the user asked for.
        config: the encoder's shape.
        store: what is trained on.
        processes: who works along.
        memory: the budget of each process as the user gave it; what is free where None.
        levers: what the user decided.
        masked_share: share of the tokens that are asked for over the whole vocabulary.
        attention: a key of `ATTENTION`.

    Raises:
        OutOfMemoryError: nothing fits.
        UsageError: `memory` is no size, or what was asked for does not go together.
    """
    if levers.states is not None:
        settings = replace(settings, optimizer_states=levers.states)  # which refuses some pairs
    device = processes.device
    if memory is None:
        budget = free_memory(device)
        if device.type == "cpu":
            budget //= processes.world  # all of them are on this machine, as far as we know
    else:
        budget = parse_size("--memory", memory)
        limit_memory(device, budget)
    budget = processes.least(budget)  # one plan for all: their optimisers must be alike
    task = task_of(config, store, settings, processes, masked_share, attention)
    plan = make_plan(task, budget, levers)
    if device.type == "cpu":
        keep_freed_memory(plan.is_tight(budget))
    fitted = replace(
        settings,
        accumulation=plan.micro_batches,
        recompute=plan.recompute,
        optimizer_states=plan.states,
    )
    return fitted, plan.lines(budget)
