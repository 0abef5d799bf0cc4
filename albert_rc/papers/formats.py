"""Reading of raw papers: the registry of formats, and their detection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import json_lines
from albert_rc.io.messages import counted, kind_of, listed
from albert_rc.papers.files import LOOKED_AT, Sources
from albert_rc.papers.glue import GLUE, parse_glue, recognised_tasks
from albert_rc.papers.ids import PaperRecord, Register
from albert_rc.papers.opening import suffix_of, uncompressed
from albert_rc.papers.parse import Problems, parse_cloze, parse_dream, parse_race
from albert_rc.papers.raw import Chunk, Layout, paper_place
from albert_rc.papers.schema import Checked, Kind, PaperSet, Passage, Problem
from albert_rc.papers.splits import (
    candidates,
    collections_in,
    find_splits,
    split_name,
    splits_in,
)
from albert_rc.papers.squad import parse_squad
from albert_rc.papers.tables import TABLES

LEVELS = ("middle", "high")
SHOWN = 200
"""Maximum number of problems that a command lists; `doctor` lists all."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A raw format: its files, its detection, and its parser."""

    kind: Kind
    suffixes: tuple[str, ...]
    parse: Callable[[Any, str, str | None, Problems], Passage | None]
    recognises: Callable[[Any], bool]
    """Whether the JSON value of a paper seems to have this format."""
    layout: Layout = "paper"
    labels: tuple[str, ...] = ()
    """The labels, if all papers share them."""
    metrics: tuple[str, ...] = ("accuracy",)
    """Names of the metrics."""


def _is_of_task(task: str, row: Any) -> bool:
    return task in recognised_tasks(row)


READERS: dict[str, Reader] = {
    "cloze": Reader(
        kind="cloze",
        suffixes=(".json", ".jsonl"),
        parse=parse_cloze,
        recognises=lambda raw: (
            isinstance(raw, dict) and "article" in raw and "questions" not in raw
        ),
    ),
    "race": Reader(
        kind="choice",
        suffixes=(".txt", ".json", ".jsonl"),
        parse=parse_race,
        recognises=lambda raw: isinstance(raw, dict) and "article" in raw and "questions" in raw,
    ),
    "dream": Reader(
        kind="choice",
        suffixes=(".json", ".jsonl"),
        parse=parse_dream,
        recognises=lambda raw: isinstance(raw, list) and bool(raw) and isinstance(raw[0], list),
        layout="list",
    ),
    "squad": Reader(
        kind="span",
        suffixes=(".json",),
        parse=parse_squad,
        recognises=lambda raw: isinstance(raw, dict) and isinstance(raw.get("data"), list),
        layout="squad",
        metrics=("f1",),
    ),
    **{
        name: Reader(
            kind="label",
            suffixes=(".tsv", ".txt"),
            parse=partial(parse_glue, name),
            recognises=partial(_is_of_task, name),
            layout="table",
            labels=task.labels,
            metrics=task.metrics,
        )
        for name, task in GLUE.items()
    },
}
OPTION_FORMATS = tuple(name for name, r in READERS.items() if r.kind in ("cloze", "choice"))
"""Formats of papers with options, which `serve` and `answer()` support."""


def unread_beside(raw: Path) -> list[tuple[Path, str]]:
    """Papers next to the splits of a collection that are not read, each with the reason."""
    fitting, loose = candidates(raw)
    # GLUE's script makes MRPC's train.tsv and dev.tsv of the published tables.
    found = [
        (child, f"{children[0].name} is used as {split}")
        for split, children in fitting.items()
        for child in children[1:]
        if not child.name.startswith("msr_paraphrase")
    ]
    papers = [place for place in loose[:LOOKED_AT] if fitting and possible_formats(place)]
    return found + [(file, f"it is next to {', '.join(fitting)}") for file in papers]


def possible_formats(path: Path) -> tuple[str, ...]:
    """The possible formats of a split, judged by its first recognisable paper.

    Returns:
        Names of formats: several only for a table whose columns fit several tasks, and none if no
        paper was recognised.

    Raises:
        DataError: `path` does not exist.
    """
    return _formats_of(Sources(path))


def _formats_of(sources: Sources) -> tuple[str, ...]:
    known = {suffix for reader in READERS.values() for suffix in reader.suffixes}
    for suffix, sample in sources.samples(100):
        found = tuple(
            name
            for name, reader in READERS.items()
            # An object in a .json is not a row of a table, whatever its fields are called.
            if (suffix in reader.suffixes or suffix not in known) and reader.recognises(sample)
        )
        if found:
            return found
    return ()


