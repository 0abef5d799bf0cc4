"""`albert-rc preprocess`: raw papers to .pt stores."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import DEFAULT_MODEL, example, leave_cleanly, say
from albert_rc.cli.outputs import require_folder
from albert_rc.cli.papers import Format, Strict, say_problems, say_unread
from albert_rc.errors import UsageError
from albert_rc.io.messages import counted
from albert_rc.io.shards import PAPERS
from albert_rc.model.config import LONGEST
from albert_rc.papers.opening import remote_path

if TYPE_CHECKING:
    from albert_rc.stores.preprocess import PreparedSplit

_PLACE_IN_FILE = re.compile(r"(:\d+|\[\d+\])$")
"""The number of a paper in its file, as in `dev.jsonl:2` and `dev.json[2]`."""


@example("albert-rc preprocess papers --model albert/albert-xxlarge-v2 --out data")
def preprocess(
    raw: Annotated[
        Path,
        typer.Argument(
            help="Raw papers: a folder with train, dev and test, one of these splits, or a file. "
            "Files may be compressed (.gz, .zst) or Parquet; an address such as "
            "s3://bucket/papers is read over the network.",
            parser=remote_path,
        ),
    ] = Path("data/raw_data"),
    out: Annotated[Path, typer.Option(help="Folder for the .pt stores.")] = Path("data"),
    model: options.VocabularyOf = DEFAULT_MODEL,
    format_: Format = None,
    max_length: Annotated[
        int,
        typer.Option(
            min=1,
            max=LONGEST,
            help="Maximum length of the model's input in tokens; longer cloze and SQuAD papers are "
            "split into several windows; of other passages, the part that shares most words with "
            "the question is kept, and table rows are truncated.",
        ),
    ] = 512,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            help="What to do with invalid papers: stop, or skip them and list them in "
            "OUT/rejects.jsonl."
        ),
    ] = "stop",
    strict: Strict = False,
    workers: options.PoolWorkers = None,
    shard_papers: Annotated[
        int,
        typer.Option(
            min=1,
            max=PAPERS,
            help="Maximum number of papers in a store; a larger split becomes a folder of stores.",
            hidden=True,
        ),
    ] = PAPERS,
    set_: settings.Set = None,
    engine: options.EngineName = "local",
    address: options.Address = None,
) -> None:
    """Turn raw papers into tensors: OUT/train.pt, OUT/dev.pt, OUT/test.pt."""
    from albert_rc.checkpoints.hub import resolve_source
    from albert_rc.papers.files import REJECTS
    from albert_rc.papers.formats import require_good
    from albert_rc.papers.splits import find_splits
    from albert_rc.runtime.engines import TaskEngine
    from albert_rc.stores.preprocess import prepare_collection
    from albert_rc.stores.shards import SUFFIX
    from albert_rc.text.tokenizer import load_tokenizer

    # Millions of small strings and lists are created and none is freed: garbage collection would
    # take a fifth of the time.
    gc.disable()
    leave_cleanly("stopped; no store was written")
    require_folder("--out", out)
    places = find_splits(raw)
    for name in places:
        if (old := out / f"{name}{SUFFIX}").exists():
            raise UsageError(f"{old} is from an earlier run; remove it, or give another --out")
    say_unread(raw)
    tokenizer = load_tokenizer(resolve_source(model), num_threads=workers or 0)
    with prepare_collection(
        places,
        tokenizer,
        max_length,
        scratch=out,
        format_name=format_,
        workers=workers,
        strict=strict,
        engine=TaskEngine(name=engine, address=address),
        on_event=say,
    ) as papers:
        require_good(papers, on_error)
        for split in papers:
            split.require_fit(shard_papers)
        stores = _write_stores(papers, out, shard_papers)
        for old in sorted({*out.glob("*.pt"), *out.glob(f"*{SUFFIX}")} - set(stores)):
            sharded = old.with_suffix(SUFFIX)
            rest = f"; {sharded.name} is used instead" if sharded in stores else ""
            say(f"note: {old} is from an earlier run and was left unchanged{rest}")
        say_problems(problem for split in papers for problem in split.problems)
        for path, split in stores.items():
            typer.echo(f"{path}: {split.summary()}, {_size(path)}")
        rejected = sum(split.num_rejected for split in papers)
        if rejected:
            typer.echo(
                f"{counted(rejected, 'paper')} skipped; {out / REJECTS} lists them with their "
                "problems"
            )


def _write_stores(
    papers: Sequence[PreparedSplit], out: Path, shard_papers: int
) -> dict[Path, PreparedSplit]:
    """Write all stores and the list of what was left out, or nothing; returns the stores."""
    from albert_rc.io.atomic import atomic_folder, holding, write_together
    from albert_rc.papers.files import REJECTS
    from albert_rc.papers.formats import rejects
    from albert_rc.stores.shards import SUFFIX

    stores: dict[Path, PreparedSplit] = {}
    writers: dict[Path, Callable[[Path], None]] = {}
    content = _other_rejects(out / REJECTS, papers)
    content += rejects(error for split in papers for error in split.errors)
    with ExitStack() as folders:  # renamed when all is written
        for split in papers:
            path = out / f"{split.name}.pt"
            if split.num_papers > shard_papers:
                path = path.with_suffix(SUFFIX)
                split.save_shards(folders.enter_context(atomic_folder(path)), shard_papers)
            else:
                writers[path] = split.save
            stores[path] = split
        if content:
            writers[out / REJECTS] = holding(content)
        write_together(writers)
    if not content:
        (out / REJECTS).unlink(missing_ok=True)
    return stores


def _other_rejects(path: Path, papers: Sequence[PreparedSplit]) -> bytes:
    """What an earlier list says about papers of other splits, if their stores are still there."""
    from albert_rc.io.json import parse_json
    from albert_rc.papers.files import first_part
    from albert_rc.stores.shards import SUFFIX

    names = {split.name for split in papers}
    stores = [*path.parent.glob("*.pt"), *path.parent.glob(f"*{SUFFIX}")]
    if not path.is_file() or all(store.stem in names for store in stores):
        return b""
    places = {first_part(split.path) for split in papers}
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            place = _PLACE_IN_FILE.sub("", parse_json(line)["file"])
        except (ValueError, KeyError, TypeError):
            continue
        if places.isdisjoint(Path(place).parts[:1]):
            kept.append(line)
    return b"".join(kept)


def _size(path: Path) -> str:
    from albert_rc.stores.shards import is_sharded

    files = sorted(path.iterdir()) if is_sharded(path) else [path]
    size = f"{sum(file.stat().st_size for file in files) / 1e6:.1f} MB"
    return f"{size} in {counted(len(files), 'shard')}" if is_sharded(path) else size
