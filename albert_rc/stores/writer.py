"""Columns of a split on disk, reordered and written as a store in a stream."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, NotRequired, TypedDict

from albert_rc import __version__
from albert_rc.errors import DataError
from albert_rc.io.messages import counted
from albert_rc.io.pt import TensorStream
from albert_rc.papers.schema import Checked, Kind, question_keys
from albert_rc.stores.pack import COLUMNS, MEASURES, TYPECODES, Packed, dtype_of
from albert_rc.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_OFFSET = 2**31 - 1  # offsets are 32 bits wide
_BLOCK = 2**20  # bytes


class Cuts(TypedDict, total=False):
    """Numbers of truncated papers and tokens; which of them depends on the kind of papers."""

    num_long: int
    """Cloze and span: papers or questions that need several windows."""
    num_questions_cut: int
    """Span: truncated questions; stores of earlier versions lack it."""
    num_cut: int
    """Choice and label: questions or rows with a truncated text."""
    tokens_cut: int
    tokens_before: int


class StoreMeta(Cuts):
    """A store's metadata."""

    kind: Kind
    split: str
    source_format: str
    source_hash: str
    vocabulary: str
    """Fingerprint of the tokenizer."""
    vocab_size: int
    max_length: int
    made_with: str
    ids: list[str]
    """Of the papers."""
    levels: list[str | None]
    labels: NotRequired[list[str]]
    metrics: NotRequired[list[str]]
    num_specials: NotRequired[int]
    """Special tokens in a pair of texts."""
    question_keys: NotRequired[list[str]]


