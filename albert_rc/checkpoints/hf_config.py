"""Reading of Hugging Face's config.json, fully checked before it is used.

Its sizes must match the weights (`weights.require_sizes`), and keys that would run code
(`auto_map`) are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert_rc.checkpoints.hf_names import FAMILIES
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.json import parse_json
from albert_rc.io.messages import quoted
from albert_rc.model.config import EncoderConfig

_COUNTS = (
    "vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups",
    "inner_group_num", "num_attention_heads", "intermediate_size", "max_position_embeddings",
    "type_vocab_size", "relative_attention_num_buckets",
)  # fmt: skip
_NUMBERS = ("layer_norm_eps", "initializer_range")
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_one and math.isfinite(value)


def _is_vector(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


# Keys under `albert_rc`, as `load.save_model` writes them.
_OURS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "option_score": (_is_text, "text"),
    "read_again": (_is_text, "text"),
    "format": (_is_text, "text"),
    "attention": (_is_text, "text"),
    "lsh": (_is_object, "an object"),
    "common": (_is_text, "text"),
    "residual": (_is_text, "text"),
    "salience": (_is_vector, "a list of numbers"),
    "null_threshold": (lambda value: value is None or _is_number(value), "a number"),
}


def read_config(folder: Path) -> tuple[EncoderConfig, dict[str, Any]]:
    """The encoder's shape and the raw config.json of a Hugging Face folder.

    Raises:
        CheckpointError: no config, an unsupported family, or a wrong field.
    """
    path = folder / "config.json"
    if path.exists() and not path.is_file():  # reading a named pipe would block for ever
        raise CheckpointError(f"{path}: must be a file")
    try:
        raw = parse_json(path.read_bytes())
    except OSError as error:
        way_out = "; give the folder of a model" if isinstance(error, FileNotFoundError) else ""
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}){way_out}") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return encoder_config(raw, path), raw


def encoder_config(raw: Any, path: Path) -> EncoderConfig:
    """The encoder's shape from the content of a config.json.

    Raises:
        CheckpointError: a field is missing or wrong, or the family is not supported.
    """
    family = raw.get("model_type") if isinstance(raw, dict) else None
    if not isinstance(family, str) or family not in FAMILIES:
        raise CheckpointError(
            f"{path}: model_type {quoted(family)} is not supported (only {', '.join(FAMILIES)})"
        )
    if raw.get("position_embedding_type", "absolute") != "absolute":
        raise CheckpointError(
            f"{path}: only absolute position embeddings are supported; use another model"
        )
    for name in ("is_decoder", "add_cross_attention"):
        if raw.get(name):
            raise CheckpointError(
                f"{path}: {name} is true, but only encoders are supported; use another model"
            )
    if family == "mpnet" and raw.get("relative_attention_num_buckets", 32) != 32:
        # transformers computes 32 whatever the table's size.
        raise CheckpointError(
            f"{path}: relative_attention_num_buckets must be 32; use another model"
        )
    is_albert, is_mpnet = family == "albert", family == "mpnet"
    starts_later = is_mpnet or family == "roberta"
    _check_fields(path, raw)
    given = raw.get("pad_token_id")
    pad_id = given if given is not None else 1 if starts_later else 0
    try:
        layers = raw["num_hidden_layers"]
        config = EncoderConfig(
            family=family,
            vocab_size=raw["vocab_size"],
            embedding_size=raw["embedding_size"] if is_albert else raw["hidden_size"],
            hidden_size=raw["hidden_size"],
            num_layers=layers,
            num_groups=raw.get("num_hidden_groups", 1) if is_albert else layers,
            inner_layers=raw.get("inner_group_num", 1) if is_albert else 1,
            num_heads=raw["num_attention_heads"],
            ffn_size=raw["intermediate_size"],
            max_positions=raw.get("max_position_embeddings", 512),
            # MPNet's is fixed; RoBERTa's follows from the padding.
            position_offset=2 if is_mpnet else pad_id + 1 if starts_later else 0,
            num_segments=1 if is_mpnet else raw.get("type_vocab_size", 2),
            relative_buckets=raw.get("relative_attention_num_buckets", 32) if is_mpnet else 0,
            activation=raw.get("hidden_act", "gelu_new" if is_albert else "gelu"),
            norm_eps=raw.get("layer_norm_eps", 1e-12),
            dropout=raw.get("hidden_dropout_prob", 0.0 if is_albert else 0.1),
            attention_dropout=raw.get("attention_probs_dropout_prob", 0.0 if is_albert else 0.1),
            classifier_dropout=_classifier_dropout(raw),
            init_range=raw.get("initializer_range", 0.02),
            pad_id=pad_id,
            common=raw.get("albert_rc", {}).get("common", "nothing"),
            residual=raw.get("albert_rc", {}).get("residual", "post"),
        )
    except KeyError as error:
        raise CheckpointError(
            f"{path}: the field {error} is missing; use the config.json that belongs to the weights"
        ) from None
    except (TypeError, UsageError) as error:
        raise CheckpointError(f"{path}: {_in_its_words(str(error))}") from None
    if config.max_length < 1:
        raise CheckpointError(
            f"{path}: max_position_embeddings {config.max_positions} leaves no position for text, "
            f"because in {family} the first one follows pad_token_id {pad_id}"
        )
    return config


_THEIRS = {
    "num-heads": "num_attention_heads",
    "num-layers": "num_hidden_layers",
    "num-groups": "num_hidden_groups",
    "ffn-size": "intermediate_size",
    "inner-layers": "inner_group_num",
    "max-positions": "max_position_embeddings",
    "num-segments": "type_vocab_size",
    "relative-buckets": "relative_attention_num_buckets",
}
"""Names of sizes in config.json, by those of our options, where they differ."""


def _in_its_words(message: str) -> str:
    """A message about our options with the names of config.json."""
    return re.sub(
        r"--([a-z-]+)", lambda flag: _THEIRS.get(flag[1], flag[1]).replace("-", "_"), message
    )


def _check_fields(path: Path, raw: dict[str, Any]) -> None:
    def refuse(name: str, must_be: str) -> None:
        raise CheckpointError(f"{path}: {name} is {quoted(raw[name])}; it must be {must_be}")

    for name in _COUNTS:
        if type(raw.get(name, 1)) is not int or raw.get(name, 1) < 1:
            refuse(name, "a whole number above 0")
    for name in _NUMBERS:
        if name in raw and not (_is_number(raw[name]) and raw[name] >= 0):
            refuse(name, "a number of at least 0")
    for name, value in raw.items():
        is_share = name.endswith(("dropout", "dropout_prob"))
        # A BERT without a classifier has null there; the encoder's own must be numbers.
        unset = value is None and name not in _DROPOUTS
        if is_share and not unset and not (_is_number(value) and 0 <= value < 1):
            refuse(name, "at least 0 and below 1")
    pad_id = raw.get("pad_token_id")
    is_id = type(pad_id) is int and 0 <= pad_id < raw.get("vocab_size", 2**63)
    if pad_id is not None and not is_id:
        refuse("pad_token_id", "an id of the vocabulary")
    if not isinstance(raw.get("hidden_act", ""), str):
        refuse("hidden_act", "text")
    names = raw.get("id2label", {})
    if not isinstance(names, dict) or not all(key.isdecimal() for key in names):
        refuse("id2label", 'an object with a number as the name of each label, such as {"0": "no"}')
    ours = raw.get("albert_rc", {})
    if not isinstance(ours, dict):
        refuse("albert_rc", "an object")
    for name, (is_good, must_be) in _OURS.items():
        if name in ours and not is_good(ours[name]):
            raise CheckpointError(
                f"{path}: {name} in albert_rc is {quoted(ours[name])}; it must be {must_be}"
            )


def _classifier_dropout(raw: dict[str, Any]) -> float:
    for key in ("classifier_dropout_prob", "classifier_dropout", "hidden_dropout_prob"):
        if raw.get(key) is not None:
            return float(raw[key])
    return 0.1
