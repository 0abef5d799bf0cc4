"""Streaming preprocessing of raw papers into stores, with worker processes.

A chunk of papers goes to a worker as bytes and returns as flat arrays, which are appended to
anonymous temporary files. When all papers are known, the arrays are written into the stores in
natural order of the ids. Memory grows with the number of papers only by the ids, a few numbers per
paper, and the problems. An interrupted large job can be continued (`journal`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from albert_rc import __version__
from albert_rc.io.atomic import nameless_file
from albert_rc.io.files import existing_folder
from albert_rc.io.pt import STORE_FORMAT, save_tensors
from albert_rc.io.shards import PAPERS, shard_name
from albert_rc.papers.formats import READERS, collection_format, open_sources
from albert_rc.papers.ids import Register
from albert_rc.papers.raw import Chunk
from albert_rc.papers.schema import Problem
from albert_rc.runtime.engines import TaskEngine
from albert_rc.runtime.pool import worker_count
from albert_rc.stores.chunks import ChunkEncoder, ChunkTask, Encoded, start_worker
from albert_rc.stores.encode import check_max_length
from albert_rc.stores.journal import JOURNAL, Journal, kept
from albert_rc.stores.pack import MEASURES
from albert_rc.stores.writer import Columns, Selection, store_meta, store_summary
from albert_rc.text.tokenizer import Tokenizer

FEW_CHUNKS = 8  # fewer are done before workers would have started


class PreparedSplit:
    """A split whose checked and encoded papers are on disk, to be written in their final order.

    Args:
        path: a folder of papers, or one file.
        name: name of the split.
        format_name: a key of `READERS`; detected if None.
        encoder: the vocabulary and the window.
        open_file: opens a temporary file.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        format_name: str | None,
        encoder: ChunkEncoder,
        open_file: Callable[[], BinaryIO],
    ) -> None:
        self.name, self.path = name, path
        self._sources, self.format = open_sources(path, format_name)
        reader = READERS[self.format]
        self.kind, self.labels, self.metrics = reader.kind, reader.labels, reader.metrics
        self._layout = reader.layout
        self._encoder = encoder
        self._register = Register.of(self._sources, reader.suffixes)
        self._columns = Columns(self.kind, encoder.tokenizer.size, open_file)
        self._kept = array("i")
        self._order: Sequence[int] = ()

    def tasks(self, number: int) -> Iterator[ChunkTask]:
        """The chunks to encode; `number` is the split's index."""
        for chunk in self._sources.chunks(self._layout):
            yield ChunkTask(number, self.format, chunk, f"{self.format} {self._sources.hash}")

    def add(self, chunk: Chunk, encoded: Encoded) -> None:
        """Add a chunk's papers; chunks must come in order."""
        index = len(self._columns)
        self._columns.add(encoded.packed)
        for record in encoded.records:
            if self._register.add(chunk, record):
                self._kept.append(index)
            index += record.good

    def finish(self) -> None:
        """Sort the papers into natural order, after the last chunk."""
        order = self._register.finish()
        in_place = isinstance(order, range) and len(order) == len(self._columns)
        self._order = order if in_place else array("i", (self._kept[i] for i in order))

    def require_fit(self, papers: int = PAPERS) -> None:
        """Refuse more papers than a store can hold.

        Args:
            papers: maximum number of papers in a store.

        Raises:
            DataError: a store is too large.
        """
        for span in self._spans(papers):
            self._columns.select(self._order[span]).tensors()

    @property
    def _chosen(self) -> Selection:
        return self._columns.select(self._order)

    @property
    def ids(self) -> list[str]:
        """Ids of the kept papers, in natural order."""
        return self._register.ids

    @property
    def levels(self) -> list[str | None]:
        """Levels of the kept papers."""
        return self._register.levels

    @property
    def problems(self) -> list[Problem]:
        """All problems, in the order of the files."""
        return self._register.problems

    @property
    def errors(self) -> list[Problem]:
        """The problems that make a paper unusable."""
        return [p for p in self.problems if p.severity == "error"]

    @property
    def num_papers(self) -> int:
        """Number of usable papers."""
        return len(self.ids)

    @property
    def num_rejected(self) -> int:
        """Number of papers left out because of an error."""
        return self._register.num_rejected

    @property
    def source_hash(self) -> str:
        """SHA-256 over the names and bytes of the files read."""
        return self._sources.hash

    def save(self, path: Path) -> None:
        """Write the store to `path`; wrap it in `atomic_path` or `write_together`."""
        self._save(path, slice(None))

    def save_shards(self, folder: Path, papers: int) -> None:
        """Write the store to a folder in shards of that many papers; wrap it in `atomic_folder`."""
        spans = self._spans(papers)
        for number, span in enumerate(spans):
            self._save(folder / shard_name(number, len(spans)), span)

    def _save(self, path: Path, span: slice) -> None:
        tokenizer, max_length = self._encoder.tokenizer, self._encoder.max_length
        chosen = self._columns.select(self._order[span])
        meta = store_meta(self, chosen, tokenizer, max_length, span)
        save_tensors(path, chosen.tensors(), meta)

    def _spans(self, papers: int) -> list[slice]:
        """The ranges of papers of the shards."""
        return [slice(i, i + papers) for i in range(0, len(self._order), papers)]

    def summary(self) -> str:
        """Content and truncation, as a line."""
        chosen = self._chosen
        return store_summary(
            self.kind, self.num_papers, chosen.num_questions, chosen.num_items, chosen.cuts()
        )


