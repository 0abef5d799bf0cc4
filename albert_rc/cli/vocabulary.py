"""`albert-rc vocabulary`: a SentencePiece vocabulary from raw text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import example


def vocabulary(
    text: Annotated[
        list[Path],
        typer.Argument(help="Files or folders of text, or of exam papers (blanks are filled)."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for spiece.model.")] = Path("models/vocabulary"),
    size: Annotated[int, typer.Option(help="Pieces, the five special ones included.")] = 30000,
    cased: Annotated[bool, typer.Option(help="Keep upper and lower case apart.")] = False,
    accents: Annotated[bool, typer.Option(help="Keep accents.")] = False,
    coverage: Annotated[
        float, typer.Option(help="Share of all characters that get pieces of their own.")
    ] = 0.99995,
) -> None:
    """Make a unigram vocabulary with ALBERT's ids: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4.

    Text is lower-cased and stripped of accents first, as ALBERT's.
    """
    from albert_rc.data.documents import find_sources, read_paragraphs, sentences
    from albert_rc.vocabulary import make_vocabulary

    sources, _ = find_sources(text)
    texts = (
        sentence
        for source in sources
        for paragraph in read_paragraphs(source)
        if paragraph is not None
        for sentence in sentences(paragraph)
    )
    made = make_vocabulary(
        texts, size, out, lower=not cased, keep_accents=accents, coverage=coverage
    )
    typer.echo(f"{out / 'spiece.model'}: {made.size:,} pieces")


vocabulary.__doc__ = f"{vocabulary.__doc__}\n\n" + example(
    "albert-rc vocabulary text/ --size 8000 --out models/vocabulary"
)
