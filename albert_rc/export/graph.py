"""ONNX export: torch's exporter on the transformers model of an exported folder.

Our own encoder reads concatenated sequences without padding, which other runtimes cannot;
transformers' classes, whose answers are compared with ours anyway, read padded ones. A shared layer
is stored once.
"""

# B sequences, C choices, L tokens, V vocabulary

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from albert_rc.errors import UsageError
from albert_rc.export.others import open_folder
from albert_rc.model.heads import ClozeHead, HeadedModel

LARGEST = 2**31 - 2**20
"""Maximum bytes of one file: protobuf's sizes have 31 bits."""
NEEDED = ("onnx", "onnxruntime", "onnxscript")
OPSET = 18
"""The lowest that torch's exporter writes; supported by every runtime since 2023."""


def require_onnx() -> None:
    """Check for the required packages before any work is done.

    Raises:
        UsageError: the extra `onnx` is not installed.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            f'--onnx: {" and ".join(missing)} not installed; pip install "albert-rc[onnx]"'
        )


def onnx_bytes(folder: Path, model: HeadedModel) -> bytes:
    """The model of an exported folder as an ONNX file, in fp32.

    Inputs: `input_ids`, `attention_mask` and, unless the family has no segments,
    `token_type_ids`, int64 [batch, sequence]; for multiple choice [batch, choices, sequence].

    Outputs: for cloze and pretraining `logits` [batch, sequence, vocabulary], with learned weights
    of an option's pieces also `piece_weight` [vocabulary]; for multiple choice `logits`
    [batch, choices]; for labels `logits` [batch, labels]; for spans `start_logits` and
    `end_logits` [batch, sequence].

    Raises:
        UsageError: too large for one file, or reversible.
    """
    if model.config.residual != "post":
        raise UsageError("--onnx: reversible layers cannot be exported; leave --onnx out")
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    if size > LARGEST:
        raise UsageError(
            f"--onnx: {size / 2**30:.1f} GiB of weights do not fit into one ONNX file, which "
            "holds at most 2 GiB; export without --onnx"
        )
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = inputs[: 3 if model.config.num_segments > 1 else 2]
    axes = ["batch", "choices", "sequence"] if model.task == "choice" else ["batch", "sequence"]
    # Sizes of 0 and 1 would be treated as constants.
    example = torch.full((2, 3, 8)[-len(axes) :], model.config.pad_id + 1)
    given = {name: example if name == "input_ids" else (example > 0).long() for name in inputs}
    sizes = dict.fromkeys(range(len(axes)), torch.export.Dim.DYNAMIC)
    answering = _Answering(open_folder(folder, model.task), inputs, _piece_weight(model)).eval()
    with warnings.catch_warnings(), _no_messages_of("torch.onnx"):
        warnings.simplefilter("ignore")
        program = cast(Any, torch.onnx.export)(
            answering, tuple(given.values()), dynamo=True, verbose=False, opset_version=OPSET,
            input_names=inputs, output_names=answering.names, external_data=False,
            dynamic_shapes=(tuple(sizes for _ in inputs),),
        )  # fmt: skip
        program.optimize()
    graph = program.model.graph
    for value in graph.inputs:
        for at, axis in enumerate(axes):
            value.shape[at] = axis
    for node in graph:  # source locations, larger than a small model
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    content: bytes = program.model_proto.SerializeToString(deterministic=True)
    return content


@contextmanager
def _no_messages_of(name: str) -> Iterator[None]:
    """Context in which a logger only reports errors.

    torch's exporter reports, for example, that torchvision is missing, which is not needed.
    """
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _piece_weight(model: HeadedModel) -> Tensor | None:
    """Learned weights of the vocabulary's pieces [V], where the model has them (`salience`)."""
    if not isinstance(model.head, ClozeHead) or model.head.salience is None:
        return None
    return torch.exp((model.words * model.head.salience).sum(-1)).detach().float()


class _Answering(nn.Module):
    """Wrapper of a transformers model with positional inputs and a tuple of outputs."""

    def __init__(self, model: nn.Module, inputs: list[str], weight_V: Tensor | None) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs
        self.spans = hasattr(model, "qa_outputs")
        self.names = ["start_logits", "end_logits"] if self.spans else ["logits"]
        self.register_buffer("weight_V", weight_V)
        if weight_V is not None:
            self.names.append("piece_weight")

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        answered = self.model(**dict(zip(self.inputs, given, strict=True)))
        found = [answered.start_logits, answered.end_logits] if self.spans else [answered.logits]
        # A constant cannot be an output.
        more = [] if self.weight_V is None else [self.weight_V + 0 * found[0].flatten()[0]]
        return (*found, *more)
