"""Biases of attention by the distance of two tokens; `tests/parity` compares them with MPNet's."""

import pytest
import torch

from albert_rc.errors import UsageError
from albert_rc.model import attention_cpu
from albert_rc.model.attention import dense_attention
from albert_rc.model.attention_gpu import attention_on_gpu
from albert_rc.model.config import EncoderConfig
from albert_rc.model.dropout import Dropout
from albert_rc.model.layout import Layout
from albert_rc.model.relative import Bias, bias_table, bucket

PLACES = {  # of the queries, for sequences of 5, 4, 19 and 21 tokens
    "all": None,
    "read at a few": [[0, 4], [2, 3], [1, 18], [5, 6, 7, 20]],
}
LENGTHS = (5, 4, 19, 21)


def made(name):
    """Layout, queries, keys and values, bias per bucket, places of the queries."""
    places = PLACES[name]
    layout = Layout(LENGTHS if places is None else tuple(map(len, places)), LENGTHS)
    generator = torch.Generator().manual_seed(3)

    def normal(*size):
        made = torch.randn(*size, generator=generator, dtype=torch.float64)
        return made.requires_grad_()

    place_S = None if places is None else torch.tensor([p for some in places for p in some])
    q_SNH, kv_T2NH = normal(sum(layout.queries), 2, 3), normal(sum(LENGTHS), 2, 2, 3)
    return layout, q_SNH, kv_T2NH, normal(8, 2), place_S


def one_by_one(layout, q_SNH, kv_T2NH, weight_KN, place_S):
    """Attention of each sequence from the formula, without padding."""
    parts, start, first = [], 0, 0
    for asked, length in zip(layout.queries, layout.keys, strict=True):
        q_SNd, kv = q_SNH[start : start + asked], kv_T2NH[first : first + length]
        at_S = torch.arange(length) if place_S is None else place_S[start : start + asked]
        bias_STN = weight_KN[bucket(torch.arange(length)[None] - at_S[:, None], len(weight_KN))]
        score_NST = torch.einsum("snh,tnh->nst", q_SNd, kv[:, 0]) * 3**-0.5
        weight_NST = (score_NST + bias_STN.permute(2, 0, 1)).softmax(-1)
        parts.append(torch.einsum("nst,tnh->snh", weight_NST, kv[:, 1]))
        start, first = start + asked, first + length
    return torch.cat(parts)


@pytest.mark.parametrize("attend", [dense_attention, attention_on_gpu])
@pytest.mark.parametrize("name", PLACES)
def test_biased_attention_is_the_formula(name, attend):
    layout, q_SNH, kv_T2NH, weight_KN, place_S = made(name)
    bias = Bias(bias_table(weight_KN, max(LENGTHS)), place_S)
    dropout = Dropout(0.0) if attend is dense_attention else 0.0
    found = attend(q_SNH, kv_T2NH, layout, dropout, bias=bias)
    expected = one_by_one(layout, q_SNH, kv_T2NH, weight_KN, place_S)
    torch.testing.assert_close(found, expected)
    learned, weight = (q_SNH, kv_T2NH, weight_KN), torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad((found * weight).sum(), learned),
        torch.autograd.grad((expected * weight).sum(), learned),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", PLACES)
def test_the_fused_kernel_has_the_biases_too(name, monkeypatch):
    """It is used for prediction on processors with matrix units."""
    layout, q_SNH, kv_T2NH, weight_KN, place_S = (
        x.detach() if isinstance(x, torch.Tensor) else x for x in made(name)
    )
    monkeypatch.setattr(attention_cpu, "has_matrix_units", lambda dtype: True)
    bias = Bias(bias_table(weight_KN, max(LENGTHS)), place_S)
    expected = one_by_one(layout, q_SNH, kv_T2NH, weight_KN, place_S)
    for _ in range(2):  # the second layer finds the biases of the first
        with torch.inference_mode():
            found = dense_attention(q_SNH, kv_T2NH, layout, Dropout(0.0), bias=bias)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", PLACES)
def test_its_gradient_is_the_derivative_with_dropout(name, keep):
    layout, q_SNH, kv_T2NH, weight_KN, place_S = made(name)

    def attend(q_SNH, kv_T2NH, weight_KN):
        bias = Bias(bias_table(weight_KN, max(LENGTHS)), place_S)
        return dense_attention(q_SNH, kv_T2NH, layout, Dropout(0.3, (5,)), keep, bias)

    assert torch.autograd.gradcheck(attend, (q_SNH, kv_T2NH, weight_KN))


def test_near_distances_have_their_own_bucket_and_far_ones_share():
    found = bucket(torch.arange(-300, 301), 32).tolist()
    before, after = found[:300][::-1], found[301:]
    assert found[300] == 0
    assert before[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert after == [place + 16 for place in before]
    assert before == sorted(before)
    assert before[127:] == [15] * 173


def test_reversible_layers_refuse_biases():
    with pytest.raises(UsageError, match="reversible"):
        EncoderConfig(family="mpnet", relative_buckets=32, residual="reversible")


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_too_few_buckets_are_refused(buckets):
    with pytest.raises(UsageError, match="at least 4, or 0"):
        EncoderConfig(family="mpnet", relative_buckets=buckets)
