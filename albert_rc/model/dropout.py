"""Reproducible dropout: masks are a pure function of where they are applied.

A mask follows from the run's seed, the step, the micro-batch, the layer and the position in it, so
a resumed run, a recomputed layer, and any number of threads drop the same units (in attention on
the same kind of processor, which decides what sequences are computed together). The bits come from
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

DRAWN = 2**17
"""Random bytes drawn at a time. They fit the cache, so that a mask takes 0.6 of the time that it
takes in one piece."""


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
        """Mask of this shape in int8: all bits set for units that stay, none for dropped ones."""
        assert self.key is not None
        kind, below = self._drawn
        count = int(np.prod(shape))
        source = np.random.SFC64(np.random.SeedSequence(self.key))
        width = np.dtype(kind).itemsize
        mask, size = np.empty(count, np.int8), DRAWN // width
        for start in range(0, count, size):
            part = mask[start : start + size]
            # Raw words are drawn: Generator.integers takes three times as long.
            drawn = source.random_raw(-(-len(part) * width // 8)).view(kind)
            np.less(drawn[: len(part)], below, out=part.view(np.bool_))
            part -= 1
        return torch.from_numpy(mask).view(shape)

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


def widened(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask as integers that are as wide as numbers of a type, for `cleared`."""
    return mask.to(_BITS[dtype.itemsize])


def cleared(x: Tensor, wide: Tensor, out: Tensor) -> Tensor:
    """`x` with 0 where a widened mask is 0; not differentiable.

    The same bits as a product with 0 or 1, except for a zero's sign. Torch multiplies mixed types
    only after a copy, with scalar code, which takes twenty times as long as clearing bits.

    Args:
        x: numbers.
        wide: the mask.
        out: where the result is written: `x` or the mask.
    """
    return torch.bitwise_and(x.view(wide.dtype), wide, out=out.view(wide.dtype)).view(x.dtype)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    """A copy of `x` with 0 where the mask is 0; not differentiable."""
    wide = widened(mask, x.dtype)
    return cleared(x, wide, wide)


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
