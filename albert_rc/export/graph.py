"""A model as an ONNX graph: the dense encoder, written down node by node.

Our encoder reads sequences in a row without padding, which no exporter could make a file of for
others' runtimes; and torch's own exporters copy a shared layer's weights, or change their result
from one version to the next. The encoder's mathematics is a page of nodes, the same for every
family, so it is written here; each matrix stands in the file once, however many layers share it.
The inputs and outputs are those of Hugging Face's classes.
"""

# B sequences, L tokens, D hidden, E embedding, N heads, H head size, V vocabulary, C choices

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from albert_rc import __version__
from albert_rc.checkpoints.hf_names import hub_key
from albert_rc.errors import UsageError
from albert_rc.model.config import EncoderConfig
from albert_rc.model.heads import ChoiceHead, ClozeHead, HeadedModel, LabelHead
from albert_rc.model.layer import Layer
from albert_rc.model.sharing import schedule
from albert_rc.model.span_head import SpanModel

OPSET = 17  # the first with LayerNormalization; every runtime since 2022 has it
LARGEST = 2**31 - 2**20
"""Bytes of one file: protobuf counts them in 31 bits."""


def require_onnx() -> None:
    """Say early what is missing.

    Raises:
        UsageError: the extra `onnx` is not installed.
    """
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f'--onnx: {" and ".join(missing)} not installed; pip install "albert-rc[onnx]"'
        )


def onnx_bytes(model: HeadedModel) -> bytes:
    """The model as an ONNX file, in fp32.

    Inputs: `input_ids`, `attention_mask` and, unless the family has no segments,
    `token_type_ids`, int64 [batch, sequence]; of multiple choice [batch, choices, sequence].

    Outputs: of cloze and pretraining `logits` [batch, sequence, vocabulary], with learned weights
    of an option's pieces also `piece_weight` [vocabulary]; of multiple choice `logits`
    [batch, choices]; of labels `logits` [batch, labels]; of spans `start_logits` and
    `end_logits` [batch, sequence].

    Args:
        model: on the CPU; how it computes attention is not looked at, the graph's is dense.

    Raises:
        UsageError: too large for one file, or reversible.
    """
    import onnx

    if model.config.residual != "post":
        raise UsageError("--onnx: reversible layers cannot be exported")
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    if size > LARGEST:
        raise UsageError(
            f"--onnx: {size / 2**30:.1f} GiB of weights are too many for one ONNX file, which "
            "holds 2 GiB; export without --onnx"
        )
    graph = _Graph(model)
    inputs, outputs = _whole(graph, model)
    made = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "albert_rc", inputs, outputs, graph.weights),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="albert-rc",
        producer_version=__version__,
    )
    onnx.checker.check_model(made, full_check=True)
    content: bytes = made.SerializeToString(deterministic=True)
    return content


class _Graph:
    """Collects nodes and weights; each method adds a node and gives the name of its result."""

    def __init__(self, model: HeadedModel) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._keys = {id(p): hub_key(n, model.config) for n, p in model.named_parameters()}
        self._known: dict[object, str] = {}

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = out or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value: NDArray[Any], name: str | None = None) -> str:
        from onnx import numpy_helper

        key = None if name else (value.dtype.str, value.shape, value.tobytes())
        if key is None or key not in self._known:
            name = name or f"constant_{len(self.weights)}"
            self.weights.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
            self._known[key or name] = name
        return name or self._known[key]

    def number(self, value: float) -> str:
        return self.constant(np.asarray(value, np.float32))

    def scalar(self, value: int) -> str:
        return self.constant(np.asarray(value, np.int64))

    def whole(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def weight(self, value: Tensor, turned: bool = False) -> str:
        """A parameter under Hugging Face's name; once in the file, however often it is used."""
        name = self._keys[id(value)]
        if name not in self._known:
            tensor = value.detach().float()
            self.constant((tensor.T if turned else tensor).numpy(), name)
        return name

    def linear(self, x: str, linear: nn.Linear, out: str | None = None) -> str:
        product = self.add("MatMul", x, self.weight(linear.weight, turned=True))
        return self.add("Add", product, self.weight(linear.bias), out=out)

    def norm(self, x: str, norm: nn.LayerNorm) -> str:
        weight, bias = self.weight(norm.weight), self.weight(norm.bias)
        return self.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)

    def activation(self, x: str, name: str) -> str:
        return ACTIVATIONS[name](self, x)


