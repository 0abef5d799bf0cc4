"""On processors with matrix units (AMX) other kernels are chosen; what they compute is the same."""

import pytest
import torch

from albert_rc.model import attention_cpu, linear
from albert_rc.model.attention import dense_attention
from albert_rc.model.layout import Layout
from albert_rc.model.linear import PreparedLinear, has_packing


def attended(q_SNH, kv_T2NH, layout, units, monkeypatch):
    monkeypatch.setattr(attention_cpu, "has_matrix_units", lambda dtype: units)
    with torch.inference_mode():
        return dense_attention(q_SNH, kv_T2NH, layout)


@pytest.mark.parametrize(
    "lengths", [(37,), (64,), (48, 48, 48), (16, 17, 19, 300, 300), (1,)], ids=str
)
@pytest.mark.parametrize("asked", ["all", "some"])
def test_the_fused_kernel_attends_as_two_products_do(lengths, asked, monkeypatch):
    """In fp32, where both are exact; keys that fill up a length must not be seen."""
    torch.manual_seed(0)
    queries = lengths if asked == "all" else tuple(min(length, 5) for length in lengths)
    layout = Layout(queries, lengths)
    q_SNH = torch.randn(sum(queries), 3, 16)
    kv_T2NH = 3 * torch.randn(sum(lengths), 2, 3, 16)
    ours, fused = (attended(q_SNH, kv_T2NH, layout, on, monkeypatch) for on in (False, True))
    assert (ours - fused).abs().max() < 1e-5


def test_the_fused_kernel_is_for_prediction(monkeypatch):
    """Gradients, and layers computed again, need the numbers of the same kernel."""
    called = []
    monkeypatch.setattr(attention_cpu, "has_matrix_units", lambda dtype: True)
    monkeypatch.setattr(attention_cpu, "_fused", lambda *given: called.append(given))
    q_SNH, kv_T2NH = torch.randn(8, 2, 4, requires_grad=True), torch.randn(8, 2, 2, 4)
    layout = Layout((8,), (8,))
    dense_attention(q_SNH, kv_T2NH, layout, keep=False).sum().backward()
    with torch.no_grad():
        dense_attention(q_SNH, kv_T2NH, layout)
    assert not called
    with torch.inference_mode():
        dense_attention(q_SNH, kv_T2NH, layout)
    assert called


@pytest.mark.skipif(
    not has_packing(torch.bfloat16, torch.device("cpu")), reason="no packed bf16 matrices here"
)
@pytest.mark.parametrize("activation", [None, "gelu"])
def test_products_in_parts_are_the_product(activation, monkeypatch):
    torch.manual_seed(0)
    prepared = PreparedLinear([torch.nn.Linear(96, 640)], "bf16", learning=True)
    x_TI = torch.randn(600, 96).bfloat16()
    gradient_TO = torch.randn(600, 640).bfloat16()
    found = []
    for units in (False, True):
        monkeypatch.setattr(linear, "has_matrix_units", lambda dtype, units=units: units)
        found.append((prepared.product(x_TI, activation), prepared.input_gradient(gradient_TO)))
    for whole, parts in zip(*found, strict=True):
        assert whole.shape == parts.shape
        # A kernel may add in another order: the last bit of bf16.
        assert torch.allclose(whole.float(), parts.float(), rtol=2**-7, atol=2**-7)


def test_only_shapes_that_leave_cores_idle_are_divided():
    assert linear._uses_one_core(704, 3072, 768)
    assert not linear._uses_one_core(256, 3072, 768)
    assert not linear._uses_one_core(5632, 384, 1536)
    assert not linear._uses_one_core(704, 768, 3072)
