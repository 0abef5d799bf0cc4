"""What is answered, and by which model: papers or a store, weights on the device, windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hub import resolve_source, usual_model
from albert_rc.checkpoints.load import Loaded, labels_in, load_model
from albert_rc.errors import DataError, UsageError
from albert_rc.papers.formats import possible_formats, read_good
from albert_rc.papers.glue import GLUE
from albert_rc.papers.schema import PaperSet
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import Store, check_store, load_store, make_store

Say = Callable[[str], None]


def open_papers(
    data: Path, format_name: str | None, model: str | None, say: Say, strict: bool = False
) -> Store | PaperSet:
    """A store, or raw papers, all of them usable.

    Args:
        data: a `.pt` file, or papers.
        format_name: a key of `READERS`; recognised where it is None.
        model: decides between tasks whose tables have the same columns.
        say: told of warnings.
        strict: refuse papers that could be read by a guess.

    Raises:
        DataError: the store is damaged, or papers have errors.
        UsageError: no such format or model, or a table that may be of several tasks.
    """
    if data.suffix == ".pt":
        return load_store(data)
    return read_papers(data, format_name or _format_for(data, model), say, strict)


def read_papers(data: Path, format_name: str | None, say: Say, strict: bool = False) -> PaperSet:
    """Raw papers, all of them usable.

    Raises:
        DataError: some are not.
    """
    papers = read_good(data, format_name, strict)
    for problem in papers.problems:
        say(f"warning: {problem}")
    return papers


def _format_for(data: Path, model: str | None) -> str | None:
    """Which of the tasks that a table's columns fit the model knows; None if columns suffice.

    Test tables of several tasks have the same columns.
    """
    found = possible_formats(data)
    if len(found) < 2:
        return None
    labels, of = labels_in(read_config(resolve_source(model or usual_model("label")))[1])
    # Where several are left, they have the same columns and labels, so that answers are the same.
    fitting = [name for name in found if GLUE[name].labels == labels]
    return of if of in found else next(iter(fitting), None)


def open_model(
    model: str | None, papers: Store | PaperSet, how: dict[str, Any], group: Processes, say: Say
) -> Loaded[Any]:
    """The model for these papers, on the device, with what there is to say about it.

    Args:
        model: as `--model` gives it; None for `usual_model`.
        papers: what it is to answer.
        how: what else `load_model` takes.
        group: the device, and who works along.
        say: told of the weights by the main process.

    Raises:
        UsageError: no such model.
        CheckpointError: unusable weights.
    """
    tell: Say = say if group.is_main else _nobody
    if model is None:
        model = usual_model(papers.kind)
        tell(f"model: {model}")
    loaded = load_model(model, papers.kind, **how)
    for line in loaded.report.lines():
        tell(line)
    if loaded.report.new:
        tell("warning: an untrained head guesses; fine-tune it with `albert-rc train` first")
    loaded.model.to(group.device)
    return loaded


def _nobody(line: str) -> None:
    """What the other processes have to say is the same."""


def ready_store(
    data: Path, papers: Store | PaperSet, loaded: Loaded[Any], max_length: int | None, say: Say
) -> Store:
    """The store to answer: as it was made, or made now of raw papers.

    Raises:
        DataError: made for another model, or labels that the model does not know.
        UsageError: longer windows than the model takes.
    """
    longest = loaded.model.config.max_length
    if papers.kind == "label":
        _require_labels(data, papers, loaded, say)
    if isinstance(papers, PaperSet):
        if max_length is not None and not 1 <= max_length <= longest:
            raise UsageError(f"--max-length {max_length}: the model takes 1 to {longest} tokens")
        return make_store(papers, loaded.tokenizer, longest if max_length is None else max_length)
    check_store(papers, data, loaded.tokenizer, longest)
    return papers


def _require_labels(data: Path, papers: Store | PaperSet, loaded: Loaded[Any], say: Say) -> None:
    if tuple(papers.labels) != loaded.model.labels:
        raise DataError(
            f"{data}: its labels are {', '.join(papers.labels) or 'numbers'}, but the model "
            f"knows {', '.join(loaded.model.labels) or 'numbers'}; fine-tune it on this task first"
        )
    known = loaded.model.format_name
    if isinstance(papers, PaperSet):
        given: str | None = papers.format
    else:
        given = papers.meta.get("source_format", known)
    if known not in (None, given):
        say(
            f"warning: {data} is {given}, but the model learned {known}, where the same labels "
            "may mean something else"
        )
