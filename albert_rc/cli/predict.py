"""`albert-rc predict`: a model's answers to a store or to raw papers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from albert_rc.cli import options
from albert_rc.cli.console import bar, example, say

if TYPE_CHECKING:
    from albert_rc.data.schema import PaperSet
    from albert_rc.data.shards import Store
    from albert_rc.devices import Processes
    from albert_rc.loading import Loaded
    from albert_rc.recall import Recalled


def predict(
    data: Annotated[
        Path, typer.Option(help="A .pt store, or raw papers: a folder or a file.")
    ] = Path("data/test.pt"),
    model: Annotated[str, typer.Option(help="The run's folder, or a hub id.")] = "models",
    out: Annotated[Path, typer.Option(help="Where the answers go.")] = Path(
        "predictions/answer.json"
    ),
    scores: Annotated[
        Path | None,
        typer.Option(help="Also write each question's probabilities here (JSON lines)."),
    ] = None,
    abstain: Annotated[
        float | None,
        typer.Option(
            help="List the answers less probable than this, for a teacher, beside --out; 0.6, say."
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Divide the logits by this for probabilities (no answer changes); what "
            "`calibrate` kept in the run's folder by default, else 1."
        ),
    ] = None,
    recall: Annotated[
        Path | None,
        typer.Option(
            help="Cloze: training papers with answers (a .pt store, or raw). Where they hold a "
            "blank's surroundings word for word, what stands there is evidence."
        ),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="Of raw papers: cloze, race or dream.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Window for raw papers; the model's longest by default.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="fp32, bf16, fp16 or int8; bf16 where the hardware has it."),
    ] = None,
    gate: Annotated[
        Path | None,
        typer.Option(help="With int8: the dev store to test it on; dev.pt beside DATA by default."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="With int8: accuracy points that may be lost on that store.")
    ] = 0.5,
    token_budget: Annotated[int, typer.Option(help="Tokens of a batch.")] = 4096,
    null_threshold: Annotated[
        float | None,
        typer.Option(
            help="SQuAD 2.0: no answer where that is better than the best one by more than this; "
            "as tuned in training by default."
        ),
    ] = None,
    ffn_chunk: options.FfnChunk = None,
    attention: options.Attention = None,
    lsh_form: options.LshForm = None,
    lsh_chunk: options.LshChunk = None,
    lsh_rounds: options.LshRounds = None,
    lsh_probes: options.LshProbes = None,
    lsh_hash: options.LshHash = None,
    lsh_landmarks: options.LshLandmarks = None,
    device: options.Device = None,
) -> None:
    """Answer every question, in the papers' natural order, or refuse: never a part of them."""
    from dataclasses import replace

    from albert_rc.calibration import unsure_path
    from albert_rc.data.shards import load_store
    from albert_rc.devices import choose_precision, keep_freed_memory, processes
    from albert_rc.errors import UsageError
    from albert_rc.loading import load_model, load_spans
    from albert_rc.predict import describe, score, write_predictions
    from albert_rc.spans import find_spans, write_spans

    _check_ranges(token_budget, abstain, temperature)
    keep_freed_memory()
    how: dict[str, Any] = {
        "attention": attention,
        "lsh": options.lsh_settings(
            lsh_form, lsh_chunk, lsh_rounds, lsh_probes, lsh_hash, lsh_landmarks
        ),
    }
    with processes(device) as group:
        source = load_store(data) if data.suffix == ".pt" else _read(data, format_)
        how["precision"] = chosen = choose_precision(precision, group.device)
        spans = source.kind == "span"
        numbers = source.kind == "label" and not source.labels
        if (spans or numbers) and (abstain is not None or temperature is not None):
            raise UsageError("--abstain and --temperature are for answers with a probability each")
        loaded: Loaded[Any]
        loaded = load_spans(model, **how) if spans else load_model(model, source.kind, **how)
        store = _ready(data, source, loaded, max_length)
        if group.is_main:
            for line in loaded.report.lines():
                say(line)
            if loaded.report.new:
                say("warning: an untrained head guesses; fine-tune it with `albert-rc train` first")
        loaded.model.to(group.device)
        compute = loaded.model.encoder.compute
        loaded.model.encoder.compute = replace(compute, precision=chosen, ffn_chunk=ffn_chunk)
        recalled = None if recall is None else _recalled(recall, store, loaded, format_)
        if chosen == "int8":
            _pass_gate(loaded, gate or data.with_name("dev.pt"), tolerance, group)
        wanted = (scores or abstain or recall) is not None and not (spans or numbers)
        # Before the work, so that a damaged record costs none.
        divisor, calibrated = _temperature(loaded, temperature, wanted, group)
        total = store.num_items if spans else store.num_questions
        answer: Any = find_spans if spans else score
        with bar("answering", total, group.is_main) as advance:
            found = answer(
                loaded.model,
                loaded.tokenizer,
                store,
                group,
                token_budget=token_budget,
                progress=lambda done: advance(done * group.world),
            )
        if group.is_main:
            unsure = None
            if spans:
                tuned: Any = loaded.model.null_threshold
                write_spans(found, tuned if null_threshold is None else null_threshold, out, scores)
            else:
                unsure = write_predictions(
                    store,
                    found,
                    out,
                    scores,
                    temperature=divisor,
                    abstain=abstain,
                    recalled=recalled,
                )
            typer.echo(
                f"{out}: {store.num_questions:,} answers to {len(store.meta['ids']):,} papers"
            )
            if recalled is not None:
                typer.echo(describe(recalled, found, divisor))
            if abstain is not None and unsure is not None:
                typer.echo(unsure.line(abstain, unsure_path(out), calibrated))


