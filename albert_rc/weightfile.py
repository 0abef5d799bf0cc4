"""Files of weights, read one tensor at a time and compared with their checksums.

Pickled code is never run. safetensors has no checksums of its own; ours stand in its metadata,
which others pass over.
"""

from __future__ import annotations

import ctypes
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from albert_rc.errors import CheckpointError
from albert_rc.families import Family


@dataclass(frozen=True)
class Weights:
    """The tensors of a file, read one at a time: a file may be larger than the memory at hand."""

    path: Path
    read: Callable[[str], Tensor]
    keys: dict[str, str]
    """Names as we call them to names in the file."""
    vocabulary: str | None = None
    """Fingerprint of the vocabulary that they were trained with, if the file says so."""


def write_weights(path: Path, weights: Mapping[str, Tensor], vocabulary: str) -> None:
    """Write tensors as safetensors, with their checksums (not atomic by itself).

    Args:
        path: the file.
        weights: contiguous tensors on the CPU.
        vocabulary: fingerprint of the vocabulary that they belong to.
    """
    sums = {key: checksum(tensor) for key, tensor in weights.items()}
    metadata = {"format": "pt", _SUMS: orjson.dumps(sums).decode(), _VOCABULARY: vocabulary}
    save_file(dict(weights), path, metadata=metadata)
    _put_in_order(path)


def _put_in_order(path: Path) -> None:
    """Sort the metadata: safetensors writes them in another order each time."""
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = orjson.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        file.seek(8)
        file.write(orjson.dumps(header).ljust(length))


_SUMS, _VOCABULARY = "albert_rc.crc32", "albert_rc.vocabulary"


def checksum(tensor: Tensor) -> int:
    """CRC-32 of the bytes of a tensor on the CPU."""
    values = tensor.contiguous()
    if not values.nbytes:
        return 0
    # Not by way of numpy: a storage that it has seen can be resized no more, as FSDP has to.
    return zlib.crc32((ctypes.c_char * values.nbytes).from_address(values.data_ptr()))


def _safetensors(path: Path) -> Weights:
    with safe_open(path, "pt") as file:
        metadata = file.metadata() or {}
        names = list(file.keys())
    sums = orjson.loads(metadata.get(_SUMS, "{}"))
    if not isinstance(sums, dict):
        raise ValueError("its checksums are no table")

    def read(key: str) -> Tensor:
        # Opened anew each time: pages of a mapped file count as ours as long as it is open.
        with safe_open(path, "pt") as file:
            tensor: Tensor = file.get_tensor(key).clone()
        if key in sums and sums[key] != checksum(tensor):
            raise CheckpointError(
                f"{path}: {key} is damaged (its checksum is another); take a copy, or train again"
            )
        return tensor

    return Weights(path, read, {key: key for key in names}, metadata.get(_VOCABULARY))


def _pickled(path: Path) -> Weights:
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        raise CheckpointError(f"{path}: not a table of tensors")
    return Weights(path, tensors.__getitem__, {key: key for key in tensors})


def open_weights(folder: Path, family: Family) -> Weights:
    """The tensors of a folder; pickled code is never run."""
    for name, open_ in {"model.safetensors": _safetensors, "pytorch_model.bin": _pickled}.items():
        path = folder / name
        if not path.is_file():
            continue
        try:
            found = open_(path)
        except CheckpointError:
            raise
        except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
            reason = str(error).partition("\n")[0]
            raise CheckpointError(f"{path}: torn or no weights ({reason[:120]})") from None
        except Exception as error:  # the unpickler refuses classes with a type of its own
            raise CheckpointError(
                f"{path}: holds more than tensors and is not opened "
                f"({type(error).__name__}); convert it to safetensors"
            ) from None
        return replace(found, keys=_todays_names(found.keys, family))
    if (folder / "model.safetensors.index.json").is_file():
        raise CheckpointError(f"{folder}: weights in several files; join them into one safetensors")
    raise CheckpointError(
        f"{folder}: no model.safetensors (nor pytorch_model.bin); "
        f"to start from random weights with this vocabulary give --scratch SIZE"
    )


def _todays_names(keys: Iterable[str], family: Family) -> dict[str, str]:
    """Keys as today's: old BERTs say gamma and beta, bare encoders leave out the prefix."""
    renamed = {}
    bare = not any(key.startswith(f"{family.prefix}.") for key in keys)
    for key in keys:
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", key)
        name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
        if bare and re.match(r"(embeddings|encoder|pooler)\.", name):
            name = f"{family.prefix}.{name}"
        renamed[name] = key
    return renamed
