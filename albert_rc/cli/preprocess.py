"""`albert-rc preprocess`: raw papers to .pt stores."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from albert_rc.cli.console import DEFAULT_MODEL, example, say


def preprocess(
    raw: Annotated[
        Path, typer.Argument(help="Papers: a folder with train, dev, test; one of them; or a file.")
    ] = Path("data/raw_data"),
    out: Annotated[Path, typer.Option(help="Folder for the .pt stores.")] = Path("data"),
    model: Annotated[
        str, typer.Option(help="Folder or hub id; only its vocabulary is needed.")
    ] = DEFAULT_MODEL,
    format_: Annotated[
        str | None, typer.Option("--format", help="cloze, race or dream; sniffed by default.")
    ] = None,
    max_length: Annotated[
        int, typer.Option(help="Window in tokens; longer papers become several windows.")
    ] = 512,
    on_error: Annotated[
        str, typer.Option(help="`stop` at bad papers, or `skip` them into rejects.jsonl.")
    ] = "stop",
) -> None:
    """Turn raw papers into tensors: OUT/train.pt, OUT/dev.pt, OUT/test.pt."""
    from albert_rc.data.readers import read_collection, rejects, require_good
    from albert_rc.data.shards import make_store
    from albert_rc.files import write_together
    from albert_rc.loading import resolve_source
    from albert_rc.tokenizer import load_tokenizer

    # Millions of small strings and lists are made and none dies: looking for garbage among them
    # takes a fifth of the time.
    gc.disable()
    papers = read_collection(raw, format_)
    require_good(papers, on_error)
    tokenizer = load_tokenizer(resolve_source(model))
    stores = {
        out / f"{split.name}.pt": make_store(split, tokenizer, max_length) for split in papers
    }
    writers: dict[Path, Callable[[Path], None]] = {
        path: store.save for path, store in stores.items()
    }
    left_out = out / "rejects.jsonl"
    content = rejects(papers)
    if content:
        writers[left_out] = partial(_write, content)
    else:
        left_out.unlink(missing_ok=True)
    write_together(writers)
    for old in sorted(set(out.glob("*.pt")) - set(stores)):
        say(f"note: {old} is of an earlier run and was left as it is")
    for split in papers:
        for problem in split.problems:
            if problem.severity == "warning":
                say(f"warning: {problem}")
    for path, store in stores.items():
        size = path.stat().st_size / 1e6
        typer.echo(f"{path}: {store.summary()}, {size:.1f} MB")
    rejected = sum(split.num_rejected for split in papers)
    if rejected:
        typer.echo(f"{rejected} paper(s) skipped; {left_out} names them and what is wrong")


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


preprocess.__doc__ = f"{preprocess.__doc__}\n\n" + example(
    "albert-rc preprocess papers --model models/albert-xxlarge-v2 --out data"
)
