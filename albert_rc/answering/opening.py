"""Loading for `predict`: papers or a store, the model on its device, the windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from albert_rc.checkpoints.hf_config import read_config
from albert_rc.checkpoints.hf_names import saved_task
from albert_rc.checkpoints.hub import READY, resolve_source, unused_runs, usual_model
from albert_rc.checkpoints.labels import labels_in
from albert_rc.checkpoints.load import Loaded, Opening, load_model
from albert_rc.errors import DataError, UsageError
from albert_rc.io.messages import first_of
from albert_rc.papers.formats import possible_formats, read_good
from albert_rc.papers.glue import GLUE
from albert_rc.papers.schema import PaperSet
from albert_rc.runtime.devices import Processes
from albert_rc.stores.encode import SHORTEST
from albert_rc.stores.shards import is_store, open_store
from albert_rc.stores.store import Store, check_store, make_store

Say = Callable[[str], None]


def open_papers(
    data: Path, format_name: str | None, model: str | None, say: Say, strict: bool = False
) -> Store | PaperSet:
    """Open a store, or raw papers, all of them usable.

    Args:
        data: a `.pt` file, or papers.
        format_name: a key of `READERS`; None to detect it.
        model: decides between tasks whose tables have the same columns.
        say: called with each warning.
        strict: refuse papers that can only be read by guessing.

    Raises:
        DataError: the store is damaged, or papers have errors.
        UsageError: unknown format or model, or a table that fits several tasks.
    """
    if is_store(data):
        return open_store(data)
    return read_papers(data, format_name or _format_for(data, model), say, strict)


def read_papers(data: Path, format_name: str | None, say: Say, strict: bool = False) -> PaperSet:
    """Read raw papers, all of which must be usable.

    Raises:
        DataError: some are not usable.
    """
    papers = read_good(data, format_name, strict)
    for problem in papers.problems:
        say(f"warning: {problem}")
    return papers


def _format_for(data: Path, model: str | None) -> str | None:
    """The task of a table, chosen by the model's labels; None if the columns suffice.

    Test tables of several tasks have the same columns.
    """
    found = possible_formats(data)
    if len(found) < 2:
        return None
    labels, of = labels_in(read_config(resolve_source(model or usual_model("label")))[1])
    # If several remain, they share columns and labels, so the answers are the same.
    fitting = [name for name in found if GLUE[name].labels == labels]
    return of if of in found else next(iter(fitting), None)


def open_model(
    model: str | None, papers: Store | PaperSet, how: Opening, group: Processes, say: Say
) -> Loaded[Any]:
    """Load the model for these papers on the device, and report its warnings.

    Args:
        model: the value of `--model`; None for `usual_model`.
        papers: the papers to answer.
        how: further arguments of `load_model`.
        group: the device, and the ranks that share the work.
        say: called by the main process with messages about the weights.

    Raises:
        UsageError: unknown model.
        CheckpointError: unusable weights.
    """
    tell: Say = say if group.is_main else _nobody
    if model is None:
        model = usual_model(papers.kind)
        tell(f"model: {model}")
        if runs := unused_runs():
            tell(
                "note: --model was not given; these runs were not used: "
                f"{', '.join(first_of(runs, 3))}"
            )
    loaded = load_model(model, papers.kind, **how)
    for line in loaded.report.lines():
        tell(line)
    if loaded.report.untrained:
        other = f", or take {READY[papers.kind]}" if papers.kind in READY else ""
        tell(
            "warning: the head is untrained, so the answers are guesses; fine-tune it with "
            f"`albert-rc train`{other}"
        )
    elif (
        papers.kind == "cloze"
        and saved_task(read_config(resolve_source(model))[1]) == "pretraining"
    ):
        tell(
            f"note: {model} was pretrained, but not fine-tuned on papers with blanks; "
            "`albert-rc train` does that"
        )
    loaded.model.to(group.device)
    return loaded


def _nobody(line: str) -> None:
    """Discard a message: the other processes would repeat the main process's."""


def ready_store(
    data: Path, papers: Store | PaperSet, loaded: Loaded[Any], max_length: int | None, say: Say
) -> Store:
    """The store to answer: the given one, or one made from raw papers.

    Raises:
        DataError: the store is for another model, or has labels that the model lacks.
        UsageError: windows longer than the model's.
    """
    longest = loaded.model.config.max_length
    if papers.kind == "label":
        require_labels(data, papers, loaded, say)
    if isinstance(papers, PaperSet):
        if max_length is not None and not SHORTEST <= max_length <= longest:
            raise UsageError(
                f"--max-length {max_length}: the model supports {SHORTEST} to {longest} tokens"
            )
        return make_store(papers, loaded.tokenizer, longest if max_length is None else max_length)
    if max_length is not None:
        say(f"note: --max-length has no effect, because {data} is a store and not raw papers")
    check_store(papers, data, loaded.tokenizer, longest)
    return papers


def require_labels(data: Path, papers: Store | PaperSet, loaded: Loaded[Any], say: Say) -> None:
    """Refuse papers whose labels the model does not know, or has in another order.

    Raises:
        DataError: names both.
    """
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
            f"warning: {data} is {given}, but the model was trained on {known}, where the same "
            "labels may have another meaning"
        )
