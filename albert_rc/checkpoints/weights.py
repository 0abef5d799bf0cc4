"""Weight files, read one tensor at a time and verified by checksums.

Pickled code is never run. safetensors has no checksums; ours are in its metadata, which other
readers ignore.
"""

from __future__ import annotations

import ctypes
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from albert_rc.checkpoints.hf_names import FAMILIES, Family, hub_key
from albert_rc.errors import CheckpointError
from albert_rc.io.messages import first_line
from albert_rc.model.config import EncoderConfig
from albert_rc.runtime.devices import is_out_of_memory


@dataclass(frozen=True)
class Weights:
    """The tensors of a file, read one at a time: a file may be larger than the free memory."""

    path: Path
    read: Callable[[str, torch.dtype | None], Tensor]
    """A tensor by its name in the file; in another precision, if one is given."""
    keys: dict[str, str]
    """Map from our names to names in the file."""
    shapes: dict[str, tuple[int, ...]]
    """Shape of each tensor, by our names, from the file's header."""
    vocabulary: str | None = None
    """Fingerprint of the vocabulary that they were trained with, if the file has one."""


def write_weights(path: Path, weights: Mapping[str, Tensor], vocabulary: str) -> None:
    """Write tensors as safetensors, with checksums (not atomic).

    Args:
        path: the file.
        weights: contiguous tensors on the CPU.
        vocabulary: fingerprint of their vocabulary.
    """
    sums = {key: checksum(tensor) for key, tensor in weights.items()}
    metadata = {"format": "pt", _SUMS: orjson.dumps(sums).decode(), _VOCABULARY: vocabulary}
    save_file(dict(weights), path, metadata=metadata)
    _put_in_order(path)


