"""`albert-rc pretrain data`: sequences for pretraining from documents."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import DEFAULT_MODEL, bar, example, leave_cleanly, say
from albert_rc.cli.outputs import require_folder
from albert_rc.cli.papers import say_unread
from albert_rc.cli.texts import OnTextError, list_rejects, open_text
from albert_rc.errors import DataError, UsageError
from albert_rc.fields import LAST_SEED
from albert_rc.io.messages import counted
from albert_rc.model.config import LONGEST

if TYPE_CHECKING:
    from albert_rc.corpus.cut import Count
    from albert_rc.corpus.documents import Source


@example("albert-rc pretrain data text/ --model models/vocabulary --out data/corpus")
def pretrain_data(
    text: Annotated[
        list[Path],
        typer.Argument(help="Files or folders of text, or of exam papers (with blanks filled in)."),
    ],
    model: options.VocabularyOf = DEFAULT_MODEL,
    out: Annotated[Path, typer.Option(help="Folder for train/ and dev/.")] = Path("data/corpus"),
    max_length: Annotated[
        int, typer.Option(min=32, max=LONGEST, help="Maximum length of a sequence in tokens.")
    ] = 512,
    short: Annotated[
        float, typer.Option(help="Share of sequences with a shorter, random length.", hidden=True)
    ] = 0.1,
    dev: Annotated[
        float, typer.Option(help="Share of the documents held out in dev/.", hidden=True)
    ] = 0.01,
    documents: Annotated[
        Literal["files", "blank-lines"],
        typer.Option(
            help="What counts as a document: each text file (files), or text between blank lines "
            "(blank-lines).",
            hidden=True,
        ),
    ] = "files",
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            help="Exam papers; sequences that share over 30% of their 5-grams with one of them are "
            "left out. May be given several times."
        ),
    ] = None,
    shard_size: Annotated[
        str, typer.Option(help="Amount of text per shard, such as 64MB.", hidden=True)
    ] = "16MB",
    part: Annotated[
        str,
        typer.Option(
            help="Part of the shards to make, to divide the work between machines: 2/8 is the "
            "second of eight parts.",
            hidden=True,
        ),
    ] = "1/1",
    on_error: OnTextError = "stop",
    workers: options.PoolWorkers = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            max=LAST_SEED,
            help="Random seed for cutting documents and for choosing dev documents.",
            hidden=True,
        ),
    ] = 0,
    engine: options.EngineName = "local",
    address: options.Address = None,
    set_: settings.Set = None,
) -> None:
    """Cut documents into pairs of consecutive segments, stored in shards.

    Shards that already exist for the same text and settings are kept, so the same command
    continues interrupted work. Words are masked and segments swapped later, by `pretrain`.
    """
    from albert_rc.checkpoints.hub import resolve_source
    from albert_rc.corpus.cut import Count, Cut, ShardMaker, plan_hash, plan_shards
    from albert_rc.corpus.shards import require_same_plan
    from albert_rc.io.sizes import parse_size
    from albert_rc.papers.files import require_papers
    from albert_rc.runtime.engines import TaskEngine
    from albert_rc.runtime.pool import worker_count
    from albert_rc.text.tokenizer import load_tokenizer

    leave_cleanly("stopped; finished shards are kept, and the same command continues")
    where = TaskEngine(name=engine, address=address)
    if engine == "local" or workers is not None:
        workers = worker_count(workers)
    cut = Cut(
        max_length=max_length,
        short=short,
        dev=dev,
        blank_lines=documents == "blank-lines",
        seed=seed,
    )
    require_folder("--out", out)
    shard_bytes = parse_size("--shard-size", shard_size)
    first, step = _part(part)
    for place in exclude or []:
        require_papers(place)
        _require_all_read(place)
    for place in text:
        say_unread(place)
    examined = open_text(text, on_error)
    sources = examined.sources
    folder = resolve_source(model)
    load_tokenizer(folder)  # reports errors before the work begins
    shards = plan_shards(sources, shard_bytes)
    mine = shards[first::step]
    require_same_plan(out, len(shards), dev > 0)
    places = [out / "train", out / "dev"]
    new = [folder for folder in (*places, out, *out.parents) if not folder.exists()]
    make = partial(ShardMaker, out, folder, cut, exclude or [], plan_hash(shards))
    train, held_out = Count(), Count()
    with bar("shards", len(mine), True) as advance:
        count = None if workers is None else min(workers, len(mine)) or 1
        for shard, made in where.map_in_order(make, mine, count):
            train, held_out = train + made.train, held_out + made.dev
            advance(1)
            say(f"{shard.name}: {'already there' if made.kept else made.train.line()}")
    if not train.sequences and step == 1:  # other parts may have some
        for folder in places:
            for shard in mine:
                (folder / shard.name).unlink(missing_ok=True)
        for folder in new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        raise _empty(sources, train, held_out)
    list_rejects(out, examined)
    typer.echo(f"{places[0]}: {train.line()}")
    if held_out.sequences:
        typer.echo(f"{places[1]}: {held_out.line()}")
    elif dev and step == 1:
        say(
            f"note: --dev {dev} holds out none of the {counted(train.documents, 'document')}, so "
            "`pretrain` cannot evaluate its progress; give a larger --dev"
        )
    if step > 1:
        of_all = f"{len(mine)} of {counted(len(shards), 'shard')}"
        typer.echo(f"part {part}: {of_all}")


def _empty(sources: list[Source], train: Count, held_out: Count) -> DataError:
    """The error for a corpus without sequences."""
    from albert_rc.corpus.cut import LEAST
    from albert_rc.corpus.documents import named, no_text

    if held_out.sequences:
        return DataError(
            f"--dev holds out all the text ({counted(held_out.sequences, 'sequence')}) and leaves "
            "nothing to train on; give more text, a smaller --dev or another --seed"
        )
    if train.overlapping or train.overlapping_papers:
        return DataError(f"{named(sources)}: all of it overlaps with --exclude; give other text")
    if not train.documents and not held_out.documents:
        return no_text(sources)
    return DataError(
        f"{named(sources)}: no document has at least {LEAST} tokens, the minimum for a "
        "sequence; give more text"
    )


def _require_all_read(place: Path) -> None:
    """Refuse papers to exclude of which some would not be read, and so not be excluded."""
    from albert_rc.papers.formats import unread_beside
    from albert_rc.papers.splits import collections_in

    if left := [*collections_in(place), *(path for path, _ in unread_beside(place))]:
        raise DataError(
            f"--exclude {place}: {left[0]} is next to its splits, so it would not be read; give "
            "it with an --exclude of its own, or move it"
        )


def _part(part: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", part)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--part {part}: give a part I/N, from 1/N to N/N")
    return int(found[1]) - 1, int(found[2])
