"""`albert-rc vocabulary`: a SentencePiece vocabulary from raw text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from albert_rc.cli.console import example
from albert_rc.cli.outputs import check_outputs

if TYPE_CHECKING:
    from albert_rc.data.documents import Source


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
        float,
        typer.Option(help="Share of all characters that get pieces of their own: from 0.98 to 1."),
    ] = 0.99995,
) -> None:
    """Make a vocabulary with ALBERT's ids: padding 0, unknown 1, [CLS] 2, [SEP] 3, [MASK] 4.

    Pieces are chosen by a unigram language model. Text is lower-cased and stripped of accents
    first, as ALBERT's.
    """
    from albert_rc.data.documents import find_sources
    from albert_rc.vocabulary import make_vocabulary

    check_outputs({"--out": out / "spiece.model"}, [])
    sources, _ = find_sources(text)
    made = make_vocabulary(
        _sentences(sources), size, out, lower=not cased, keep_accents=accents, coverage=coverage
    )
    typer.echo(f"{out / 'spiece.model'}: {made.size:,} pieces")


def _sentences(sources: list[Source]) -> Iterator[str]:
    from albert_rc.data.documents import no_text, read_paragraphs, sentences

    some = False
    for source in sources:
        for paragraph in read_paragraphs(source):
            if paragraph is not None:
                some = True
                yield from sentences(paragraph)
    if not some:
        raise no_text(sources)


vocabulary.__doc__ = f"{vocabulary.__doc__}\n\n" + example(
    "albert-rc vocabulary text/ --size 8000 --out models/vocabulary"
)
