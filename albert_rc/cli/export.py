"""`albert-rc export`: a run as a folder for the Hugging Face hub, with its card, and as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from albert_rc.cli import settings
from albert_rc.cli.console import example, out, print_json, say
from albert_rc.cli.papers import Format, say_problems


@example("albert-rc export models/run1 --out hub/run1 --onnx --licence mit --papers papers/dev")
def export(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Folder of a run or checkpoint, or the name of a model of the package. If "
            "several are given, the mean of their weights is exported.",
        ),
    ],
    folder: Annotated[
        Path, typer.Option("--out", help="Folder to write; it must be new or empty.")
    ],
    last: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Export the mean of the weights in the newest N states of a run, which `train "
            "--set keep=N` keeps.",
        ),
    ] = None,
    onnx: Annotated[
        bool,
        typer.Option("--onnx", help='Also export as ONNX; needs pip install "albert-rc[onnx]".'),
    ] = False,
    precision: Annotated[
        Literal["fp32", "bf16", "fp16"] | None,
        typer.Option(help="Precision of the weights: fp32, bf16 or fp16 (default: unchanged)."),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(help="Licence of the weights, to state in the model card, such as mit."),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(help="Title of the model card (default: the folder's name).", hidden=True),
    ] = None,
    papers: Annotated[
        Path | None,
        typer.Option(help="Dev papers, for the comparison and for metrics in the model card."),
    ] = None,
    format_: Format = None,
    set_: settings.Set = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print the files and the results of the comparison as JSON."),
    ] = False,
) -> None:
    """Export a model for transformers, with vocabulary, config and model card, ready to upload.

    The folder is written only if transformers, and ONNX, give the same answers as albert-rc. The
    mean of several checkpoints of one run, or of runs that began with the same pretrained weights,
    is often a little better than each of them. Runs from different random weights have no useful
    mean: combine their answers with `ensemble`.
    """
    from albert_rc.export.run import export as write
    from albert_rc.papers.formats import read_good
    from albert_rc.training.runs.mean_weights import source_of

    given = None
    if papers is None:
        settings.need(context, "--papers", "format_")
    else:
        given = read_good(papers, format_)
        say_problems(given.problems)
    with source_of(runs, last, folder, say) as (source, mean):
        done = write(
            source,
            folder,
            mean_of=mean.made_of if mean else None,
            run=mean.run if mean else None,
            onnx=onnx,
            precision=precision,
            licence=licence,
            title=title,
            papers=given,
            say=say,
        )
    if json:
        print_json(done.as_json())
        return
    total = sum(done.sizes.values())
    out.print(f"{folder}: {done.architecture}, {total / 1e6:.1f} MB", markup=False)
    for name, size in done.sizes.items():
        out.print(f"  {name}: {size / 1e6:.2f} MB", markup=False)
    out.print(f"vocabulary: {done.split}", markup=False)
    out.print(f"transformers: {done.transformers}", markup=False)
    if done.onnx is not None:
        out.print(f"ONNX: {done.onnx}", markup=False)
    for name, value in done.measured:
        out.print(f"{name}: {value}", markup=False)
    if licence is None:
        say("the model card states no licence; give it with --licence if you know it")
