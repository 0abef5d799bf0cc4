"""The encoder: factorised embeddings and a stack whose layers may share their parameters.

ALBERT (Lan et al. 2020) and BERT (Devlin et al. 2019) are the same post-norm transformer. They
differ in two settings: whether words are embedded in E < H dimensions and projected, and how many
groups of parameters the layers draw on.
"""

# B sequences, L tokens, E embedding size, D hidden size, N heads, H head size, F ffn size

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albert_rc.config import EncoderConfig
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.model.attention import ATTENTION

# gelu_new is Hugging Face's name for the tanh form written out; torch has it fused.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation function that a config names.

    Raises:
        CheckpointError: unknown name.
    """
    if name not in ACTIVATIONS:
        raise CheckpointError(f"activation {name!r} is not one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class Embeddings(nn.Module):
    """Sum of word, position and segment embeddings, normalised: [B, L] to [B, L, E]."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        size = config.embedding_size
        self.word = nn.Embedding(config.vocab_size, size)
        self.position = nn.Embedding(config.max_positions, size)
        self.segment = nn.Embedding(config.num_segments, size)
        self.norm = nn.LayerNorm(size, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.position_offset = config.position_offset

    def forward(self, token_BL: Tensor, segment_BL: Tensor | None) -> Tensor:
        first = self.position_offset
        embedded_BLE = self.word(token_BL)
        embedded_BLE = embedded_BLE + self.position.weight[first : first + token_BL.shape[1]]
        if segment_BL is None or self.segment.num_embeddings == 1:
            embedded_BLE = embedded_BLE + self.segment.weight[0]
        else:
            embedded_BLE = embedded_BLE + self.segment(segment_BL)
        dropped: Tensor = self.dropout(self.norm(embedded_BLE))
        return dropped


class Layer(nn.Module):
    """Self-attention and feed-forward, each with its residual and norm: [B, L, D] to the same."""

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
        self.attend = ATTENTION["dense"]
        self.activation = activation(config.activation)

    def forward(self, x_BLD: Tensor, keep_B11L: Tensor | None) -> Tensor:
        heads = (self.num_heads, -1)
        q_BNLH = self.query(x_BLD).unflatten(-1, heads).transpose(1, 2)
        k_BNLH = self.key(x_BLD).unflatten(-1, heads).transpose(1, 2)
        v_BNLH = self.value(x_BLD).unflatten(-1, heads).transpose(1, 2)
        dropout = self.attention_dropout if self.training else 0.0
        mixed_BNLH = self.attend(q_BNLH, k_BNLH, v_BNLH, keep_B11L, dropout)
        mixed_BLD = self.output(mixed_BNLH.transpose(1, 2).flatten(2))
        x_BLD = self.attention_norm(x_BLD + self.dropout(mixed_BLD))
        wide_BLF = self.activation(self.up(x_BLD))
        out_BLD: Tensor = self.norm(x_BLD + self.dropout(self.down(wide_BLF)))
        return out_BLD


class Encoder(nn.Module):
    """Token ids to hidden states.

    Args:
        config: its shape.

    Attributes:
        checkpointing: keep only each layer's input for the backward pass and compute the rest
            again: about a third more time, a fraction of the memory.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        # ALBERT projects even where E equals D; BERT has no such matrix.
        self.projection: nn.Linear | None = None
        if config.family == "albert":
            self.projection = nn.Linear(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Layer(config) for _ in range(config.num_groups * config.inner_layers)
        )
        self.checkpointing = False

    def schedule(self) -> list[int]:
        """Which parameters each application uses, in order (`layer index -> index in layers`)."""
        config = self.config
        per_group = config.num_layers // config.num_groups
        return [
            (step // per_group) * config.inner_layers + inner
            for step in range(config.num_layers)
            for inner in range(config.inner_layers)
        ]

    def forward(
        self, token_BL: Tensor, length_B: Tensor | None = None, segment_BL: Tensor | None = None
    ) -> Tensor:
        """Encode a batch.

        Args:
            token_BL: ids.
            length_B: tokens of each row that are not padding; None where no row is padded.
            segment_BL: 0 or 1 for the first and second part of a pair; None for all 0.

        Returns:
            Hidden states, [B, L, D].

        Raises:
            UsageError: longer than the position table.
        """
        length = token_BL.shape[1]
        if length > self.config.max_length:
            raise UsageError(
                f"{length} tokens in a sequence, but the model takes {self.config.max_length}; "
                f"preprocess with --max-length {self.config.max_length}"
            )
        keep_B11L = None
        if length_B is not None:
            place_L = torch.arange(length, device=token_BL.device)
            keep_B11L = (place_L < length_B[:, None])[:, None, None, :]
        x_BLD = self.embeddings(token_BL, segment_BL)
        if self.projection is not None:
            x_BLD = self.projection(x_BLD)
        for index in self.schedule():
            layer = self.layers[index]
            if self.checkpointing and self.training:
                x_BLD = checkpoint(layer, x_BLD, keep_B11L, use_reentrant=False)
            else:
                x_BLD = layer(x_BLD, keep_B11L)
        hidden_BLD: Tensor = x_BLD
        return hidden_BLD


def initialise(module: nn.Module, std: float) -> None:
    """Fill a module's parameters as BERT does: normal weights, zero biases, norms of one."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (nn.Linear, nn.LayerNorm)) and part.bias is not None:
            nn.init.zeros_(part.bias)
