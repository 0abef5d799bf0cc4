"""The same answers and gradients on a GPU as on the processor. Skipped where there is none."""

from dataclasses import replace

import pytest
import torch

from albert_rc.model.attention import dense_attention
from albert_rc.model.config import RECOMPUTE, Compute, size_config
from albert_rc.model.heads import ReadingModel
from albert_rc.model.layout import Layout
from albert_rc.model.relative import Bias, bias_table
from albert_rc.stores.batches import Collator

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU was found")
CUDA = torch.device("cuda")
WIDE = {"hidden_size": 64, "ffn_size": 256}  # torchao leaves what is small on the GPU


def model_and_batch(stores, tokenizer, items=(0, 3, 5)):
    torch.manual_seed(0)
    config = replace(size_config("tiny", vocab_size=1600), num_heads=4)
    return ReadingModel(config, "cloze"), Collator(stores["cloze", "train"], tokenizer)(list(items))


@pytest.mark.parametrize("items", [(0, 3, 5), (4,)])
def test_logits_and_gradients_are_those_of_the_processor(stores, tokenizer, items):
    model, batch = model_and_batch(stores, tokenizer, items)
    expected = model(batch)
    expected.loss_sum.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    model.to(CUDA)
    found = model(batch.to(CUDA))
    found.loss_sum.backward()
    torch.testing.assert_close(found.logits_QK.cpu(), expected.logits_QK, atol=1e-3, rtol=1e-3)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(
            parameter.grad.cpu(), gradients[name], atol=1e-3, rtol=1e-2, msg=name
        )


@pytest.mark.parametrize("precision", ["bf16", "fp16", "int8"])
def test_lower_precisions_stay_near(stores, tokenizer, precision):
    model, batch = model_and_batch(stores, tokenizer)
    with torch.inference_mode():
        exact = model(batch).logits_QK
        model.to(CUDA).encoder.compute = Compute(precision=precision)
        found = model(batch.to(CUDA)).logits_QK.cpu()
        model.encoder.freeze()
        assert torch.equal(model(batch.to(CUDA)).logits_QK.cpu(), found)
    finite = exact.isfinite()
    assert (exact - found)[finite].abs().max() < 0.15


@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_recomputing_gives_the_same_gradients(stores, tokenizer, recompute):
    model, batch = model_and_batch(stores, tokenizer)
    model.to(CUDA)
    gradients = []
    for level in ("nothing", recompute):
        model.zero_grad()
        model.encoder.compute = Compute(precision="bf16", recompute=level)
        model(batch.to(CUDA)).loss_sum.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-2)


LAYOUTS = {
    "equal": Layout((24, 24, 24), (24, 24, 24)),
    "several lengths": Layout((40, 7, 24), (40, 7, 24)),
    "asked at some": Layout((3, 0, 5), (40, 7, 24)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", LAYOUTS)
def test_attention_is_that_of_the_processor(name, biased, dtype):
    """In bf16 without biases it is flash attention, which needs no padding."""
    torch.manual_seed(0)
    layout, heads, size = LAYOUTS[name], 4, 32
    asked, tokens = sum(layout.queries), sum(layout.keys)
    given = [
        torch.randn(shape).requires_grad_()
        for shape in ((asked, heads, size), (tokens, 2, heads, size), (32, heads))
    ]
    places = [torch.arange(a) for a in layout.queries]
    place_S = torch.cat(places) if name == "asked at some" else None
    weight = torch.randn(asked, heads, size)

    def found(device, kind):
        q_SNH, kv_T2NH, weight_KN = (x.to(device) for x in given)
        bias = None
        if biased:
            at_S = None if place_S is None else place_S.to(device)
            bias = Bias(bias_table(weight_KN, max(layout.keys)), at_S)
        out = dense_attention(q_SNH.to(kind), kv_T2NH.to(kind), layout, bias=bias).float()
        learned = given[: 3 if biased else 2]
        return out.cpu(), torch.autograd.grad((out * weight.to(device)).sum(), learned)

    expected, gradients = found("cpu", torch.float32)
    near = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 0.08, "rtol": 0.03}
    there, learned = found("cuda", dtype)
    torch.testing.assert_close(there, expected, **near)
    for a, b in zip(learned, gradients, strict=True):
        scale = float(b.abs().max())
        torch.testing.assert_close(a / scale, b / scale, **near)
