"""The steps of `albert-rc predict`: open the papers, prepare, score, write answer.json."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from albert_rc.answering import int8_check
from albert_rc.answering.again import way_of
from albert_rc.answering.cluster import Cluster, WorkerModel
from albert_rc.answering.opening import Say, open_model, open_papers, ready_store, require_labels
from albert_rc.answering.parts import MANIFEST, Parts
from albert_rc.answering.request import Request
from albert_rc.answering.tasks import OptionTask, Show, SpanTask, Task
from albert_rc.answering.temperature import weights_id
from albert_rc.checkpoints.hub import usual_model
from albert_rc.checkpoints.load import Loaded, Opening
from albert_rc.errors import UsageError
from albert_rc.io.messages import counted
from albert_rc.model.int8 import NEEDED, has_int8
from albert_rc.papers.schema import Kind, PaperSet
from albert_rc.runtime.devices import Processes, choose_precision
from albert_rc.runtime.engines import TaskEngine
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.stores.losses import losses
from albert_rc.stores.shards import exists, is_store, open_store, split_path
from albert_rc.stores.store import Store, check_store, load_store


def _require_for(request: Request, papers: Store | PaperSet) -> None:
    """Refuse options that do not apply to these papers.

    Raises:
        UsageError: names the option.
    """
    spans = papers.kind == "span"
    numbers = papers.kind == "label" and not papers.labels
    if (spans or numbers) and (request.abstain is not None or request.temperature is not None):
        raise UsageError(
            "--abstain and --temperature need answers with probabilities, which these papers do "
            "not have; leave them out"
        )
    if request.reuse and papers.kind != "cloze":
        raise UsageError("--set reuse is for cloze papers; leave it out")
    if request.null_threshold is not None and not spans:
        raise UsageError(
            "--null-threshold is for SQuAD, since other questions always have an answer; leave "
            "it out"
        )


def _say_unused(request: Request, say: Say) -> None:
    """Report options that have no effect beside the others, although the answers make sense."""
    read = [path for path in (request.data, request.recall) if path is not None]
    if all(map(is_store, read)):
        named = " and ".join(map(str, read))
        are = "is a store" if len(read) == 1 else "are stores"
        for name, given in (("--format", request.format_), ("--strict", request.strict)):
            if given:
                say(f"note: {name} has no effect, because {named} {are} and not raw papers")
    shown = (request.scores, request.abstain, request.recall)
    if request.temperature is not None and all(given is None for given in shown):
        say("note: --temperature has no effect without --scores, --abstain or --recall")


def _say_losses(store: Store, group: Processes, say: Say) -> None:
    if group.is_main:
        for line in losses(store):
            say(f"warning: {line}")


def run(
    request: Request, group: Processes, show: Show, engine: TaskEngine | None = None
) -> list[str]:
    """Answer all papers of a request.

    Args:
        request: the settings.
        group: the device, and the ranks that share the work.
        show: displays warnings and progress.
        engine: where the model runs; here by default.

    Returns:
        Summary lines; empty in processes other than the main one.

    Raises:
        AlbertRcError: something cannot be answered; nothing was written.
    """
    parts = Parts(request)
    first = parts.all[0]
    if group.is_main:
        _say_unused(request, show.say)
    papers = open_papers(first.data, request.format_, request.model, show.say, request.strict)
    _require_for(request, papers)
    chosen = choose_precision(request.precision, group.device)
    how: Opening = {"attention": request.attention, "lsh": request.lsh, "precision": chosen}
    loaded = open_model(request.model, papers, how, group, show.say)
    store = ready_store(first.data, papers, loaded, request.max_length, show.say)
    _say_losses(store, group, show.say)
    task = (SpanTask if papers.kind == "span" else OptionTask)(first, loaded, store, group, show)
    task.names_unsure = not parts.joins
    encoder = loaded.model.encoder
    encoder.compute = replace(encoder.compute, precision=chosen, ffn_chunk=request.ffn_chunk)
    task.prepare()
    if chosen == "int8":
        _pass_int8_check(first, loaded, group, show.say)
    encoder.freeze()
    keep_freed_memory()  # not before: memory used for loading is returned
    task.settle()
    with parts.alone() if group.is_main else nullcontext():
        todo = group.from_main(parts.begin(task.made_by()) if group.is_main else None)
        if len(todo) < len(parts.all):
            task.say(f"parts already done: {len(parts.all) - len(todo)} of {len(parts.all)}")
        with _readers(engine or TaskEngine(), request, papers.kind, how, task) as readers:
            for part in todo:
                if part != first:
                    opened = load_store(part.data)
                    _say_losses(opened, group, show.say)
                    task.turn_to(part, opened)
                with show.bar(parts.name_of(part), task.count, group.is_main) as advance:
                    task.score(readers, lambda done: advance(done * group.world))
                more = task.write() if group.is_main else []
                if not parts.is_one:
                    for line in more:
                        task.say(line)
        if group.is_main:
            parts.finish()
    if not group.is_main:
        return []
    if parts.is_one:
        number = counted(len(store.meta["ids"]), "paper")
        answers = f"{counted(store.num_questions, 'answer')} to {number}"
        return [f"{request.out}: {answers}", *more]
    unsure = parts.unsure_line()
    joined = "joined" if parts.joins else f"written; {MANIFEST} records how they were made"
    said = f"{request.out}: answers of {counted(len(parts.all), 'part')} {joined}"
    return [said] if unsure is None else [said, unsure]


@contextmanager
def _readers(
    engine: TaskEngine, request: Request, kind: Kind, how: Opening, task: Task
) -> Iterator[Processes]:
    """The processes that run the model: these, or the workers of a cluster."""
    if engine.is_local:
        yield task.group
        return
    if task.group.world > 1:
        raise UsageError("--engine ray starts its own processes; run it without torchrun")
    model = WorkerModel(
        source=request.model or usual_model(kind),
        task=kind,
        how=how,
        ffn_chunk=request.ffn_chunk,
        weights=weights_id(task.loaded.tokenizer.folder),
        gpus=engine.gpus,
    )
    with engine.model_pool(model) as pool:
        yield Cluster(device=task.group.device, pool=pool)


def _pass_int8_check(request: Request, loaded: Loaded[Any], group: Processes, say: Say) -> None:
    """Continue in int8 only if it loses little on dev papers answered with the same settings."""
    if not has_int8(group.device):
        raise UsageError(f"--precision int8: {NEEDED}; leave it out here")
    dev = request.gate or split_path(request.data.parent, "dev")
    if not exists(dev):
        raise UsageError(
            f"--precision int8 is tested on dev papers first, but {dev} does not exist; "
            "give a store with --gate, or leave --precision out"
        )
    folder = loaded.tokenizer.folder
    trial = int8_check.Trial(
        precision=choose_precision(None, group.device),
        way=way_of(loaded.model, request.option_score),
        null_threshold=request.null_threshold,
        token_budget=request.token_budget,
        reuse=request.reuse,
    )
    of = int8_check.identity(loaded.model, folder, dev, trial)
    # All ranks measure, or none: each may have a folder, and a device, of its own.
    remembered = int8_check.remembered_cost(folder, of) if group.is_main else None
    cost = group.from_main(remembered)
    if cost is None:
        store = open_store(dev)
        check_store(store, dev, loaded.tokenizer, loaded.model.config.max_length)
        if store.kind != loaded.model.task:
            raise UsageError(
                f"--gate {dev}: holds {store.kind} papers, but the model answers "
                f"{loaded.model.task} papers; give a store of these"
            )
        if store.kind == "label":
            require_labels(dev, store, loaded, say)
        keep_freed_memory()
        cost = int8_check.measure_cost(loaded.model, loaded.tokenizer, store, group, trial)
        if group.is_main:
            int8_check.remember_cost(folder, of, cost)
    if group.is_main:
        say(cost.line())
    cost.require(request.tolerance)