class Columns:
    """The columns of a growing number of papers, each in its own file.

    Args:
        kind: kind of the papers.
        vocab_size: determines the width of ids.
        open_file: opens a file to write to and read from, in memory or on disk.
    """

    def __init__(self, kind: Kind, vocab_size: int, open_file: Callable[[], BinaryIO]) -> None:
        self.kind = kind
        self._dtypes = {
            name: dtype_of(column, vocab_size) for name, column in COLUMNS[kind].items()
        }
        self._files = {
            name: open_file() for name, column in COLUMNS[kind].items() if not column.owner
        }
        self._measures = array("i")

    def __len__(self) -> int:
        return len(self._measures) // len(MEASURES[self.kind])

    def add(self, packed: Packed) -> None:
        """Append papers."""
        self._measures.extend(packed.measures)
        for name, values in packed.columns.items():
            self._files[name].write(memoryview(values).cast("B"))

    def select(self, order: Sequence[int]) -> Selection:
        """The given papers, in the given order."""
        return Selection(self, order)

    def measure(self, name: str) -> NDArray[np.int32]:
        """The number of units called `name` in each paper."""
        import numpy as np

        names = MEASURES[self.kind]
        table = np.frombuffer(self._measures, np.int32).reshape(-1, len(names))
        counts: NDArray[np.int32] = table[:, names.index(name)]
        return counts

    def dtype(self, name: str) -> str:
        """The type of a column's values."""
        return self._dtypes[name]

    def blocks(self, name: str, spans: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """The bytes of a column for some ranges of values, in blocks."""
        file = self._files[name]
        size = array(TYPECODES[self._dtypes[name]]).itemsize
        parts: list[bytes] = []
        waiting = 0
        for first, last in spans:
            file.seek(first * size)
            left = (last - first) * size
            while left and (part := file.read(min(left, _BLOCK))):
                left -= len(part)
                waiting += len(part)
                parts.append(part)
                if waiting >= _BLOCK:
                    yield b"".join(parts)
                    parts, waiting = [], 0
        yield b"".join(parts)


class Selection:
    """Some papers of `Columns` in a given order: the content of a store."""

    def __init__(self, columns: Columns, order: Sequence[int]) -> None:
        self._columns = columns
        self._order = order
        # A range means all of them in original order: no lookup is needed.
        self._as_they_came = isinstance(order, range) and len(order) == len(columns)

    def each(self, name: str) -> NDArray[np.int32]:
        """The number of units called `name` in each chosen paper."""
        counts = self._columns.measure(name)
        return counts if self._as_they_came else counts[self._order]

    def total(self, name: str) -> int:
        """Total number of units called `name`."""
        return int(self.each(name).sum(dtype="int64"))

    def tensors(self) -> dict[str, TensorStream]:
        """The store's tensors.

        Raises:
            DataError: there are more values than 32-bit offsets can address.
        """
        streams = {}
        for name, column in COLUMNS[self._columns.kind].items():
            length = self.total(column.per) + bool(column.counts)
            if column.counts:
                check_total(column.counts, self.total(column.counts))
                blocks = self._offsets
            else:
                blocks = self._owners if column.owner else self._values
            streams[name] = TensorStream(
                self._columns.dtype(name), length, partial(blocks, name, column.per)
            )
        return streams

    @property
    def num_questions(self) -> int:
        """Blanks or questions of the store."""
        return self.total("question")

    @property
    def num_items(self) -> int:
        """Windows, or questions."""
        return self.total("window" if self._columns.kind in ("cloze", "span") else "question")

    def cuts(self) -> Cuts:
        """Numbers of truncated papers and tokens, for the store's metadata."""
        if self._columns.kind == "cloze":
            return {"num_long": self.total("long")}
        if self._columns.kind == "span":
            return {"num_long": self.total("long"), "num_questions_cut": self.total("question_cut")}
        cut = self.total("token_cut")
        return {
            "num_cut": self.total("cut"),
            "tokens_cut": cut,
            "tokens_before": cut + self.total("kept"),
        }

    def _spans(self, per: str) -> Iterable[tuple[int, int]]:
        """First and last value of each run of consecutive papers."""
        import numpy as np

        counts = self._columns.measure(per)
        ends = counts.cumsum(dtype=np.int64)
        if self._as_they_came:
            return [(0, int(ends[-1]))] if len(ends) else []
        order = np.asarray(self._order, np.int64)
        if not len(order):
            return []
        breaks = np.flatnonzero(np.diff(order) != 1)
        first = order[np.concatenate([[0], breaks + 1])]
        last = order[np.concatenate([breaks, [len(order) - 1]])]
        return zip((ends - counts)[first].tolist(), ends[last].tolist(), strict=True)

    def _values(self, name: str, per: str) -> Iterator[bytes]:
        return self._columns.blocks(name, self._spans(per))

    def _offsets(self, name: str, per: str) -> Iterator[bytes]:
        import numpy as np

        total = 0
        yield np.zeros(1, np.int32).tobytes()
        for block in self._values(name, per):
            sums = np.frombuffer(block, np.int32).cumsum(dtype=np.int64) + total
            if len(sums):
                total = int(sums[-1])
            yield sums.astype(np.int32).tobytes()

    def _owners(self, name: str, per: str) -> Iterator[bytes]:
        import numpy as np

        counts = self.each(per)
        for start in range(0, len(counts), 2**14):
            part = counts[start : start + 2**14]
            owners = np.arange(start, start + len(part), dtype=np.int32)
            yield owners.repeat(part).tobytes()


def check_total(thing: str, total: int) -> None:
    """Refuse more units than a store can hold.

    Raises:
        DataError: more than `MAX_OFFSET`.
    """
    if total > MAX_OFFSET:
        raise DataError(
            f"{total:,} {thing}s are too many for one store, which holds {MAX_OFFSET:,}; "
            "make several smaller ones with `preprocess --shard-papers`"
        )


def store_meta(
    split: Checked,
    selection: Selection,
    tokenizer: Tokenizer,
    max_length: int,
    span: slice = slice(None),
) -> StoreMeta:
    """A store's metadata; `span` says which of the split's papers it holds."""
    ids = split.ids[span]
    meta: StoreMeta = {
        "kind": split.kind,
        "split": split.name,
        "source_format": split.format,
        "source_hash": split.source_hash,
        "vocabulary": tokenizer.fingerprint,
        "vocab_size": tokenizer.size,
        "max_length": max_length,
        "made_with": f"albert-rc {__version__}",
        "ids": ids,
        "levels": split.levels[span],
    }
    if split.kind == "label":
        meta |= {"labels": list(split.labels), "metrics": list(split.metrics)}
    if split.kind in ("choice", "span"):
        meta["num_specials"] = 2 + tokenizer.separators_in_pair
    if split.kind == "choice":
        counts = selection.each("question").tolist()
        keys = map(question_keys, ids, counts)
        return {**meta, **selection.cuts(), "question_keys": list(chain.from_iterable(keys))}
    return {**meta, **selection.cuts()}


def store_summary(
    kind: Kind, num_papers: int, num_questions: int, num_items: int, cuts: Cuts
) -> str:
    """Content and truncation of a store, as a line; its items are windows or questions.

    Truncation is left out where it is not known, as in subsets of a store.
    """
    thing = "blank" if kind == "cloze" else "question"
    line = f"{counted(num_papers, 'paper')}, {counted(num_questions, thing)}"
    cut, lost = cuts.get("num_cut"), cuts.get("tokens_cut", 0)
    if kind == "label":
        line = counted(num_papers, "row")
        if cut is not None:
            line += f", {cut:,} of them truncated ({counted(lost, 'token')})"
    elif kind in ("cloze", "span"):
        line += f", {counted(num_items, 'window')}"
        if long := cuts["num_long"]:
            line += f" (several for {counted(long, 'paper' if kind == 'cloze' else 'question')})"
        if question_cut := cuts.get("num_questions_cut"):
            line += f", {counted(question_cut, 'question')} truncated"
    elif cut:
        share = lost / max(1, cuts.get("tokens_before", 0))
        line += f"; passage truncated for {counted(cut, 'question')} "
        line += f"({counted(lost, 'token')}, {share:.2%})"
    return line
