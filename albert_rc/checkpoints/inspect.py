"""Model inspection: parameter counts, cost, and how far each layer moves its input."""

# T tokens of all sequences concatenated, D hidden

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn

from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.load import load_model
from albert_rc.errors import DataError
from albert_rc.model.config import EncoderConfig, size_config
from albert_rc.model.cost import encoder_parameters, forward_flops, layer_parameters
from albert_rc.model.encoder import Encoder, evaluating
from albert_rc.text.tokenizer import Tokenizer

PUBLISHED = {
    "bert-base": 108,
    "bert-large": 334,
    "bert-xlarge": 1270,
    "base": 12,
    "large": 18,
    "xlarge": 60,
    "xxlarge": 235,
}
"""Millions of parameters in Lan et al. 2020, Tables 1 and 2."""
MAX_TOKENS = 20_000
"""Number of tokens after which reading of passages stops."""


@dataclass(frozen=True, kw_only=True)
class Makeup:
    """Parameters and cost of an encoder with its pooler."""

    name: str
    embeddings: int
    """Parameters of word, position and segment embeddings, their norm, and the projection."""
    layers: int
    pooler: int
    flops_per_token: float
    """FLOPs per token of a forward pass over 512 tokens; a multiply-add counts as two."""
    published: int | None = None
    """Published number of parameters in millions, if any."""

    @property
    def total(self) -> int:
        """All parameters, as Hugging Face's model class of the family counts them."""
        return self.embeddings + self.layers + self.pooler


def made_of(name: str, config: EncoderConfig, published: int | None = None) -> Makeup:
    """Parameters and cost of an encoder, from its shape alone."""
    layers = layer_parameters(config)
    length = min(512, config.max_length)
    return Makeup(
        name=name,
        embeddings=encoder_parameters(config) - layers,
        layers=layers,
        pooler=config.hidden_size * (config.hidden_size + 1),
        flops_per_token=forward_flops(config, [length]) / length,
        published=published,
    )


def parameter_table(sources: Sequence[str] = ()) -> list[Makeup]:
    """The published sizes of BERT and ALBERT, then any checkpoints.

    Raises:
        UsageError: unknown checkpoint.
        CheckpointError: it has no usable config.json.
    """
    rows = [made_of(_full_name(size), size_config(size), n) for size, n in PUBLISHED.items()]
    return rows + [made_of(str(s), read_config(resolve_source(s, ""))[0]) for s in sources]


def _full_name(size: str) -> str:
    return size if size.startswith("bert-") else f"albert-{size}"


@dataclass(frozen=True, kw_only=True)
class LayerDistance:
    """Distance between a layer's input and output, averaged over tokens."""

    layer: int
    """Number of the layer, from 1."""
    distance: float
    """L2 distance between input and output."""
    degrees: float
    """Angle between input and output."""


def layer_distances(
    encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str]
) -> list[LayerDistance]:
    """Input against output of each layer (Lan et al. 2020, section 3.1, Figure 1).

    Args:
        encoder: on the CPU.
        tokenizer: the model's.
        texts: passages, each truncated to the encoder's longest sequence.

    Raises:
        DataError: no text.
    """
    longest = encoder.config.max_length
    # Layers may be one module that is called several times: only the order tells them apart.
    depth = encoder.config.num_layers * encoder.config.inner_layers
    order = cycle(range(depth))
    totals = [[0.0, 0.0] for _ in range(depth)]

    def note(
        module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor | tuple[Tensor, Tensor]
    ) -> None:
        if isinstance(output, tuple):  # two streams of a reversible layer; their mean counts
            before_TD, after_TD = (inputs[0] + inputs[1]) / 2, (output[0] + output[1]) / 2
        else:
            before_TD, after_TD = inputs[0], output
        # Rows after the text are padding.
        count = len(token_T)
        before_TD, after_TD = before_TD[:count].float(), after_TD[:count].float()
        index = next(order)
        cosine_T = nn.functional.cosine_similarity(before_TD, after_TD, dim=-1)
        totals[index][0] += float((after_TD - before_TD).norm(dim=-1).sum())
        totals[index][1] += float(cosine_T.clamp(-1, 1).acos().rad2deg().sum())

    hooks = [layer.register_forward_hook(note) for layer in encoder.layers]
    seen = 0
    try:
        with evaluating(encoder, encoder):
            for text in texts:
                ids = tokenizer.encode([text])[0][: longest - 2]
                if not ids:
                    continue
                token_T = torch.tensor([tokenizer.cls_id, *ids, tokenizer.sep_id])
                encoder(token_T, torch.arange(len(token_T)), (len(token_T),))
                seen += len(token_T)
                if seen >= MAX_TOKENS:
                    break
    finally:
        for hook in hooks:
            hook.remove()
    if not seen:
        raise DataError(
            "no text was found; give a file with text, or papers with right answers (their blanks "
            "are filled in)"
        )
    return [
        LayerDistance(layer=number, distance=far / seen, degrees=turned / seen)
        for number, (far, turned) in enumerate(totals, 1)
    ]


def distances_of(source: str | Path, texts: Sequence[str]) -> list[LayerDistance]:
    """`layer_distances` of a checkpoint."""
    loaded = load_model(resolve_source(source, ""), "cloze")
    return layer_distances(loaded.model.encoder, loaded.tokenizer, texts)
