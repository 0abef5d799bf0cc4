"""Loading and saving of models with their vocabulary: the entry point for checkpoints.

Our encoder reads and writes Hugging Face folders of ALBERT, BERT, RoBERTa and MPNet; `hf_names`
maps their keys to ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar

import torch
from torch import Tensor, nn

from albert_rc import __version__
from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hf_names import (
    FAMILIES,
    hub_config,
    hub_key,
)
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.labels import labels_in, same_classes
from albert_rc.checkpoints.shape import (
    attending,
    deepened,
    require_memory,
    scratch_config,
    with_dropout,
    with_places,
)
from albert_rc.checkpoints.smaller import describe, smaller_shape, smaller_weights
from albert_rc.checkpoints.weights import (
    Weights,
    open_weights,
    read_weight,
    require_sizes,
    write_weights,
)
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.atomic import atomic_path, write_bytes
from albert_rc.io.json import write_json
from albert_rc.io.messages import quoted
from albert_rc.model.config import READ_AGAIN, EncoderConfig
from albert_rc.model.feed_forward import ACTIVATIONS
from albert_rc.model.heads import OPTION_SCORES, HeadedModel, ReadingModel
from albert_rc.model.init import start_with_neighbours
from albert_rc.model.linear import DTYPES
from albert_rc.model.pretraining_head import PretrainingModel
from albert_rc.model.span_head import SpanModel
from albert_rc.text.tokenizer import VOCABULARY_FILES, Tokenizer, load_tokenizer

Model = TypeVar("Model", bound=HeadedModel)

TASKS = ("cloze", "choice", "label", "span", "pretraining")
POSITIONS = "encoder.embeddings.position.weight"
CLASSIFIERS = ("head.classifier.", "head.label.")


@dataclass
class LoadReport:
    """Missing and unused weights of a checkpoint, always reported to the user."""

    source: str
    new: list[str] = field(default_factory=list)
    """Newly initialised parameters of the head."""
    unused: list[str] = field(default_factory=list)
    """Keys of the checkpoint that this task does not use."""
    scratch: bool = False
    notes: list[str] = field(default_factory=list)
    """Other changes to the weights."""

    @property
    def untrained(self) -> bool:
        """Whether answers are guesses, because a part of the head is new.

        Without a trained salience, all pieces of an option count equally, as by default.
        """
        return any(not key.endswith("salience") for key in self.new)

    def lines(self) -> list[str]:
        """Sentences for the user."""
        if self.scratch:
            return [f"random weights, vocabulary of {self.source}", *self.notes]
        said = [f"weights of {self.source}"]
        if self.new:
            said.append(f"new and untrained: {', '.join(self.new)}")
        if self.unused:
            said.append(f"not used for this task: {', '.join(self.unused)}")
        return said + self.notes


def _tied_names(model: HeadedModel) -> set[str]:
    """Duplicate names of parameters shared between layers.

    Hugging Face's classes need them once per layer; here they are one parameter.
    """
    alone = {name for name, _ in model.named_parameters()}
    return {name for name, _ in model.named_parameters(remove_duplicate=False)} - alone


def _repeated(table_PE: Tensor, rows: int, first: int) -> Tensor:
    """A longer position table that repeats the learned positions.

    Neighbours thus stay neighbours except at the seams, as in Longformer (Beltagy et al. 2020,
    section 5), and what was learned about them still holds.
    """
    places = torch.arange(rows - first) % (len(table_PE) - first)
    return torch.cat([table_PE[:first], table_PE[first:][places]])


def _more_places(before: int, now: int, config: EncoderConfig) -> str:
    learned = before - config.position_offset
    return (
        f"{now - before:,} more positions are initialised as copies of the {learned:,} learned ones"
    )


def loaded_dtype(name: str, weight: Tensor, precision: str) -> torch.dtype:
    """The dtype of a loaded weight: the layers' matrices in `precision`, all else in fp32."""
    matrix = name.startswith("encoder.layers.") and weight.ndim > 1
    return DTYPES[precision] if matrix else torch.float32


def put_weight(model: nn.Module, name: str, value: Tensor) -> None:
    """Replace one of a model's weights."""
    owner, _, leaf = name.rpartition(".")
    setattr(model.get_submodule(owner), leaf, nn.Parameter(value.contiguous()))


