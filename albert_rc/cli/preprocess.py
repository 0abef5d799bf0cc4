"""`albert-rc preprocess`: raw papers to .pt stores."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from albert_rc.cli import options
from albert_rc.cli.console import DEFAULT_MODEL, example, leave_cleanly, say
from albert_rc.cli.papers import Format, Strict, say_unread
from albert_rc.model.config import LONGEST


def preprocess(
    raw: Annotated[
        Path, typer.Argument(help="Papers: a folder with train, dev, test; one of them; or a file.")
    ] = Path("data/raw_data"),
    out: Annotated[Path, typer.Option(help="Folder for the .pt stores.")] = Path("data"),
    model: Annotated[
        str, typer.Option(help="Folder or hub id; only its vocabulary is needed.")
    ] = DEFAULT_MODEL,
    format_: Format = None,
    max_length: Annotated[
        int,
        typer.Option(
            min=1,
            max=LONGEST,
            help="Window in tokens; longer papers become several windows.",
        ),
    ] = 512,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            help="What to do about bad papers: stop, or skip them and list them in rejects.jsonl."
        ),
    ] = "stop",
    strict: Strict = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=options.MOST_WORKERS,
            help="Number of processes (default: all cores).",
            hidden=True,
        ),
    ] = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
) -> None:
    """Turn raw papers into tensors: OUT/train.pt, OUT/dev.pt, OUT/test.pt."""
    from albert_rc.checkpoints.hub import resolve_source
    from albert_rc.io.atomic import write_together
    from albert_rc.io.files import existing_folder
    from albert_rc.papers.files import REJECTS
    from albert_rc.papers.formats import find_splits, rejects, require_good
    from albert_rc.runtime.engines import Engine
    from albert_rc.stores.preprocess import prepare_collection
    from albert_rc.text.tokenizer import load_tokenizer

    # Millions of small strings and lists are created and none is freed: garbage collection would
    # take a fifth of the time.
    gc.disable()
    leave_cleanly("stopped; nothing was written")
    # Invalid options are reported before the papers are read.
    require_good([], on_error)
    places = find_splits(raw)
    say_unread(raw)
    tokenizer = load_tokenizer(resolve_source(model), num_threads=workers or 0)
    with prepare_collection(
        places,
        tokenizer,
        max_length,
        scratch=existing_folder(out),
        format_name=format_,
        workers=workers,
        strict=strict,
        engine=Engine(name=engine, address=address),
    ) as papers:
        require_good(papers, on_error)
        for split in papers:
            split.require_fit()
        stores = {out / f"{split.name}.pt": split for split in papers}
        writers: dict[Path, Callable[[Path], None]] = {
            path: split.save for path, split in stores.items()
        }
        left_out = out / REJECTS
        content = rejects(papers)
        if content:
            writers[left_out] = partial(_write, content)
        write_together(writers)
        if not content:
            left_out.unlink(missing_ok=True)
        for old in sorted(set(out.glob("*.pt")) - set(stores)):
            say(f"note: {old} is of an earlier run and was left as it is")
        for split in papers:
            for problem in split.problems:
                if problem.severity == "warning":
                    say(f"warning: {problem}")
        for path, split in stores.items():
            size = path.stat().st_size / 1e6
            typer.echo(f"{path}: {split.summary()}, {size:.1f} MB")
        rejected = sum(split.num_rejected for split in papers)
        if rejected:
            typer.echo(f"{rejected} paper(s) skipped; {left_out} names them and what is wrong")


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


preprocess.__doc__ = f"{preprocess.__doc__}\n\n" + example(
    "albert-rc preprocess papers --model models/albert-xxlarge-v2 --out data"
)
