"""Parts of a large prediction: one for each shard of a store, answered one after the other.

Each part's answers are written to separate files, so that the same command, run again, skips
finished parts. `--out answers.json` joins the parts' files into the one that a store without shards
would give, and `--out FOLDER` leaves them in the folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from albert_rc.answering.request import Request
from albert_rc.errors import UsageError
from albert_rc.io.atomic import only_run, write_together
from albert_rc.io.json import as_json, read_json, write_json
from albert_rc.io.messages import counted
from albert_rc.io.shards import shard_name
from albert_rc.scoring.abstain import unsure_path
from albert_rc.stores.shards import is_sharded, split_path, store_shards

MANIFEST = "manifest.json"
"""File with the settings, weights and shards that a folder's parts were made with."""
_BLOCK = 2**20
_OF_FILES = (".jsonl", ".txt", ".csv", ".tsv")
"""Suffixes that a user gives to a file, not to a folder."""


class Parts:
    """The parts of a request; a request for a store without shards is its only part.

    Raises:
        DataError: shards are missing.
        UsageError: scores are requested, but the parts are not joined; or a name does not fit.
    """

    def __init__(self, request: Request) -> None:
        self.whole = request
        self.is_one = not is_sharded(request.data)
        self.joins = not self.is_one and request.out.suffix == ".json"
        self.folder = request.out.with_suffix(".parts") if self.joins else request.out
        self.all = [request] if self.is_one else self._of_shards()

    def _of_shards(self) -> list[Request]:
        request = self.whole
        if request.scores is not None and not self.joins:
            raise UsageError(
                f"--scores {request.scores}: scores of a store in shards are joined only if the "
                "answers are; give --out a name that ends in .json"
            )
        if request.out.suffix.lower() in _OF_FILES:
            raise UsageError(
                f"--out {request.out}: answers of a store in shards go into a folder, or into one "
                "file if its name ends in .json"
            )
        named = [] if request.scores is None else request.scores.resolve().parents
        if self.joins and self.folder.resolve() in named:
            raise UsageError(
                f"--scores {request.scores}: {self.folder} holds parts and is removed when "
                "they are joined; give another name"
            )
        shards = store_shards(request.data)
        # The dev papers that int8 is tested on are next to the whole store, not to a shard.
        gate = request.gate or split_path(request.data.parent, "dev")
        parts = []
        for number, shard in enumerate(shards):
            out = self.folder / shard_name(number, len(shards), ".json")
            scores = None if request.scores is None else out.with_suffix(".scores.jsonl")
            parts.append(replace(request, data=shard, out=out, scores=scores, gate=gate))
        return parts

    def alone(self) -> AbstractContextManager[None]:
        """Keep other runs from the parts' folder meanwhile.

        Raises:
            UsageError: another run uses it.
        """
        return nullcontext() if self.is_one else only_run(self.folder)

    def begin(self, made_by: Mapping[str, Any]) -> list[Request]:
        """Begin or resume the job, and return the parts that are not finished yet.

        Args:
            made_by: everything that the answers depend on besides papers and request, as JSON.

        Raises:
            UsageError: the folder has parts of other papers, weights or settings.
        """
        if self.is_one:
            return self.all
        # Paths do not change the answers (`made_by` has the weights), nor do the settings that
        # limit memory, or those for raw papers.
        left_out = {
            "data",
            "out",
            "scores",
            "gate",
            "token_budget",
            "ffn_chunk",
            "max_length",
            "tolerance",
        }
        if made_by.get("weights") is not None:
            left_out.add("model")
        if self.whole.recall is None:
            left_out |= {"strict", "format_"}
        settings = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self.whole).items()
            if name not in left_out
        }
        shards = {part.data.name: part.data.stat().st_size for part in self.all}
        content = {"settings": settings, "made_by": made_by, "shards": shards}
        manifest = as_json(content)
        path = self.folder / MANIFEST
        new = not path.is_file()
        if new and self.joins and any(p.name[0] != "." for p in self.folder.glob("*")):
            raise UsageError(
                f"{self.folder} has files that are not parts of answers, and it is removed when "
                "the parts are joined; rename it, or give another --out"
            )
        if not new and read_json(path) != manifest:
            raise UsageError(
                f"{self.folder} has answers from different papers, weights or settings; remove "
                "it, or give another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        if new:  # without a manifest, existing parts are of unknown origin
            for file in (file for part in self.all for file in _files(part)):
                file.unlink(missing_ok=True)
        write_json(path, manifest)
        return [part for part in self.all if not all(file.is_file() for file in _files(part))]

    def name_of(self, part: Request) -> str:
        """A part's name for the progress bar."""
        number = f" {self.all.index(part) + 1} of {len(self.all)}" if not self.is_one else ""
        return f"answering{number}"

    def finish(self) -> None:
        """Join the parts' files if `--out` asks for it; all joined files are written, or none."""
        if not self.joins:
            return
        targets = _files(self.whole)
        sources = zip(*map(_files, self.all), strict=True)
        write_together(
            {
                target: partial(_join_objects if target == self.whole.out else _append, files)
                for target, files in zip(targets, sources, strict=True)
            }
        )
        # In one step, so that no part ever exists without its manifest.
        done = self.folder.with_name(f".{self.folder.name}.done")
        shutil.rmtree(done, ignore_errors=True)
        self.folder.rename(done)
        shutil.rmtree(done)

    def unsure_line(self) -> str | None:
        """What the joined list of unsure answers holds, as a sentence; None if there is none."""
        below = self.whole.abstain
        if below is None or not self.joins:
            return None
        path = unsure_path(self.whole.out)
        with path.open("rb") as file:
            number = sum(1 for _ in file)
        return f"{path}: {counted(number, 'answer')} with a probability below {below:g}"


def _files(request: Request) -> list[Path]:
    """The files that a request writes."""
    listed = None if request.abstain is None else unsure_path(request.out)
    return [path for path in (request.out, request.scores, listed) if path is not None]


def _append(files: Iterable[Path], target: Path) -> None:
    with target.open("wb") as whole:
        for file in files:
            with file.open("rb") as part:
                shutil.copyfileobj(part, whole, _BLOCK)


def _join_objects(files: Iterable[Path], target: Path) -> None:
    """Join files that each hold an indented JSON object, without reading any file as a whole."""
    with target.open("wb") as whole:
        for number, file in enumerate(files):
            with file.open("rb") as part:
                part.seek(1)  # skip the opening brace
                left = file.stat().st_size - 1 - len(b"\n}\n")
                whole.write(b"," if number else b"{")
                while left > 0 and (block := part.read(min(left, _BLOCK))):
                    whole.write(block)
                    left -= len(block)
        whole.write(b"\n}\n")
