"""The loss over the vocabulary: torch's own, with and without blocks."""

import pytest
import torch
from torch.nn import functional

from albert_rc.model import word_loss as module
from albert_rc.model.word_loss import Taught, block_rows, taught_word_loss


@pytest.fixture(params=[1, 7, 1000])
def rows(request, monkeypatch):
    """Words of a block, of 50 pieces each."""
    monkeypatch.setitem(module.BLOCK_BYTES, "cpu", request.param * 50 * 4)
    assert block_rows(50, "cpu") == request.param


def inputs(words=23):
    draw = torch.Generator().manual_seed(0)
    shapes = [(words, 8), (50, 8), (50,)]
    tensors = [torch.randn(shape, generator=draw).requires_grad_() for shape in shapes]
    return *tensors, torch.randint(50, (words,), generator=draw)


def test_it_is_cross_entropy_and_so_are_its_gradients(rows):
    vector, word, offset, token = inputs()
    loss, _, correct = taught_word_loss(vector, word, offset, token, None)
    (3 * loss).backward()
    found = [tensor.grad for tensor in (vector, word, offset)]
    others = inputs()
    logits = others[0] @ others[1].T + others[2]
    expected = functional.cross_entropy(logits, token, reduction="sum")
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected)
    assert correct == (logits.argmax(-1) == token).sum()
    for one, other in zip(found, others, strict=False):
        torch.testing.assert_close(one, other.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_a_teachers_probabilities_have_their_share(rows, weight):
    """The teacher's embeddings are wider; its numbers need no gradient."""
    vector, word, offset, token = inputs()
    draw = torch.Generator().manual_seed(1)
    shapes = [(23, 12), (50, 12), (50,)]
    wide, pieces, bias = (torch.randn(shape, generator=draw) for shape in shapes)
    taught = Taught(vector_ME=wide, word_VE=pieces, offset_V=bias, weight=weight)
    loss, plain, _ = taught_word_loss(vector, word, offset, token, taught)
    (3 * loss).backward()
    others = inputs()
    logits = others[0] @ others[1].T + others[2]
    target = (wide @ pieces.T + bias).softmax(-1)
    right = functional.cross_entropy(logits, token, reduction="sum")
    soft = functional.cross_entropy(logits, target, reduction="sum")
    expected = (1 - weight) * right + weight * soft
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(plain, right.detach())
    for one, other in zip((vector, word, offset), others, strict=False):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-5)


def test_products_in_bf16_are_as_near_as_bf16_is(rows):
    vector, word, offset, token = inputs(words=200)
    exact = inputs(words=200)
    loss, _, correct = taught_word_loss(vector, word, offset, token, None, torch.bfloat16)
    wanted, _, right = taught_word_loss(*exact, None)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(loss, wanted, rtol=2e-3, atol=0)
    assert abs(correct - right) <= 2  # of 200, of random weights
    for one, other in zip((vector, word, offset), exact, strict=False):
        assert one.grad.dtype == torch.float32
        # Each factor is rounded by 2^-9 at most, and each product's sum once more.
        assert (one.grad - other.grad).norm() < 2**-7 * other.grad.norm()


def test_what_nothing_is_learned_from_is_scored_in_fp32(rows):
    vector, word, offset, token = inputs()
    with torch.inference_mode():
        found = taught_word_loss(vector, word, offset, token, None, torch.bfloat16)
        assert found == taught_word_loss(vector, word, offset, token, None)


def test_it_is_the_same_where_nothing_is_learned(rows):
    vector, word, offset, token = inputs()
    with torch.inference_mode():
        loss, _, correct = taught_word_loss(vector, word, offset, token, None)
    learned, _, counted = taught_word_loss(vector, word, offset, token, None)
    torch.testing.assert_close(loss, learned.detach())
    assert correct == counted


def test_correct_predictions_are_above_all_others(rows):
    vector, word, offset, token = (x.detach() for x in inputs())
    best = (vector @ word.T + offset).argmax(-1)
    token[::2] = best[::2]
    _, _, correct = taught_word_loss(vector, word, offset, token, None)
    assert correct == (token == best).sum() >= 12
    word[1], offset[1] = word[0], offset[0]  # two pieces with the same logits
    _, _, correct = taught_word_loss(vector, word, offset, torch.zeros_like(token), None)
    assert correct == 0
    loss, _, correct = taught_word_loss(vector, word[:1], offset[:1], torch.zeros_like(token), None)
    assert loss == 0  # the only piece there is
    assert correct == len(token)


def test_nothing_hidden_is_no_loss(rows):
    vector, word, offset, token = inputs(words=0)
    loss, _, _ = taught_word_loss(vector, word, offset, token, None)
    loss.backward()
    assert loss == 0
    assert not word.grad.any()


def test_an_impossible_word_costs_much_and_not_infinity(rows):
    vector, word, offset, token = inputs(words=2)
    with torch.no_grad():
        offset[token] = -1e4
    loss, _, _ = taught_word_loss(vector, word, offset, token, None)
    loss.backward()
    assert 1e4 < loss < 1e5
    assert word.grad.isfinite().all()
