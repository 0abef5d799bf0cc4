"""`albert-rc report`: an HTML page of answers, probabilities and right answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example, out, print_json
from albert_rc.cli.outputs import check_outputs
from albert_rc.cli.papers import Key, OptionFormat, TrainingPapers, read_graded, training_passages
from albert_rc.errors import UsageError
from albert_rc.io.messages import counted


@example("albert-rc report predictions/dev.jsonl papers/dev --out report.html")
def report(
    scores: Annotated[
        Path, typer.Argument(help="Score file from `predict --scores`, or an answer.json.")
    ],
    gold: Annotated[
        Path, typer.Argument(help="The papers, with or without right answers: folder or file.")
    ],
    page: Annotated[Path, typer.Option("--out", help="HTML file to write.")] = Path("report.html"),
    against: Annotated[
        Path | None, typer.Option(help="Score file or answers of a second system, for comparison.")
    ] = None,
    key: Key = None,
    train: TrainingPapers = None,
    format_: OptionFormat = None,
    json: Annotated[bool, typer.Option("--json", help="Also print the metrics as JSON.")] = False,
) -> None:
    """Write the answers as one HTML file: which are right, wrong or uncertain; works offline."""
    from albert_rc.io.atomic import write_bytes
    from albert_rc.report.figures import figures_of, require_options
    from albert_rc.report.page import render
    from albert_rc.report.runs import read_run, run_names

    check_outputs({"--out": page}, (scores, gold, key, against, train))
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {page}: the report is a page; let its name end in .html")
    papers = read_graded(gold, key, format_)
    require_options(papers.kind)
    training = training_passages(train, gold, papers)
    paths = [scores] if against is None else [scores, against]
    names = run_names(paths)
    runs = [read_run(p, papers.passages, n) for p, n in zip(paths, names, strict=True)]
    found = figures_of(papers.kind, papers.passages, runs, training)
    content = render(found, papers.passages, papers.name)
    write_bytes(page, content)
    if json:
        print_json({"out": str(page), "bytes": len(content), **found.as_json()})
        return
    out.print(
        f"{page}: {counted(len(papers.passages), 'paper')}, {len(content) / 1e6:.1f} MB",
        markup=False,
    )
    for each in found.runs:
        if each.evaluation is not None:
            total = each.evaluation.total
            said = f"{each.run.name}: {total.correct:,} of {total.total:,} right, {total}"
            out.print(said, markup=False)
