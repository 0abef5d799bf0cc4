"""The encoder's shape and attention settings, from options or the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from albert_rc.errors import CheckpointError, UsageError
from albert_rc.fields import flag_of, settings_of
from albert_rc.io.messages import quoted
from albert_rc.model.attention import ATTENTION
from albert_rc.model.config import (
    LONGEST,
    Compute,
    EncoderConfig,
    LshConfig,
    sharing_shape,
    size_config,
)
from albert_rc.model.cost import encoder_parameters
from albert_rc.runtime.devices import free_memory
from albert_rc.text.tokenizer import Tokenizer


def with_places(config: EncoderConfig, max_length: int | None) -> EncoderConfig:
    """The config with its position table extended to `max_length`, if that is more."""
    if max_length is None or max_length <= config.max_length:
        return config
    if max_length > LONGEST:
        raise UsageError(
            f"--max-length {max_length}: no model supports that many tokens; give a smaller number"
        )
    return replace(config, max_positions=max_length + config.position_offset)


def with_dropout(config: EncoderConfig, dropout: float | None) -> EncoderConfig:
    """The config with the given dropout, if any, for layers and attention weights.

    Raises:
        UsageError: it is not in the valid range.
    """
    if dropout is None:
        return config
    return replace(config, dropout=dropout, attention_dropout=dropout)


def require_memory(config: EncoderConfig) -> None:
    """Refuse a model that does not fit, before allocating its memory.

    Raises:
        UsageError: states the size.
    """
    needed, free = 4 * encoder_parameters(config), free_memory(torch.device("cpu"))
    if needed > free:
        raise UsageError(
            f"an encoder of this shape has {needed / 4:,.0f} parameters, which take "
            f"{needed / 2**30:,.1f} GiB; {free / 2**30:,.1f} are free. Choose a smaller shape"
        )


def attending(
    saved: Mapping[str, Any],
    attention: str | None,
    lsh: Mapping[str, Any],
    tokenizer: Tokenizer,
    seed: int,
    folder: Path,
    biased: bool = False,
) -> Compute:
    """The attention settings: as requested, else the checkpoint's.

    Args:
        saved: our settings in config.json.
        attention: the requested key of `ATTENTION`, if any.
        lsh: requested settings of `LshConfig`; landmarks may be True, for the special tokens.
        tokenizer: its special tokens are landmarks.
        seed: random seed of the hashes.
        folder: the checkpoint's folder, for messages.
        biased: the model's attention has biases by distance, which hashing cannot use.

    Raises:
        UsageError: the request is invalid.
        CheckpointError: the checkpoint's settings are invalid.
    """
    name = attention or saved.get("attention", "dense")
    if name not in ATTENTION:
        choose = f"choose from {', '.join(ATTENTION)}"
        if attention is None:
            raise CheckpointError(f"{folder}/config.json: attention {quoted(name)}: {choose}")
        raise UsageError(f"--attention {name}: {choose}")
    if name == "dense":
        if lsh:
            raise UsageError(
                "--lsh-form, --lsh-chunk and the like need --attention lsh, but this model uses "
                "dense attention; add it, or leave them out"
            )
        return Compute()
    if biased:
        raise UsageError(
            "--attention lsh: MPNet's attention has biases by distance, which hashed attention "
            "does not support; leave the option out, or use an ALBERT, BERT or RoBERTa"
        )
    special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    given = {"landmarks": special, "seed": seed}
    asked = dict(lsh)
    if asked.get("landmarks") is True:
        asked["landmarks"] = special
    ours = given | saved.get("lsh", {})
    _check_saved(ours, folder)
    settings = LshConfig(**_with_landmarks(ours | asked))
    if settings.shared and not {"hash", "landmarks"}.isdisjoint(lsh):
        raise UsageError(
            "--lsh-hash and --lsh-landmarks need --lsh-form ours; Reformer's form (faithful) has "
            "only one hash and no landmarks"
        )
    if settings.rounds == 1 and not settings.shared and not {"hash", "probes"}.isdisjoint(lsh):
        raise UsageError(
            "--lsh-hash and --lsh-probes need --lsh-rounds of at least 2, because the first round "
            "uses neighbours in the text instead of hashes"
        )
    return Compute(attention=name, lsh=settings)


def _with_landmarks(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the landmarks, a list in JSON, as `LshConfig` has them."""
    return {**given, "landmarks": tuple(given["landmarks"])}


