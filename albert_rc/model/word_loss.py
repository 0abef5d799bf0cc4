"""Cross-entropy over the vocabulary, computed without storing all logits."""

# M words, E embedding, V vocabulary, R words of a block, G words of several blocks

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BLOCK_BYTES = {"cpu": 24 * 2**20, "cuda": 2**28}
"""Bytes of logits in memory at a time. On CPUs glibc maps larger blocks anew each time, and
touching fresh pages takes longer than the softmax."""

BLOCKS = 6
"""Number of blocks whose errors, in bf16, form one product for the embeddings' gradient: adding a
product to that gradient takes as long as computing it."""


def product_dtype(precision: str) -> torch.dtype:
    """Precision of products in training with this precision.

    fp16 has too little range for the errors of unlikely words.
    """
    return torch.bfloat16 if precision == "bf16" else torch.float32


def block_rows(vocab_size: int, device_type: str) -> int:
    """Number of words in a block of fp32 logits."""
    return max(1, BLOCK_BYTES[device_type] // (4 * vocab_size))


def working_bytes(vocab_size: int, device_type: str, words: int, dtype: torch.dtype) -> int:
    """Memory of the current block of masked words, and of the errors of several in bf16."""
    rows = block_rows(vocab_size, device_type)
    block = 2 * 4 * vocab_size * min(words, rows)
    errors = 2 * vocab_size * min(words, BLOCKS * rows)
    return block + errors * (dtype == torch.bfloat16)


@dataclass(frozen=True, kw_only=True)
class Taught:
    """Predictions for masked words by a teacher with the same vocabulary (Hinton et al. 2015)."""

    vector_ME: Tensor
    """The teacher's transformed hidden states, fp32; its E may differ."""
    word_VE: Tensor
    offset_V: Tensor
    weight: float
    """Weight of the teacher's probabilities in the target; the true words have the rest."""

    def probabilities(self, block: slice, dtype: torch.dtype) -> Tensor:
        """Probability of each piece, for some of the words, [R, V] in fp32."""
        product_RV = torch.mm(self.vector_ME[block].to(dtype), self.word_VE.to(dtype).T)
        logit_RV = product_RV.float().add_(self.offset_V)
        # Over so many pieces `softmax` takes two to four times as long as these steps on a CPU.
        chance_RV = logit_RV.sub_(logit_RV.amax(-1, keepdim=True)).exp_()
        return chance_RV.div_(chance_RV.sum(-1, keepdim=True))


class _Sums:
    """The inputs' gradients, accumulated over blocks of errors.

    In fp32 each block is added at once; in bf16, `BLOCKS` blocks together.
    """

    def __init__(self, vector_ME: Tensor, factor_ME: Tensor, factor_VE: Tensor) -> None:
        words, size = len(vector_ME), len(factor_VE)
        self.factor_ME, self.factor_VE = factor_ME, factor_VE
        self.grad_ME = torch.empty_like(vector_ME)
        self.grad_VE = vector_ME.new_zeros(factor_VE.shape)
        self.grad_V = vector_ME.new_zeros(size)
        self.waits = factor_ME.dtype != vector_ME.dtype
        if self.waits:
            group = min(words, BLOCKS * block_rows(size, vector_ME.device.type))
            self.error_GV = factor_ME.new_empty(group, size)
        self.first = 0

    def add(self, block: slice, error_RV: Tensor) -> None:
        """Add the errors of the next block."""
        self.grad_V += error_RV.sum(0)
        if not self.waits:
            torch.mm(error_RV, self.factor_VE, out=self.grad_ME[block])
            self.grad_VE.addmm_(error_RV.T, self.factor_ME[block])
            return
        self.error_GV[block.start - self.first : block.stop - self.first] = error_RV
        if block.stop - self.first == len(self.error_GV) or block.stop == len(self.grad_ME):
            error_GV = self.error_GV[: block.stop - self.first]
            some = slice(self.first, block.stop)
            self.grad_ME[some] = torch.mm(error_GV, self.factor_VE)
            self.grad_VE += torch.mm(error_GV.T, self.factor_ME[some])
            self.first = block.stop


class _WordLoss(torch.autograd.Function):
    """Computes the gradients together with the loss, block by block.

    d loss / d logit = softmax - target, so everything kept for the backward pass has the shape
    of the inputs; M x V numbers in fp32 never exist. Logits, softmax and sums are fp32 whatever
    the precision of the products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        vector_ME: Tensor,
        word_VE: Tensor,
        offset_V: Tensor,
        token_M: Tensor,
        dtype: torch.dtype | None,
        taught: Taught | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        loss, plain, correct = vector_ME.new_zeros(3).unbind()
        weight = 0.0 if taught is None else taught.weight
        factor_ME, factor_VE = (x.to(dtype or x.dtype) for x in (vector_ME, word_VE))
        sums = None if dtype is None else _Sums(vector_ME, factor_ME, factor_VE)
        rows = block_rows(len(word_VE), vector_ME.device.type)
        for start in range(0, len(vector_ME), rows):
            block = slice(start, min(start + rows, len(vector_ME)))
            token_R1 = token_M[block, None]
            if factor_ME.dtype == vector_ME.dtype:
                logit_RV = torch.addmm(offset_V, factor_ME[block], factor_VE.T)
            else:
                logit_RV = torch.mm(factor_ME[block], factor_VE.T).float().add_(offset_V)
            # The highest of the other pieces: `argmax` takes ten times as long as `amax` on a CPU,
            # and `log_softmax` twice as long as its steps one by one.
            true_R1 = logit_RV.gather(1, token_R1)
            other_R1 = logit_RV.scatter_(1, token_R1, float("-inf")).amax(-1, keepdim=True)
            correct += (true_R1 > other_R1).sum()
            highest_R1 = torch.maximum(true_R1, other_R1)
            logit_RV.scatter_(1, token_R1, true_R1).sub_(highest_R1)
            error_RV = logit_RV.exp()
            sum_R1 = error_RV.sum(-1, keepdim=True)
            normalised_R1 = sum_R1.log()
            plain -= (true_R1 - highest_R1 - normalised_R1).sum()
            if taught is not None:
                chance_RV = taught.probabilities(block, factor_ME.dtype)
                expected = torch.dot(chance_RV.flatten(), logit_RV.flatten())
                loss -= weight * (expected - torch.dot(chance_RV.sum(-1), normalised_R1[:, 0]))
            if sums is not None:
                error_RV.div_(sum_R1)
                error_RV.scatter_add_(1, token_R1, error_RV.new_full(token_R1.shape, weight - 1))
                if taught is not None:
                    error_RV.sub_(chance_RV, alpha=weight)
                sums.add(block, error_RV)
        loss += (1 - weight) * plain
        if sums is not None:
            ctx.save_for_backward(sums.grad_ME, sums.grad_VE, sums.grad_V)
        ctx.mark_non_differentiable(plain, correct)
        return loss, plain, correct

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        grads = (grad * upstream[0] for grad in ctx.saved_tensors)
        return (*grads, None, None, None)


def taught_word_loss(
    vector_ME: Tensor,
    word_VE: Tensor,
    offset_V: Tensor,
    token_M: Tensor,
    taught: Taught | None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cross-entropy of words, and of a teacher's probabilities, summed, in nats.

    Args:
        vector_ME: the head's transformed hidden states, fp32.
        word_VE: the embeddings of the vocabulary, fp32.
        offset_V: added to the logits.
        token_M: ids of the words.
        taught: a teacher's predictions, if any.
        dtype: precision of the products in training, fp32 or bf16; elsewhere it is fp32.

    Returns:
        The loss; the cross-entropy of the words alone; the number of correct predictions: words
        whose logit is above all others.
    """
    learning = torch.is_grad_enabled() and any(
        x.requires_grad for x in (vector_ME, word_VE, offset_V)
    )
    found: tuple[Tensor, Tensor, Tensor] = _WordLoss.apply(  # type: ignore[no-untyped-call]
        vector_ME, word_VE, offset_V, token_M, dtype if learning else None, taught
    )
    return found
