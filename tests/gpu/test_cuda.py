"""The same answers and gradients on a GPU as on the processor. Skipped where there is none."""

from dataclasses import replace

import pytest
import torch

from albert_rc.model.config import RECOMPUTE, Compute, size_config
from albert_rc.model.heads import ReadingModel
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
