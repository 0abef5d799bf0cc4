"""Reversible layers: activation memory that does not grow with depth.

Two streams start as the embeddings, x1 = x2. Each layer updates both:
y1 = x1 + attention(norm(x2)), y2 = x2 + feed_forward(norm(y1)) (Gomez et al. 2017, section 3;
Kitaev et al. 2020, section 3). The backward pass subtracts the same terms, last layer first, and
so recovers every layer's inputs. The result is norm((y1 + y2) / 2); Reformer concatenates the
streams instead, which would double the hidden size.
"""

# T tokens of all sequences concatenated, S those of them that are read, D hidden size

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc.model.layer import Applied, Layer, Pass, normed
from albert_rc.model.linear import DTYPES
from albert_rc.model.sharing import PARTS
from albert_rc.runtime.seeds import mix

STREAM = torch.float64
"""Precision of the streams. A layer computes in fp32 at most, so subtracting what it added restores
exactly the numbers that it read, and so its hashes and its rounding to bf16. Streams in fp32 drift,
and gradients with them (docs/speed-details.md)."""


def _wide(shared: Pass) -> torch.dtype:
    """Precision of norms and of the streams' gradients."""
    return torch.promote_types(DTYPES[shared.compute.precision], torch.float32)


@contextmanager
def _drawing(seed: int | None, device: torch.device) -> Iterator[None]:
    """Context with seeded generators, whose states are restored afterwards.

    A seed for each part of each layer takes no memory; saving generator states would.
    """
    if seed is None:
        yield
        return
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def _read(stream_TD: Tensor, norm: nn.LayerNorm, shared: Pass) -> Tensor:
    """The norm of a stream, in the computation's precision."""
    return normed(stream_TD.to(_wide(shared)), norm).to(DTYPES[shared.compute.precision])


