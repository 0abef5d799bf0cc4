"""Configuration of the encoder: its shape, and how it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from albert_rc.errors import UsageError
from albert_rc.fields import Setting, check

COMMON = ("nothing", "attention", "ffn")
SMALLER = ("num_layers", "num_groups", "embedding_size")
"""Settings of the shape that may be made smaller than a checkpoint's."""
LONGEST = 2**25
"""Upper bound for the tokens of a sequence; like the bounds below, far beyond any real encoder. A
file or option with more is wrong, and even counting its layers would take too long."""
FFN_CHUNK = Setting(
    "Tokens per feed-forward chunk; smaller chunks need less memory, with the same result "
    "(default: all tokens at once).",
    low=1,
    high=LONGEST,
)
READ_AGAIN = {"masks": "cloze", "excerpt": "choice"}
"""Ways to read some questions a second time in prediction, each with the task that it is for."""
READ_ONCE = "once"
"""The way that reads nothing again."""
Share = Annotated[float, Setting("", low=0, high=1, below=True)]


def _size(help_: str, most: int) -> Setting:
    return Setting(help_, low=1, high=most)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Shape of an encoder of the BERT family (ALBERT: Lan et al. 2020, section 3.1).

    `num_layers` applications are spread evenly over `num_groups` groups of parameters, each of
    `inner_layers` layers: 1 group is ALBERT, as many groups as layers is BERT.
    """

    family: str = "albert"
    vocab_size: Annotated[
        int, _size("Number of pieces in the vocabulary, including the five special ones.", 2**24)
    ] = 30000
    embedding_size: Annotated[
        int,
        _size(
            "Embedding size; in BERT, the same as the hidden size. A checkpoint's can only be made "
            "smaller (default: the checkpoint's, or that of --scratch).",
            2**17,
        ),
    ] = 128
    hidden_size: Annotated[int, _size("Hidden size (with --scratch).", 2**17)] = 768
    num_layers: Annotated[
        int,
        _size(
            "Number of layers. A checkpoint's can only be made smaller, except in pretrain if all "
            "its layers share their weights (default: the checkpoint's, or that of --scratch).",
            10_000,
        ),
    ] = 12
    num_groups: Annotated[
        int,
        _size(
            "Number of groups of layers that share their weights. A checkpoint's can only be made "
            "smaller (default: the checkpoint's, or that of --scratch).",
            10_000,
        ),
    ] = 1
    inner_layers: Annotated[int, _size("Number of layers in a group.", 1000)] = 1
    common: str = "nothing"
    """Parameters shared by all groups: a key of `COMMON`."""
    residual: Annotated[
        str,
        Setting(
            "With --scratch: post-norm layers as in BERT (post), or reversible layers, whose "
            "activation memory in training does not grow with depth and which only albert-rc can "
            "load (default: as in the checkpoint, else post).", choices=("post", "reversible"),
        ),
    ] = "post"  # fmt: skip
    """`post`: as in BERT, a norm after each sum; `reversible`: see `model.reversible`."""
    num_heads: Annotated[int, _size("Number of attention heads (with --scratch).", 2**17)] = 12
    ffn_size: Annotated[int, _size("Inner size of the feed-forward network.", 2**20)] = 3072
    max_positions: Annotated[int, _size("Number of positions.", 2 * LONGEST)] = 512
    position_offset: int = 0
    """Index of the first position: 2 in RoBERTa."""
    num_segments: Annotated[int, _size("Number of segment types.", 2**16)] = 2
    relative_buckets: Annotated[
        int, Setting("Number of buckets for attention biases by distance; 0 for no biases.", low=0,
                     high=2**16)
    ] = 0  # fmt: skip
    """See `model.relative`."""
    activation: str = "gelu_new"
    norm_eps: float = 1e-12
    dropout: Annotated[
        float,
        Setting(
            "Dropout of layers and attention weights (default: as in the checkpoint; 0 in ALBERT "
            "v2).", low=0, high=1, below=True,
        ),
    ] = 0.0  # fmt: skip
    attention_dropout: Share = 0.0
    classifier_dropout: Share = 0.1
    init_range: float = 0.02
    pad_id: int = 0

    def __post_init__(self) -> None:
        check(self)
        if self.hidden_size % self.num_heads:
            raise UsageError(
                f"--hidden-size {self.hidden_size} must be divisible by --num-heads "
                f"{self.num_heads}"
            )
        if self.num_layers % self.num_groups:
            raise UsageError(
                f"--num-layers {self.num_layers} must be divisible by --num-groups "
                f"{self.num_groups}"
            )
        if 0 < self.relative_buckets < 4:  # two directions, near and far
            raise UsageError(f"{self.relative_buckets} buckets of distances; at least 4, or 0")
        if self.relative_buckets and self.residual == "reversible":
            raise UsageError("reversible layers cannot have biases by distance")
        if self.common not in COMMON:
            raise UsageError(f"common {self.common!r}: choose from {', '.join(COMMON)}")

    @property
    def max_length(self) -> int:
        """Longest sequence, in tokens, that the position table covers."""
        return self.max_positions - self.position_offset


def _shape(**shape: Any) -> dict[str, Any]:
    return shape


def _bert(**shape: int) -> dict[str, Any]:
    return _shape(
        family="bert",
        embedding_size=shape["hidden_size"],
        num_groups=shape["num_layers"],
        activation="gelu",
        dropout=0.1,
        attention_dropout=0.1,
        **shape,
    )


SIZES: dict[str, dict[str, Any]] = {
    # A deviation of 0.02 suits 768 dimensions and more; with 256 the layers' outputs are too small.
    "tiny": _shape(hidden_size=256, num_layers=2, num_heads=4, ffn_size=1024, init_range=0.05),
    "base": _shape(hidden_size=768, num_layers=12, num_heads=12, ffn_size=3072),
    "large": _shape(hidden_size=1024, num_layers=24, num_heads=16, ffn_size=4096),
    "xlarge": _shape(hidden_size=2048, num_layers=24, num_heads=16, ffn_size=8192),
    "xxlarge": _shape(hidden_size=4096, num_layers=12, num_heads=64, ffn_size=16384),
    "bert-base": _bert(hidden_size=768, num_layers=12, num_heads=12, ffn_size=3072),
    "bert-large": _bert(hidden_size=1024, num_layers=24, num_heads=16, ffn_size=4096),
    "bert-xlarge": _bert(hidden_size=2048, num_layers=24, num_heads=16, ffn_size=8192),
}
"""Shapes of Tables 1 and 2 of Lan et al. 2020, ALBERT's and BERT's, and a tiny ALBERT."""


def size_config(size: str, vocab_size: int = 30000, option: str = "--scratch") -> EncoderConfig:
    """The encoder of a published size.

    ALBERT's are version 2: the tanh form of GELU and no dropout.

    Raises:
        UsageError: unknown size.
    """
    if size not in SIZES:
        raise UsageError(f"{option} {size}: no such size; choose from {', '.join(SIZES)}")
    return EncoderConfig(vocab_size=vocab_size, **SIZES[size])


SHARING = ("all", "attention", "ffn", "none")


def sharing_shape(sharing: str, num_layers: int, num_groups: int | None = None) -> dict[str, Any]:
    """Settings of `EncoderConfig` for a sharing strategy (Lan et al. 2020, Table 4).

    Args:
        sharing: a key of `SHARING`.
        num_layers: number of layers of the encoder.
        num_groups: number of groups of layers that share all parameters; by default 1 if
            everything is shared, else as many as layers.

    Raises:
        UsageError: unknown strategy.
    """
    if sharing not in SHARING:
        raise UsageError(f"--sharing {sharing}: choose from {', '.join(SHARING)}")
    groups = num_groups or (1 if sharing == "all" else num_layers)
    common = sharing if sharing in COMMON else "nothing"
    return {"num_groups": groups, "common": common}


RECOMPUTE = {
    "nothing": "everything is kept",
    "activations": "the feed-forward's activation and, on CPUs, attention's weights",
    "layers": "all but each layer's input: about a third more time, a fraction of the memory",
}


@dataclass(frozen=True, kw_only=True)
class LshConfig:
    """Attention by locality-sensitive hashing; see `model.lsh`."""

    shared: bool = False
    """Reformer's form: queries serve as keys, and attend to their own bucket only."""
    chunk: Annotated[
        int,
        Setting(
            "Hashed attention: tokens per chunk (default: as in the checkpoint, else 64).",
            low=1,
            high=2**20,
            flag="--lsh-chunk",
        ),
    ] = 64
    rounds: Annotated[
        int,
        Setting(
            "Hashed attention: rounds of hashing (default: as in the checkpoint, else 4).",
            low=1,
            high=1000,
            flag="--lsh-rounds",
        ),
    ] = 4
    probes: Annotated[
        int,
        Setting(
            "Hashed attention: nearest buckets that a query attends to in each round (default: as "
            "in the checkpoint, else 1).",
            low=1, high=1000, flag="--lsh-probes",
        ),
    ] = 1  # fmt: skip
    hash: Annotated[
        str,
        Setting(
            "Hashed attention in our form: type of hash, projections or rotations (default: as in "
            "the checkpoint, else projections).",
            choices=("rotations", "projections"), flag="--lsh-hash",
        ),
    ] = "projections"  # fmt: skip
    """`rotations`: nearest vertex of a rotated cross-polytope; `projections`: place on a line."""
    local: bool = True
    """Whether the first round uses neighbours in the text instead. Never in `shared`."""
    landmarks: tuple[int, ...] = ()
    """Ids of tokens that attend to all and are attended by all."""
    buckets: int | None = None
    """Number of buckets; 2 L / chunk by default."""
    seed: int = 0

    @property
    def sees_all(self) -> int:
        """Maximum length in tokens of sequences not hashed, because all chunks see each other.

        0 in `shared`, whose buckets mask keys at any length.
        """
        return 0 if self.shared else 3 * self.chunk

    def __post_init__(self) -> None:
        check(self)
        if self.probes > 1 and self.hash != "rotations" and not self.shared:
            raise UsageError(
                "--lsh-probes: only buckets of rotations can be probed; give --lsh-hash rotations, "
                "or leave --lsh-probes out"
            )


@dataclass(frozen=True, kw_only=True)
class Compute:
    """How the encoder computes. Only precision and attention change the mathematics."""

    precision: str = "fp32"
    """fp32, bf16, fp16, or int8 (prediction only)."""
    attention: str = "dense"
    """A key of `model.attention.ATTENTION`."""
    lsh: LshConfig = LshConfig()
    """Settings of `--attention lsh`."""
    recompute: str = "nothing"
    """Activations recomputed in the backward pass instead of kept: a key of `RECOMPUTE`."""
    in_place: bool = False
    """Accumulate into the matrices' `grad` during the backward pass, so that the gradients of
    several micro-batches are stored once. For `backward()` only, not `torch.autograd.grad`."""
    ffn_chunk: Annotated[int | None, FFN_CHUNK] = None
    """Rows per chunk; None for all at once. In training, the backward pass recomputes chunks."""

    def __post_init__(self) -> None:
        check(self)
