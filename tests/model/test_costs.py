"""Parameters and operations by formula, against counted ones."""

from dataclasses import replace

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from albert_rc.checkpoints.hf_names import hub_config
from albert_rc.model.config import EncoderConfig, size_config
from albert_rc.model.cost import encoder_parameters, forward_flops, layer_matrices
from albert_rc.model.encoder import Encoder

SHAPES = {
    **{size: size_config(size) for size in ("tiny", "base", "large", "xlarge", "xxlarge")},
    "groups": EncoderConfig(num_layers=6, num_groups=3, inner_layers=2, vocab_size=500),
    "bert": EncoderConfig(family="bert", embedding_size=768, num_groups=12),
}


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_are_those_of_the_encoder(name):
    config = SHAPES[name]
    with torch.device("meta"):
        encoder = Encoder(config)
    assert encoder_parameters(config) == sum(p.numel() for p in encoder.parameters())
    matrices = [p for p in encoder.layers.parameters() if p.ndim > 1]
    assert layer_matrices(config) == sum(p.numel() for p in matrices)


@pytest.mark.parametrize("size", ["tiny", "base"])
def test_operations_are_those_that_transformers_does(size):
    config = replace(size_config(size), num_layers=3)
    with torch.device("meta"):
        theirs = transformers.AlbertModel(
            transformers.AlbertConfig(**hub_config(config, "cloze")), add_pooling_layer=False
        )
        theirs.set_attn_implementation("eager")
        with FlopCounterMode(display=False) as counter:
            theirs(torch.zeros((2, 40), dtype=torch.int64))
    assert forward_flops(config, [40, 40]) == counter.get_total_flops()


def test_reading_a_few_tokens_saves_most_of_the_last_layer():
    config = size_config("base")
    full, part = forward_flops(config, [368]), forward_flops(config, [368], [20])
    assert 0.92 < part / full < 0.94
    assert forward_flops(config, [368], [368]) == full
