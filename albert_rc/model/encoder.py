"""The encoder: factorised embeddings and a stack whose layers may share their parameters.

ALBERT (Lan et al. 2020) and BERT (Devlin et al. 2019) are the same post-norm transformer. They
differ in two settings: whether words are embedded in E < H dimensions and projected, and how many
groups of parameters the layers draw on.
"""

# T tokens of all sequences in a row, S those of them that a layer's result is wanted for,
# E embedding size, D hidden size, N heads, H head size, F ffn size

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albert_rc.config import Compute, EncoderConfig
from albert_rc.errors import UsageError
from albert_rc.model.attention import ASKED_ANYWHERE, ATTENTION, Hashing, Layout
from albert_rc.model.feed_forward import activation, feed_forward
from albert_rc.model.products import DTYPES, Gradients, Prepared, linear
from albert_rc.model.sharing import schedule, tie


class Embeddings(nn.Module):
    """Sum of word, position and segment embeddings, normalised: [T] to [T, E], in fp32."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.embedding_size
        self.word = nn.Embedding(config.vocab_size, size)
        self.position = nn.Embedding(config.max_positions, size)
        self.segment = nn.Embedding(config.num_segments, size)
        self.norm = nn.LayerNorm(size, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.position_offset = config.position_offset

    def forward(self, token_T: Tensor, place_T: Tensor, segment_T: Tensor | None) -> Tensor:
        embedded_TE = self.word(token_T) + self.position(place_T + self.position_offset)
        if segment_T is None or self.segment.num_embeddings == 1:
            embedded_TE = embedded_TE + self.segment.weight[0]
        else:
            embedded_TE = embedded_TE + self.segment(segment_T)
        dropped: Tensor = self.dropout(self.norm(embedded_TE))
        return dropped


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
    """See `attention.Hashing`."""


class Layer(nn.Module):
    """Self-attention and feed-forward, each with its residual and norm: [T, D] to the same."""

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
        self.dropout = nn.Dropout(config.dropout)
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

    def forward(
        self,
        x_TD: Tensor,
        prepared: dict[str, Prepared],
        shared: Pass,
        first: Collection[str],
        step: int,
        last: bool,
    ) -> Tensor:
        """Apply the layer.

        Args:
            x_TD: hidden states.
            prepared: this layer's matrices.
            shared: what goes for all layers.
            first: the matrices that no layer before has applied.
            step: how many layers came before.
            last: this is the last layer of all, whose result is wanted at `shared.read_S` only.

        Returns:
            [T, D], or [S, D].
        """
        gradients = shared.gradients
        heads = (self.num_heads, -1)
        layout, asked_SD, late_S = shared.layout, x_TD, None
        if last and shared.read_S is not None and shared.read_layout is not None:
            if shared.compute.attention in ASKED_ANYWHERE:
                layout, asked_SD = shared.read_layout, x_TD[shared.read_S]
            else:
                late_S = shared.read_S
        q_SNH = linear(asked_SD, prepared["query"], gradients, "query" in first).unflatten(
            -1, heads
        )
        kv_TD = linear(x_TD, prepared["key_value"], gradients, "key_value" in first)
        kv_T2NH = kv_TD.unflatten(-1, (2, *heads))
        dropout = self.attention_dropout if self.training else 0.0
        attend = ATTENTION[shared.compute.attention]
        how = Hashing(shared.compute.lsh, step, shared.landmark_T)
        mixed_SD = attend(q_SNH, kv_T2NH, layout, dropout, how).flatten(1)
        if late_S is not None:
            mixed_SD, asked_SD = mixed_SD[late_S], asked_SD[late_S]
        mixed_SD = linear(mixed_SD, prepared["output"], gradients, "output" in first)
        x_SD = _normed(asked_SD + self.dropout(mixed_SD), self.attention_norm)
        out_SD = feed_forward(
            x_SD,
            prepared["up"],
            prepared["down"],
            self.activation,
            shared.compute,
            gradients,
            first,
        )
        return _normed(x_SD + self.dropout(out_SD), self.norm)


def _normed(x_TD: Tensor, norm: nn.LayerNorm) -> Tensor:
    weight: Tensor = norm.weight
    bias: Tensor = norm.bias
    if x_TD.device.type != "cpu":  # whose kernel takes parameters of another precision
        weight, bias = weight.to(x_TD.dtype), bias.to(x_TD.dtype)
    return F.layer_norm(x_TD, norm.normalized_shape, weight, bias, norm.eps)


class Encoder(nn.Module):
    """Token ids to hidden states.

    Args:
        config: its shape.

    Attributes:
        compute: precision, attention, and what is kept for the backward pass.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.compute = Compute()
        self.embeddings = Embeddings(config)
        # ALBERT projects even where E equals D; BERT has no such matrix.
        self.projection: nn.Linear | None = None
        if config.family == "albert":
            self.projection = nn.Linear(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Layer(config) for _ in range(config.num_groups * config.inner_layers)
        )
        tie(list(self.layers), config.common)

        self._unchanged = False
        self._kept: tuple[object, list[dict[str, Prepared]]] | None = None

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Promise that the weights stay as they are inside: they are prepared once for all.

        Optimisers write past every version counter, so nothing here could notice by itself.
        """
        self._unchanged = True
        try:
            yield
        finally:
            self._unchanged, self._kept = False, None

    def _matrices(self, learning: bool) -> list[dict[str, Prepared]]:
        key = (self.compute.precision, learning)
        if self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        made: dict[nn.Linear, Prepared] = {}
        prepared: list[dict[str, Prepared]] = []
        for layer in self.layers:
            assert isinstance(layer, Layer)
            prepared.append({})
            for name, linears in layer.maps().items():
                if linears[0] not in made:  # layers may have it in common
                    made[linears[0]] = Prepared(linears, self.compute.precision, learning)
                prepared[-1][name] = made[linears[0]]
        if self._unchanged:
            self._kept = key, prepared
        return prepared

    def forward(
        self,
        token_T: Tensor,
        place_T: Tensor,
        lengths: tuple[int, ...],
        segment_T: Tensor | None = None,
        read_S: Tensor | None = None,
        reads: tuple[int, ...] = (),
    ) -> Tensor:
        """Encode sequences that stand one after the other.

        Args:
            token_T: ids.
            place_T: place of each token in its sequence, from 0.
            lengths: tokens of each sequence.
            segment_T: 0 or 1 for the first and second part of a pair; None for all 0.
            read_S: the tokens whose hidden states are wanted, sequence by sequence; None for all.
            reads: how many of them each sequence has.

        Returns:
            Hidden states in the precision of the computation, [S, D] (or [T, D]).

        Raises:
            UsageError: longer than the position table.
        """
        if max(lengths) > self.config.max_length:
            raise UsageError(
                f"{max(lengths)} tokens in a sequence, but the model takes "
                f"{self.config.max_length}; preprocess with --max-length {self.config.max_length}"
            )
        compute, learning = self.compute, torch.is_grad_enabled()
        prepared = self._matrices(learning)
        shared = Pass(
            compute=compute,
            layout=Layout(lengths, lengths),
            gradients=Gradients(compute.join, compute.in_place) if learning else None,
            read_S=read_S,
            read_layout=None if read_S is None else Layout(reads, lengths),
        )
        if compute.attention == "lsh" and compute.lsh.landmarks:
            ids = torch.tensor(compute.lsh.landmarks, device=token_T.device)
            shared.landmark_T = torch.isin(token_T, ids)
        x_TD: Tensor = self.embeddings(token_T, place_T, segment_T)
        if self.projection is not None:
            x_TD = self.projection(x_TD)
        x_TD = x_TD.to(DTYPES[compute.precision])
        steps = schedule(self.config)
        seen: set[Prepared] = set()
        for step, index in enumerate(steps):
            layer, last = self.layers[index], step == len(steps) - 1
            first = {name for name, matrix in prepared[index].items() if matrix not in seen}
            seen.update(prepared[index].values())
            given = (x_TD, prepared[index], shared, first, step, last)
            if compute.recompute == "layers" and learning:
                x_TD = checkpoint(layer, *given, use_reentrant=False)
            else:
                x_TD = layer(*given)
        return x_TD


def initialise(module: nn.Module, std: float) -> None:
    """Fill a module's parameters as BERT does: normal weights, zero biases, norms of one."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (nn.Linear, nn.LayerNorm)) and part.bias is not None:
            nn.init.zeros_(part.bias)