def load_weights(
    model: HeadedModel,
    weights: Weights,
    precision: str = "fp32",
    vocabulary: str | None = None,
    classifier: bool = True,
) -> LoadReport:
    """Fill a model from a folder's weights.

    Args:
        model: its encoder may be on the meta device.
        weights: the open file.
        precision: precision of the layers' matrices; all else is fp32.
        vocabulary: fingerprint of the vocabulary in use.
        classifier: whether the checkpoint's classifier is for this task and these labels; if not,
            the model's own stays, untrained.

    Raises:
        CheckpointError: encoder weights are missing, damaged or of another shape, a file is
            truncated, or they were trained with another vocabulary.
    """
    folder = weights.path.parent
    if vocabulary is not None and weights.vocabulary not in (None, vocabulary):
        raise CheckpointError(
            f"{folder}: its vocabulary is damaged, or not the one that the weights were trained "
            "with; replace it with that one"
        )
    report = LoadReport(str(folder))
    missing: list[str] = []
    wrong: list[str] = []
    unused = dict(weights.keys)
    tied = _tied_names(model)
    for name, target in list(model.named_parameters(remove_duplicate=False)):
        key = hub_key(name, model.config)
        if not classifier and name.startswith(CLASSIFIERS):
            report.new.append(key)
            continue
        there = unused.pop(key, None)
        if there is None:
            (report.new if name.startswith("head.") else missing).append(key)
            continue
        shape, first = weights.shapes[key], model.config.position_offset
        extended = (
            name == POSITIONS
            and shape[1:] == target.shape[1:]
            and first < shape[0] < target.shape[0]
        )
        if shape != target.shape and not extended:
            wrong.append(f"{key} is {list(shape)}, expected {list(target.shape)}")
            continue
        value = read_weight(weights, there, loaded_dtype(name, target, precision))
        if extended:
            report.notes.append(_more_places(len(value), len(target), model.config))
            value = _repeated(value, len(target), first)
        if name in tied and not torch.equal(value, model.get_parameter(name)):
            wrong.append(f"{key} differs from the first layer's, although it should be shared")
            continue
        put_weight(model, name, value)
    if missing:
        raise CheckpointError(
            f"{weights.path}: missing weights ({len(missing)}): {', '.join(missing[:20])}; "
            "download or copy the checkpoint again"
        )
    if wrong:
        raise CheckpointError(
            f"{weights.path}: does not fit its config.json: {'; '.join(wrong)}; use the "
            "config.json that belongs to these weights"
        )
    _require_tied(model, weights, unused)
    # Copies of tied weights and position ids contain no information.
    carried = re.compile(r"decoder\.(weight|bias)$|position_ids$")
    report.unused = sorted(key for key in unused if not carried.search(key))
    return report


def _require_tied(model: torch.nn.Module, weights: Weights, unused: Mapping[str, str]) -> None:
    """Refuse a masked-LM head with an output matrix or a bias of its own."""
    if not isinstance(model, PretrainingModel | ReadingModel):
        return
    if isinstance(model, ReadingModel) and model.task != "cloze":
        return
    for key, there in unused.items():
        if key.endswith("decoder.weight"):
            value = read_weight(weights, there, model.words.dtype)
            if value.shape != model.words.shape or not torch.equal(value, model.words):
                raise CheckpointError(
                    f"{weights.path}: {key} differs from the word embeddings; a head with a "
                    "separate output matrix (tie_word_embeddings false) is not supported: remove "
                    "the head from the file (a new one is trained), or use another checkpoint"
                )
        alike = weights.keys.get(key.replace("decoder.", ""))
        if key.endswith("decoder.bias") and alike is not None:
            one, other = read_weight(weights, there), read_weight(weights, alike)
            if one.shape != other.shape or not torch.equal(one, other):
                raise CheckpointError(
                    f"{weights.path}: {key} differs from {alike}, although both are the bias of "
                    "the output; remove the wrong one"
                )


@dataclass
class Loaded(Generic[Model]):
    """A model, its vocabulary, and the report of loading."""

    model: Model
    tokenizer: Tokenizer
    report: LoadReport


class Opening(TypedDict, total=False):
    """Arguments of `load_model` that do not depend on the papers."""

    scratch: str | None
    shape: Mapping[str, Any]
    option_score: str | None
    attention: str | None
    lsh: Mapping[str, Any]
    max_length: int | None
    precision: str
    dropout: float | None


def _named(
    raw: Mapping[str, Any] | None, name: str, known: Collection[str], source: str | Path
) -> str | None:
    """A checkpoint's own choice among some names, in its config.json; None if it has none.

    Raises:
        CheckpointError: an unknown name.
    """
    value: str | None = (raw or {}).get("albert_rc", {}).get(name)
    if value is not None and value not in known:
        raise CheckpointError(
            f"{source}/config.json: {name} {quoted(value)} is unknown; choose from "
            f"{', '.join(known)}"
        )
    return value