def _erf(graph: _Graph, x: str) -> str:
    turned = graph.add("Erf", graph.add("Div", x, graph.number(math.sqrt(2))))
    half = graph.add("Mul", x, graph.number(0.5))
    return graph.add("Mul", half, graph.add("Add", turned, graph.number(1)))


def _tanh(graph: _Graph, x: str) -> str:
    cube = graph.add("Mul", graph.add("Mul", x, x), x)
    inner = graph.add("Add", x, graph.add("Mul", cube, graph.number(0.044715)))
    turned = graph.add("Tanh", graph.add("Mul", inner, graph.number(math.sqrt(2 / math.pi))))
    half = graph.add("Mul", x, graph.number(0.5))
    return graph.add("Mul", half, graph.add("Add", turned, graph.number(1)))


ACTIVATIONS: dict[str, Callable[[_Graph, str], str]] = {
    "gelu": _erf,
    "gelu_new": _tanh,
    "gelu_pytorch_tanh": _tanh,
    "relu": lambda graph, x: graph.add("Relu", x),
    "silu": lambda graph, x: graph.add("Mul", x, graph.add("Sigmoid", x)),
}


def _whole(graph: _Graph, model: HeadedModel) -> tuple[list[Any], list[Any]]:
    """Inputs and outputs of the whole graph."""
    from onnx import TensorProto, helper

    choice = isinstance(model.head, ChoiceHead)
    axes = ["batch", "choices", "sequence"] if choice else ["batch", "sequence"]
    names = ["input_ids", "attention_mask"]
    if model.config.num_segments > 1:
        names.append("token_type_ids")
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, axes) for n in names]
    given = dict(zip(names, names, strict=True))
    if choice:  # a row for each choice
        last = graph.add("Gather", graph.add("Shape", names[0]), graph.whole(-1), axis=0)
        rows = graph.add("Concat", graph.whole(-1), last, axis=0)
        given = {name: graph.add("Reshape", name, rows) for name in names}
    x_BLD = _encoded(graph, model, given)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in _headed(graph, model, x_BLD).items()
    ]
    return inputs, outputs


def _encoded(graph: _Graph, model: HeadedModel, given: dict[str, str]) -> str:
    """Hidden states, [B, L, D]."""
    encoder, config = model.encoder, model.config
    table, ids = encoder.embeddings, given["input_ids"]
    word = graph.add("Gather", graph.weight(table.word.weight), ids, axis=0)
    length = graph.add("Gather", graph.add("Shape", ids), graph.scalar(1), axis=0)
    first = graph.scalar(config.position_offset)
    place_L = graph.add("Range", first, graph.add("Add", length, first), graph.scalar(1))
    position = graph.add("Gather", graph.weight(table.position.weight), place_L, axis=0)
    if "token_type_ids" in given:
        at = given["token_type_ids"]
        segment = graph.add("Gather", graph.weight(table.segment.weight), at, axis=0)
    else:
        segment = graph.weight(table.segment.weight)
    total = graph.add("Add", graph.add("Add", word, position), segment)
    x_BLD = graph.norm(total, table.norm)
    if encoder.projection is not None:
        x_BLD = graph.linear(x_BLD, encoder.projection)
    there = graph.add("Cast", given["attention_mask"], to=9)  # bool
    there = graph.add("Unsqueeze", there, graph.whole(1, 2))
    lowest = graph.number(float(np.finfo(np.float32).min))
    hidden_B11L = graph.add("Where", there, graph.number(0), lowest)
    for index in schedule(config):
        layer = encoder.layers[index]
        assert isinstance(layer, Layer)
        x_BLD = _layer(graph, layer, config, x_BLD, hidden_B11L)
    return x_BLD


