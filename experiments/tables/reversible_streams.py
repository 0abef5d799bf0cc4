"""What a reversible encoder's streams are worth keeping in, and what its forward pass keeps.

    python -m experiments.tables.reversible_streams OUT.json

First, how far its gradients are from those of the same function with everything kept by autograd,
with streams in fp32 and in fp64: small encoders with shared layers and weights as they begin (std
0.02), or large ones. Second, bytes that a forward pass of `base` keeps, against post-norm layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from albert_rc.bench.machine import describe
from albert_rc.io.json import write_json
from albert_rc.model import encoder as encoder_module
from albert_rc.model import reversible
from albert_rc.model.config import Compute, EncoderConfig, LshConfig, size_config
from albert_rc.model.encoder import Encoder
from experiments.shared.scripts import parser_of

SMALL = EncoderConfig(
    vocab_size=500, hidden_size=128, num_heads=4, ffn_size=512, residual="reversible"
)
LSH = LshConfig(chunk=16)
LENGTH = 200  # of each of two sequences
KEPT_LENGTH = 352


def by_autograd(x_TD: Tensor, stack: Any, shared: Any, norm: Any, dropping: bool) -> Tensor:
    """The same function, for autograd to keep everything of."""
    one_TD = two_TD = x_TD.to(reversible.STREAM)
    for layer, at in stack:
        one_TD, two_TD = layer(one_TD, two_TD, shared, at)
    return reversible._read((one_TD + two_TD) / 2, norm, shared)


def given(length: int) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Two sequences of random ids."""
    token_T = torch.randint(5, 500, (2 * length,))
    return token_T, torch.arange(length).repeat(2), (length, length)


def gradients(encoder: Encoder, way: Callable[..., Tensor]) -> Tensor:
    """All gradients of one loss, in a row."""
    torch.manual_seed(1)
    encoder.zero_grad()
    encoder_module.reversible = way  # type: ignore[attr-defined]
    out_TD = encoder(*given(LENGTH))
    (out_TD.float() * torch.randn(out_TD.shape)).sum().backward()
    return torch.cat([p.grad.flatten() for p in encoder.parameters() if p.grad is not None])


def error(stream: torch.dtype, attention: str, precision: str, std: float, layers: int) -> float:
    """Distance of the gradients, relative to their length."""
    torch.manual_seed(0)
    encoder = Encoder(replace(SMALL, num_layers=layers))
    for parameter in encoder.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=std)
    encoder.compute = Compute(precision=precision, attention=attention, lsh=LSH)
    own = reversible.reversible
    reversible.STREAM = stream
    try:
        found, expected = gradients(encoder, own), gradients(encoder, by_autograd)
    finally:
        reversible.STREAM = torch.float64
        encoder_module.reversible = own  # type: ignore[attr-defined]
    return float((found - expected).norm() / expected.norm())


def kept(residual: str, recompute: str, layers: int) -> int:
    """Bytes that a forward pass of `base` in bf16 keeps, each storage once."""
    config = replace(size_config("base", vocab_size=500), num_layers=layers, residual=residual)
    encoder = Encoder(config)
    encoder.compute = Compute(precision="bf16", recompute=recompute, in_place=True)
    weights = {p.data_ptr() for p in encoder.parameters()}
    held: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            held[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        encoder(*given(KEPT_LENGTH))
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values())


def main() -> None:
    """Measure and write."""
    parser = parser_of(__doc__)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    errors, sizes = [], []
    cases = product(("dense", "lsh"), ("fp32", "bf16"), (0.02, 0.1), (12, 48))
    for attention, precision, std, layers in cases:
        row: dict[str, Any] = {"attention": attention, "precision": precision, "std": std}
        row["layers"] = layers
        for stream in (torch.float32, torch.float64):
            name = str(stream).removeprefix("torch.")
            row[name] = error(stream, attention, precision, std, layers)
        print(row)
        errors.append(row)
    for residual, recompute in (("post", "nothing"), ("post", "layers"), ("reversible", "nothing")):
        row = {"residual": residual, "recompute": recompute}
        row |= {f"{n} layers": kept(residual, recompute, n) for n in (12, 24, 48)}
        print(row)
        sizes.append(row)
    machine = describe(torch.device("cpu"))
    write_json(arguments.out, {"gradient_error": errors, "kept_bytes": sizes, "machine": machine})


if __name__ == "__main__":
    main()
