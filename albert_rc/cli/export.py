"""`albert-rc export`: a run as a folder for the Hugging Face hub, with its card, and as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from albert_rc.cli.console import example, out, print_json, say
from albert_rc.cli.papers import Format


def export(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="A run's folder, any checkpoint's, or a shipped model's name. Of several, the "
            "mean of their weights is exported.",
        ),
    ],
    folder: Annotated[Path, typer.Option("--out", help="The folder to write; a new one.")],
    last: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=1000,
            help="Export the mean of the newest N states of a run, as train --set keep=N leaves "
            "them.",
        ),
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help='Also as ONNX; wants pip install "albert-rc[onnx]".')
    ] = False,
    precision: Annotated[
        Literal["fp32", "bf16", "fp16"] | None,
        typer.Option(help="Precision of the weights: fp32, bf16 or fp16 (default: unchanged)."),
    ] = None,
    licence: Annotated[
        str | None, typer.Option(help="Licence of the weights for the card, such as mit.")
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(help="Title of the card (default: the folder's name).", hidden=True),
    ] = None,
    papers: Annotated[
        Path | None,
        typer.Option(help="Dev papers: compare on them too, and put figures into the card."),
    ] = None,
    format_: Format = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print what was written and compared as JSON.")
    ] = False,
) -> None:
    """Weights, vocabulary, config and a model card, ready to upload; transformers opens the folder.

    It is there only after transformers' answers on it, and ONNX's, were compared with ours. The
    mean of checkpoints of one run is often a little better than each; runs of different seeds have
    no useful mean: put their answers together with `ensemble`.
    """
    from albert_rc.export.run import export as write
    from albert_rc.papers.formats import read_good
    from albert_rc.training.runs.mean_weights import source_of

    given = None
    if papers is not None:
        given = read_good(papers, format_)
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
        say("the card states no licence; give --licence if you know it")


export.__doc__ = f"{export.__doc__}\n\n" + example(
    "albert-rc export models/run1 --out hub/run1 --onnx --licence mit --papers papers/dev"
)
