"""Hugging Face's parameter names and configs of the model families.

Names are mapped by an explicit table per family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from albert_rc.model.config import EncoderConfig


@dataclass(frozen=True)
class Family:
    """Hugging Face's names for a model family."""

    prefix: str
    layer: str
    """Prefix of a layer's keys, with {group} and {inner}."""
    parts: Mapping[str, str]
    """Map from our parts of a layer to theirs."""
    outer: Mapping[str, str]
    """Map from our parts outside the layers to theirs."""
    architectures: Mapping[str, str]
    """The transformers class for a checkpoint of each task."""


_EMBEDDINGS = {
    "encoder.embeddings.word": "{prefix}.embeddings.word_embeddings",
    "encoder.embeddings.position": "{prefix}.embeddings.position_embeddings",
    "encoder.embeddings.segment": "{prefix}.embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "{prefix}.embeddings.LayerNorm",
    # Only for our code: Hugging Face's classes have no reversible layers. They open such a folder,
    # report an unused weight, and compute something else.
    "encoder.final_norm": "albert_rc.final_norm",
    "head.classifier": "classifier",
    "head.label": "classifier",
    "head.span": "qa_outputs",
    "head.pair": "albert_rc.pair",  # only for our code if a family was pretrained without pairs
}
_BERT_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm": "output.LayerNorm",
}


def _architectures(name: str, pretraining: str = "MaskedLM") -> dict[str, str]:
    heads = {
        "cloze": "MaskedLM",
        "choice": "MultipleChoice",
        "label": "SequenceClassification",
        "span": "QuestionAnswering",
        "pretraining": pretraining,
    }
    return {task: f"{name}For{head}" for task, head in heads.items()}


FAMILIES = {
    "albert": Family(
        prefix="albert",
        layer="albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}",
        parts={
            "query": "attention.query",
            "key": "attention.key",
            "value": "attention.value",
            "output": "attention.dense",
            "attention_norm": "attention.LayerNorm",
            "up": "ffn",
            "down": "ffn_output",
            "norm": "full_layer_layer_norm",
        },
        outer={
            **_EMBEDDINGS,
            "encoder.projection": "albert.encoder.embedding_hidden_mapping_in",
            "head.dense": "predictions.dense",
            "head.norm": "predictions.LayerNorm",
            "head.bias": "predictions.bias",
            "head.pooler": "albert.pooler",
            "head.pool": "albert.pooler",
            "head.pair": "sop_classifier.classifier",
        },
        architectures=_architectures("Albert", pretraining="PreTraining"),
    ),
    "bert": Family(
        prefix="bert",
        layer="bert.encoder.layer.{group}",
        parts=_BERT_PARTS,
        outer={
            **_EMBEDDINGS,
            "head.dense": "cls.predictions.transform.dense",
            "head.norm": "cls.predictions.transform.LayerNorm",
            "head.bias": "cls.predictions.bias",
            "head.pooler": "bert.pooler.dense",
            "head.pool": "bert.pooler.dense",
            "head.pair": "cls.seq_relationship",
        },
        architectures=_architectures("Bert", pretraining="PreTraining"),
    ),
    "roberta": Family(
        prefix="roberta",
        layer="roberta.encoder.layer.{group}",
        parts=_BERT_PARTS,
        outer={
            **_EMBEDDINGS,
            "head.dense": "lm_head.dense",
            "head.norm": "lm_head.layer_norm",
            "head.bias": "lm_head.bias",
            "head.pooler": "roberta.pooler.dense",
            "head.pool": "classifier.dense",
            "head.label": "classifier.out_proj",
        },
        architectures=_architectures("Roberta"),
    ),
    "mpnet": Family(
        prefix="mpnet",
        layer="mpnet.encoder.layer.{group}",
        parts={
            "query": "attention.attn.q",
            "key": "attention.attn.k",
            "value": "attention.attn.v",
            "output": "attention.attn.o",
            "attention_norm": "attention.LayerNorm",
            "up": "intermediate.dense",
            "down": "output.dense",
            "norm": "output.LayerNorm",
        },
        outer={
            **_EMBEDDINGS,
            "encoder.relative": "mpnet.encoder.relative_attention_bias",
            "head.dense": "lm_head.dense",
            "head.norm": "lm_head.layer_norm",
            "head.bias": "lm_head.bias",
            "head.pooler": "mpnet.pooler.dense",
            "head.pool": "classifier.dense",
            "head.label": "classifier.out_proj",
        },
        architectures=_architectures("MPNet"),
    ),
}


def hub_config(config: EncoderConfig, task: str) -> dict[str, Any]:
    """The content of a config.json for Hugging Face's classes."""
    raw: dict[str, Any] = {
        "model_type": config.family,
        "architectures": [FAMILIES[config.family].architectures[task]],
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.ffn_size,
        "max_position_embeddings": config.max_positions,
        "type_vocab_size": config.num_segments,
        "hidden_act": config.activation,
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "initializer_range": config.init_range,
        "pad_token_id": config.pad_id,
    }
    if config.family == "albert":
        raw |= {
            "embedding_size": config.embedding_size,
            "num_hidden_groups": config.num_groups,
            "inner_group_num": config.inner_layers,
            "classifier_dropout_prob": config.classifier_dropout,
        }
    else:
        raw["classifier_dropout"] = config.classifier_dropout
    if config.relative_buckets:
        raw["relative_attention_num_buckets"] = config.relative_buckets
    return raw


def saved_class(raw: Mapping[str, Any]) -> str | None:
    """The transformers class that a config.json names first, if any."""
    names = raw.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else None


def saved_task(raw: Mapping[str, Any]) -> str | None:
    """The task of the class that a config.json names first; None if it has no head for a task."""
    family, name = FAMILIES.get(str(raw.get("model_type"))), saved_class(raw)
    classes = family.architectures if family else {}
    return next((task for task, named in classes.items() if named == name), None)


def hub_key(name: str, config: EncoderConfig) -> str:
    """Hugging Face's name of one of our parameters."""
    family = FAMILIES[config.family]
    if name == "head.salience":
        return "albert_rc.salience"  # only for our code; Hugging Face's classes ignore it
    match = re.fullmatch(r"encoder\.layers\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match:
        group, inner = divmod(int(match[1]), config.inner_layers)
        return (
            f"{family.layer.format(group=group, inner=inner)}.{family.parts[match[2]]}.{match[3]}"
        )
    if name in family.outer:
        return family.outer[name]
    part, _, kind = name.rpartition(".")
    return f"{family.outer[part].format(prefix=family.prefix)}.{kind}"