class ReversibleLayer(Layer):
    """A pre-norm layer on two streams: two [T, D] to two [T, D]."""

    def attended(self, two_TD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """The term added to the first stream, [S, D]."""
        with self._repeatable(two_TD, shared, at, 0):
            return self.attend(_read(two_TD, self.attention_norm, shared), shared, at)

    def fed(self, one_SD: Tensor, shared: Pass, at: Applied) -> Tensor:
        """The term added to the second stream, [S, D]."""
        with self._repeatable(one_SD, shared, at, 1):
            return self.feed(_read(one_SD, self.norm, shared), shared, at)

    def _repeatable(
        self, x: Tensor, shared: Pass, at: Applied, part: int
    ) -> AbstractContextManager[None]:
        seed = None if shared.seed is None else mix(shared.seed, at.step, part)
        return _drawing(seed, x.device)

    def forward(
        self, one_TD: Tensor, two_TD: Tensor, shared: Pass, at: Applied
    ) -> tuple[Tensor, Tensor]:
        """Apply the layer to both streams.

        Args:
            one_TD: the stream that attention adds to.
            two_TD: the stream that it reads, and that the feed-forward adds to.
            shared: data of the forward pass.
            at: this application.

        Returns:
            Both streams; [S, D] for the last application.
        """
        one_SD = shared.wanted(one_TD, at) + self.attended(two_TD, shared, at).to(one_TD.dtype)
        two_SD = shared.wanted(two_TD, at) + self.fed(one_SD, shared, at).to(two_TD.dtype)
        return one_SD, two_SD


Stack = Sequence[tuple[Layer, Applied]]


class _Reversible(torch.autograd.Function):
    """Consecutive layers; only the output of the last one is kept."""

    @staticmethod
    def forward(
        ctx: Any, x_TD: Tensor, stack: Stack, shared: Pass, *learned: nn.Parameter
    ) -> tuple[Tensor, Tensor]:
        one_TD = two_TD = x_TD
        for layer, at in stack:
            one_TD, two_TD = layer(one_TD, two_TD, shared, at)
        ctx.save_for_backward(one_TD, two_TD)
        ctx.stack, ctx.shared, ctx.learned = stack, shared, learned
        return one_TD, two_TD

    @staticmethod
    def backward(ctx: Any, *output: Tensor) -> tuple[Tensor | None, ...]:
        done_TD, dtwo_TD = (gradient.to(_wide(ctx.shared)) for gradient in output)
        one_TD, two_TD = (stream.detach() for stream in ctx.saved_tensors)
        shared: Pass = ctx.shared
        assert shared.gradients is not None
        if not shared.gradients.in_place:  # the graph may be traversed again
            one_TD, two_TD = one_TD.clone(), two_TD.clone()
        sums: dict[nn.Parameter, Tensor] = {}
        for layer, at in reversed(ctx.stack):
            assert isinstance(layer, ReversibleLayer)
            given = (shared, at, layer.learned("ffn"), sums)
            added_TD, dx_TD = _through(layer.fed, one_TD, dtwo_TD, *given)
            two_TD -= added_TD.to(two_TD.dtype)
            done_TD = done_TD + dx_TD
            given = (shared, at, layer.learned("attention"), sums)
            added_TD, dx_TD = _through(layer.attended, two_TD, done_TD, *given)
            one_TD -= added_TD.to(one_TD.dtype)
            dtwo_TD = dtwo_TD + dx_TD
        dx_TD = (done_TD + dtwo_TD).to(STREAM)
        return dx_TD, None, None, *(sums.get(p) for p in ctx.learned)


def _through(
    part: Callable[[Tensor, Pass, Applied], Tensor],
    x_TD: Tensor,
    gradient_TD: Tensor,
    shared: Pass,
    at: Applied,
    learned: Sequence[nn.Parameter],
    sums: dict[nn.Parameter, Tensor],
) -> tuple[Tensor, Tensor]:
    """The term that a part of a layer adds to a stream, and the gradient of its input.

    Gradients of its parameters are added to `sums`.
    """
    with torch.enable_grad():
        x_TD = x_TD.detach().to(_wide(shared)).requires_grad_()
        added_TD = part(x_TD, shared, at)
    dx_TD, *found = torch.autograd.grad(
        added_TD, [x_TD, *learned], gradient_TD.to(added_TD.dtype), allow_unused=True
    )
    for parameter, gradient in zip(learned, found, strict=True):
        # Matrices return theirs when complete, or have already added it to `grad`.
        if gradient is not None:
            before = sums.get(parameter)
            sums[parameter] = gradient if before is None else before + gradient
    return added_TD.detach(), dx_TD


def reversible(
    x_TD: Tensor, stack: Stack, shared: Pass, final_norm: nn.LayerNorm, dropping: bool
) -> Tensor:
    """The hidden states of a reversible stack.

    Args:
        x_TD: embeddings, in fp32: the start of both streams.
        stack: the layers, in order.
        shared: data of the forward pass.
        final_norm: norm of the streams' mean.
        dropping: whether the layers use dropout with torch's generator.

    Returns:
        Hidden states in the computation's precision, [S, D] (or [T, D]).
    """
    if dropping:
        shared.seed = int(torch.randint(2**31, ()))
    x_TD = x_TD.to(STREAM)
    # The last layer cannot be reversed if only some of its tokens are computed, so autograd
    # stores its activations as usual.
    count = 0 if shared.gradients is None else len(stack) - (shared.read_S is not None)
    one_TD = two_TD = x_TD
    if count:
        layers = [layer for layer, _ in stack[:count]]
        learned = {p: None for layer in layers for part in PARTS for p in layer.learned(part)}
        streams: tuple[Tensor, Tensor] = _Reversible.apply(  # type: ignore[no-untyped-call]
            x_TD, stack[:count], shared, *learned
        )
        one_TD, two_TD = streams
    for layer, at in stack[count:]:
        one_TD, two_TD = layer(one_TD, two_TD, shared, at)
    return _read((one_TD + two_TD) / 2, final_norm, shared)
