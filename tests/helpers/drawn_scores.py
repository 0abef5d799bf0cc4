"""Probabilities, and answers drawn by them."""

import numpy as np


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def drawn(chances, seed=0):
    """Right answers that come as often as the probabilities say."""
    rng = np.random.default_rng(seed)
    return (chances.cumsum(-1) > rng.random((len(chances), 1))).argmax(-1)
