"""`albert-rc inspect`: parameter counts of models, and the effect of their layers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example, print_json, say, table
from albert_rc.cli.outputs import check_outputs
from albert_rc.cli.settings import PlainCommand, PlainGroup
from albert_rc.cli.texts import open_text
from albert_rc.errors import UsageError

inspect = typer.Typer(
    cls=PlainGroup,
    help="Show the parameters of models and the effect of their layers.",
    no_args_is_help=True,
)


@inspect.command(cls=PlainCommand)
@example("albert-rc inspect parameters models/run1")
def parameters(
    model: Annotated[
        list[str] | None,
        typer.Argument(
            help="Models to list after the published sizes: folders, hub ids, or models of the "
            "package."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show parameters and cost of the published sizes of BERT and ALBERT, and of checkpoints."""
    from albert_rc.checkpoints.inspect import parameter_table

    rows = parameter_table(model or [])
    if json:
        print_json([vars(row) | {"total": row.total, "bytes": 4 * row.total} for row in rows])
        return
    table(
        "Millions of parameters (with the pooler); fp32; cost at 512 tokens",
        ("model", "embeddings", "layers", "total", "paper", "MB", "MFLOP/token"),
        [
            (
                row.name,
                f"{row.embeddings / 1e6:.1f}",
                f"{row.layers / 1e6:.1f}",
                f"{row.total / 1e6:.1f}",
                "" if row.published is None else row.published,
                f"{4 * row.total / 1e6:,.0f}",
                f"{row.flops_per_token / 1e6:,.0f}",
            )
            for row in rows
        ],
    )


@inspect.command(cls=PlainCommand)
@example("albert-rc inspect layers models/run1 models/run2 --text papers/dev")
def layers(
    model: Annotated[
        list[str], typer.Argument(help="Models: folders, hub ids, or models of the package.")
    ],
    text: Annotated[Path, typer.Option(help="Text or exam papers that the models read.")] = Path(
        "data/raw_data/dev"
    ),
    out: Annotated[
        Path, typer.Option(help="Path of the figure: writes OUT.png, OUT.svg and OUT.json.")
    ] = Path("predictions/layers"),
    json: Annotated[bool, typer.Option("--json", help="Print the distances as JSON.")] = False,
) -> None:
    """Plot how far each layer moves the tokens: L2 distance and angle between input and output."""
    from albert_rc.checkpoints.inspect import distances_of
    from albert_rc.corpus.documents import read_documents
    from albert_rc.io.json import write_json
    from albert_rc.report.plots import figure_paths, lines, require_matplotlib, save

    require_matplotlib()
    if twice := next((name for name in model if model.count(name) > 1), None):
        raise UsageError(f"{twice} is given twice; give each model only once")

    drawn = figure_paths(out)
    figures = drawn[0].with_suffix(".json")
    outputs = {f"--out's {path.suffix}": path for path in (*drawn, figures)}
    sources = open_text([text]).sources
    check_outputs(outputs, [text])
    texts = [document for source in sources for document in read_documents(source)]
    found = {}
    short = [Path(name).name for name in model]
    for name, label in zip(model, short, strict=True):
        say(f"{name} ...")
        found[label if short.count(label) == 1 else name] = distances_of(name, texts)
    figure = lines(
        {
            label: {
                name: ([row.layer for row in rows], [getattr(row, field) for row in rows])
                for name, rows in found.items()
            }
            for label, field in (("L2 distance", "distance"), ("degrees", "degrees"))
        },
        "layer",
        "Distance between the input and the output of each layer",
    )
    paths = save(figure, out)
    result = {name: [vars(row) for row in rows] for name, rows in found.items()}
    write_json(figures, result)
    if json:
        print_json(result)
    else:
        typer.echo(", ".join(map(str, [*paths, figures])))
