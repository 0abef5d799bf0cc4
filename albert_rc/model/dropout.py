"""Reproducible dropout: masks are a pure function of where they are applied.

A mask follows from the run's seed, the step, the micro-batch, the layer and the position in it, so
a resumed run, a recomputed layer, and any number of threads drop the same units. The bits come from
numpy's SFC64 at several gigabytes per second; torch's own mask on CPUs comes from a serial
generator that takes many times longer than the softmax it is applied to. On a GPU torch's own
kernels are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NEAR = 0.02
"""Maximum relative error for drawing a rate with 8 bits; beyond it 16 bits are used."""


@dataclass(frozen=True)
class Dropout:
    """Dropout with rescaling of the remaining units (Srivastava et al. 2014).

    The probability is rounded to 1/256, or, if that is too coarse, to 1/65536; the scale is
    that of the rounded one, so that means are preserved exactly.
    """

    rate: float
    """Probability of dropping; 0 for no dropout."""
    key: tuple[int, ...] | None = None
    """Key that determines the mask; None for torch's generator."""

    def at(self, *place: int) -> Dropout:
        """The same dropout with a longer key."""
        return self if self.key is None else Dropout(self.rate, (*self.key, *place))

    @property
    def _drawn(self) -> tuple[type[np.unsignedinteger[Any]], int]:
        """The integer type drawn for each unit, and the number below which the unit is dropped."""
        below = round(256 * self.rate)
        if below < 256 and abs(below / 256 - self.rate) <= NEAR * min(self.rate, 1 - self.rate):
            return np.uint8, below
        return np.uint16, min(65535, round(65536 * self.rate))

    @property
    def scale(self) -> float:
        """Factor for the remaining units."""
        kind, below = self._drawn
        return 1 / (1 - below / (np.iinfo(kind).max + 1))

    def mask(self, shape: tuple[int, ...]) -> Tensor:
        """Mask of this shape in bytes: 1 for units that stay, 0 for dropped ones."""
        assert self.key is not None
        kind, below = self._drawn
        count = int(np.prod(shape))
        words = -(-count * np.dtype(kind).itemsize // 8)
        # Raw words are drawn: Generator.integers takes three times as long.
        drawn = np.random.SFC64(np.random.SeedSequence(self.key)).random_raw(words).view(kind)
        return torch.from_numpy((drawn[:count] >= below).view(np.uint8)).view(shape)

    def seed(self) -> int:
        """A seed for other generators."""
        if self.key is None:
            return int(torch.randint(2**31, ()))
        return int(np.random.SeedSequence(self.key).generate_state(1)[0]) >> 1

    def __call__(self, x: Tensor) -> Tensor:
        """Apply dropout, differentiably."""
        if not self.rate:
            return x
        if self.key is None:
            return F.dropout(x, self.rate)
        dropped: Tensor = _Drop.apply(x, self.mask(x.shape), self.scale)  # type: ignore[no-untyped-call]
        return dropped


_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """A copy of `x` with 0 where the byte mask is 0; not differentiable.

    The same bits as `x * mask`, except for a zero's sign. Torch multiplies mixed types only after
    a copy, with scalar code, which takes twenty times as long as clearing bits.
    """
    kind = _BITS[x.element_size()]
    kept = mask.view(torch.int8).to(kind).neg_()  # all bits set for units that stay
    return kept.bitwise_and_(x.view(kind)).view(x.dtype)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return masked(x, mask).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return masked(output[0], mask).mul_(ctx.scale), None, None


NOTHING = Dropout(0.0)
"""No dropout."""