def load_model(
    source: str | Path,
    task: str,
    *,
    scratch: str | None = None,
    shape: Mapping[str, Any] | None = None,
    option_score: str | None = None,
    labels: Sequence[str] | None = None,
    format_name: str | None = None,
    with_pairs: bool = True,
    attention: str | None = None,
    lsh: Mapping[str, Any] | None = None,
    max_length: int | None = None,
    precision: str = "fp32",
    dropout: float | None = None,
    seed: int = 0,
) -> Loaded[Any]:
    """Load a model with its vocabulary, on the CPU.

    Args:
        source: a folder, a hub id, or the name of a model of the package.
        task: `cloze`, `choice`, `label` (a `ReadingModel`), `span` (a `SpanModel`, which marks
            answers in passages) or `pretraining` (a `PretrainingModel`).
        scratch: a size of `SIZES`: random weights, and only the vocabulary of `source`.
        shape: settings that differ from that size's. A checkpoint must match them, but may be
            made smaller (`config.SMALLER`), and for pretraining be given more `num_layers` if all
            its layers are shared.
        option_score: a key of `OPTION_SCORES`; by default the checkpoint's own, else `mean`.
        labels: for `label`, the classes (empty: regression); by default the checkpoint's own.
        format_name: for `label`, the task of these labels, as the name of its reader; with the
            checkpoint's own labels, the one in its config.json.
        with_pairs: for `pretraining`, also predict the order of segments.
        attention: a key of `ATTENTION`; by default the checkpoint's own, else `dense`.
        lsh: settings of `LshConfig` that differ from the checkpoint's, or from the defaults.
        max_length: tokens of a sequence, to extend the model's position table.
        precision: precision of the layers' matrices: fp32 in training; in prediction, that of
            the computation.
        dropout: dropout of the layers, in training; by default the checkpoint's own.
        seed: random seed of new weights.

    Raises:
        UsageError: unknown source, size or task, or a shape that the checkpoint does not have.
        CheckpointError: unusable weights or vocabulary.
    """
    if task not in TASKS:
        raise UsageError(f"task {task}: choose from {', '.join(TASKS)}")
    if option_score is not None and option_score not in OPTION_SCORES:
        raise UsageError(f"--option-score {option_score}: choose from {', '.join(OPTION_SCORES)}")

    def reading(config: EncoderConfig, raw: Mapping[str, Any] | None) -> ReadingModel:
        known, of = labels or (), None
        if task == "label":
            known, of = (labels, format_name) if labels is not None else labels_in(raw or {})
        own = _named(raw, "option_score", OPTION_SCORES, source) if task == "cloze" else None
        way = _named(raw, "read_again", READ_AGAIN, source)
        model = ReadingModel(
            config, task, option_score or own or "mean", known, raw is not None, of
        )
        model.read_again = way if way and READ_AGAIN[way] == task else None
        return model

    def spans(config: EncoderConfig, raw: Mapping[str, Any] | None) -> SpanModel:
        threshold = (raw or {}).get("albert_rc", {}).get("null_threshold")
        return SpanModel(config, threshold, empty=raw is not None)

    def pretraining(config: EncoderConfig, raw: Mapping[str, Any] | None) -> PretrainingModel:
        return PretrainingModel(config, with_pairs, empty=raw is not None)

    make = {"span": spans, "pretraining": pretraining}.get(task, reading)
    folder = resolve_source(source)
    tokenizer = load_tokenizer(folder)
    raw: dict[str, Any] = {}
    # nn.init uses the global generator; its state is restored afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # and not those of GPUs, which others may use
        if scratch is not None:
            config = with_places(scratch_config(scratch, tokenizer, shape), max_length)
            config = with_dropout(config, dropout)
            require_memory(config)
            model = make(config, None)
            start_with_neighbours(model.encoder)
            report = LoadReport(str(source), scratch=True)
        else:
            config, raw = _checked_config(folder, tokenizer)
            weights = open_weights(folder, FAMILIES[config.family])
            require_sizes(weights, config)
            config = with_dropout(with_places(config, max_length), dropout)
            if task == "pretraining":
                config = deepened(config, (shape or {}).get("num_layers"))
            wanted = smaller_shape(config, shape or {})
            require_memory(config)
            model = make(config, raw)
            report = load_weights(
                model, weights, precision, tokenizer.fingerprint, same_classes(raw, task, labels)
            )
            _take_salience(model, raw, report)
            if wanted != config:
                values = smaller_weights(model.state_dict(), config, wanted)
                model = make(wanted, raw)
                for name, _ in list(model.named_parameters(remove_duplicate=False)):
                    put_weight(model, name, values[name])
                report.notes.append(describe(config, wanted))
    saved = raw.get("albert_rc", {})
    biased = model.config.relative_buckets > 0
    model.encoder.compute = attending(saved, attention, lsh or {}, tokenizer, seed, folder, biased)
    return Loaded(model, tokenizer, report)


