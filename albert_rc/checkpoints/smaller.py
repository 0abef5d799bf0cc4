"""A smaller ALBERT made from a checkpoint: fewer layers, fewer groups of them, smaller embeddings.

A student of that checkpoint starts from it (`train --teacher`): its weights are some of the
checkpoint's, means of them, or projections of them on fewer dimensions.
"""

# V vocabulary, E embedding, S smaller embedding, H hidden, X rows of a table

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from albert_rc.checkpoints.shape import require_shape
from albert_rc.errors import UsageError
from albert_rc.fields import flag_of
from albert_rc.model.config import SMALLER, EncoderConfig
from albert_rc.model.sharing import schedule

PROJECTION = "encoder.projection"
WORDS = "encoder.embeddings.word.weight"
TABLES = (WORDS, "encoder.embeddings.position.weight", "encoder.embeddings.segment.weight")
LAYERS = "encoder.layers."
State = dict[str, Tensor]


def smaller_shape(config: EncoderConfig, shape: Mapping[str, Any]) -> EncoderConfig:
    """A checkpoint's shape with the requested layers, groups and embeddings.

    Args:
        config: the checkpoint's.
        shape: requested settings; those that are not in `SMALLER` must equal the checkpoint's.

    Raises:
        UsageError: a setting is larger, or differs where it must not.
    """
    if "sharing" in shape:
        groups = {"num_groups": config.num_groups} if "num_groups" in shape else {}
        require_shape(config, {"sharing": shape["sharing"], **groups})
        shape = {name: value for name, value in shape.items() if name != "sharing"}
    require_shape(config, {name: value for name, value in shape.items() if name not in SMALLER})
    wanted = {name: shape[name] for name in SMALLER if name in shape}
    for name, value in wanted.items():
        if value > getattr(config, name):
            require_shape(config, {name: value})  # names the flag
    layers = wanted.get("num_layers", config.num_layers)
    if config.num_groups == config.num_layers:  # every layer has its own weights
        wanted.setdefault("num_groups", layers)
    wanted = {name: value for name, value in wanted.items() if value != getattr(config, name)}
    if not wanted:
        return config
    if config.inner_layers != 1 or config.common != "nothing":
        raise UsageError(
            f"{_flags(wanted)}: the checkpoint shares parts of its layers, or has several in a "
            "group, and cannot be made smaller"
        )
    groups = wanted.get("num_groups", config.num_groups)
    factorised = groups != layers or "embedding_size" in wanted
    if factorised and config.family not in ("albert", "bert"):
        raise UsageError(
            f"{_flags(wanted)}: in the family {config.family}, layers cannot share weights and "
            "embeddings cannot be factorised; use only --num-layers to make the model smaller"
        )
    return replace(config, **wanted, family="albert" if factorised else config.family)


def _flags(wanted: Mapping[str, Any]) -> str:
    return ", ".join(f"{flag_of(name)} {value}" for name, value in wanted.items())