def collection_format(places: Mapping[str, Path], format_name: str | None = None) -> str | None:
    """The common format of a collection's splits: that of the first split where it is certain.

    Args:
        places: path of each split, from `find_splits`: train first, then dev.
        format_name: the requested format, which takes precedence.

    Returns:
        None if no split's format is certain; opening the splits then reports the errors.
    """
    if format_name is not None:
        return format_name
    every = map(possible_formats, places.values())
    return next((found[0] for found in every if len(found) == 1), None)


def open_sources(path: Path, format_name: str | None = None) -> tuple[Sources, str]:
    """A split's files and the format of its papers, detected if none is given.

    Raises:
        DataError: `path` does not exist, or is a table of an unknown task, or several tables.
        UsageError: unknown format, or a table that fits several tasks.
    """
    sources = Sources(path)
    if format_name is not None and format_name not in READERS:
        raise UsageError(f"--format {format_name}: choose from {', '.join(READERS)}")
    if path.suffix == ".pt":
        raise DataError(f"{path} is a store of `preprocess`; give the raw papers instead")
    for _, sample in sources.samples(1) if suffix_of(path) == ".jsonl" else ():
        if isinstance(sample, dict) and {"paper", "probabilities"} <= sample.keys():
            raise DataError(
                f"{path} is a score file of `predict --scores`; give the raw papers instead"
            )
    format_name = format_name or _sniffed(sources)
    sources.keep(READERS[format_name].suffixes)
    if READERS[format_name].layout == "table" and len(sources) > 1:
        raise DataError(
            f"{path}: has {len(sources)} tables ({sources.names}); give one of them, because row "
            "numbers are unique only within a table"
        )
    return sources, format_name


def _sniffed(sources: Sources) -> str:
    found = _formats_of(sources)
    if len(found) > 1:
        raise UsageError(
            f"{sources.path}: its columns fit {', '.join(found)}; give the task with --format, or "
            "give the whole collection, whose train split shows the task"
        )
    if found:
        return found[0]
    if len(sources) and sources.all_end_with(TABLES):
        raise DataError(
            f"{sources.path}: not a table of a known task ({sources.opening()}); separate "
            "the columns with tabs and name them as GLUE does, or give the task with --format"
        )
    # No file is readable: the reader that fits the file names reports what is wrong with each.
    return "race" if len(sources) and sources.all_end_with(".txt") else "cloze"


IMPORT = "if this is a printed paper, `albert-rc import` converts it to JSON"


def _level(place: str, paper_id: str) -> str | None:
    folders = place.split("/")[:-1]
    for level in LEVELS:
        if level in folders or re.match(rf"{level}(?![a-z])", paper_id):
            return level
    return None


def _given_id(raw: Any, layout: Layout) -> Any:
    """The id that a paper gives itself, or None."""
    if layout == "list":  # DREAM
        return raw[2] if isinstance(raw, list) and len(raw) > 2 else None
    return raw.get("id") if isinstance(raw, dict) else None


def _paper_id(raw: Any, place: str, number: int, level: str | None, layout: Layout) -> str:
    if layout == "table":
        # Rows of a table: columns called ids are not unique in MRPC, and CoLA has none.
        return str(number)
    if layout == "squad" and number and isinstance(raw, dict):
        return f"{raw['title']}#{raw['number']}"
    # The competition identifies a cloze paper by its file name.
    name = paper_place(uncompressed(place.rpartition("/")[2]), number)
    asks = isinstance(raw, dict) and "questions" in raw
    given = _given_id(raw, layout)
    if (asks or number or layout == "list") and isinstance(given, (str, int)) and str(given):
        return str(given)
    # RACE numbers its papers separately in the folder of each level.
    return f"{level or ''}{name}" if asks else name


def check_chunk(
    chunk: Chunk, format_name: str, strict: bool = False
) -> Iterator[tuple[PaperRecord, Passage | None]]:
    """Check papers one by one; a `Register` checks that their ids are unique.

    Args:
        chunk: the papers.
        format_name: a key of `READERS`.
        strict: refuse papers that can only be read by guessing.

    Yields:
        The paper's record, and its passage unless it has an error.
    """
    reader = READERS[format_name]
    for index, raw in enumerate(chunk):
        for number, value in raw.records(reader.layout):
            report = Problems(paper_place(raw.place, number), strict)
            passage = paper_id = level = None
            if isinstance(value, ValueError):
                hint = f"; {IMPORT}" if raw.looks_printed else ""
                report.error(f"{value}{hint}")
            else:
                folder_level = _level(raw.place, "")
                paper_id = _paper_id(value, raw.place, number, folder_level, reader.layout)
                level = _level(raw.place, paper_id)
                given = _given_id(value, reader.layout)
                if isinstance(given, (bool, float, list, dict)):
                    report.error(
                        f'"id" is {kind_of(given)}; it must be text or a whole number of at most '
                        "18 digits"
                    )
                passage = reader.parse(value, paper_id, level, report)
            if report.failed:
                passage = None
            keys = tuple(q.id for q in passage.questions if q.id) if passage is not None else ()
            problems = tuple(report.problems)
            good = passage is not None
            yield PaperRecord(index, number, paper_id, level, good, problems, keys), passage


