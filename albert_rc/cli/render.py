"""`albert-rc render`: papers in print layout, as Word or PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example
from albert_rc.cli.outputs import check_outputs
from albert_rc.cli.papers import OptionFormat, say_problems
from albert_rc.errors import UsageError
from albert_rc.io.messages import counted


@example("albert-rc render papers/dev --key --out exam.docx")
def render(
    papers: Annotated[
        Path, typer.Argument(help="Cloze or multiple-choice papers: a folder or a file.")
    ],
    out: Annotated[Path, typer.Option(help="File to write, such as exam.docx or exam.pdf.")],
    key: Annotated[
        bool, typer.Option("--key", help="Print the right answers on a page at the end.")
    ] = False,
    title: Annotated[str, typer.Option(help="Title on the first page.")] = "",
    format_: OptionFormat = None,
    first: Annotated[
        int,
        typer.Option(min=1, max=9999, help="Number of the first question."),
    ] = 1,
    font: Annotated[
        Path | None,
        typer.Option(
            help="TrueType font file for PDF; needed for letters beyond those of Western Europe.",
        ),
    ] = None,
) -> None:
    """Write papers as Word or PDF: passages with numbered blanks, options, and optionally a key.

    `import` converts the result back to the same papers if all questions of a paper have the same
    number of options.
    """
    from albert_rc.io.atomic import write_bytes
    from albert_rc.papers.formats import read_good
    from albert_rc.printed.render.docx import docx_bytes
    from albert_rc.printed.render.pdf import pdf_bytes
    from albert_rc.printed.render.sheet import make_sheet

    suffix = out.suffix.lower()
    if suffix not in (".docx", ".pdf"):
        raise UsageError(f"--out {out}: the file name must end in .docx or .pdf")
    if font is not None and suffix != ".pdf":
        raise UsageError("--font is only for .pdf; Word uses its own fonts")
    check_outputs({"--out": out}, [papers])
    read = read_good(papers, format_)
    say_problems(read.problems)
    sheet = make_sheet(read, title, first, key)
    write_bytes(out, docx_bytes(sheet) if suffix == ".docx" else pdf_bytes(sheet, font))
    numbers = sum(len(passage.questions) for passage in read.passages)
    typer.echo(
        f"{out}: {counted(len(sheet.parts), 'paper')}, numbers {first} to {first + numbers - 1}"
    )
