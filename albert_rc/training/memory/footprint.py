"""Prediction of a training step's memory from the shapes of the model and the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from albert_rc.corpus.shards import Corpus
from albert_rc.model.attention_cpu import scores_together
from albert_rc.model.config import EncoderConfig
from albert_rc.model.cost import encoder_parameters, layer_matrices, layer_parameters
from albert_rc.model.linear import DTYPES, gradient_rows
from albert_rc.model.word_loss import product_dtype, working_bytes
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import Store
from albert_rc.training.config import STATES, TrainConfig

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}

# Baseline without any tensor: Python, torch and its libraries; on a GPU also the CUDA context; on a
# CPU 300 MiB of libraries, and 200 MiB of compiled products and freed blocks between them.
RUNTIME = {"cpu": 500 * 2**20, "cuda": 600 * 2**20}
# Left over by the compiler of torchao's 8-bit optimiser step, in the same process.
COMPILER = 300 * 2**20
# Freed blocks of other sizes that the allocator retains: measured, see docs/speed-details.md.
SLACK = {"cpu": 1.4, "cuda": 1.08}


@dataclass(frozen=True, kw_only=True)
class StepShape:
    """The model, data and device that a plan is made for."""

    config: EncoderConfig
    lengths: Sequence[int]
    """Tokens of each data item, summed over its sequences."""
    longest: int
    """Tokens of the longest sequence."""
    items: int
    """Number of items in a process's share of a batch."""
    precision: str
    device: str
    """cpu or cuda."""
    masked_share: float = 0.0
    """Share of the tokens masked for the auxiliary loss."""
    ffn_chunk: int | None = None
    """See `Compute.ffn_chunk`."""
    attention: str = "dense"
    moments: tuple[str, ...] = tuple(STATES)
    """Formats of the optimiser's moments to choose from: keys of `STATES`."""
    teacher: EncoderConfig | None = None
    """A model that reads each micro-batch first, for hidden words."""
    held: int = 0
    """Number of layers that are not trained; see `Encoder.hold`."""


def task_of(
    config: EncoderConfig,
    store: Store | Corpus,
    settings: TrainConfig,
    processes: Processes,
    masked_share: float = 0.0,
    attention: str = "dense",
    teacher: EncoderConfig | None = None,
) -> StepShape:
    """The task of training a model of this shape on a store."""
    items = -(-min(settings.batch_size, len(store.tokens)) // processes.world)
    # Of millions of items only the longest matter: those that could share a micro-batch.
    longest = store.tokens.topk(min(items, len(store.tokens))).values
    return StepShape(
        config=config,
        lengths=longest.tolist(),
        longest=int(store.lengths.max()),
        items=items,
        precision=settings.precision,
        device=processes.device.type,
        masked_share=masked_share,
        ffn_chunk=settings.ffn_chunk,
        attention=attention,
        moments=tuple(STATES) if settings.optimizer == "adamw" else ("fp32",),
        teacher=teacher,
        held=settings.frozen_layers,
    )


def predict_parts(task: StepShape, tokens: int, recompute: str, states: str) -> dict[str, int]:
    """Peak memory of a training step in bytes, by purpose.

    Args:
        task: the model, the data, the device.
        tokens: tokens of the largest micro-batch, in one pass.
        recompute: a key of `RECOMPUTE`.
        states: a key of `config.STATES`.
    """
    config, wide = task.config, task.config.ffn_size
    hidden, size = config.hidden_size, BYTES[task.precision]
    on_cpu = task.device == "cpu"
    parameters = encoder_parameters(config)
    matrices = layer_matrices(config)
    # A layer keeps its input, q, k, v, the attention output, two sums before norms, and the
    # feed-forward's input, then its hidden activations before and after the non-linearity. On
    # CPUs attention weights come on top; GPUs recompute them. In chunks no hidden activations
    # are kept; they are recomputed, with their gradient, a chunk at a time.
    inside = tokens * wide * size
    at_work = 2 * inside
    if task.ffn_chunk is not None and task.ffn_chunk < tokens:
        inside, at_work = 0, 4 * task.ffn_chunk * wide * size
    one_layer = tokens * 8 * hidden * size + inside
    if task.attention != "dense":
        # The hashed, sorted and mixed vectors in fp32, and the current block of logits.
        one_layer += tokens * 3 * 4 * hidden
    weights = at_once = 0
    if task.attention == "dense" and on_cpu:
        scores = tokens * task.longest * config.num_heads
        weights = scores * size
        together = min(scores, scores_together(DTYPES[task.precision]))
        at_once = max(task.longest**2 * config.num_heads, together) * size
        if config.attention_dropout > 0:
            # Weights after dropout, of which a byte is counted here; masks if weights are not kept.
            one_layer, weights = one_layer + scores, weights + scores * (size - 1)
    # Layers that are not trained keep nothing for the backward pass.
    all_layers = config.num_layers * config.inner_layers
    layers = all_layers - task.held
    kept = {
        "nothing": layers * (one_layer + weights + inside),
        "activations": layers * one_layer,
        "layers": layers * tokens * hidden * size + one_layer + weights + inside,
    }[recompute]
    if config.residual == "reversible":
        # Two streams in fp64, their gradients in fp32, and one layer at a time.
        kept = tokens * hidden * 2 * (8 + 4) + one_layer
        kept += (weights + inside) * (recompute != "activations")
    # In the backward pass: the feed-forward's hidden activations, and the rows of one matrix's
    # gradient being accumulated.
    rows = gradient_rows(wide, task.device)
    working = at_work + tokens * 4 * hidden * size + rows * wide * (size + 4)
    # Of a run of sequences: attention's weights, their gradient, and a mask as wide as they are.
    working += (2 + (config.attention_dropout > 0)) * at_once
    # The head: logits over the vocabulary at masked tokens, gradients of the word embeddings.
    words = int(task.masked_share * tokens)
    head = working_bytes(config.vocab_size, task.device, words, product_dtype(task.precision))
    head += 3 * 4 * config.vocab_size * config.embedding_size
    copies = 1 + layers / all_layers if on_cpu else task.precision != "fp32"
    prepared = int(matrices * size * copies)
    learned = parameters
    if task.held:
        learned = layer_parameters(config) * layers // all_layers
    parts = {
        "weights": 4 * parameters,
        "gradients": 4 * learned,
        "optimiser": {"fp32": 8, "8bit": 2}[states] * learned,
        "matrices": prepared,
        "activations": kept,
        "working": working + head,
    }
    if task.teacher is not None:
        parts["teacher"] = _teacher_bytes(task.teacher, task, tokens)
    if states == "8bit" and on_cpu:
        parts["optimiser"] += COMPILER
    slack = SLACK[task.device]
    parts["activations"] = int(parts["activations"] * slack)
    parts["working"] = int(parts["working"] * slack)
    return parts | {"runtime": RUNTIME[task.device]}


def _teacher_bytes(teacher: EncoderConfig, task: StepShape, tokens: int) -> int:
    """Memory of a teacher: its weights, also in the form used in products, and one layer's vectors.

    Its probabilities of the masked words stay until the student's are compared with them.
    """
    size = BYTES[task.precision]
    weights = 4 * encoder_parameters(teacher) + layer_matrices(teacher) * size
    layer = tokens * (8 * teacher.hidden_size + 2 * teacher.ffn_size) * size
    words = int(task.masked_share * tokens)
    return weights + layer + 2 * 4 * words * teacher.vocab_size
