"""Transformer layers: self-attention and feed-forward, and BERT's post-norm layer."""

# T tokens of all sequences concatenated, S those of them that a layer computes,
# D hidden size, N heads, H head size

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from albert_rc.model.attention import ASKED_ANYWHERE, ATTENTION, Terms
from albert_rc.model.config import Compute, EncoderConfig
from albert_rc.model.dropout import NOTHING, Dropout
from albert_rc.model.feed_forward import activation, feed_forward
from albert_rc.model.layout import Layout
from albert_rc.model.linear import Gradients, PreparedLinear, linear
from albert_rc.model.relative import Bias
from albert_rc.model.rows import rows_at
from albert_rc.model.sharing import PARTS


@dataclass(frozen=True)
class Applied:
    """One application of a layer in the stack."""

    prepared: dict[str, PreparedLinear]
    """The layer's matrices."""
    first: Collection[str]
    """Matrices that no earlier application has used."""
    step: int
    """Number of earlier applications."""
    last: bool
    """Whether this is the last application, which is computed at `Pass.read_S` only."""


@dataclass
class Pass:
    """Data shared by all layers of a forward pass."""

    compute: Compute
    layout: Layout
    gradients: Gradients | None
    """Collector of gradients; None in prediction."""
    read_S: Tensor | None = None
    """Tokens for which the last layer is computed; None for all."""
    read_layout: Layout | None = None
    landmark_T: Tensor | None = None
    """See `attention.Terms`."""
    bias: Bias | None = None
    """Biases of the attention scores of all layers but the last."""
    read_bias: Bias | None = None
    """Those of the last layer, if it is computed at `read_S` only."""
    seed: int | None = None
    """Seed of reversible layers' dropout with torch's generator; None if it is not used."""
    key: tuple[int, ...] | None = None
    """Dropout key of all layers; None for torch's generator."""

    def wanted(self, x_TD: Tensor, at: Applied) -> Tensor:
        """The rows that an application computes, [S, D]."""
        return rows_at(x_TD, self.read_S) if at.last and self.read_S is not None else x_TD


class Layer(nn.Module):
    """The parts of a layer; subclasses combine them."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)
        self.attention_norm = nn.LayerNorm(size, eps=config.norm_eps)
        self.up = nn.Linear(size, config.ffn_size)
        self.down = nn.Linear(config.ffn_size, size)
        self.norm = nn.LayerNorm(size, eps=config.norm_eps)
        self.dropout = config.dropout
        self.attention_dropout = config.attention_dropout
        self.num_heads = config.num_heads
        self.activation = config.activation
        activation(config.activation)  # refuses unknown names before any work is done

    def maps(self) -> dict[str, list[nn.Linear]]:
        """The matrices; those in one list have the same input."""
        return {
            "query": [self.query],
            "key_value": [self.key, self.value],
            "output": [self.output],
            "up": [self.up],
            "down": [self.down],
        }

    def dropping(self, rate: float, shared: Pass, at: Applied, part: int) -> Dropout:
        """Dropout of one of the layer's parts in training."""
        if not (rate and self.training):
            return NOTHING
        return Dropout(rate, shared.key).at(at.step, part)

    def attend(self, x_TD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """Self-attention and dropout, without residual: [S, D]."""
        prepared, gradients, first = at.prepared, shared.gradients, at.first
        heads = (self.num_heads, -1)
        backend = shared.compute.attention
        layout, asked_SD, bias = shared.layout, x_TD, shared.bias
        if backend in ASKED_ANYWHERE:
            asked_SD = shared.wanted(x_TD, at)
            if at.last and shared.read_layout is not None:
                layout, bias = shared.read_layout, shared.read_bias
        q_SNH = linear(asked_SD, prepared["query"], gradients, "query" in first).unflatten(
            -1, heads
        )
        kv_TD = linear(x_TD, prepared["key_value"], gradients, "key_value" in first)
        kv_T2NH = kv_TD.unflatten(-1, (2, *heads))
        dropout = self.dropping(self.attention_dropout, shared, at, 1)
        keep = shared.compute.recompute != "activations"
        terms = Terms(shared.compute.lsh, at.step, shared.landmark_T, keep, bias)
        mixed_SD = ATTENTION[backend](q_SNH, kv_T2NH, layout, dropout, terms).flatten(1)
        if backend not in ASKED_ANYWHERE:
            mixed_SD = shared.wanted(mixed_SD, at)
        output_SD = linear(mixed_SD, prepared["output"], gradients, "output" in first)
        return self.dropping(self.dropout, shared, at, 2)(output_SD)

    def feed(self, x_SD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """Feed-forward and dropout, without residual: [S, D]."""
        up, down = at.prepared["up"], at.prepared["down"]
        output_SD = feed_forward(
            x_SD, up, down, self.activation, shared.compute, shared.gradients, at.first
        )
        return self.dropping(self.dropout, shared, at, 3)(output_SD)

    def learned(self, part: str) -> list[nn.Parameter]:
        """The trainable parameters of a key of `sharing.PARTS`."""
        modules = [self.get_submodule(name) for name in PARTS[part]]
        return [p for module in modules for p in module.parameters() if p.requires_grad]


class PostNormLayer(Layer):
    """Attention and feed-forward, each with its residual and then its norm: [T, D] to [T, D]."""

    def forward(self, x_TD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """Apply the layer.

        Returns:
            [T, D]; [S, D] for the last application.
        """
        mixed_SD = self.attend(x_TD, shared, at)
        x_SD = normed(shared.wanted(x_TD, at) + mixed_SD, self.attention_norm)
        return normed(x_SD + self.feed(x_SD, shared, at), self.norm)


def normed(x_TD: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Layer normalisation in the precision of the inputs, [T, D]."""
    weight: Tensor = norm.weight
    bias: Tensor = norm.bias
    if x_TD.device.type != "cpu":  # CPU kernels accept parameters of another precision
        weight, bias = weight.to(x_TD.dtype), bias.to(x_TD.dtype)
    return F.layer_norm(x_TD, norm.normalized_shape, weight, bias, norm.eps)
