"""What `predict` does around the answering: papers, gates, temperatures, what is recalled."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from albert_rc.cli.console import bar, say

if TYPE_CHECKING:
    from albert_rc.answering.lookup import Recalled
    from albert_rc.checkpoints.load import Loaded
    from albert_rc.papers.schema import PaperSet
    from albert_rc.runtime.devices import Processes
    from albert_rc.stores.store import Store


def check_ranges(token_budget: int, abstain: float | None, temperature: float | None) -> None:
    """Refuse numbers that make no sense, before anything is read.

    Raises:
        UsageError: names the option.
    """
    from albert_rc.answering.temperature import HIGHEST, LOWEST
    from albert_rc.errors import UsageError

    if token_budget < 1:
        raise UsageError(f"--token-budget {token_budget} must be at least 1")
    if abstain is not None and not 0 < abstain <= 1:
        raise UsageError(f"--abstain {abstain} must be above 0 and at most 1")
    if temperature is not None and not LOWEST <= temperature <= HIGHEST:
        raise UsageError(f"--temperature {temperature} must be between {LOWEST:g} and {HIGHEST:g}")


def open_model(
    model: str | None, source: Store | PaperSet, how: dict[str, Any], group: Processes
) -> Loaded[Any]:
    """The model for these papers, on the device, with what there is to say about it.

    Raises:
        UsageError: no such model.
        CheckpointError: unusable weights.
    """
    from albert_rc.checkpoints.hub import usual_model
    from albert_rc.checkpoints.load import load_model, load_spans

    if model is None:
        model = usual_model(source.kind)
        if group.is_main:
            say(f"model: {model}")
    loaded: Loaded[Any]
    if source.kind == "span":
        loaded = load_spans(model, **how)
    else:
        loaded = load_model(model, source.kind, **how)
    if group.is_main:
        for line in loaded.report.lines():
            say(line)
        if loaded.report.new:
            say("warning: an untrained head guesses; fine-tune it with `albert-rc train` first")
    loaded.model.to(group.device)
    return loaded


def compute_with(loaded: Loaded[Any], precision: str, ffn_chunk: int | None) -> None:
    """Have the model compute in a precision, and its feed-forward in chunks if they are given."""
    from dataclasses import replace

    encoder = loaded.model.encoder
    encoder.compute = replace(encoder.compute, precision=precision, ffn_chunk=ffn_chunk)


def divisor_of(
    loaded: Loaded[Any],
    given: float | None,
    wanted: bool,
    way: str | None,
    reading: dict[str, Any] | None,
    group: Processes,
) -> tuple[float, bool]:
    """What to divide logits by, and whether that makes frequencies of probabilities.

    Args:
        loaded: the model.
        given: `--temperature`.
        wanted: whether probabilities are asked for.
        way: how options of several pieces are read again.
        reading: how the model reads otherwise.
        group: the processes; the first one says what it found.
    """
    from albert_rc.answering.temperature import kept_temperature, record_path, why_unused
    from albert_rc.errors import CheckpointError

    folder = loaded.tokenizer.folder
    if given is not None:
        own = 1.0
        if wanted and group.is_main:
            with suppress(CheckpointError):  # it is not what is used
                own, _ = kept_temperature(folder, way, reading)
        return given, own != 1 and math.isclose(given, own, rel_tol=1e-4)
    if not wanted or not group.is_main:  # the others write nothing
        return 1.0, False
    kept, calibrated = kept_temperature(folder, way, reading)
    record = record_path(folder, way)
    if calibrated:
        say(f"temperature {kept:.4f}, kept in {record} (--temperature 1: without)")
    elif why := why_unused(folder, way, reading):
        say(f"warning: {record} is {why}, and is not used; calibrate again")
    return kept, calibrated


def pass_gate(
    loaded: Loaded[Any],
    dev: Path,
    tolerance: float,
    group: Processes,
    *,
    option_score: str | None,
    null_threshold: float | None,
    token_budget: int,
) -> None:
    """Go on in int8 only if it costs little on dev papers, answered as the others will be."""
    from albert_rc.answering.int8_check import (
        Trial,
        identity,
        measure_cost,
        remember_cost,
        remembered_cost,
    )
    from albert_rc.errors import UsageError
    from albert_rc.runtime.devices import choose_precision
    from albert_rc.runtime.heap import keep_freed_memory
    from albert_rc.stores.store import check_store, load_store

    if not tolerance >= 0:
        raise UsageError(f"--tolerance {tolerance} must be a number from 0 on")
    if not dev.is_file():
        raise UsageError(
            f"--precision int8 is tested on dev papers first, and there is no {dev}; "
            "name a store with --gate, or use --precision bf16"
        )
    folder = loaded.tokenizer.folder
    trial = Trial(
        precision=choose_precision(None, group.device),
        way=option_score,
        null_threshold=null_threshold,
        token_budget=token_budget,
    )
    of = identity(loaded.model, folder, dev, trial)
    cost = remembered_cost(folder, of)
    if cost is None:
        store = load_store(dev)
        check_store(store, dev, loaded.tokenizer, loaded.model.config.max_length)
        if store.kind != loaded.model.task:
            raise UsageError(f"--gate {dev}: holds {store.kind}, but the model {loaded.model.task}")
        keep_freed_memory()
        cost = measure_cost(loaded.model, loaded.tokenizer, store, group, trial)
        if group.is_main:
            remember_cost(folder, of, cost)
    if group.is_main:
        say(cost.line())
    cost.require(tolerance)


def check_kind(
    source: Store | PaperSet,
    abstain: float | None,
    temperature: float | None,
    null_threshold: float | None,
) -> None:
    """Refuse options that these papers have no use for.

    Raises:
        UsageError: names the option.
    """
    from albert_rc.errors import UsageError

    spans = source.kind == "span"
    numbers = source.kind == "label" and not source.labels
    if (spans or numbers) and (abstain is not None or temperature is not None):
        raise UsageError("--abstain and --temperature are for answers with a probability each")
    if null_threshold is not None and math.isnan(null_threshold):
        raise UsageError(f"--null-threshold {null_threshold} must be a number")
    if null_threshold is not None and not spans:
        raise UsageError("--null-threshold is for SQuAD: other questions always have an answer")


def open_papers(data: Path, format_name: str | None, model: str | None) -> Store | PaperSet:
    """A store, or raw papers, all of them usable.

    Raises:
        DataError: the store is damaged, or papers have errors.
        UsageError: no such format or model, or a table that may be of several tasks.
    """
    from albert_rc.stores.store import load_store

    if data.suffix == ".pt":
        return load_store(data)
    return read_papers(data, format_name or _format_for(data, model))


def _format_for(data: Path, model: str | None) -> str | None:
    """Which of the tasks that a table's columns fit the model knows; None if columns suffice.

    Test tables of several tasks have the same columns.
    """
    from albert_rc.checkpoints.hf_config import read_config
    from albert_rc.checkpoints.hub import resolve_source, usual_model
    from albert_rc.checkpoints.load import labels_in
    from albert_rc.papers.formats import possible_formats
    from albert_rc.papers.glue import GLUE

    found = possible_formats(data)
    if len(found) < 2:
        return None
    labels, of = labels_in(read_config(resolve_source(model or usual_model("label")))[1])
    # Where several are left, they have the same columns and labels, so that answers are the same.
    fitting = [name for name in found if GLUE[name].labels == labels]
    return of if of in found else next(iter(fitting), None)


def read_papers(data: Path, format_name: str | None) -> PaperSet:
    """Raw papers, all of them usable.

    Raises:
        DataError: some are not.
    """
    from albert_rc.papers.formats import read_good

    papers = read_good(data, format_name)
    for problem in papers.problems:
        say(f"warning: {problem}")
    return papers


def recalled_for(
    path: Path, store: Store, loaded: Loaded[Any], format_name: str | None, group: Processes
) -> Recalled:
    """What training papers say about the store's blanks."""
    from albert_rc.answering.lookup import Memory
    from albert_rc.errors import DataError
    from albert_rc.stores.store import load_store, make_store

    if path.suffix == ".pt":
        known = load_store(path)
    else:
        papers = read_papers(path, format_name)
        known = make_store(papers, loaded.tokenizer, loaded.model.config.max_length)
    if not known.has_answers:
        raise DataError(f"--recall {path}: its papers have no answers to recall")
    found = Memory(known).recall(store)
    blanks = len(store.num_options)
    alike = known.meta["source_hash"] == store.meta["source_hash"]
    if group.is_main and (alike or found.known > blanks / 2):
        say(
            f"warning: {found.known:,} of {blanks:,} blanks stand in {path}; where these are the "
            "papers that are to be answered, their own key is being copied"
        )
    return found