def _check_ranges(token_budget: int, abstain: float | None, temperature: float | None) -> None:
    from albert_rc.errors import UsageError

    if token_budget < 1:
        raise UsageError(f"--token-budget {token_budget} must be at least 1")
    if abstain is not None and not 0 < abstain <= 1:
        raise UsageError(f"--abstain {abstain} must be above 0 and at most 1")
    if temperature is not None and not 0.0004 <= temperature <= 2500:
        raise UsageError(f"--temperature {temperature} must be between 0.0004 and 2500")


def _temperature(
    loaded: Loaded[Any], given: float | None, wanted: bool, group: Processes
) -> tuple[float, bool]:
    """What to divide logits by, and whether that makes frequencies of probabilities."""
    from albert_rc.calibration import RECORD, kept_temperature

    folder = loaded.tokenizer.folder
    if given is not None:
        return given, given != 1
    if not wanted or not group.is_main:  # the others write nothing
        return 1.0, False
    kept, calibrated = kept_temperature(folder)
    if calibrated:
        say(f"temperature {kept:.4f}, kept in {folder / RECORD} (--temperature 1: without)")
    elif (folder / RECORD).is_file():
        say(f"warning: {folder / RECORD} is of other weights and is not used; calibrate again")
    return kept, calibrated


def _pass_gate(loaded: Loaded[Any], dev: Path, tolerance: float, group: Processes) -> None:
    """Go on in int8 only if it costs little on dev papers."""
    from albert_rc.data.shards import check_store, load_store
    from albert_rc.devices import choose_precision
    from albert_rc.errors import UsageError
    from albert_rc.gate import identity, measure_cost, remember_cost, remembered_cost

    if not tolerance >= 0:
        raise UsageError(f"--tolerance {tolerance} must be a number from 0 on")
    if not dev.is_file():
        raise UsageError(
            f"--precision int8 is tested on dev papers first, and there is no {dev}; "
            "name a store with --gate, or use --precision bf16"
        )
    folder = loaded.tokenizer.folder
    of = identity(folder, dev)
    cost = remembered_cost(folder, of)
    if cost is None:
        store = load_store(dev)
        check_store(store, dev, loaded.tokenizer, loaded.model.config.max_length)
        if store.kind != loaded.model.task:
            raise UsageError(f"--gate {dev}: holds {store.kind}, but the model {loaded.model.task}")
        precision = choose_precision(None, group.device)
        cost = measure_cost(loaded.model, loaded.tokenizer, store, group, precision)
        if group.is_main:
            remember_cost(folder, of, cost)
    if group.is_main:
        say(cost.line())
    cost.require(tolerance)


def _read(data: Path, format_name: str | None) -> PaperSet:
    from albert_rc.data.readers import read_split, require_good

    papers = read_split(data, format_name=format_name)
    require_good([papers], "stop")
    for problem in papers.problems:
        say(f"warning: {problem}")
    return papers


def _recalled(path: Path, store: Store, loaded: Loaded[Any], format_name: str | None) -> Recalled:
    """What training papers say about the store's blanks."""
    from albert_rc.data.shards import load_store, make_store
    from albert_rc.errors import DataError
    from albert_rc.recall import Memory

    if path.suffix == ".pt":
        known = load_store(path)
    else:
        papers = _read(path, format_name)
        known = make_store(papers, loaded.tokenizer, loaded.model.config.max_length)
    if not known.has_answers:
        raise DataError(f"--recall {path}: its papers have no answers to recall")
    return Memory(known).recall(store)


def _ready(
    data: Path, source: Store | PaperSet, loaded: Loaded[Any], max_length: int | None
) -> Store:
    """The store to answer: as it was made, or made now of raw papers."""
    from albert_rc.data.schema import PaperSet
    from albert_rc.data.shards import check_store, make_store
    from albert_rc.errors import DataError, UsageError

    longest = loaded.model.config.max_length
    if source.kind == "label" and tuple(source.labels) != loaded.model.labels:
        raise DataError(
            f"{data}: its labels are {', '.join(source.labels) or 'numbers'}, but the model knows "
            f"{', '.join(loaded.model.labels) or 'numbers'}; fine-tune it on this task first"
        )
    if isinstance(source, PaperSet):
        if max_length is not None and max_length > longest:
            raise UsageError(f"--max-length {max_length}: the model takes {longest} tokens at most")
        return make_store(source, loaded.tokenizer, longest if max_length is None else max_length)
    check_store(source, data, loaded.tokenizer, longest)
    return source


predict.__doc__ = f"{predict.__doc__}\n\n" + example(
    "albert-rc predict --data data/test.pt --model models/run1 --out predictions/answer.json"
)
