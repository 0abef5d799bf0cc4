"""What the layers of an encoder ask their attention."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from albert_rc.model import attention
from albert_rc.model.attention import Terms
from albert_rc.model.dropout import Dropout
from albert_rc.model.layout import Layout


@contextmanager
def attention_inputs() -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Queries and keys of dense attention, [N, L, H] each: layer by layer, then by sequence."""
    caught: list[tuple[Tensor, Tensor]] = []
    dense = attention.ATTENTION["dense"]

    def watching(
        q_SNH: Tensor, kv_T2NH: Tensor, layout: Layout, dropout: Dropout, terms: Terms
    ) -> Tensor:
        for run in layout.runs(0, multiple=1):
            key_TNH = kv_T2NH[run.keys.all][:, 0]
            caught.append((q_SNH[run.queries.all].transpose(0, 1), key_TNH.transpose(0, 1)))
        return dense(q_SNH, kv_T2NH, layout, dropout, terms)

    attention.ATTENTION["dense"] = watching
    try:
        yield caught
    finally:
        attention.ATTENTION["dense"] = dense
