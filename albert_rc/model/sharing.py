"""Parameter sharing between layers (Lan et al. 2020, sections 3.1 and 4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from albert_rc.model.config import EncoderConfig

PARTS = {
    "attention": ("query", "key", "value", "output", "attention_norm"),
    "ffn": ("up", "down", "norm"),
}
"""Shared parts of a layer, by sharing setting."""


def schedule(config: EncoderConfig) -> list[int]:
    """The layer of each application, in order (`step -> index in layers`)."""
    per_group = config.num_layers // config.num_groups
    return [
        (step // per_group) * config.inner_layers + inner
        for step in range(config.num_layers)
        for inner in range(config.inner_layers)
    ]


def tie(layers: Sequence[nn.Module], common: str) -> None:
    """Share the first layer's parts with all layers."""
    for layer in layers[1:]:
        for part in PARTS.get(common, ()):
            setattr(layer, part, getattr(layers[0], part))
