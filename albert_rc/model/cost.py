"""Cost of a forward pass: parameters and floating-point operations, from the shape alone."""

from __future__ import annotations

from collections.abc import Sequence

from albert_rc.model.config import EncoderConfig


def _copies(config: EncoderConfig) -> tuple[int, int]:
    """Number of distinct attentions and of distinct feed-forwards."""
    layers = config.num_groups * config.inner_layers
    return 1 if config.common == "attention" else layers, 1 if config.common == "ffn" else layers


def layer_parameters(config: EncoderConfig) -> int:
    """Parameters of all layers, each shared one counted once: D x D maps, feed-forwards, norms."""
    hidden, wide = config.hidden_size, config.ffn_size
    attentions, feed_forwards = _copies(config)
    attention = 4 * hidden * (hidden + 1) + 2 * hidden
    feed_forward = 2 * hidden * wide + wide + hidden + 2 * hidden
    return attentions * attention + feed_forwards * feed_forward


def layer_matrices(config: EncoderConfig) -> int:
    """Elements of the matrices of all layers, each shared matrix counted once."""
    attentions, feed_forwards = _copies(config)
    return (
        attentions * 4 * config.hidden_size**2
        + feed_forwards * 2 * config.hidden_size * config.ffn_size
    )


def encoder_parameters(config: EncoderConfig) -> int:
    """Parameters of embeddings and layers, each shared matrix counted once."""
    size = config.embedding_size
    segments = 0 if config.family == "mpnet" else config.num_segments
    embeddings = (config.vocab_size + config.max_positions + segments) * size + 2 * size
    embeddings += config.relative_buckets * config.num_heads
    if config.family == "albert":
        embeddings += config.hidden_size * (size + 1)
    if config.residual == "reversible":
        embeddings += 2 * config.hidden_size  # the final norm
    return embeddings + layer_parameters(config)


def forward_flops(
    config: EncoderConfig, lengths: Sequence[int], reads: Sequence[int] | None = None
) -> float:
    """Operations of the matrix products of an encoder's forward pass; a multiply-add counts as two.

    Args:
        config: the encoder's shape.
        lengths: tokens computed in each sequence, including any padding.
        reads: tokens of each sequence for which the last layer is computed; all by default.

    Returns:
        Operations. A training step takes three times as many, without recomputation.
    """
    hidden, wide = config.hidden_size, config.ffn_size
    layers = config.num_layers * config.inner_layers
    tokens = sum(lengths)
    read = tokens if reads is None else sum(reads)
    last_reads = lengths if reads is None else reads
    key_value = 4.0 * hidden * hidden * tokens
    rest = 4.0 * hidden * hidden + 4.0 * hidden * wide
    mixing = 4.0 * hidden * sum(length * length for length in lengths)
    last_mixing = 4.0 * hidden * sum(r * n for r, n in zip(last_reads, lengths, strict=True))
    full_layer = key_value + rest * tokens + mixing
    last_layer = key_value + rest * read + last_mixing
    projection = 2.0 * config.embedding_size * hidden * tokens if config.family == "albert" else 0.0
    return projection + (layers - 1) * full_layer + last_layer


def word_flops(config: EncoderConfig, words: int) -> float:
    """Operations of the masked-LM head's matrix products in a forward pass; see `forward_flops`.

    Args:
        config: the encoder's shape.
        words: positions whose logits over the vocabulary are computed.
    """
    return 2.0 * words * config.embedding_size * (config.hidden_size + config.vocab_size)
