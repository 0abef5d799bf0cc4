"""Files of weights, read one tensor at a time; pickled code is never run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
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


def _safetensors(path: Path) -> Weights:
    def read(key: str) -> Tensor:
        # Opened anew each time: pages of a mapped file count as ours as long as it is open.
        with safe_open(path, "pt") as file:
            tensor: Tensor = file.get_tensor(key)
            return tensor.clone()

    with safe_open(path, "pt") as file:
        return Weights(path, read, {key: key for key in file.keys()})  # noqa: SIM118


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
