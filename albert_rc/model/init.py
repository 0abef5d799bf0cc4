"""Initialisation for small encoders trained from scratch: heads that attend to neighbouring tokens.

With random weights attention starts out uniform, and a small corpus takes thousands of steps to
learn that the words next to a blank matter most; until then a model learns only word frequencies.
Trained BERTs have heads that attend to the next and the previous token (Clark et al. 2019, section
3.1), so we begin with such heads, in the spirit of mimetic initialisation (Trockman and Kolter
2023). Only the starting point differs: every weight is trained as usual, and the checkpoint is an
ordinary ALBERT.
"""

# E embedding size, D hidden size, H head size, F frequencies

from __future__ import annotations

import torch
from torch import Tensor, nn

from albert_rc.model.encoder import Encoder

OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4)
"""Offset of the token that each head attends to; further heads repeat them."""
SHARPNESS = 30.0  # logit of the attended token, before the words' contribution
LOUDNESS = 1.5  # standard deviation of the attention output added to a token
FASTEST, SLOWEST = 1.6, 0.05  # radians a token: neighbours differ clearly, 60 tokens wrap around


@torch.no_grad()
def start_with_neighbours(encoder: Encoder) -> None:
    """Set embeddings, projection and attention so that heads copy the neighbouring words.

    Half of the embedding's dimensions start as sinusoids of the position (Vaswani et al. 2017,
    section 3.5), with very small word components; queries read them directly and keys rotated by
    the offset, so the product peaks where key position - query position = offset.

    Args:
        encoder: freshly initialised; unchanged unless it has a projection.
    """
    if encoder.projection is None:
        return
    table, size = encoder.embeddings.position.weight, encoder.config.embedding_size
    head_size = encoder.config.hidden_size // encoder.config.num_heads
    count = min(size // 4, head_size // 2)  # frequencies, two dimensions each
    if not count:
        return
    rate_F = torch.logspace(0, 1, count, base=SLOWEST / FASTEST) * FASTEST
    angle = torch.arange(len(table))[:, None] * rate_F
    spread = encoder.config.init_range
    nn.init.normal_(table, std=spread / 10)
    table[:, : 2 * count] = torch.cat([angle.sin(), angle.cos()], 1) * spread
    encoder.embeddings.word.weight[:, : 2 * count] *= 0.2
    if encoder.embeddings.segment is not None:  # a constant, which would only dilute the rest
        nn.init.zeros_(encoder.embeddings.segment.weight)
    projection_DE = encoder.projection.weight
    nn.init.orthogonal_(projection_DE)
    # After the norm a sinusoid's amplitude is about this; F pairs add up to the logit's peak.
    sinusoids = 2 * count / size
    amplitude = (0.54 * sinusoids + (1 - sinusoids)) ** -0.5
    gain = (SHARPNESS * head_size**0.5 / (count * amplitude**2)) ** 0.5
    read_ED = torch.linalg.pinv(projection_DE)
    # Each layer blurs the output of the one before, so with many layers each adds less.
    repeats = max(1, encoder.config.num_layers * encoder.config.inner_layers - 1)
    for layer in encoder.layers:
        assert isinstance(layer.query, nn.Linear)
        assert isinstance(layer.key, nn.Linear)
        assert isinstance(layer.value, nn.Linear)
        assert isinstance(layer.output, nn.Linear)
        # Values carry words only, scaled to be noticeable next to the token's own embedding.
        words_ED = read_ED[2 * count :]
        mixing_DE = torch.randn(encoder.config.hidden_size, len(words_ED)) * len(words_ED) ** -0.5
        layer.value.weight.copy_(mixing_DE @ words_ED)
        loudness = LOUDNESS / repeats * encoder.config.hidden_size**-0.5
        nn.init.normal_(layer.output.weight, std=loudness)
        for head in range(encoder.config.num_heads):
            rows = slice(head * head_size, head * head_size + 2 * count)
            offset = OFFSETS[head % len(OFFSETS)]
            layer.query.weight[rows] = gain * read_ED[: 2 * count]
            layer.key.weight[rows] = gain * _turn(read_ED[: 2 * count], rate_F * offset)
    for down in {layer.down for layer in encoder.layers}:  # all layers may share one
        assert isinstance(down, nn.Linear)
        down.weight /= repeats


def _turn(sinusoid_FD: Tensor, angle_F: Tensor) -> Tensor:
    """The sinusoids of the position `angle / rate` tokens before: sin(x - a), cos(x - a)."""
    sin, cos = sinusoid_FD.chunk(2)
    cosine, sine = angle_F.cos()[:, None], angle_F.sin()[:, None]
    return torch.cat([sin * cosine - cos * sine, cos * cosine + sin * sine])
