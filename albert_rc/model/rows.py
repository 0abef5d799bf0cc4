"""Picking rows of a tensor so that the gradient is the same in every run."""

# T rows, S those of them that are picked

from __future__ import annotations

from torch import Tensor


def rows_at(x_T: Tensor, index_S: Tensor) -> Tensor:
    """`x_T[index_S]` with a deterministic gradient, also where a row is picked several times.

    The gradient of plain indexing is `index_put_` with accumulation. On CPUs torch adds it up from
    several threads at once, from 32,768 numbers on, in whatever order they come; that of
    `index_select` is added row by row.

    Args:
        x_T: [T, ...]
        index_S: which rows to take.

    Returns:
        [S, ...]
    """
    return x_T.index_select(0, index_S)
