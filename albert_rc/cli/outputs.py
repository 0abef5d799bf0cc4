"""Checks of output paths: writable, and not overwriting any input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.io.atomic import require_writable
from albert_rc.papers.opening import is_pattern
from albert_rc.papers.splits import splits_in
from albert_rc.text.tokenizer import VOCABULARY_FILES

OF_A_MODEL = (
    "config.json", "train.json", "pretrain.json", "run.toml", "metrics.jsonl", "log.txt",
    "README.md", *VOCABULARY_FILES,
)  # fmt: skip
CALIBRATION = "calibration"
WEIGHTS = (".safetensors", ".pt", ".bin")


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Check in advance that the results can be written without overwriting anything needed.

    Args:
        outputs: option -> the file that it names.
        inputs: input files, folders of papers, and patterns of their files.

    Raises:
        UsageError: a result would replace an input, another result or a part of a model; or be
            written among papers, where the next command would read it as one.
        OSError: it cannot be written.
    """
    named = [path for path in inputs if path is not None]
    read = [path.resolve() for path in named]
    patterns = [path for path in named if is_pattern(path)]
    taken: dict[Path, str] = {}
    for flag, path in outputs.items():
        if path is None:
            continue
        place = path.resolve()
        if place in taken:
            raise UsageError(f"{taken[place]} and {flag} are both {path}; give each its own file")
        taken[place] = flag
        if place.is_dir():
            raise UsageError(f"{flag} {path} is a folder; name a file in it")
        if place in read:
            raise UsageError(f"{flag} {path} is one of the input files; give another name")
        for folder in read:
            if folder.is_dir() and _among_papers(place, folder):
                raise UsageError(
                    f"{flag} {path} is in the folder of the input papers; choose another place"
                )
        for pattern in patterns:
            if place.parent == pattern.parent.resolve() and fnmatch(place.name, pattern.name):
                raise UsageError(
                    f"{flag} {path} matches {pattern}, the input papers; choose another place"
                )
        require_no_model(flag, path)
        require_writable(path)


def _among_papers(place: Path, folder: Path) -> bool:
    """Whether a file would be in a folder of papers, or where one is read with its subfolders.

    In a collection only the splits' own folders are read, and never what is hidden.
    """
    if folder not in place.parents:
        return False
    between = place.relative_to(folder).parts[:-1]
    if not between or place.exists():
        return True
    return not splits_in(folder) and not any(part.startswith(".") for part in between)


def require_folder(flag: str, folder: Path) -> None:
    """Check that files can be written into a folder, before the work; it need not exist.

    Raises:
        UsageError: it is a file, or inside one, or a link to nothing, or has the name of a store's
            file.
        OSError: it cannot be written; names the obstacle.
    """
    from albert_rc.io.atomic import nameless_file, require_link_target

    require_link_target(folder, flag)
    if folder.suffix == ".pt" and not folder.exists():
        raise UsageError(
            f"{flag} {folder}: name a folder; the store in it gets the name of its split"
        )
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not place.is_dir():
        raise UsageError(f"{flag} {folder}: {place} is a file; name a folder")
    nameless_file(place).close()


def require_no_model(flag: str, path: Path) -> None:
    """Refuse to replace a part of a model.

    Raises:
        UsageError: names the option.
    """
    place = path.resolve()
    of_model = (
        place.name in OF_A_MODEL
        or place.suffix in WEIGHTS
        or (place.name.startswith(CALIBRATION) and place.suffix == ".json")
    )
    if of_model and place.exists() and (place.parent / "config.json").is_file():
        raise UsageError(f"{flag} {path} is a file of a model; give another name")


def answer_files(
    out: Path | None, scores: Path | None, abstain: float | None
) -> dict[str, Path | None]:
    """Output files of `predict` and `ensemble`, by option."""
    from albert_rc.scoring.abstain import unsure_path

    listed = None if abstain is None or out is None else unsure_path(out)
    return {"--out": out, "--scores": scores, "--abstain's list": listed}