@contextmanager
def prepare_collection(
    places: Mapping[str, Path],
    tokenizer: Tokenizer,
    max_length: int,
    *,
    scratch: Path,
    format_name: str | None = None,
    workers: int | None = None,
    strict: bool = False,
    engine: TaskEngine | None = None,
    on_event: Callable[[str], None] = lambda said: None,
) -> Iterator[list[PreparedSplit]]:
    """Read, check and encode every split of a collection.

    Args:
        places: path of each split, from `find_splits`.
        tokenizer: the tokenizer of the model that will read the stores.
        max_length: window in tokens, special tokens included.
        scratch: the folder that the stores will be in; it may not exist yet. Temporary files, as
            large as the stores, are made there or in its nearest existing ancestor. Only the
            journal of a large job that was stopped remains.
        format_name: a key of `READERS`; detected by default, one for all splits.
        workers: number of encoding processes; by default the number of cores, 1 for this process
            only. A few papers are encoded in this process anyway.
        strict: refuse papers that can only be read by guessing.
        engine: where papers are encoded; in processes of this machine by default.
        on_event: called with a sentence when work of an earlier run is used or kept.

    Yields:
        The splits, ready to be saved inside the block.

    Raises:
        DataError: nothing at one of the paths, or a table of an unknown task.
        UsageError: unknown format; a table that fits several tasks; too short a window; fewer
            than one worker.
        OutOfMemoryError: the system killed a worker.
    """
    engine = engine or TaskEngine()
    if engine.is_local or workers is not None:
        workers = worker_count(workers)
    check_max_length(max_length)
    encoder = ChunkEncoder(tokenizer, max_length, strict)
    format_name = collection_format(places, format_name)
    with ExitStack() as stack:

        def open_file() -> BinaryIO:
            # Anonymous (or deleted when closed): nothing remains even if the process is killed.
            return cast(BinaryIO, stack.enter_context(nameless_file(existing_folder(scratch))))

        splits = [
            PreparedSplit(path, name, format_name, encoder, open_file)
            for name, path in places.items()
        ]
        tasks = chain.from_iterable(split.tasks(i) for i, split in enumerate(splits))
        version = (STORE_FORMAT, __version__, str(MEASURES))
        made_with = (*version, tokenizer.fingerprint, max_length, strict, *places)
        journal = stack.enter_context(kept(scratch / JOURNAL, made_with, on_event))
        results = _encoded(tasks, encoder, workers, engine, journal, on_event)
        with closing(results):  # also ends the workers after an error
            for task, encoded in results:
                splits[task.split].add(task.chunk, encoded)
        for split in splits:
            split.finish()
        yield splits


def _encoded(
    tasks: Iterator[ChunkTask],
    encoder: ChunkEncoder,
    workers: int | None,
    engine: TaskEngine,
    journal: Journal,
    on_event: Callable[[str], None],
) -> Generator[tuple[ChunkTask, Encoded], None, None]:
    for task in tasks:
        encoded = journal.replay(task.name, task.chunk)
        if encoded is None:
            tasks = chain([task], tasks)
            break
        yield task, encoded
    if journal.num_replayed:
        on_event(
            f"continuing after {journal.num_replayed:,} papers that an earlier run had encoded"
        )
    with closing(_encoded_anew(tasks, encoder, workers, engine)) as results:
        for task, encoded in results:
            journal.add(task.name, task.chunk, encoded)
            yield task, encoded


def _encoded_anew(
    tasks: Iterator[ChunkTask], encoder: ChunkEncoder, workers: int | None, engine: TaskEngine
) -> Generator[tuple[ChunkTask, Encoded], None, None]:
    first = list(islice(tasks, FEW_CHUNKS))
    every = chain(first, tasks)
    few = len(first) < FEW_CHUNKS
    if not first or (engine.is_local and (workers == 1 or few)):
        return ((task, encoder(task)) for task in every)
    start = partial(start_worker, encoder.tokenizer.folder, encoder.max_length, encoder.strict)
    return engine.map_in_order(start, every, workers)