def _put_in_order(path: Path) -> None:
    """Sort the metadata, which safetensors writes in varying order."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = orjson.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        file.seek(8)
        file.write(orjson.dumps(header).ljust(length))


_SUMS, _VOCABULARY = "albert_rc.crc32", "albert_rc.vocabulary"
_MISNAMED = "albert_rc.text.make_vocabulary"
"""An earlier key of the vocabulary's fingerprint, which two of the package's models still have."""


PIECE = 32 * 2**20
"""Bytes of a tensor read at a time."""


def checksum(tensor: Tensor, before: int = 0) -> int:
    """CRC-32 of the bytes of a tensor on the CPU, continuing from the CRC `before`."""
    values = tensor.contiguous()
    if not values.nbytes:
        return before
    # Not through numpy, which has no bf16.
    return zlib.crc32((ctypes.c_char * values.nbytes).from_address(values.data_ptr()), before)


def _identity(path: Path) -> tuple[int, int, int]:
    """A key that changes when a file is replaced or written to."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _pieces(
    path: Path, key: str, shape: tuple[int, ...]
) -> Iterator[tuple[slice | tuple[()], Tensor]]:
    """A tensor in blocks of rows, so that it is in memory only once, in the target precision.

    The file is reopened for each block: mapped pages count as our memory while it is open.
    """
    if not math.prod(shape) or not shape:  # a header may claim any number of empty rows
        with safe_open(path, "pt") as file:
            yield (), file.get_tensor(key)
        return
    rows = max(1, PIECE // (4 * max(1, math.prod(shape[1:]))))
    for start in range(0, shape[0], rows):
        part = slice(start, start + rows)
        with safe_open(path, "pt") as file:
            yield part, file.get_slice(key)[part]


def _safetensors(path: Path) -> Weights:
    opened = _identity(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        names = list(file.keys())
        # The library refuses headers that claim more than the file holds.
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
    sums = orjson.loads(metadata.get(_SUMS, "{}"))
    if not isinstance(sums, dict):
        raise ValueError("its checksums are not a table")

    def read(key: str, dtype: torch.dtype | None) -> Tensor:
        found, total, finite = None, 0, True
        for rows, piece in _pieces(path, key, shapes[key]):
            if found is None:
                kept = piece.dtype if dtype is None or not piece.is_floating_point() else dtype
                found = torch.empty(shapes[key], dtype=kept)
            found[rows] = piece
            finite &= _is_finite(piece)
            total = checksum(piece, total)
        assert found is not None
        if _identity(path) != opened:
            raise CheckpointError(f"{path}: was replaced while it was read; try again")
        if key in sums and sums[key] != total:
            raise CheckpointError(
                f"{path}: {key} is damaged (wrong checksum); copy the file again, or train again"
            )
        _require_numbers(path, key, finite)
        return found

    vocabulary = metadata.get(_VOCABULARY, metadata.get(_MISNAMED))
    return Weights(path, read, {name: name for name in names}, shapes, vocabulary)


def _is_finite(values: Tensor) -> bool:
    # isfinite does not support 8-bit floats.
    small = values.is_floating_point() and values.element_size() == 1
    return bool((values.float() if small else values).isfinite().all())


def _require_numbers(path: Path, key: str, finite: bool) -> None:
    """Refuse NaN and infinity: one such row spoils only answers that contain its word."""
    if not finite:
        raise CheckpointError(
            f"{path}: {key} holds NaN or infinite values; copy the file again, or train again"
        )


def _pickled(path: Path) -> Weights:
    _refuse_bombs(path)
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(tensors, dict) or not all(map(_is_plain, tensors.values())):
        raise CheckpointError(f"{path}: not a dict of tensors; convert it to safetensors")
    names = {key: key for key in tensors if isinstance(key, str)}
    shapes = {name: tuple(tensors[name].shape) for name in names}

    def read(key: str, dtype: torch.dtype | None) -> Tensor:
        tensor: Tensor = tensors[key]
        _require_numbers(path, key, _is_finite(tensor))
        return tensor if dtype is None or not tensor.is_floating_point() else tensor.to(dtype)

    return Weights(path, read, names, shapes)


def _refuse_bombs(path: Path) -> None:
    """Refuse a compressed archive (zip bomb); torch does not compress."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in entries)
    if packed or sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise CheckpointError(f"{path}: a compressed archive; convert it to safetensors")


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor with storage for each of its numbers.

    A few bytes can pose as a matrix of any size, through zero strides or the meta device.
    """
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
        return False
    held = value.untyped_storage().nbytes()
    return value.device.type == "cpu" and value.numel() * value.element_size() <= held


READ: dict[str, Callable[[Path], Weights]] = {
    "model.safetensors": _safetensors,
    "pytorch_model.bin": _pickled,
}
"""Names of weight files, the preferred one first, and what opens them."""


def open_weights(folder: Path, family: Family) -> Weights:
    """The tensors of a folder; pickled code is never run."""
    for name, open_ in READ.items():
        path = folder / name
        if not path.is_file():
            continue
        try:
            found = open_(path)
        except CheckpointError:
            raise
        except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
            _raise_if_memory(error)
            raise CheckpointError(
                f"{path}: incomplete, or not a weight file ({first_line(error)}); copy or "
                "download it again"
            ) from None
        except Exception as error:  # the unpickler's refusal of classes has its own type
            _raise_if_memory(error)
            raise CheckpointError(
                f"{path}: contains more than tensors, so it is not opened "
                f"({type(error).__name__}); convert it to safetensors"
            ) from None
        names = _todays_names(found.keys, family)
        return replace(
            found, keys=names, shapes={name: found.shapes[key] for name, key in names.items()}
        )
    if any((folder / f"{name}.index.json").is_file() for name in READ):
        raise CheckpointError(
            f"{folder}: the weights are split into several files; write them as one with "
            f'`AutoModel.from_pretrained("{folder}").save_pretrained(NEW, max_shard_size="100GB")` '
            "of transformers, with the class of the model in place of AutoModel if its head is "
            "needed"
        )
    raise CheckpointError(
        f"{folder}: no model.safetensors (nor pytorch_model.bin); give a folder with weights "
        "(`train` and `pretrain` can start from random ones: --scratch SIZE)"
    )


def _raise_if_memory(error: Exception) -> None:
    """Raise MemoryError if memory ran out, so that an intact file is not reported as damaged."""
    if is_out_of_memory(error):
        raise MemoryError from None


def read_weight(weights: Weights, key: str, dtype: torch.dtype | None = None) -> Tensor:
    """A tensor by its name in the file; in another precision, if one is given.

    Raises:
        CheckpointError: its values cannot be read, or are not weights.
    """
    try:
        value = weights.read(key, dtype)
    except (SafetensorError, OSError, RuntimeError, ValueError, AttributeError, TypeError) as error:
        _raise_if_memory(error)
        said = f"{weights.path}: {key} cannot be read ({first_line(error)})"
        raise CheckpointError(said) from None
    if not value.is_floating_point():
        raise CheckpointError(
            f"{weights.path}: {key} holds {value.dtype}, which is not a type of weights"
        )
    return value


def require_sizes(weights: Weights, config: EncoderConfig) -> None:
    """Refuse a config.json whose sizes differ from the weights', before a model is created.

    A number in a text file must not decide how much memory is allocated.

    Raises:
        CheckpointError: names what differs.
    """
    wide, small = config.hidden_size, config.embedding_size
    expected = {
        "encoder.embeddings.word.weight": (config.vocab_size, small),
        "encoder.embeddings.position.weight": (config.max_positions, small),
    }
    if config.family != "mpnet":
        expected["encoder.embeddings.segment.weight"] = (config.num_segments, small)
    if config.relative_buckets:
        expected["encoder.relative.weight"] = (config.relative_buckets, config.num_heads)
    if config.family == "albert":
        expected["encoder.projection.weight"] = (wide, small)
    layers = config.num_groups * config.inner_layers
    if layers > len(weights.shapes):
        raise CheckpointError(
            f"{weights.path}: {len(weights.shapes)} tensors are too few for the {layers:,} layers "
            "in its config.json; use the config.json that belongs to these weights"
        )
    needed = ["encoder.embeddings.norm.weight", *expected]
    for layer in range(layers):
        expected[f"encoder.layers.{layer}.query.weight"] = (wide, wide)
        expected[f"encoder.layers.{layer}.up.weight"] = (config.ffn_size, wide)
        needed += [
            f"encoder.layers.{layer}.{part}.{kind}"
            for part in FAMILIES[config.family].parts
            for kind in ("weight", "bias")
        ]
    keys = {hub_key(name, config): shape for name, shape in expected.items()}
    missing = [key for name in needed if (key := hub_key(name, config)) not in weights.shapes]
    if missing:
        raise CheckpointError(
            f"{weights.path}: missing weights ({len(missing)}): {', '.join(missing[:20])}; the "
            f"file begins with {next(iter(weights.keys.values()), 'nothing')}; if these are the "
            "weights of another kind of model, use its config.json, else copy the file again"
        )
    wrong = [
        f"{key} is {list(weights.shapes[key])}, expected {list(shape)}"
        for key, shape in keys.items()
        if weights.shapes[key] != shape
    ]
    if wrong:
        raise CheckpointError(
            f"{weights.path}: does not fit its config.json: {'; '.join(wrong[:20])}; use the "
            "config.json that belongs to these weights"
        )


def _todays_names(keys: Iterable[str], family: Family) -> dict[str, str]:
    """Keys by their current names.

    Old BERTs have gamma and beta, bare encoders lack the prefix, trainers put names of their own
    before it, and some files have the bias of the masked-LM head only as that of its decoder.
    """
    renamed = {}
    keys = list(keys)
    # What trainers put around a model: `module.bert...`, `model.bert...`.
    around = r"^(?:module\.|model\.|_orig_mod\.)+"
    wrapped = any(re.match(rf"{around}{family.prefix}\.", key) for key in keys)
    bare = not wrapped and not any(key.startswith(f"{family.prefix}.") for key in keys)
    for key in keys:
        name = re.sub(around, "", key) if wrapped else key
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if bare and re.match(r"(embeddings|encoder|pooler)\.", name):
            name = f"{family.prefix}.{name}"
        renamed[name] = key
    for name in [name for name in renamed if name.endswith(".decoder.bias")]:
        alone = name.replace(".decoder.", ".")
        if alone not in renamed:
            renamed[alone] = renamed.pop(name)
    return renamed
