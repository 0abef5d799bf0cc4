"""Resolution of model names: a folder, a model of the package, or a download from the hub."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

from albert_rc.checkpoints.hf_names import saved_task
from albert_rc.errors import UsageError
from albert_rc.io.json import parse_json
from albert_rc.io.messages import first_line, first_of
from albert_rc.text.tokenizer import VOCABULARY_FILES

SHIPPED = Path(__file__).parents[1] / "pretrained"
READY = {"cloze": "albert-rc-small", "choice": "albert-rc-small-choice"}
"""The package's fine-tuned models, by the kind of papers that they answer."""


def shipped_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    folders = sorted(SHIPPED.iterdir()) if SHIPPED.is_dir() else []
    return {folder.name: folder for folder in folders if (folder / "config.json").is_file()}


def usual_model(kind: str = "cloze") -> str:
    """The default model: the run in `models` if it answers these papers, else the package's."""
    config = Path("models/config.json")
    return "models" if _answers(config, kind) else READY.get(kind, READY["cloze"])


def unused_runs() -> list[str]:
    """The runs below `models`, which are used only if they are named."""
    return sorted(str(config.parent) for config in Path("models").glob("*/config.json"))


def _answers(config: Path, kind: str) -> bool:
    """Whether a model exists there that was not made for another kind of papers."""
    if not config.is_file():
        return False
    try:
        raw = parse_json(config.read_bytes())
    except (OSError, ValueError):
        raw = None
    if not isinstance(raw, dict):
        return True  # opening it later reports what is wrong
    task = saved_task(raw)
    return task in (kind, None) or (task == "pretraining" and kind == "cloze") or kind not in READY


def resolve_source(source: str | Path, option: str = "--model") -> Path:
    """The folder behind `--model`: itself, a model of the package, or a download from the hub.

    Args:
        source: what was given.
        option: where it was given, for errors; empty for an argument.

    Raises:
        UsageError: none of these.
    """
    path = Path(source)
    given = f"{option} {source}".lstrip()
    if path.is_dir():
        if not (path / "config.json").exists() and any(path.glob("resume-*.pt")):
            raise UsageError(
                f"{given}: this run has saved no weights yet, only its state; continue it with "
                "--resume"
            )
        _require_one_model(path, given)
        return path
    if path.is_file():
        raise UsageError(f"{given}: is a file; give the folder that it is in")
    shipped = shipped_models()
    if str(source) in shipped:
        return shipped[str(source)]
    looked = f"{given}: no such folder"
    if shipped:
        looked += f", nor a model of the package ({', '.join(shipped)})"
    advice = "check the name, or put the model's files into a folder and give that"
    if meant := _meant(str(source)):
        raise UsageError(f"{looked}; did you mean {meant}?")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        raise UsageError(f"{looked}, nor a hub id, which has one slash; {advice}")
    try:
        return _download(str(source))
    except Exception as error:  # the hub's client raises many types
        raise UsageError(f"{looked}, and {_why(error)}; {advice}") from None


_OWNERS = {
    "albert-": "albert", "bert-": "google-bert", "roberta-": "FacebookAI", "mpnet-": "microsoft",
}  # fmt: skip
"""Owners on the hub of models that are often called by their bare names."""


def _meant(name: str) -> str | None:
    """The model that a misspelt or bare name stands for, if that is clear."""
    if close := get_close_matches(name, shipped_models(), 1, 0.85):
        return close[0]
    owner = next((_OWNERS[start] for start in _OWNERS if name.startswith(start)), None)
    return f"{owner}/{name}" if owner and "/" not in name else None


def _require_one_model(folder: Path, given: str) -> None:
    """Refuse a folder of several models.

    Raises:
        UsageError: names them.
    """
    if any((folder / name).is_file() for name in ("config.json", *VOCABULARY_FILES)):
        return
    runs = sorted(str(path.parent) for path in folder.glob("*/config.json"))
    if runs:
        named = ", ".join(first_of(runs, 3))
        found = "a folder with one; give it"
        if len(runs) > 1:
            found = "folders with one; give one of them"
        raise UsageError(f"{given}: holds no model, but {found}: {named}")


def _download(source: str) -> Path:
    """The cache folder of a model from the hub, downloaded if needed."""
    from huggingface_hub import snapshot_download

    index = "model.safetensors.index.json"
    patterns = ["config.json", "*.safetensors", index, *VOCABULARY_FILES]
    try:
        folder = Path(snapshot_download(source, allow_patterns=patterns))
    except OSError as first:
        # Without a network an earlier download in the cache is used.
        try:
            folder = Path(snapshot_download(source, allow_patterns=patterns, local_files_only=True))
        except OSError:
            raise first from first.__cause__
    if not any((folder / name).is_file() for name in ("model.safetensors", index)):
        snapshot_download(source, allow_patterns=["pytorch_model.bin*"])
    return folder


def _why(error: Exception) -> str:
    """The reason for a failed download, as the end of a sentence."""
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
    )

    # The hub's own answers are raised directly; a missing answer is the cause of another error.
    cause = error if isinstance(error, HfHubHTTPError) else error.__cause__ or error
    said = first_line(cause) or type(cause).__name__
    if HF_HUB_OFFLINE:
        return (
            "the hub was not contacted because HF_HUB_OFFLINE is set, and there is no earlier "
            "download in the cache"
        )
    if isinstance(cause, GatedRepoError):
        return (
            "its terms must be accepted on the hub before downloading; do so, and log in with "
            "`hf auth login`"
        )
    if isinstance(cause, HfHubHTTPError):
        # Without a login the hub does not distinguish missing repositories from private ones.
        if cause.response.status_code in (401, 404):
            return "the hub has no public model of that name"
        return f"the download failed ({said})"
    if isinstance(error, LocalEntryNotFoundError):
        return (
            f"the hub could not be reached ({said}), and there is no earlier download in the cache"
        )
    return f"the download failed ({said})"
