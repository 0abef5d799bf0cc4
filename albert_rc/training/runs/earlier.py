"""Existing content of a run's folder: an earlier run, or a model that must not be lost."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.runtime.devices import Processes
from albert_rc.text.tokenizer import VOCABULARY_FILES
from albert_rc.training.checkpoint import states
from albert_rc.training.objectives.teacher import KEPT

EARLIER = "earlier"
MARK = ".set-aside"
"""Empty file that marks folders made by `set_aside`, which `forget_earlier` may remove."""
_RECORDS = ("train.json", "pretrain.json")
"""Files that only runs write, before the first step: where one exists, the weights are a run's."""
_OF_A_RUN = (
    *("config.json", "run.toml", *_RECORDS, "metrics.jsonl", "log.txt"),
    *("calibration*.json", "int8.json", "held_out.jsonl", KEPT),
    *("curves.png", "curves.svg", "events.out.tfevents.*"),
)
"""Files of a run besides weights, states and vocabulary."""


def set_aside(folder: Path) -> Path | None:
    """Move an earlier run's files to a subfolder, so that forgetting --resume loses nothing.

    Runs set aside before stay where they are.

    Returns:
        The subfolder, or None if there was nothing worth keeping.

    Raises:
        UsageError: the weights there were not made by a run.
    """
    if said := _not_ours(folder):
        raise UsageError(said)
    worth = [*states(folder), folder / "model.safetensors"]
    if not any(path.is_file() for path in worth):
        return None
    of_a_run = [path for name in _OF_A_RUN for path in folder.glob(name)]
    aside = move_aside(folder, [*worth, *of_a_run])
    for name in VOCABULARY_FILES:
        # The new run may be reading its vocabulary from here.
        if (folder / name).is_file():
            shutil.copyfile(folder / name, aside / name)
    return aside


def move_aside(folder: Path, files: Iterable[Path]) -> Path:
    """Move files of an earlier run to a new subfolder, which `forget_earlier` removes."""
    aside = _free(folder)
    aside.mkdir()
    (aside / MARK).touch()
    for path in files:
        if path.is_file():
            path.rename(aside / path.name)
    return aside


def forget_earlier(folder: Path, holding: str | None = None) -> None:
    """Remove the folders made by `set_aside` and `move_aside`, or those with a certain file."""
    for aside in _set_aside(folder):
        if holding is None or (aside / holding).is_file():
            shutil.rmtree(aside, ignore_errors=True)


def _set_aside(folder: Path) -> list[Path]:
    """Folders made by `set_aside` and not renamed; a user's run may have such a name, too."""
    found = (mark.parent for mark in folder.glob(f"{EARLIER}*/{MARK}"))
    return [path for path in found if re.fullmatch(rf"{EARLIER}(-\d+)?", path.name)]


def _free(folder: Path) -> Path:
    names = (EARLIER if n == 1 else f"{EARLIER}-{n}" for n in count(1))
    return next(folder / name for name in names if not os.path.lexists(folder / name))


def require_kept(
    model: str,
    folders: Iterable[Path],
    group: Processes,
    *,
    resume: bool = False,
    scratch: bool = False,
    replaced: bool = False,
    teacher: str | None = None,
) -> None:
    """Refuse runs that would remove a model they need, or others, before any work is done.

    Args:
        model: the model to train, as the user named it.
        folders: the runs' folders.
        group: the processes; the main process checks.
        resume: runs with a state are resumed, so nothing is set aside.
        scratch: only the vocabulary of `model` is read, which always stays.
        replaced: the folders are removed when a better run takes their name.
        teacher: the model or score file of `--teacher`, which a run needs until its end.

    Raises:
        UsageError: names the folder and a solution.
    """
    said = None
    if group.is_main:
        found = (
            _teacher_danger(teacher, folder, replaced)
            or _danger(model, folder, resume, scratch, replaced)
            for folder in folders
        )
        said = next(filter(None, found), None)
    if said := group.from_main(said):
        raise UsageError(said)


def _danger(model: str, out: Path, resume: bool, scratch: bool, replaced: bool) -> str | None:
    """An error message if a run in `out` would remove a model; None if not."""
    if said := _removed("--model", model, out, replaced):
        return said
    if resume and states(out):
        return None
    if not (scratch or replaced) and _reads_from(model, out, inside=False):
        return (
            f"--model {model} and the run's folder {out} are the same: the weights to start from "
            "would be removed when the run has finished; give another --out"
        )
    return _not_ours(out)


def _teacher_danger(teacher: str | None, out: Path, replaced: bool) -> str | None:
    """An error message if a run in `out` would remove its teacher; None if not."""
    if teacher is None:
        return None
    if _reads_from(teacher, out, inside=False):
        return (
            f"--teacher {teacher} and the run's folder {out} are the same: the student would "
            "replace its teacher; give another --out"
        )
    return _removed("--teacher", teacher, out, replaced)


def _removed(option: str, source: str, out: Path, replaced: bool) -> str | None:
    """An error message if what an option names is removed at the end of a run in `out`."""
    for aside in _set_aside(out):
        if _reads_from(source, aside, inside=True):
            return (
                f"{option} {source} is in {aside}, an earlier run that is removed when the new run "
                "has finished; rename that folder, and give its new name"
            )
    if replaced and _reads_from(source, out, inside=True):
        return f"{option} {source} is in {out}, which a better run will replace; give another --out"
    return None


def _reads_from(model: str, place: Path, inside: bool) -> bool:
    """Whether a model's files are in a folder, or anywhere below it, also through links."""
    folder, place = Path(model), place.resolve()
    if folder.is_file():
        return inside and place in folder.resolve().parents
    if not folder.is_dir():
        return False
    files = (path for path in folder.iterdir() if path.is_file())
    homes = {folder.resolve(), *(path.resolve().parent for path in files)}
    return any(home == place or (inside and place in home.parents) for home in homes)


def _not_ours(folder: Path) -> str | None:
    """A message if a folder holds weights not made by a run, else None."""
    weights = [*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")]
    if not weights or states(folder) or any((folder / name).is_file() for name in _RECORDS):
        return None
    return (
        f"{min(weights)}: these weights were not written by a run, and a run in this folder "
        "would replace them; give another --out"
    )