def ready_store(
    data: Path, source: Store | PaperSet, loaded: Loaded[Any], max_length: int | None
) -> Store:
    """The store to answer: as it was made, or made now of raw papers."""
    from albert_rc.errors import DataError, UsageError
    from albert_rc.papers.schema import PaperSet
    from albert_rc.stores.store import check_store, make_store

    longest = loaded.model.config.max_length
    if source.kind == "label":
        if tuple(source.labels) != loaded.model.labels:
            raise DataError(
                f"{data}: its labels are {', '.join(source.labels) or 'numbers'}, but the model "
                f"knows {', '.join(loaded.model.labels) or 'numbers'}; fine-tune it on this task "
                "first"
            )
        known = loaded.model.format_name
        if isinstance(source, PaperSet):
            given: str | None = source.format
        else:
            given = source.meta.get("source_format", known)
        if known not in (None, given):
            say(
                f"warning: {data} is {given}, but the model learned {known}, where the same labels "
                "may mean something else"
            )
    if isinstance(source, PaperSet):
        if max_length is not None and not 1 <= max_length <= longest:
            raise UsageError(f"--max-length {max_length}: the model takes 1 to {longest} tokens")
        return make_store(source, loaded.tokenizer, longest if max_length is None else max_length)
    check_store(source, data, loaded.tokenizer, longest)
    return source


def read_again(
    loaded: Loaded[Any], store: Store, found: Any, way: str, group: Processes, token_budget: int
) -> Any:
    """The scores, with options of several pieces read with room for each piece."""
    from albert_rc.answering.pieces import readings, rescored, too_long
    from albert_rc.io.messages import listed

    longest = loaded.model.config.max_length
    if (left := too_long(store, longest)) and group.is_main:
        say(
            f"warning: the model's window of {longest:,} tokens has no room for some options; "
            f"their blanks are answered as without --option-score:{listed(left)}"
        )
    again = readings(loaded.model, loaded.tokenizer, store, way)
    with bar("reading options of several pieces", len(again), group.is_main) as advance:
        return rescored(
            loaded.model,
            again,
            found,
            group,
            token_budget=token_budget,
            progress=lambda done: advance(done * group.world),
        )