def _check_saved(saved: Mapping[str, Any], folder: Path) -> None:
    """Refuse settings of hashed attention that no config.json can have.

    Raises:
        CheckpointError: names the file and the key.
    """
    usual, annotated = vars(LshConfig()), settings_of(LshConfig)
    for name, value in saved.items():
        where = f"{folder}/config.json: {name} in albert_rc.lsh"
        if name not in usual:
            raise CheckpointError(
                f"{where} is unknown; the settings there are {', '.join(usual)}. Use the "
                "config.json that belongs to these weights"
            )
        if not _has_kind(name, value, usual[name]):
            must_be = _KINDS.get(name) or _KINDS[type(usual[name]).__name__]
            raise CheckpointError(f"{where} is {quoted(value)}; it must be {must_be}")
        setting = annotated[name].setting if name in annotated else None
        if setting is not None and not setting.allows(value):
            allowed = f"one of {', '.join(setting.choices)}" if setting.choices else setting.allowed
            raise CheckpointError(f"{where} is {quoted(value)}; it must be {allowed}")
    try:
        LshConfig(**_with_landmarks(saved))
    except UsageError as error:
        raise CheckpointError(f"{folder}/config.json: albert_rc.lsh: {error}") from None


_KINDS = {
    "landmarks": "a list of token ids",
    "buckets": "a whole number up to 65,536, or null",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
}
"""What a setting must be, by its name or else its type, in words."""


def _has_kind(name: str, value: Any, usual: Any) -> bool:
    """Whether a setting's value has the type of the usual one."""
    if name == "landmarks":
        listed = isinstance(value, (list, tuple))
        return listed and all(type(token) is int and token >= 0 for token in value)
    if name == "buckets":
        return value is None or (type(value) is int and 0 < value <= 2**16)
    return type(value) is type(usual)


def require_shape(config: EncoderConfig, shape: Mapping[str, Any]) -> None:
    """Refuse settings that differ from a checkpoint's.

    Raises:
        UsageError: names the flag.
    """
    wanted = dict(shape)
    if "sharing" in wanted:
        sharing, groups = wanted.pop("sharing"), wanted.get("num_groups")
        asked = sharing_shape(sharing, config.num_layers, groups)
        if any(value != getattr(config, name) for name, value in asked.items()):
            raise UsageError(
                f"--sharing {sharing}: the checkpoint shares other parameters ({config.num_groups} "
                f"groups for {config.num_layers} layers, shared by all groups: {config.common}); "
                "leave the option out, or start from random weights with --scratch SIZE"
            )
    flags = {"num_groups": "--num-groups", "common": "--sharing"}
    for name, value in wanted.items():
        if value != getattr(config, name):
            flag = flags.get(name, flag_of(name))
            raise UsageError(
                f"{flag} {value}: the checkpoint has {getattr(config, name)}; leave the option "
                "out, or start from random weights with --scratch SIZE"
            )


def deepened(config: EncoderConfig, layers: int | None) -> EncoderConfig:
    """A checkpoint's shape with `layers` layers, if that is more and its layers are all shared.

    Raises:
        UsageError: they are not all shared.
    """
    if layers is None or layers <= config.num_layers:
        return config
    if config.num_groups == 1:
        return replace(config, num_layers=layers)
    raise UsageError(
        f"--num-layers {layers}: the checkpoint's {config.num_groups} groups of layers do not "
        "share their weights; only a checkpoint whose layers are all shared can be deepened"
    )


def scratch_config(
    size: str, tokenizer: Tokenizer, shape: Mapping[str, Any] | None
) -> EncoderConfig:
    """A published size with some settings changed.

    Raises:
        UsageError: unknown size, or invalid settings.
    """
    config = size_config(size, vocab_size=tokenizer.size)
    given = dict(shape or {})
    layers = given.get("num_layers", config.num_layers)
    if given.get("sharing") == "none" and given.get("num_groups", layers) != layers:
        raise UsageError(
            f"--num-groups {given['num_groups']}: with --sharing none, each of the {layers} layers "
            "is a group of its own; leave one of the two out"
        )
    if "sharing" in given:
        given |= sharing_shape(given.pop("sharing"), layers, given.get("num_groups"))
    hidden = given.get("hidden_size", config.hidden_size)
    if "hidden_size" in given and "ffn_size" not in given:
        given["ffn_size"] = 4 * hidden  # as in every ALBERT and BERT
    if config.family == "bert":
        given = {"num_groups": layers, "embedding_size": hidden} | given
        if (given["num_groups"], given["embedding_size"]) != (layers, hidden):
            given["family"] = "albert"  # BERT's files have no names for these
    return replace(config, pad_id=tokenizer.pad_id, **given)
