"""Which parameters each layer draws on (Lan et al. 2020, sections 3.1 and 4.5)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from albert_rc.model.config import EncoderConfig

PARTS = {
    "attention": ("query", "key", "value", "output", "attention_norm"),
    "ffn": ("up", "down", "norm"),
}
"""The parts of a layer, by what all groups may have in common."""


def schedule(config: EncoderConfig) -> list[int]:
    """Which parameters each application uses, in order (`step -> index in layers`)."""
    per_group = config.num_layers // config.num_groups
    return [
        (step // per_group) * config.inner_layers + inner
        for step in range(config.num_layers)
        for inner in range(config.inner_layers)
    ]


def tie(layers: Sequence[nn.Module], common: str) -> None:
    """Let all layers have the first one's parts, so that they are one parameter each."""
    for layer in layers[1:]:
        for part in PARTS.get(common, ()):
            setattr(layer, part, getattr(layers[0], part))