def _layer(graph: _Graph, layer: Layer, config: EncoderConfig, x_BLD: str, hidden: str) -> str:
    """A post-norm layer: dense attention, feed-forward."""
    heads, size = config.num_heads, config.hidden_size // config.num_heads

    def split(linear: nn.Linear, order: list[int]) -> str:
        x_BLNH = graph.add("Reshape", graph.linear(x_BLD, linear), graph.whole(0, 0, heads, size))
        return graph.add("Transpose", x_BLNH, perm=order)

    query, key = split(layer.query, [0, 2, 1, 3]), split(layer.key, [0, 2, 3, 1])
    score = graph.add("Mul", graph.add("MatMul", query, key), graph.number(size**-0.5))
    share_BNLL = graph.add("Softmax", graph.add("Add", score, hidden), axis=-1)
    mixed = graph.add("MatMul", share_BNLL, split(layer.value, [0, 2, 1, 3]))
    mixed = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed_BLD = graph.add("Reshape", mixed, graph.whole(0, 0, config.hidden_size))
    attended = graph.add("Add", graph.linear(mixed_BLD, layer.output), x_BLD)
    x_BLD = graph.norm(attended, layer.attention_norm)
    inside = graph.activation(graph.linear(x_BLD, layer.up), config.activation)
    return graph.norm(graph.add("Add", graph.linear(inside, layer.down), x_BLD), layer.norm)


def _headed(graph: _Graph, model: HeadedModel, x_BLD: str) -> dict[str, list[str | int]]:
    """The outputs by name, with their shapes."""
    head = model.head
    if isinstance(head, ClozeHead):
        return _words(graph, model, head, x_BLD)
    if isinstance(model, SpanModel):
        logits_BL2 = graph.linear(x_BLD, model.head.span)
        for at, name in enumerate(("start_logits", "end_logits")):
            graph.add("Gather", logits_BL2, graph.scalar(at), axis=2, out=name)
        return {"start_logits": ["batch", "sequence"], "end_logits": ["batch", "sequence"]}
    cls_BD = graph.add("Gather", x_BLD, graph.scalar(0), axis=1)
    if isinstance(head, LabelHead):
        pooled_BD = graph.add("Tanh", graph.linear(cls_BD, head.pool))
        graph.linear(pooled_BD, head.label, out="logits")
        return {"logits": ["batch", head.label.out_features]}
    assert isinstance(head, ChoiceHead)
    pooled_XD = graph.add("Tanh", graph.linear(cls_BD, head.pooler))
    logit_X1 = graph.linear(pooled_XD, head.classifier)
    rows = graph.add("Slice", graph.add("Shape", "input_ids"), graph.whole(0), graph.whole(2))
    graph.add("Reshape", logit_X1, rows, out="logits")
    return {"logits": ["batch", "choices"]}


def _words(
    graph: _Graph, model: HeadedModel, head: ClozeHead, x_BLD: str
) -> dict[str, list[str | int]]:
    """A logit for every piece of the vocabulary at every place."""
    config = model.config
    inside = graph.activation(graph.linear(x_BLD, head.dense), config.activation)
    moved_BLE = graph.norm(inside, head.norm)
    rows_XE = graph.add("Reshape", moved_BLE, graph.whole(-1, config.embedding_size))
    # Gemm turns the embeddings itself: as a factor of MatMul they would stand in the file twice.
    word, bias = graph.weight(model.words), graph.weight(head.bias)
    logit_XV = graph.add("Gemm", rows_XE, word, bias, transB=1)
    sizes = graph.add("Slice", graph.add("Shape", x_BLD), graph.whole(0), graph.whole(2))
    shape = graph.add("Concat", sizes, graph.whole(config.vocab_size), axis=0)
    graph.add("Reshape", logit_XV, shape, out="logits")
    outputs: dict[str, list[str | int]] = {"logits": ["batch", "sequence", config.vocab_size]}
    if head.salience is not None:
        weight_V = torch.exp((model.words * head.salience).sum(-1)).detach().float()
        graph.add("Identity", graph.constant(weight_V.numpy()), out="piece_weight")
        outputs["piece_weight"] = [config.vocab_size]
    return outputs
