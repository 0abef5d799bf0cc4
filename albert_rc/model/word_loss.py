"""Cross-entropy over the vocabulary, without the table of logits that it is made of."""

# M words, E embedding, V vocabulary, R the words of a block

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BLOCK_BYTES = {"cpu": 24 * 2**20, "cuda": 2**28}
"""Logits that stand in memory at a time. On CPUs glibc maps larger blocks anew each time, and
touching fresh pages takes longer than the softmax."""


def block_rows(vocab_size: int, device_type: str) -> int:
    """How many words' logits, in fp32, make a block."""
    return max(1, BLOCK_BYTES[device_type] // (4 * vocab_size))


class _WordLoss(torch.autograd.Function):
    """The gradients are made with the loss, block by block, while the probabilities are there.

    d loss / d logit = softmax - one-hot, so all that is kept for the backward pass has the shape
    of the inputs; M x V numbers never exist.
    """

    @staticmethod
    def forward(
        ctx: Any,
        vector_ME: Tensor,
        word_VE: Tensor,
        offset_V: Tensor,
        token_M: Tensor,
        count_correct: bool,
    ) -> tuple[Tensor, Tensor]:
        loss, correct = vector_ME.new_zeros(()), vector_ME.new_zeros(())
        learning = any(ctx.needs_input_grad)
        if learning:
            grad_ME, grad_VE = torch.empty_like(vector_ME), torch.zeros_like(word_VE)
            grad_V = torch.zeros_like(offset_V)
        rows = block_rows(len(word_VE), vector_ME.device.type)
        for start in range(0, len(vector_ME), rows):
            block = slice(start, start + rows)
            vector_RE, token_R1 = vector_ME[block], token_M[block, None]
            logit_RV = torch.addmm(offset_V, vector_RE, word_VE.T)
            if count_correct:
                correct += (logit_RV.argmax(-1) == token_R1[:, 0]).sum()
            log_RV = logit_RV.log_softmax(-1)
            loss -= log_RV.gather(1, token_R1).sum()
            if learning:
                error_RV = log_RV.exp_()
                error_RV.scatter_add_(1, token_R1, error_RV.new_full(token_R1.shape, -1.0))
                torch.mm(error_RV, word_VE, out=grad_ME[block])
                grad_VE.addmm_(error_RV.T, vector_RE)
                grad_V += error_RV.sum(0)
        if learning:
            ctx.save_for_backward(grad_ME, grad_VE, grad_V)
        ctx.mark_non_differentiable(correct)
        return loss, correct

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        grads = (grad * upstream[0] for grad in ctx.saved_tensors)
        return (*grads, None, None)


def word_loss(
    vector_ME: Tensor,
    word_VE: Tensor,
    offset_V: Tensor,
    token_M: Tensor,
    count_correct: bool = False,
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of words against the whole vocabulary, summed, in nats.

    Args:
        vector_ME: what the head makes of the hidden states, fp32.
        word_VE: the embeddings of the vocabulary, fp32.
        offset_V: what is added to each logit.
        token_M: what the words are.
        count_correct: also look which piece is likeliest, which takes time.

    Returns:
        the loss, and how often the likeliest piece is the right one (0 if not counted).
    """
    found: tuple[Tensor, Tensor] = _WordLoss.apply(  # type: ignore[no-untyped-call]
        vector_ME, word_VE, offset_V, token_M, count_correct
    )
    return found
