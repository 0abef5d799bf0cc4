"""Checking and encoding of chunks of papers, the work that processes and machines share."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from albert_rc.papers.formats import READERS, check_chunk
from albert_rc.papers.ids import PaperRecord
from albert_rc.papers.raw import Chunk, paper_place
from albert_rc.papers.schema import Kind, Passage, Problem
from albert_rc.stores.encode import UnfitError
from albert_rc.stores.pack import Packed, pack
from albert_rc.text.tokenizer import Tokenizer, load_tokenizer


@dataclass(frozen=True, slots=True)
class ChunkTask:
    """A chunk to encode."""

    split: int
    """Index of its split."""
    format_name: str
    chunk: Chunk
    name: str
    """Format of the chunk, and SHA-256 of all content read up to the chunk's end."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """An encoded chunk."""

    records: list[PaperRecord]
    packed: Packed
    """The valid papers."""


@dataclass(frozen=True)
class ChunkEncoder:
    """Checks and encodes chunks, in this process or in a worker."""

    tokenizer: Tokenizer
    max_length: int
    strict: bool = False
    """Whether to refuse papers that can only be read by guessing."""

    def __call__(self, task: ChunkTask) -> Encoded:
        """Encode a chunk."""
        kind = READERS[task.format_name].kind
        checked = list(check_chunk(task.chunk, task.format_name, self.strict))
        passages = [passage for _, passage in checked if passage is not None]
        try:
            packed = pack(kind, passages, self.tokenizer, self.max_length)
        except UnfitError:
            return self._one_by_one(kind, task.chunk, checked)
        return Encoded([record for record, _ in checked], packed)

    def _one_by_one(
        self, kind: Kind, chunk: Chunk, checked: Iterable[tuple[PaperRecord, Passage | None]]
    ) -> Encoded:
        """Encode a chunk in which the papers that do not fit into the window become problems."""
        packed, records = pack(kind, [], self.tokenizer, self.max_length), []
        for record, passage in checked:
            records.append(record)
            if passage is None:
                continue
            try:
                packed.extend(pack(kind, [passage], self.tokenizer, self.max_length))
            except UnfitError as error:
                place = paper_place(chunk[record.source].place, record.number)
                found = (*record.problems, Problem(place, error.said))
                records[-1] = record._replace(good=False, problems=found)
        return Encoded(records, packed)


def start_worker(vocabulary: Path, max_length: int, strict: bool) -> ChunkEncoder:
    """A worker's encoder.

    Args:
        vocabulary: folder of the tokenizer.
        max_length: window in tokens.
        strict: whether to refuse papers that can only be read by guessing.
    """
    # The workers share the cores; each runs single-threaded.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return ChunkEncoder(load_tokenizer(vocabulary, num_threads=1), max_length, strict)
