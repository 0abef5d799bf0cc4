"""The start of small encoders: heads look at their neighbours, whatever the words are."""

import pytest
import torch

from albert_rc.model.config import EncoderConfig
from albert_rc.model.encoder import Encoder, initialise
from albert_rc.model.init import OFFSETS, start_with_neighbours


@pytest.mark.parametrize("shape", [(256, 128, 4), (256, 128, 8), (96, 64, 4), (768, 128, 12)])
def test_heads_begin_by_looking_at_their_neighbours(shape):
    hidden, embedding, heads = shape
    config = EncoderConfig(
        vocab_size=500, hidden_size=hidden, embedding_size=embedding, num_heads=heads, num_layers=2,
        ffn_size=128, init_range=0.05,
    )  # fmt: skip
    torch.manual_seed(0)
    encoder = Encoder(config)
    initialise(encoder, config.init_range)
    start_with_neighbours(encoder)
    token_T = torch.randint(0, 500, (300,))
    x_TD = encoder.projection(encoder.embeddings(token_T, torch.arange(300), None))
    layer = encoder.layers[0]
    q, k = (f(x_TD).unflatten(-1, (heads, -1)).transpose(0, 1) for f in (layer.query, layer.key))
    weights = (q @ k.transpose(1, 2) / (hidden // heads) ** 0.5).softmax(-1)
    place = torch.arange(10, 290)
    for head in range(heads):
        offset = OFFSETS[head % len(OFFSETS)]
        mass = {d: float(weights[head, place, place + d].detach().mean()) for d in range(-6, 7)}
        assert max(mass, key=mass.get) == offset
        assert mass[offset] > 0.5


def test_encoders_without_a_projection_are_left_alone():
    config = EncoderConfig(
        family="bert", vocab_size=50, hidden_size=16, embedding_size=16, num_heads=2, ffn_size=32,
        num_layers=2, num_groups=2,
    )  # fmt: skip
    encoder = Encoder(config)
    before = {name: weight.clone() for name, weight in encoder.state_dict().items()}
    start_with_neighbours(encoder)
    assert all(torch.equal(weight, before[name]) for name, weight in encoder.state_dict().items())


@pytest.mark.parametrize("common", ["nothing", "ffn"])
def test_deep_encoders_speak_more_softly_in_each_layer(common):
    """What shared layers pass on again and again must not drown the words: half as much at 3."""

    def spread(layers):
        config = EncoderConfig(
            vocab_size=50, hidden_size=64, embedding_size=32, num_heads=4, num_layers=layers,
            num_groups=layers, common=common, ffn_size=128,
        )  # fmt: skip
        torch.manual_seed(0)
        encoder = Encoder(config)
        initialise(encoder, config.init_range)
        start_with_neighbours(encoder)
        return [
            float(part.weight.detach().std()) for x in encoder.layers for part in (x.output, x.down)
        ]

    shallow, deep = spread(2), spread(3)
    for index in (0, 1):
        assert deep[index] == pytest.approx(shallow[index] / 2, rel=0.1)
    assert deep[:2] == pytest.approx(deep[-2:], rel=0.1)