def _take_salience(model: HeadedModel, raw: Mapping[str, Any], report: LoadReport) -> None:
    """Take a missing salience vector from config.json, where `export` has put it.

    transformers drops the tensor when it saves a folder again.

    Raises:
        CheckpointError: it has another size than the embeddings.
    """
    name, values = "head.salience", raw.get("albert_rc", {}).get("salience")
    key = hub_key(name, model.config)
    if key not in report.new or values is None:
        return
    if len(values) != model.config.embedding_size:
        raise CheckpointError(
            f"{report.source}/config.json: salience in albert_rc has {len(values)} numbers, "
            f"expected {model.config.embedding_size}"
        )
    put_weight(model, name, torch.tensor(values, dtype=torch.float32))
    report.new.remove(key)


def _checked_config(folder: Path, tokenizer: Tokenizer) -> tuple[EncoderConfig, dict[str, Any]]:
    config, raw = read_config(folder)
    if config.activation not in ACTIVATIONS:
        raise CheckpointError(
            f"{folder}/config.json: hidden_act {quoted(config.activation)} is not supported (only "
            f"{', '.join(ACTIVATIONS)})"
        )
    if tokenizer.size > config.vocab_size:
        raise CheckpointError(
            f"{folder}: the vocabulary has {tokenizer.size} pieces but the model "
            f"has {config.vocab_size}; use the vocabulary that belongs to these weights"
        )
    return config, raw


def hub_weights(model: HeadedModel, precision: str = "fp32") -> dict[str, Tensor]:
    """The model's weights on the CPU under Hugging Face's names.

    Raises:
        CheckpointError: a value is too large for the precision.
    """
    tied = _tied_names(model)
    weights = {}
    for name, value in model.named_parameters(remove_duplicate=False):
        tensor = value.detach().cpu().to(DTYPES[precision]).contiguous()
        key = hub_key(name, model.config)
        if precision == "fp16" and not tensor.isfinite().all() and value.isfinite().all():
            raise CheckpointError(
                f"{key}: has values that are too large for fp16; use --precision bf16 or fp32"
            )
        weights[key] = tensor.clone() if name in tied else tensor
    return weights


def save_model(
    model: HeadedModel,
    tokenizer: Tokenizer,
    folder: Path,
    precision: str = "fp32",
) -> None:
    """Write weights (safetensors), config.json and the vocabulary's files into `folder`.

    The Hugging Face class named in config.json opens the folder, as does `load_model`. Settings
    that only the latter supports are under `albert_rc`; a reversible encoder works correctly only
    with `load_model`.

    Args:
        model: the model to save.
        tokenizer: the model's.
        folder: created if missing.
        precision: precision of the written weights: fp32, or half as large, bf16 or fp16.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in VOCABULARY_FILES:
        source, target = tokenizer.folder / name, folder / name
        if not source.is_file():
            target.unlink(missing_ok=True)  # left by an earlier run with another vocabulary
        elif source.resolve() != target.resolve():
            write_bytes(target, source.read_bytes())
    raw = hub_config(model.config, model.task)
    raw["albert_rc"] = {"option_score": model.option_score, "version": __version__}
    if model.read_again is not None:
        raw["albert_rc"]["read_again"] = model.read_again
    if isinstance(model, ReadingModel) and model.task == "label":
        names = model.labels or ("value",)
        raw["id2label"] = {str(number): name for number, name in enumerate(names)}
        raw["label2id"] = {name: number for number, name in enumerate(names)}
        raw["problem_type"] = "single_label_classification" if model.labels else "regression"
        if model.format_name is not None:
            raw["albert_rc"]["format"] = model.format_name
    if isinstance(model, SpanModel):
        raw["albert_rc"]["null_threshold"] = model.null_threshold
    compute = model.encoder.compute
    if compute.attention != "dense":
        raw["albert_rc"] |= {"attention": compute.attention, "lsh": asdict(compute.lsh)}
    for name, usual in (("common", "nothing"), ("residual", "post")):
        if (value := getattr(model.config, name)) != usual:
            raw["albert_rc"][name] = value
    write_json(folder / "config.json", raw)
    with atomic_path(folder / "model.safetensors") as temporary:
        write_weights(temporary, hub_weights(model, precision), tokenizer.fingerprint)