def smaller_weights(old: State, config: EncoderConfig, smaller: EncoderConfig) -> State:
    """Weights of a smaller shape from a model's.

    Of n layers k are kept, evenly spread from the first on (as in DistilBERT, Sanh et al. 2019,
    section 3); layers that come to share weights get the mean of theirs.

    Args:
        old: `state_dict` of the model.
        config: the model's shape.
        smaller: from `smaller_shape`.
    """
    new = {name: value for name, value in old.items() if not name.startswith(LAYERS)}
    if smaller.family == "albert" and config.family == "bert":
        new |= identity_projection(config.hidden_size)
    used, count = schedule(config), smaller.num_layers
    kept = [used[step * config.num_layers // count] for step in range(count)]
    together = count // smaller.num_groups
    for group in range(smaller.num_groups):
        members = list(dict.fromkeys(kept[group * together : (group + 1) * together]))
        first = f"{LAYERS}{members[0]}."
        for part in [name[len(first) :] for name in old if name.startswith(first)]:
            values = torch.stack([old[f"{LAYERS}{member}.{part}"] for member in members])
            new[f"{LAYERS}{group}.{part}"] = values.mean(0)
    if smaller.embedding_size != config.embedding_size:
        new = factorised(new, smaller.embedding_size)
    return new


def identity_projection(hidden_size: int) -> State:
    """The projection with which an ALBERT with E = H computes what a BERT computes."""
    return {
        f"{PROJECTION}.weight": torch.eye(hidden_size),
        f"{PROJECTION}.bias": torch.zeros(hidden_size),
    }


def factorised(old: State, size: int, count_V: Tensor | None = None, seed: int = 0) -> State:
    """An ALBERT's weights with embeddings projected on `size` dimensions.

    Words, positions and segments are projected on the directions in which the words vary most
    (truncated singular value decomposition, words weighted by their counts). The norm before the
    projection divides by the deviation of S numbers instead of E, which the projection
    compensates.

    Args:
        old: the weights, with or without a masked-LM head.
        size: S, below E.
        count_V: frequency of each piece; uniform if None.
        seed: random seed of the rotation that spreads the directions evenly over the S numbers,
            so that subtracting the mean in the norm loses nothing.

    Raises:
        UsageError: S is not smaller.
    """
    before = old[WORDS].shape[1]
    if not 0 < size < before:
        raise UsageError(f"embeddings of size {before} cannot be reduced to {size}")
    weight_V = torch.ones(len(old[WORDS])) if count_V is None else count_V.float() + 0.1
    word_VE = old[WORDS]
    # The norm that follows subtracts each vector's mean, so the mean needs no dimension.
    centred_VE = word_VE - word_VE.mean(1, keepdim=True)
    _, _, direction_EE = torch.linalg.svd(
        centred_VE * weight_V.sqrt()[:, None], full_matrices=False
    )
    base_SE = _rotation(size, seed) @ direction_EE[:size]
    new = dict(old)
    for name in TABLES:
        table_XE = old[name] - old[name].mean(1, keepdim=True)
        new[name] = table_XE @ base_SE.T
    gain_E, shift_E = old["encoder.embeddings.norm.weight"], old["encoder.embeddings.norm.bias"]
    mapping_HE, bias_H = old[f"{PROJECTION}.weight"], old[f"{PROJECTION}.bias"]
    scale = (before / size) ** 0.5
    new[f"{PROJECTION}.weight"] = mapping_HE @ (gain_E[:, None] * base_SE.T) * scale
    new[f"{PROJECTION}.bias"] = bias_H + mapping_HE @ shift_E
    new["encoder.embeddings.norm.weight"] = torch.ones(size)
    new["encoder.embeddings.norm.bias"] = torch.zeros(size)
    if "head.dense.weight" in old:
        # The head's vectors are compared with the words', so they get the same projection.
        new["head.dense.weight"] = base_SE @ old["head.dense.weight"]
        new["head.dense.bias"] = base_SE @ old["head.dense.bias"]
        new["head.norm.weight"] = torch.ones(size) * old["head.norm.weight"].mean()
        new["head.norm.bias"] = base_SE @ old["head.norm.bias"]
    if "head.salience" in old:  # compared with the words, too
        new["head.salience"] = base_SE @ old["head.salience"]
    return new


def _rotation(size: int, seed: int) -> Tensor:
    """A random orthogonal matrix, [S, S]."""
    normal_SS = torch.randn(size, size, generator=torch.Generator().manual_seed(seed))
    turn_SS: Tensor = torch.linalg.qr(normal_SS)[0]
    return turn_SS


def describe(config: EncoderConfig, smaller: EncoderConfig) -> str:
    """The reductions, as a sentence."""
    parts = []
    if smaller.num_layers != config.num_layers:
        parts.append(f"{smaller.num_layers} of {config.num_layers} layers")
    if smaller.num_groups != config.num_groups:
        parts.append(f"{smaller.num_groups} groups of layers instead of {config.num_groups}")
    if smaller.embedding_size != config.embedding_size:
        parts.append(
            f"embeddings of size {smaller.embedding_size} instead of {config.embedding_size}"
        )
    if smaller.family != config.family:
        parts.append("an ALBERT instead of a BERT")
    return f"made smaller, and still to be trained: {', '.join(parts)}"
