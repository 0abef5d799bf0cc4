"""`albert-rc pretrain vocabulary`: training of a SentencePiece vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from albert_rc.cli import settings
from albert_rc.cli.console import example
from albert_rc.cli.outputs import require_folder
from albert_rc.cli.texts import OnTextError, list_rejects, open_text
from albert_rc.errors import UsageError

if TYPE_CHECKING:
    from albert_rc.corpus.documents import Source


@example("albert-rc pretrain vocabulary text/ --size 8000 --out models/vocabulary")
def vocabulary(
    text: Annotated[
        list[Path],
        typer.Argument(help="Files or folders of text, or of exam papers (with blanks filled in)."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write spiece.model to.")] = Path(
        "models/vocabulary"
    ),
    size: Annotated[
        int,
        typer.Option(
            min=1,
            max=2**24,
            help="Number of pieces, including the five special ones.",
        ),
    ] = 30000,
    cased: Annotated[
        bool, typer.Option("--cased", help="Distinguish upper and lower case.")
    ] = False,
    accents: Annotated[
        bool, typer.Option("--accents", help="Keep accents on letters.", hidden=True)
    ] = False,
    coverage: Annotated[
        float,
        typer.Option(
            help="Share of all characters that the vocabulary covers, from 0.98 to 1; the rarest "
            "are left out.",
            hidden=True,
        ),
    ] = 0.99995,
    on_error: OnTextError = "stop",
    set_: settings.Set = None,
) -> None:
    """Train a vocabulary with ALBERT's ids: padding 0, unknown 1, [CLS] 2, [SEP] 3, [MASK] 4.

    Pieces are chosen by a unigram language model. Text is first lower-cased and stripped of
    accents, as in ALBERT.
    """
    from albert_rc.text.make_vocabulary import check_settings, make_vocabulary

    check_settings(size, coverage)
    if (out / "config.json").is_file():
        raise UsageError(
            f"--out {out} holds a model, whose weights belong to its own vocabulary; give another "
            "folder"
        )
    require_folder("--out", out)
    examined = open_text(text, on_error)
    sentences = _sentences(examined.sources)
    made = make_vocabulary(
        sentences, size, out, lower=not cased, keep_accents=accents, coverage=coverage
    )
    list_rejects(out, examined)
    typer.echo(f"{out / 'spiece.model'}: {made.size:,} pieces")


def _sentences(sources: list[Source]) -> Iterator[str]:
    from albert_rc.corpus.documents import no_text, read_paragraphs, sentences

    some = False
    for source in sources:
        for paragraph in read_paragraphs(source):
            if paragraph is not None:
                some = True
                yield from sentences(paragraph)
    if not some:
        raise no_text(sources)
