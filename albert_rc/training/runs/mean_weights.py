"""Averaging of checkpoints: of several folders, or of the last states of one run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hf_names import FAMILIES, hub_key
from albert_rc.checkpoints.hub import resolve_source
from albert_rc.checkpoints.weights import open_weights, read_weight, write_weights
from albert_rc.errors import CheckpointError, UsageError
from albert_rc.io.atomic import atomic_folder, require_new, temporary_folder
from albert_rc.io.messages import counted, first_line
from albert_rc.io.pt import check_archive
from albert_rc.model.config import EncoderConfig
from albert_rc.text.tokenizer import VOCABULARY_FILES, load_tokenizer
from albert_rc.training.checkpoint import states


@dataclass(frozen=True)
class Mean:
    """Where averaged weights come from."""

    run: Path
    """Folder whose records also apply to the mean: the run's, or the first checkpoint's."""
    made_of: str
    """The checkpoints, in words."""


BUFFER = "position_ids"
"""End of the name of a buffer in files of older programs; it holds no weights."""


@contextmanager
def source_of(
    runs: Sequence[str], last: int | None, out: Path, say: Callable[[str], None]
) -> Iterator[tuple[str | Path, Mean | None]]:
    """Context that gives a run's folder, or a temporary one with the mean of several checkpoints.

    Args:
        runs: folders; a single run with `last`.
        last: number of the newest states of that run to average.
        out: path of the result; the mean is written next to it temporarily.
        say: called with the number of checkpoints averaged.

    Yields:
        the folder, and the `Mean` if it holds one.

    Raises:
        UsageError: `last` with several runs, or checkpoints that cannot be averaged.
        CheckpointError: unusable, or of different shapes.
    """
    if len(runs) == 1 and last is None:
        yield runs[0], None
        return
    if last is not None and len(runs) > 1:
        raise UsageError("--last averages the states of one run; give only one folder")
    require_new(out)
    like = resolve_source(runs[0], "")
    sources = of_folders(runs) if last is None else of_states(like, last)
    with temporary_folder(out) as temporary:
        mean = temporary / "mean"
        count = write_mean(sources, like, mean)
        plain = [Path(source.name).name for source in sources]
        say(f"the mean of {len(sources)} checkpoints, {count} tensors: {', '.join(plain)}")
        names = " and ".join(f"`{name}`" for name in plain)
        yield mean, Mean(like, f"{len(sources)} checkpoints, {names}")


@dataclass(frozen=True)
class WeightSource:
    """A checkpoint whose tensors are read one at a time: all of them need not fit into memory."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    """Shapes by Hugging Face's parameter names."""
    read: Callable[[str], Tensor]


def of_folders(folders: Sequence[str | Path]) -> list[WeightSource]:
    """The weights of several folders, which must be of one shape and one vocabulary.

    Raises:
        UsageError: no such folder, or one given twice.
        CheckpointError: unusable, or of different shapes or vocabularies.
    """
    sources: list[WeightSource] = []
    kinds: list[dict[str, Any]] = []
    found = [resolve_source(folder, "") for folder in folders]
    for place, folder in enumerate(found):
        if folder.resolve() in [other.resolve() for other in found[:place]]:
            raise UsageError(f"{folder} is given twice; give each checkpoint once")
        config, raw = read_config(folder)
        weights = open_weights(folder, FAMILIES[config.family])
        vocabulary = {"vocabulary": load_tokenizer(folder).fingerprint}
        kinds.append(_shape(config) | vocabulary | _use(raw))
        unsaid = {name for name in _use(raw) for kind in kinds if kind[name] is None}
        if differing := [
            name
            for name, value in kinds[0].items()
            if kinds[-1][name] != value and name not in unsaid
        ]:
            raise CheckpointError(
                f"{folder}: differs from {sources[0].name} in {', '.join(differing)}; only "
                "checkpoints of the same configuration can be averaged (combine others with "
                "`albert-rc ensemble`)"
            )

        def read(name: str, weights=weights) -> Tensor:  # type: ignore[no-untyped-def]
            return read_weight(weights, weights.keys[name])

        shapes = {name: s for name, s in weights.shapes.items() if not name.endswith(BUFFER)}
        sources.append(WeightSource(str(folder), shapes, read))
    return sources


def _shape(config: EncoderConfig) -> dict[str, Any]:
    """The configuration that weights must share: all but dropout."""
    return {k: v for k, v in asdict(config).items() if not k.endswith("dropout")}


def _use(raw: dict[str, Any]) -> dict[str, Any]:
    """What the weights are for, from a config.json; None where it does not say."""
    ours = raw.get("albert_rc", {})
    return {
        "kind of questions (architectures)": raw.get("architectures"),
        "labels": raw.get("id2label"),
        "task": ours.get("format"),
        "option score": ours.get("option_score"),
        "attention": ours.get("attention"),
    }


def of_states(run: Path, last: int) -> list[WeightSource]:
    """The weights in the newest states of a run.

    Args:
        run: the run's folder; its config.json gives the tensors' names.
        last: number of states.

    Raises:
        UsageError: fewer than two, or fewer states exist; `train --set keep=N` keeps more.
        CheckpointError: truncated, damaged or not a state.
    """
    if last < 2:
        raise UsageError(f"--last {last}: a mean needs at least two states")
    found = states(run)[:last]
    if len(found) < last:
        raise UsageError(
            f"--last {last}: {run} has {counted(len(found), 'state')}; train with --set "
            f"keep={last} (and with --save-steps for their interval)"
        )
    config, _ = read_config(run)
    sources = []
    for path in found:
        try:
            check_archive(path)
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            named = {hub_key(name, config): each for name, each in state["model"].items()}
        except Exception as error:  # torch raises many types for a foreign file
            raise CheckpointError(f"{path}: cannot be read ({first_line(error)})") from None
        shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
        sources.append(WeightSource(str(path), shapes, named.__getitem__))
    return sources


def write_mean(sources: Sequence[WeightSource], like: Path, out: Path) -> int:
    """Write the mean as a folder that `load_model` opens.

    Sums are in fp64; each tensor is written with its dtype in the first source. Izmailov et al.
    (2018) average along one run in this way. Runs that began with the same weights have a useful
    mean too; runs from different random weights have none.

    Args:
        sources: at least two, with equal shapes.
        like: folder whose config.json and vocabulary are copied.
        out: a new folder, written completely or not at all.

    Returns:
        The number of tensors averaged.

    Raises:
        UsageError: fewer than two sources, or `out` is not empty.
        CheckpointError: tensors are missing, or of other shapes.
    """
    if len(sources) < 2:
        raise UsageError("a mean needs at least two checkpoints")
    require_new(out)
    first = sources[0]
    for source in sources[1:]:
        for name in first.shapes.keys() | source.shapes.keys():
            if first.shapes.get(name) != source.shapes.get(name):
                raise CheckpointError(
                    f"{source.name}: the shape of {name} differs from {first.name}"
                )
    mean = {}
    for name in first.shapes:
        total = torch.zeros(first.shapes[name], dtype=torch.float64)
        for source in sources:
            total += source.read(name)
        mean[name] = (total / len(sources)).to(first.read(name).dtype).contiguous()
    with atomic_folder(out) as temporary:
        for name in (*VOCABULARY_FILES, "config.json"):
            if (like / name).is_file():
                shutil.copyfile(like / name, temporary / name)
        write_weights(temporary / "model.safetensors", mean, load_tokenizer(like).fingerprint)
    return len(mean)
