"""Checking and encoding of chunks of papers, the work that processes and machines share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albert_rc.errors import DataError
from albert_rc.papers.formats import READERS, check_chunk
from albert_rc.papers.ids import PaperRecord
from albert_rc.papers.raw import Chunk
from albert_rc.papers.schema import Kind, Passage
from albert_rc.stores.pack import MEASURES, Packed, pack
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
    unfit: dict[int, str]
    """Messages for papers that do not fit into the window, by index among the valid papers."""


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
        packed, unfit = self._pack(kind, passages)
        return Encoded([record for record, _ in checked], packed, unfit)

    def _pack(self, kind: Kind, passages: Sequence[Passage]) -> tuple[Packed, dict[int, str]]:
        try:
            return pack(kind, passages, self.tokenizer, self.max_length), {}
        except DataError:
            pass  # some papers do not fit: find out which, since they may be rejected anyway
        packed = pack(kind, [], self.tokenizer, self.max_length)
        unfit = {}
        for index, passage in enumerate(passages):
            try:
                packed.extend(pack(kind, [passage], self.tokenizer, self.max_length))
            except DataError as error:
                unfit[index] = str(error)
                packed.measures.extend([0] * len(MEASURES[kind]))
        return packed, unfit


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
