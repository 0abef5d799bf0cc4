"""A small model for tests, and a training task for the planner's."""

import torch

from albert_rc.model.config import EncoderConfig, size_config
from albert_rc.model.heads import ReadingModel
from albert_rc.training.memory.footprint import StepShape

SHAPE = EncoderConfig(
    vocab_size=1600, embedding_size=16, hidden_size=32, num_layers=2, num_heads=4, ffn_size=64
)


def model_for(task, score="mean"):
    torch.manual_seed(0)
    model = ReadingModel(SHAPE, task, score).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def task(size="xxlarge", items=2, device="cuda", **changes):
    given = {
        "config": size_config(size),
        "lengths": [512] * 40,
        "longest": 512,
        "items": items,
        "precision": "bf16",
        "device": device,
    }
    return StepShape(**(given | changes))
