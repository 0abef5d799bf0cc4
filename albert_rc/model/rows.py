"""Row selection with a deterministic gradient."""

# T rows, S selected rows

from __future__ import annotations

from torch import Tensor


def rows_at(x_T: Tensor, index_S: Tensor) -> Tensor:
    """`x_T[index_S]` with a deterministic gradient, even if a row is selected several times.

    The gradient of plain indexing is `index_put_` with accumulation. On CPUs, from 32,768 numbers
    on, torch sums it in several threads in undefined order; that of `index_select` is summed row
    by row.

    Args:
        x_T: [T, ...]
        index_S: indices of the rows.

    Returns:
        [S, ...]
    """
    return x_T.index_select(0, index_S)
