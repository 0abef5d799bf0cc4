"""Attention and matrix products written by hand: values and gradients against torch's own."""

import pytest
import torch
import torch.nn.functional as F
from small import model_for
from torch import nn

from albert_rc.model import attention_cpu
from albert_rc.model import linear as products
from albert_rc.model.attention import dense_attention
from albert_rc.model.attention_gpu import attention_on_gpu
from albert_rc.model.config import Compute
from albert_rc.model.dropout import Dropout
from albert_rc.model.int8 import has_int8
from albert_rc.model.layout import Layout, round_rows
from albert_rc.model.linear import Gradients, PreparedLinear, linear
from albert_rc.stores.batches import Collator

LAYOUTS = {
    "one": Layout((7,), (7,)),
    "several": Layout((5, 1, 9), (5, 1, 9)),
    "equal": Layout((4, 4), (4, 4)),
    "read at a few": Layout((2, 0, 3), (5, 4, 9)),
    "runs": Layout((3, 3, 3, 2, 2, 3), (3, 3, 3, 2, 2, 3)),
    "read at none": Layout((0, 0, 2), (4, 4, 4)),
    "read at none at the end": Layout((2, 3, 0), (4, 4, 4)),
    "read nowhere": Layout((0, 0), (4, 5)),
}


def tensors(layout, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    q_SNH = torch.randn(sum(layout.queries), 2, 3, generator=generator, dtype=dtype)
    kv_T2NH = torch.randn(sum(layout.keys), 2, 2, 3, generator=generator, dtype=dtype)
    return q_SNH.requires_grad_(), kv_T2NH.requires_grad_()


def reference(q_SNH, kv_T2NH, layout):
    parts = []
    asked, answering = q_SNH.split(layout.queries), kv_T2NH.split(layout.keys)
    for some_SNH, some_T2NH in zip(asked, answering, strict=True):
        k_NTH, v_NTH = some_T2NH.permute(1, 2, 0, 3)
        out = F.scaled_dot_product_attention(some_SNH.transpose(0, 1), k_NTH, v_NTH)
        parts.append(out.transpose(0, 1))
    return torch.cat(parts)


def test_short_sequences_of_like_length_go_together():
    layout = Layout((3, 4, 3, 2, 2, 9), (3, 4, 3, 2, 2, 9))
    # Two of length 4 are 32 pairs, three of them too many; the nine alone is, filled up to 12.
    runs = layout.runs(40, multiple=4)
    assert [run.count for run in runs] == [2, 2, 1, 1]
    assert [run.queries.all for run in runs] == [
        slice(0, 7), slice(7, 12), slice(12, 14), slice(14, 23)
    ]  # fmt: skip
    assert [run.keys.length for run in runs] == [4, 4, 4, 12]
    assert [run.count for run in LAYOUTS["read at none"].runs(20, multiple=1)] == [2, 1]


def test_sequences_of_several_lengths_join_while_little_is_padding():
    layout = Layout((10, 9, 8, 4, 4), (10, 9, 8, 4, 4))
    # 100 + 81 pairs in 2 x 100: a tenth is padding. With 64 more, 55 of 300 would be.
    runs = layout.runs(1000, multiple=1, spare=0.1)
    assert [run.count for run in runs] == [2, 1, 2]
    assert [run.keys.length for run in runs] == [10, 8, 4]
    assert [run.queries.all for run in runs] == [slice(0, 19), slice(19, 27), slice(27, 35)]
    assert [run.count for run in layout.runs(199, multiple=1, spare=0.1)] == [1, 1, 1, 2]
    assert [run.count for run in layout.runs(1000, multiple=1)] == [1, 1, 1, 2]
    (joined,) = layout.runs(1000, multiple=1, spare=0.9)
    q_SNH, kv_T2NH = (t.detach() for t in tensors(layout))
    k_XTH, v_XTH = joined.keys.stacks(kv_T2NH, clear=True)
    assert k_XTH.is_contiguous()
    assert v_XTH.shape == (10, 10, 3)
    # The third sequence has rows 19 to 26; its second head is matrix 5.
    assert torch.equal(k_XTH[5, :8], kv_T2NH[19:27, 0, 1])
    assert not k_XTH[5, 8:].any()
    assert torch.equal(v_XTH[5, :8], kv_T2NH[19:27, 1, 1])
    again_SNH = torch.zeros_like(q_SNH)
    joined.queries.write(again_SNH, joined.queries.matrices(q_SNH, 0.5), 2.0)
    torch.testing.assert_close(again_SNH, q_SNH)


def test_batches_have_few_numbers_of_tokens():
    counts = range(1, 20_000)
    found = [round_rows(count) for count in counts]
    assert all(
        count <= more <= max(count + 15, 1.0626 * count)
        for count, more in zip(counts, found, strict=True)
    )
    assert len({more for more in found if 4096 < more <= 8192}) == 16


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_rows_of_no_sequence_get_nothing_and_give_nothing(dropout):
    layout = LAYOUTS["read at a few"]
    q_SNH, kv_T2NH = tensors(layout)
    dropping = Dropout(dropout, (1, 2))
    expected = dense_attention(q_SNH, kv_T2NH, layout, dropping)
    more_q = torch.cat([q_SNH, torch.full((3, 2, 3), 7.0)])
    more_kv = torch.cat([kv_T2NH, torch.full((5, 2, 2, 3), 7.0)])
    found = dense_attention(more_q, more_kv, layout, dropping)
    assert torch.equal(found[: len(expected)], expected)
    assert not found[len(expected) :].any()
    gradients = torch.autograd.grad(found.sum(), (more_q, more_kv))
    for gradient, own in zip(
        gradients, torch.autograd.grad(expected.sum(), (q_SNH, kv_T2NH)), strict=True
    ):
        assert torch.equal(gradient[: len(own)], own)
        assert not gradient[len(own) :].any()


@pytest.mark.parametrize(("attend", "none"), [(dense_attention, ()), (attention_on_gpu, (0.0,))])
@pytest.mark.parametrize("name", LAYOUTS)
def test_attention_stays_within_its_sequence(name, attend, none):
    layout = LAYOUTS[name]
    q_SNH, kv_T2NH = tensors(layout)
    found, expected = attend(q_SNH, kv_T2NH, layout, *none), reference(q_SNH, kv_T2NH, layout)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad((found * weight).sum(), (q_SNH, kv_T2NH)),
        torch.autograd.grad((expected * weight).sum(), (q_SNH, kv_T2NH)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("name", LAYOUTS)
def test_attentions_gradient_is_the_derivative(name, dropout, keep, together, monkeypatch):
    """Also where sequences of several lengths are computed together, as on AMX."""
    layout = LAYOUTS[name]
    monkeypatch.setattr(attention_cpu, "has_matrix_units", lambda dtype: together)
    monkeypatch.setattr(attention_cpu, "SPARE_AMX", 0.9)

    def attend(q_SNH, kv_T2NH):
        return dense_attention(q_SNH, kv_T2NH, layout, Dropout(dropout, (3,)), keep)

    assert torch.autograd.gradcheck(attend, tensors(layout))


def test_dropout_of_attention_keeps_the_mean():
    layout = Layout((64,), (64,))
    q_SNH, kv_T2NH = (t.detach() for t in tensors(layout))
    exact = dense_attention(q_SNH, kv_T2NH, layout)
    many = torch.stack(
        [dense_attention(q_SNH, kv_T2NH, layout, Dropout(0.2, (key,))) for key in range(400)]
    )
    assert (many[0] - exact).abs().max() > 0.1
    assert (many.mean(0) - exact).abs().max() < 0.1


def test_biases_gradients_in_bf16_are_the_sums_of_rows():
    gradient_TO = torch.randn(3000, 12).bfloat16()
    exact_O = gradient_TO.double().sum(0)
    found_O = products._sum_of_rows(gradient_TO)
    assert found_O.dtype == torch.float32
    # Added in fp32 and rounded once.
    assert (found_O - exact_O).abs().max() <= 2**-8 * exact_O.abs().max()


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("activation", [None, F.gelu])
def test_a_matrix_applied_five_times_gets_its_whole_gradient(activation, packing, monkeypatch):
    if not packing:
        monkeypatch.setattr(products, "has_packing", lambda dtype, device: False)
    torch.manual_seed(0)
    maps = [nn.Linear(16, 12), nn.Linear(16, 4)]
    x_TI = torch.randn(9, 16, requires_grad=True)
    prepared, gradients = PreparedLinear(maps, "fp32", learning=True), Gradients()
    found = x_TI
    for step in range(5):
        found = linear(found, prepared, gradients, step == 0, activation)
    weight = torch.randn_like(found)
    (found * weight).sum().backward()
    mine = [x_TI.grad, *(p.grad for p in prepared.parameters)]
    x_TI.grad = None
    for part in maps:
        part.zero_grad()
    expected = x_TI
    for _ in range(5):
        before = expected if activation is None else activation(expected)
        expected = torch.cat([part(before) for part in maps], -1)
    torch.testing.assert_close(found, expected)
    (expected * weight).sum().backward()
    for a, b in zip(mine, [x_TI.grad, *(p.grad for p in prepared.parameters)], strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_gradients_of_several_passes_are_summed_in_place(precision, monkeypatch):
    """Row by row into one tensor, and the same as autograd's sum."""
    monkeypatch.setattr(products, "ROWS", 5)
    torch.manual_seed(0)
    maps = [nn.Linear(16, 12), nn.Linear(16, 4)]
    prepared = PreparedLinear(maps, precision, learning=True)
    inputs = torch.randn(3, 9, 16).to(prepared.dtype)

    def passes(in_place):
        for part in maps:
            part.zero_grad()
        places = []
        for x_TI in inputs:
            gradients, found = Gradients(in_place), x_TI
            for step in range(3):
                found = linear(found, prepared, gradients, step == 0)
            found.float().square().sum().backward()
            places.append([p.grad.data_ptr() for p in prepared.parameters])
        return places, [p.grad.clone() for p in prepared.parameters]

    _, expected = passes(in_place=False)
    places, found = passes(in_place=True)
    assert places[0] == places[1] == places[2]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("task", ["cloze", "choice"])
def test_what_the_head_does_not_read_is_not_computed(stores, tokenizer, task):
    """The last layer at the read tokens only gives what the whole layer gives there."""
    store = stores["cloze" if task == "cloze" else "race", "train"]
    batch = Collator(store, tokenizer)([0, 2, 5])
    encoder = model_for(task).encoder
    given = (batch.token_T, batch.place_T, batch.lengths, batch.segment_T)
    part, whole = encoder(*given, batch.read_S, batch.reads), encoder(*given)
    assert part.shape[0] == sum(batch.reads) < whole.shape[0]
    torch.testing.assert_close(part, whole[batch.read_S], atol=1e-5, rtol=1e-5)


def test_weights_that_move_are_prepared_anew(stores, tokenizer):
    """An optimiser writes past version counters; only `unchanged` may keep what was prepared."""
    model = model_for("cloze")
    model.encoder.compute = Compute(precision="bf16")
    batch = Collator(stores["cloze", "dev"], tokenizer)([0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    with model.encoder.unchanged():
        before = model(batch)
        before.loss_sum.backward()
        kept = model.encoder._kept
        model(batch)
        assert model.encoder._kept is kept
    optimizer.step()
    with torch.no_grad():
        after = model(batch)
    assert model.encoder._kept is None
    assert not torch.allclose(before.logits_QK, after.logits_QK, atol=1e-2)


def test_one_promise_within_another_keeps_what_was_prepared():
    encoder = model_for("cloze").encoder
    with encoder.unchanged():
        with encoder.unchanged():
            kept = encoder._matrices(False)
        assert encoder._matrices(False) is kept
    assert encoder._kept is None


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_frozen_encoder_predicts_the_same_without_its_weights(stores, tokenizer, precision):
    if precision == "int8" and not has_int8(torch.device("cpu")):
        pytest.skip("this processor has no 8-bit products")
    batch = Collator(stores["cloze", "dev"], tokenizer)([0, 1])
    model = model_for("cloze").eval()
    model.encoder.compute = Compute(precision=precision)
    with torch.inference_mode():
        before = model(batch).logits_QK
    model.encoder.freeze()
    model.encoder.freeze()  # changes nothing
    with torch.inference_mode(), model.encoder.unchanged():
        assert torch.equal(model(batch).logits_QK, before)
    with torch.inference_mode():
        assert torch.equal(model(batch).logits_QK, before)
    layers = list(model.encoder.layers.named_parameters())
    matrices = [p for name, p in layers if name.endswith("weight") and "norm" not in name]
    assert len(matrices) == 6
    assert sum(p.numel() for p in matrices) == 0
    with pytest.raises(RuntimeError, match="without gradients"):
        model(batch)
    model.encoder.compute = Compute(precision="fp16")
    with torch.inference_mode(), pytest.raises(RuntimeError, match="in that precision alone"):
        model(batch)


def test_frozen_within_a_promise_it_stays_frozen_after_it(stores, tokenizer):
    batch = Collator(stores["cloze", "dev"], tokenizer)([0])
    model = model_for("cloze").eval()
    with torch.inference_mode():
        with model.encoder.unchanged():
            before = model(batch).logits_QK
            model.encoder.freeze()
        assert torch.equal(model(batch).logits_QK, before)
