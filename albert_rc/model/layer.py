"""One layer: self-attention and feed-forward, and how BERT puts them together."""

# T tokens of all sequences in a row, S those of them that a layer's result is wanted for,
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
from albert_rc.model.rows import rows_at
from albert_rc.model.sharing import PARTS


@dataclass(frozen=True)
class Applied:
    """One of the applications of layers that make up the stack."""

    prepared: dict[str, PreparedLinear]
    """The layer's matrices."""
    first: Collection[str]
    """Those of them that no application before has used."""
    step: int
    """How many applications came before."""
    last: bool
    """Whether this is the last of all, whose result is wanted at `Pass.read_S` only."""


@dataclass
class Pass:
    """What the layers of one forward pass have in common."""

    compute: Compute
    layout: Layout
    gradients: Gradients | None
    """None in prediction."""
    read_S: Tensor | None = None
    """Where the last layer's result is wanted; None for everywhere."""
    read_layout: Layout | None = None
    landmark_T: Tensor | None = None
    """See `attention.Terms`."""
    seed: int | None = None
    """Of what reversible layers drop by torch's generator; None where they do not."""
    key: tuple[int, ...] | None = None
    """Of what all layers drop; None leaves it to torch's generator."""

    def wanted(self, x_TD: Tensor, at: Applied) -> Tensor:
        """The rows that an application's result is wanted for, [S, D]."""
        return rows_at(x_TD, self.read_S) if at.last and self.read_S is not None else x_TD


class Layer(nn.Module):
    """The parts of a layer; how they are put together is for subclasses to say."""

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
        """The matrices; what stands together has the same input."""
        return {
            "query": [self.query],
            "key_value": [self.key, self.value],
            "output": [self.output],
            "up": [self.up],
            "down": [self.down],
        }

    def dropping(self, rate: float, shared: Pass, at: Applied, part: int) -> Dropout:
        """What one of the layer's parts drops in training."""
        if not (rate and self.training):
            return NOTHING
        return Dropout(rate, shared.key).at(at.step, part)

    def attend(self, x_TD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """Self-attention and dropout, without residual: [S, D]."""
        prepared, gradients, first = at.prepared, shared.gradients, at.first
        heads = (self.num_heads, -1)
        backend = shared.compute.attention
        layout, asked_SD = shared.layout, x_TD
        if backend in ASKED_ANYWHERE:
            asked_SD = shared.wanted(x_TD, at)
            if at.last and shared.read_layout is not None:
                layout = shared.read_layout
        q_SNH = linear(asked_SD, prepared["query"], gradients, "query" in first).unflatten(
            -1, heads
        )
        kv_TD = linear(x_TD, prepared["key_value"], gradients, "key_value" in first)
        kv_T2NH = kv_TD.unflatten(-1, (2, *heads))
        dropout = self.dropping(self.attention_dropout, shared, at, 1)
        keep = shared.compute.recompute != "activations"
        terms = Terms(shared.compute.lsh, at.step, shared.landmark_T, keep)
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
        """The parameters of a key of `sharing.PARTS` that learn."""
        modules = [self.get_submodule(name) for name in PARTS[part]]
        return [p for module in modules for p in module.parameters() if p.requires_grad]


class PostNormLayer(Layer):
    """Attention and feed-forward, each with its residual and then its norm: [T, D] to the same."""

    def forward(self, x_TD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """Apply the layer.

        Args:
            x_TD: hidden states.
            shared: what goes for all layers.
            at: which application this is.

        Returns:
            [T, D]; of the last application [S, D].
        """
        mixed_SD = self.attend(x_TD, shared, at)
        x_SD = normed(shared.wanted(x_TD, at) + mixed_SD, self.attention_norm)
        return normed(x_SD + self.feed(x_SD, shared, at), self.norm)


def normed(x_TD: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Layer normalisation in the precision of the inputs, [T, D]."""
    weight: Tensor = norm.weight
    bias: Tensor = norm.bias
    if x_TD.device.type != "cpu":  # whose kernel takes parameters of another precision
        weight, bias = weight.to(x_TD.dtype), bias.to(x_TD.dtype)
    return F.layer_norm(x_TD, norm.normalized_shape, weight, bias, norm.eps)
