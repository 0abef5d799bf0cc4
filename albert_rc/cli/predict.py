"""`albert-rc predict`: a model's answers to a store or to raw papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from albert_rc.cli import options, predict_parts, settings
from albert_rc.cli.console import bar, example
from albert_rc.cli.outputs import answer_files, check_outputs
from albert_rc.cli.papers import Format


def predict(
    data: Annotated[
        Path, typer.Option(help="A .pt store, or raw papers: a folder or a file.")
    ] = Path("data/test.pt"),
    model: Annotated[
        str | None,
        typer.Option(
            help="A run's folder, a hub id, or a model of the package (default: the run in "
            "models, or albert-rc-tiny if there is none)."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="File that the answers are written to.")] = Path(
        "predictions/answer.json"
    ),
    scores: Annotated[
        Path | None,
        typer.Option(help="Also write each question's probabilities here (JSON lines)."),
    ] = None,
    abstain: Annotated[
        float | None,
        typer.Option(
            help="Also write a list of the answers that are less probable than this, such as 0.6, "
            "for a teacher to check; its file is next to --out."
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="Divide the logits by this before they become probabilities; no answer of the "
            "model changes (default: what `calibrate` saved with the model, else 1)."
        ),
    ] = None,
    option_score: Annotated[
        Literal["masks", "pll"] | None,
        typer.Option(
            help="Cloze: read options of several pieces again, with a [MASK] for each piece: "
            "masks, or pll (one piece hidden at a time, slower) (default: as trained)."
        ),
    ] = None,
    recall: Annotated[
        Path | None,
        typer.Option(
            help="Cloze: training papers with answers (a .pt store, or raw). Where they hold a "
            "blank's surroundings word for word, the word that stands there counts."
        ),
    ] = None,
    format_: Format = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.LONGEST,
            help="Window in tokens for raw papers (default: the longest of the model).",
        ),
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16", "fp16", "int8"] | None,
        typer.Option(
            help="Precision of products: fp32, bf16, fp16 or int8 (default: bf16 if the hardware "
            "has it)."
        ),
    ] = None,
    gate: Annotated[
        Path | None,
        typer.Option(
            help="With int8: dev store that it is tested on (default: dev.pt next to DATA)."
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            help="With int8: percentage points of accuracy that may be lost on that store."
        ),
    ] = 0.5,
    token_budget: Annotated[
        int, typer.Option(min=1, max=options.MOST, help="Tokens per batch.")
    ] = 4096,
    null_threshold: Annotated[
        float | None,
        typer.Option(
            help="SQuAD 2.0: give no answer if that scores better than the best answer by more "
            "than this (default: as tuned in training)."
        ),
    ] = None,
    device: options.Device = None,
    attention: options.Attention = None,
    config: settings.Config = None,
    set_: settings.Set = None,
) -> None:
    """Answer every question, in the papers' natural order, or refuse: never a part of them."""
    from albert_rc.answering.pieces import require_way
    from albert_rc.answering.score import describe, reading_of, score, write_predictions
    from albert_rc.answering.spans import find_spans, write_spans
    from albert_rc.answering.temperature import weights_id
    from albert_rc.runtime.devices import choose_precision, processes
    from albert_rc.runtime.heap import keep_freed_memory

    predict_parts.check_ranges(token_budget, abstain, temperature)
    check_outputs(answer_files(out, scores, abstain), (data, recall, gate))
    more = settings.parse(set_, settings.PREDICT)
    how: dict[str, Any] = {
        "attention": attention,
        "lsh": settings.lsh_of(more),
    }
    with processes(device) as group:
        source = predict_parts.open_papers(data, format_, model)
        predict_parts.check_kind(source, abstain, temperature, null_threshold)
        how["precision"] = chosen = choose_precision(precision, group.device)
        spans, numbers = source.kind == "span", source.kind == "label" and not source.labels
        loaded = predict_parts.open_model(model, source, how, group)
        store = predict_parts.ready_store(data, source, loaded, max_length)
        if option_score is not None:
            require_way(loaded.model, store, option_score)
        predict_parts.compute_with(loaded, chosen, more.get("ffn_chunk"))
        recalled = None
        if recall is not None:
            recalled = predict_parts.recalled_for(recall, store, loaded, format_, group)
        if chosen == "int8":
            predict_parts.pass_gate(
                loaded,
                gate or data.with_name("dev.pt"),
                tolerance,
                group,
                option_score=option_score,
                null_threshold=null_threshold,
                token_budget=token_budget,
            )
        wanted = (scores or abstain or recall) is not None and not (spans or numbers)
        loaded.model.encoder.freeze()
        keep_freed_memory()  # from here on: the weights' own memory goes back
        reading = None if spans else reading_of(loaded.model, store.meta["max_length"])
        # Before the work, so that a damaged record costs none.
        divisor, calibrated = predict_parts.divisor_of(
            loaded, temperature, wanted, option_score, reading, group
        )
        answer: Any = find_spans if spans else score
        count = store.num_items if spans else store.num_questions
        with bar("answering", count, group.is_main) as advance:
            found = answer(
                loaded.model,
                loaded.tokenizer,
                store,
                group,
                token_budget=token_budget,
                progress=lambda done: advance(done * group.world),
            )
        if option_score is not None:
            found = predict_parts.read_again(
                loaded, store, found, option_score, group, token_budget
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
                    way=option_score,
                    weights=None if scores is None else weights_id(loaded.tokenizer.folder),
                    reading=None if scores is None else reading,
                )
            typer.echo(
                f"{out}: {store.num_questions:,} answers to {len(store.meta['ids']):,} papers"
            )
            if recalled is not None:
                typer.echo(describe(recalled, found, divisor))
            if abstain is not None and unsure is not None:
                typer.echo(unsure.line(abstain, out, calibrated))


predict.__doc__ = f"{predict.__doc__}\n\n" + example(
    "albert-rc predict --data data/test.pt --model models/run1 --out predictions/answer.json"
)
