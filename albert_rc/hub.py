"""What a model's name leads to: a folder, a model of the package, or a download of the hub's."""

from __future__ import annotations

import re
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.tokenizer import VOCABULARY_FILES

SHIPPED = Path(__file__).parent / "pretrained"


def shipped_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    folders = sorted(SHIPPED.iterdir()) if SHIPPED.is_dir() else []
    return {folder.name: folder for folder in folders if (folder / "config.json").is_file()}


def resolve_source(source: str | Path) -> Path:
    """The folder behind `--model`: itself, a model of the package, or a download of the hub's.

    Raises:
        UsageError: none of these.
    """
    path = Path(source)
    if path.is_dir():
        return path
    shipped = shipped_models()
    if str(source) in shipped:
        return shipped[str(source)]
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        others = f", nor {' or '.join(shipped)}" if shipped else ""
        raise UsageError(
            f"--model {source}: no such folder (nor a hub id, which has one slash{others})"
        )
    from huggingface_hub import snapshot_download

    patterns = ["config.json", "*.safetensors", *VOCABULARY_FILES]
    try:
        try:
            folder = Path(snapshot_download(str(source), allow_patterns=patterns))
        except OSError:
            # No network is no obstacle where an earlier download lies in the cache.
            folder = Path(
                snapshot_download(str(source), allow_patterns=patterns, local_files_only=True)
            )
        if not any(folder.glob("*.safetensors")):
            snapshot_download(str(source), allow_patterns=["pytorch_model.bin"])
    except Exception as error:  # the hub's client raises many types
        reason = str(error).partition("\n")[0][:160]
        raise UsageError(
            f"--model {source}: no such folder, and the hub did not give it ({reason}); "
            f"put the model's files into a folder and name that"
        ) from None
    return folder
