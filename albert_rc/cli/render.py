"""`albert-rc render`: papers in print layout, as Word or PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example
from albert_rc.cli.outputs import check_outputs
from albert_rc.cli.papers import Format
from albert_rc.errors import UsageError


def render(
    papers: Annotated[
        Path, typer.Argument(help="Papers, cloze or multiple choice: a folder or a file.")
    ],
    out: Annotated[Path, typer.Option(help="The file to write: exam.docx or exam.pdf.")],
    key: Annotated[
        bool, typer.Option("--key", help="Print the right answers on a page at the end.")
    ] = False,
    title: Annotated[str, typer.Option(help="Title on the first page.")] = "",
    format_: Format = None,
    first: Annotated[
        int, typer.Option(min=0, max=9999, help="The first number (default: 1).", hidden=True)
    ] = 1,
    font: Annotated[
        Path | None,
        typer.Option(
            help="PDF: a TrueType file, for letters beyond those of Western Europe.", hidden=True
        ),
    ] = None,
) -> None:
    """Print papers: passages with numbered blanks, their options, and a key if wanted.

    `import` reads what this writes back into the same papers.
    """
    from albert_rc.io.atomic import write_bytes
    from albert_rc.papers.formats import read_good
    from albert_rc.printed.render.docx import docx_bytes
    from albert_rc.printed.render.pdf import pdf_bytes
    from albert_rc.printed.render.sheet import make_sheet

    suffix = out.suffix.lower()
    if suffix not in (".docx", ".pdf"):
        raise UsageError(f"--out {out}: name a file that ends in .docx or .pdf")
    if font is not None and suffix != ".pdf":
        raise UsageError("--font is for .pdf; Word takes the fonts that it has")
    check_outputs({"--out": out}, [papers])
    read = read_good(papers, format_)
    sheet = make_sheet(read, title, first, key)
    write_bytes(out, docx_bytes(sheet) if suffix == ".docx" else pdf_bytes(sheet, font))
    numbers = sum(len(part.choices) for part in sheet.parts)
    typer.echo(f"{out}: {len(sheet.parts):,} papers, numbers {first} to {first + numbers - 1}")


render.__doc__ = f"{render.__doc__}\n\n" + example(
    "albert-rc render papers/dev --key --out exam.docx"
)
