"""`albert-rc predict`: a model's answers to a store or to raw papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import bar, example, say
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
            "models, or albert-rc-small if there is none)."
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
    from albert_rc.answering.run import Request, Show, run
    from albert_rc.runtime.devices import processes

    more = settings.parse(set_, settings.PREDICT)
    request = Request(
        data=data,
        out=out,
        model=model,
        scores=scores,
        abstain=abstain,
        temperature=temperature,
        option_score=option_score,
        recall=recall,
        format_name=format_,
        max_length=max_length,
        precision=precision,
        gate=gate,
        tolerance=tolerance,
        token_budget=token_budget,
        null_threshold=null_threshold,
        ffn_chunk=more.get("ffn_chunk"),
        attention=attention,
        lsh=settings.lsh_of(more),
    )
    check_outputs(answer_files(out, scores, abstain), (data, recall, gate))
    with processes(device) as group:
        for line in run(request, group, Show(say, bar)):
            typer.echo(line)


predict.__doc__ = f"{predict.__doc__}\n\n" + example(
    "albert-rc predict --data data/test.pt --model models/run1 --out predictions/answer.json"
)