def read_split(
    path: Path, name: str | None = None, format_name: str | None = None, strict: bool = False
) -> PaperSet:
    """Read and check every paper of a split.

    Args:
        path: a folder of papers, or one file.
        name: name of the split; from the path by default.
        format_name: a key of `READERS`; detected by default.
        strict: refuse papers that can only be read by guessing, such as one with a blank
            attached to a word.

    Returns:
        The valid papers and the problems of all. Papers with an error are left out of
        `passages`; the caller decides whether that is acceptable (`require_good`).

    Raises:
        DataError: `path` does not exist.
        UsageError: unknown format.
    """
    sources, format_name = open_sources(path, format_name)
    reader = READERS[format_name]
    register = Register.of(sources, reader.suffixes)
    passages = []
    for chunk in sources.chunks(reader.layout):
        for record, passage in check_chunk(chunk, format_name, strict):
            if register.add(chunk, record) and passage is not None:
                passages.append(passage)
    return PaperSet(
        name=name or split_name(path),
        kind=reader.kind,
        format=format_name,
        passages=[passages[i] for i in register.finish()],
        problems=register.problems,
        num_rejected=register.num_rejected,
        source_hash=sources.hash,
        labels=reader.labels,
        metrics=reader.metrics,
    )


def read_good(path: Path, format_name: str | None = None, strict: bool = False) -> PaperSet:
    """Read a split whose papers must all be valid; see `read_split` and `require_good`.

    Raises:
        UsageError: the folder holds several splits, or several collections, as from `import`.
    """
    require_one_split(path)
    papers = read_split(path, format_name=format_name, strict=strict)
    require_good([papers])
    return papers


def require_one_split(path: Path) -> None:
    """Refuse a folder that would be read with all its splits together.

    Raises:
        UsageError: it holds several splits, or several collections, as from `import`.
    """
    inside, what = list(splits_in(path).values()), "splits"
    if not inside:
        inside, what = collections_in(path), "collections of papers"
    if len(inside) > 1:
        named = ", ".join(map(str, inside))
        raise UsageError(f"{path}: holds {len(inside)} {what}; name one of them: {named}")


def read_collection(
    raw: Path, format_name: str | None = None, strict: bool = False
) -> list[PaperSet]:
    """Read every split of a collection; see `find_splits`, `collection_format`, `read_split`."""
    places = find_splits(raw)
    format_name = collection_format(places, format_name)
    return [read_split(path, name, format_name, strict) for name, path in places.items()]


def require_good(papers: Sequence[Checked], on_error: str | None = None) -> None:
    """Refuse papers with errors, unless they may be skipped.

    Args:
        papers: the splits that were read.
        on_error: `stop` or `skip`; None for commands without this option.

    Raises:
        DataError: there are errors and `on_error` is not `skip`, or a split has no valid papers.
    """
    errors = [error for split in papers for error in split.errors]
    if errors and on_error != "skip":
        rejected = sum(split.num_rejected for split in papers)
        lines = listed(
            [str(error) for error in errors], SHOWN, "more; `albert-rc doctor` lists all"
        )
        way_out = "Fix it" if len(errors) == 1 else "Fix them"
        if rejected:
            way_out += f", or leave {'this paper' if rejected == 1 else 'these papers'} out"
        if on_error is not None:
            way_out = f"Nothing was written. {way_out}{' with --on-error skip' * bool(rejected)}"
        raise DataError(f"{problems_found(len(errors), rejected)}:{lines}\n{way_out}")
    empty = [split.name for split in papers if not split.num_papers]
    if empty:
        shown = listed([str(error) for error in errors])
        raise DataError(
            f"no usable papers in {', '.join(empty)}; put papers there, or leave the split out"
            f"{shown}"
        )


def problems_found(problems: int, papers: int) -> str:
    """The number of problems, and of the papers with an error, as a phrase."""
    found = counted(problems, "problem")
    return f"{found} in {counted(papers, 'paper')}" if papers else found


def rejects(problems: Iterable[Problem]) -> bytes:
    """The problems of the papers that were left out, one JSON object per line."""
    return json_lines({"file": p.file, "problem": p.message} for p in problems)
