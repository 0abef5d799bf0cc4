"""Cutting of documents into pretraining sequences, written as shards of flat tensors.

A sequence is a pair of consecutive segments of one document, as in BERT's and ALBERT's pretraining:
as many whole sentences as fit, divided in two at a sentence boundary. Sequences do not overlap,
and together contain the document's text. Masks and swaps are drawn when a batch is made
(`corpus.batches`).
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from zlib import crc32

from albert_rc import __version__
from albert_rc.corpus.documents import (
    LeftOut,
    Source,
    grouped,
    read_paragraphs,
    require_whole,
    sentences,
)
from albert_rc.errors import DataError, UsageError
from albert_rc.io.atomic import atomic_path, nameless_file, write_together
from albert_rc.io.files import file_sha256, sha256
from albert_rc.io.json import to_json
from albert_rc.io.messages import counted
from albert_rc.io.pt import TensorStream, load_tensors, save_tensors
from albert_rc.io.shards import shard_name
from albert_rc.papers.formats import read_collection
from albert_rc.papers.overlap import OverlapIndex
from albert_rc.runtime.seeds import mix
from albert_rc.text.normalize import Span
from albert_rc.text.tokenizer import Tokenizer, load_tokenizer

LEAST = 16
"""Minimum tokens of a sequence; a shorter remainder of a document is dropped."""
_AT_ONCE = 2000  # sentences tokenised together
_STRETCH = 2000  # sentences combined at a time, from both ends
_RULE = 6  # version of the cutting rules: shards of earlier versions are made again


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Settings of cutting. With the text and the vocabulary they determine a shard's content."""

    max_length: int = 512
    """Maximum tokens of a sequence, with its three special ones."""
    short: float = 0.1
    """Share of sequences with a shorter maximum, drawn uniformly."""
    dev: float = 0.01
    """Share of the documents held out for dev."""
    blank_lines: bool = False
    """Whether blank lines separate documents, not paragraphs."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_length < 2 * LEAST:
            raise UsageError(f"--max-length {self.max_length} must be at least {2 * LEAST}")
        for flag, share in (("--short", self.short), ("--dev", self.dev)):
            if not 0 <= share <= 1:
                raise UsageError(f"{flag} {share} must be from 0 to 1")


@dataclass
class Count(LeftOut):
    """Statistics of a shard."""

    documents: int = 0
    sequences: int = 0
    tokens: int = 0
    overlapping: int = 0
    """Sequences left out because they overlap with excluded papers."""
    overlapping_papers: int = 0
    """Papers left out completely because they overlap with excluded papers."""
    dropped: int = 0
    """Tokens of remainders shorter than the minimum."""

    def __add__(self, other: Count) -> Count:
        mine, theirs = vars(self), vars(other)
        return Count(**{name: mine[name] + theirs[name] for name in mine})

    def line(self) -> str:
        """The numbers as a sentence."""
        said = ", ".join(
            (
                counted(self.documents, "document"),
                counted(self.sequences, "sequence"),
                counted(self.tokens, "token"),
            )
        )
        if self.dropped:
            said += f"; {counted(self.dropped, 'token')} left out, in pieces of under {LEAST}"
        if self.unanswered:
            papers = counted(self.unanswered, "paper")
            said += f"; {papers} left out without an answer to each blank"
        if self.duplicates:
            said += f"; {counted(self.duplicates, 'duplicate paper')} left out"
        if self.overlapping or self.overlapping_papers:
            said += (
                "; left out for overlapping with --exclude: "
                f"{counted(self.overlapping_papers, 'paper')} "
                f"and {counted(self.overlapping, 'sequence')}"
            )
        return said


class _Columns:
    """The growing tensors of a shard, on disk."""

    def __init__(self, vocab_size: int, folder: Path) -> None:
        self._wide = vocab_size > 2**15
        self._folder, self._token = folder, nameless_file(folder)
        self.length, self._middle, self._document = array("i"), array("i"), array("i")
        self.count = Count()
        self.close = self._token.close

    def add(self, ids: list[int], middle: int) -> None:
        try:
            self._token.write(array("i" if self._wide else "h", ids).tobytes())
        except OSError as error:  # the file has no name
            raise OSError(error.errno, error.strerror, str(self._folder)) from None
        self.length.append(len(ids))
        self._middle.append(middle)
        self._document.append(self.count.documents)

    def streams(self) -> dict[str, TensorStream]:
        def blocks() -> Iterator[bytes]:
            self._token.seek(0)
            while block := self._token.read(2**20):
                yield block

        def column(values: array[int]) -> TensorStream:
            return TensorStream("int32", len(values), lambda: [memoryview(values).cast("B")])

        dtype = "int32" if self._wide else "int16"
        return {
            "token": TensorStream(dtype, sum(self.length), blocks),
            "length": column(self.length),
            "middle": column(self._middle),
            "document": column(self._document),
        }


Sentence = tuple[str, list[int]]


def cut_document(
    sentences: Iterable[Sentence],
    cut: Cut,
    seed: int,
    spans: Callable[[str], list[Span]] | None = None,
) -> Iterator[Sequence]:
    """Consecutive sequences of whole sentences; those shorter than `LEAST` are remainders.

    A sentence that no longer fits is longer than average, and starts the next sequence, so first
    segments would be longer than second ones and reveal the order of a pair. Stretches of text are
    therefore packed alternately from their end and from their start; which comes first is random.

    Args:
        sentences: texts and ids.
        cut: settings of cutting.
        seed: random seed of shorter lengths, directions and segment boundaries.
        spans: the place of each token in a sentence's text; without it, every part of a sentence
            that is longer than a sequence has its whole text.
    """
    draw = random.Random(seed)
    most = cut.max_length - 3  # [CLS], [SEP] and [SEP]
    sentences = iter(sentences)
    backwards = draw.random() < 0.5
    while stretch := list(islice(sentences, _STRETCH)):
        pieces = [p for text, ids in stretch for p in _pieces(text, ids, most, backwards, spans)]
        if backwards:
            filled = list(_filled(pieces[::-1], most, cut.short, draw))[::-1]
            filled = [parts[::-1] for parts in filled]
        else:
            filled = list(_filled(pieces, most, cut.short, draw))
        backwards = not backwards
        for parts in filled:
            yield _sequence(parts, draw)


def _pieces(
    text: str, ids: list[int], most: int, backwards: bool, spans: Callable[[str], list[Span]] | None
) -> Iterator[Sentence]:
    """A sentence; one that is too long is split, and each part has its own text."""
    if len(ids) <= most:
        yield text, ids
        return
    place = spans(text) if spans is not None else [(0, len(text))] * len(ids)
    end = len(ids) % most if backwards else most
    for start in range(end - most if end else 0, len(ids), most):
        part = slice(max(0, start), start + most)
        yield text[place[part][0][0] : place[part][-1][1]], ids[part]


def _filled(
    pieces: list[Sentence], most: int, short: float, draw: random.Random
) -> Iterator[list[Sentence]]:
    """Combine as many parts as fit."""
    waiting: list[Sentence] = []
    held, room = 0, _room(draw, most, short)
    for text, piece in pieces:
        if held + len(piece) > room and held >= LEAST:
            yield waiting
            waiting, held, room = [], 0, _room(draw, most, short)
        if held + len(piece) > most:  # one or two sentences, shorter than the minimum
            yield waiting
            waiting, held = [], 0
        waiting.append((text, piece))
        held += len(piece)
    if waiting:
        yield waiting


def _room(draw: random.Random, most: int, short: float) -> int:
    return draw.randint(LEAST, most) if draw.random() < short else most


@dataclass(frozen=True, slots=True)
class Sequence:
    """Two consecutive segments."""

    text: str
    ids: list[int]
    middle: int
    """Number of tokens of the first segment."""


def _sequence(parts: list[Sentence], draw: random.Random) -> Sequence:
    ids = list(chain.from_iterable(ids for _, ids in parts))
    if len(ids) < LEAST:
        middle = len(ids)  # a remainder, not used in training
    elif len(parts) == 1:
        middle = draw.randint(1, max(1, len(ids) - 1))
    else:
        middle = sum(len(ids) for _, ids in parts[: draw.randint(1, len(parts) - 1)])
    return Sequence(" ".join(text for text, _ in parts), ids, middle)


@dataclass(frozen=True)
class Shard:
    """Sources whose sequences share a file in train/ and one in dev/."""

    name: str
    sources: list[Source]


@dataclass(frozen=True)
class MadeShard:
    """Result for a shard."""

    train: Count
    dev: Count
    kept: bool
    """Whether it already existed, from the same input."""


class ShardMaker:
    """Makes shards, in any process.

    Args:
        out: folder for train/ and dev/.
        vocabulary: folder of the vocabulary.
        cut: settings of cutting.
        exclude: collections of exam papers that no sequence may overlap with.
        plan: result of `plan_hash`, stored in each shard.

    Raises:
        DataError: a collection with a paper that cannot be read.
    """

    def __init__(
        self, out: Path, vocabulary: Path, cut: Cut, exclude: list[Path], plan: str = ""
    ) -> None:
        self.out, self.plan = out, plan
        self.tokenizer = load_tokenizer(vocabulary, num_threads=1)
        self.cut = cut
        papers = []
        for place in exclude:
            for split in read_collection(place):
                require_whole(split, place)  # unreadable papers cannot be excluded
                papers.append(split)
        self._papers = sorted(split.source_hash for split in papers)
        passages = [passage for split in papers for passage in split.passages]
        self.exclude = OverlapIndex(passages) if passages else None

    def __call__(self, shard: Shard) -> MadeShard:
        """Cut a shard's documents into sequences; both files are written completely or not at all.

        Raises:
            DataError: a source cannot be read.
        """
        made_of = self._fingerprint(shard)
        parts = ["train", "dev"] if self.cut.dev else ["train"]
        paths = {part: self.out / part / shard.name for part in parts}
        there = {part: self._count_of(path, made_of) for part, path in paths.items()}
        if all(count is not None for count in there.values()):
            return MadeShard(there["train"] or Count(), there.get("dev") or Count(), kept=True)
        with ExitStack() as stack:
            columns = {}
            for part, path in paths.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                columns[part] = stack.enter_context(
                    closing(_Columns(self.tokenizer.size, path.parent))
                )
            for source in shard.sources:
                self._add(source, columns)
            for column in columns.values():
                column.count.sequences = len(column.length)
                column.count.tokens = sum(column.length)
            write_together(
                {path: partial(self._save, columns[part], made_of) for part, path in paths.items()}
            )
            counts = {part: column.count for part, column in columns.items()}
        return MadeShard(counts["train"], counts.get("dev", Count()), kept=False)

    def _add(self, source: Source, columns: dict[str, _Columns]) -> None:
        name = crc32(source.name.encode("utf-8", "surrogateescape"))
        paragraphs = read_paragraphs(source, self.cut.blank_lines, columns["train"].count)
        if not source.is_text and self.exclude is not None:
            # Papers are short: one that overlaps is left out completely.
            paragraphs = _apart(paragraphs, self.exclude, columns["train"].count)
        for number, found in enumerate(_documents(paragraphs)):
            seed = drawn = mix(self.cut.seed, name, number)
            document: Iterable[str] = found
            if not source.is_text:
                # Drawn by its text, so that a copy in another collection is on the same side.
                document = list(found)
                text = "\n".join(document).encode("utf-8", "surrogateescape")
                drawn = mix(self.cut.seed, crc32(text), len(text))
            chosen = columns["dev" if random.Random(drawn).random() < self.cut.dev else "train"]
            chosen.count.documents += 1
            parts = _sentences(document, self.tokenizer)
            for sequence in cut_document(parts, self.cut, seed + 1, self._spans):
                if len(sequence.ids) < LEAST:
                    chosen.count.dropped += len(sequence.ids)
                elif self.exclude is not None and self.exclude.touches(sequence.text):
                    chosen.count.overlapping += 1
                else:
                    chosen.add(sequence.ids, sequence.middle)

    def _spans(self, text: str) -> list[Span]:
        [(_, spans)] = self.tokenizer.encode_with_offsets([text])
        return spans

    def _save(self, columns: _Columns, made_of: str, path: Path) -> None:
        meta = {
            "kind": "corpus",
            "made_of": made_of,
            "made_with": f"albert-rc {__version__}",
            "vocabulary": self.tokenizer.fingerprint,
            "vocab_size": self.tokenizer.size,
            "max_length": self.cut.max_length,
            "settings": self._settings(),
            "plan": self.plan,
            "count": asdict(columns.count),
        }
        save_tensors(path, columns.streams(), meta)

    def _count_of(self, path: Path, made_of: str) -> Count | None:
        """Statistics of an existing shard with the same fingerprint; else None.

        If other shards' text has changed since, it now belongs to this plan.
        """
        if not path.is_file():
            return None
        try:
            tensors, meta = load_tensors(path)
        except DataError:
            return None
        if meta.get("made_of") != made_of:
            return None
        if meta.get("plan") != self.plan:
            with atomic_path(path) as temporary:
                save_tensors(temporary, tensors, meta | {"plan": self.plan})
        return Count(**meta["count"])

    def _fingerprint(self, shard: Shard) -> str:
        """Hash of everything that determines a shard."""
        # The name, too, affects how a source is cut.
        read = [(s.name, [file_sha256(p) for p in s.files()]) for s in shard.sources]
        return sha256(to_json([self._settings(), read]))

    def _settings(self) -> str:
        """Hash of what all shards of a corpus have in common."""
        how = [_RULE, self.tokenizer.fingerprint, asdict(self.cut), self._papers]
        return sha256(to_json(how))


def _documents(paragraphs: Iterable[str | None]) -> Iterator[Iterator[str]]:
    """The paragraphs of each document, to be read completely before the next."""
    paragraphs = iter(paragraphs)
    for first in paragraphs:
        if first is not None:  # an empty file is not a document
            yield _until_none(chain([first], paragraphs))


def _until_none(paragraphs: Iterable[str | None]) -> Iterator[str]:
    for paragraph in paragraphs:
        if paragraph is None:
            return
        yield paragraph


def _sentences(paragraphs: Iterable[str], tokenizer: Tokenizer) -> Iterator[Sentence]:
    """The sentences of a document with their ids, tokenised in batches."""
    texts = chain.from_iterable(map(sentences, paragraphs))
    while some := list(islice(texts, _AT_ONCE)):
        yield from zip(some, tokenizer.encode(some), strict=True)


def _apart(
    paragraphs: Iterable[str | None], exclude: OverlapIndex, count: Count
) -> Iterator[str | None]:
    """The documents that do not overlap with any excluded paper."""
    for document in grouped(paragraphs):
        if exclude.touches("\n".join(document)):
            count.overlapping_papers += 1
        else:
            yield from document
            yield None


def plan_hash(shards: list[Shard]) -> str:
    """Hash of which text is in which shard, so that shards of two plans are not used together."""
    plan = [[shard.name, [[s.name, s.size] for s in shard.sources]] for shard in shards]
    return sha256(to_json(plan))[:16]


def plan_shards(sources: list[Source], shard_bytes: int) -> list[Shard]:
    """Group sources, in order, into shards of about `shard_bytes` bytes of text."""
    shards: list[list[Source]] = [[]]
    held = 0
    for source in sources:
        if shards[-1] and held + source.size > shard_bytes:
            shards.append([])
            held = 0
        shards[-1].append(source)
        held += source.size
    return [Shard(shard_name(index, len(shards)), members) for index, members in enumerate(shards)]
