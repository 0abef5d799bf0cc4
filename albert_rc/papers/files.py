"""The files of a split, listed in natural order and read in bounded chunks."""

from __future__ import annotations

import hashlib
import marshal
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NoReturn

from albert_rc.errors import DataError
from albert_rc.io.files import natural_key
from albert_rc.io.json import parse_json, parse_unique_json
from albert_rc.io.messages import kind_of, quoted, shortened

CHUNK_BYTES = 2**19  # some 200 cloze papers: a tenth of a second's work
REJECTS = "rejects.jsonl"
"""Where commands list what they left out; it is never read as papers."""
Layout = Literal["paper", "list", "table", "squad"]
"""A file is a paper (or a list of objects that are), always a list of papers, a table with tabs
between the columns and a paper in each line, or SQuAD's articles with their paragraphs."""
_LEAST_BYTES = 256  # what a paper counts at least, so that empty files make no endless chunk


@dataclass(frozen=True, slots=True)
class Raw(ABC):
    """Papers of one file, as they lie there."""

    place: str
    """The file's: the path from the split's folder on."""

    @abstractmethod
    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        """The papers: number of the line or item (0: the file is one paper) and JSON value.

        What is not JSON comes as a ValueError that says so.

        Args:
            layout: how papers lie in the files.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes."""

    @property
    def looks_printed(self) -> bool:
        """Whether what cannot be read may be a paper that was never meant to be JSON."""
        return False


@dataclass(frozen=True, slots=True)
class WholeFile(Raw):
    """All of a .json or .txt file."""

    content: bytes

    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        value = _parsed(self.content)
        papers = _papers_in(value, layout)
        if papers is None:
            yield 0, value
        elif not papers:
            yield 0, ValueError("an empty list; there is no paper in it, so take the file out")
        else:
            yield from enumerate(papers, 1)

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def looks_printed(self) -> bool:
        plain = self.place.endswith(".txt") and not self.content.lstrip().startswith(OPENING)
        return plain or self.place.lower().endswith(PRINTED)


@dataclass(frozen=True, slots=True)
class Lines(Raw):
    """Some lines of a .jsonl file, each a paper."""

    content: bytes
    first: int = 1
    """Number of the first line."""

    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        for number, line in enumerate(self.content.split(b"\n"), self.first):
            if line.strip():
                yield number, self._value(line)

    def _value(self, line: bytes) -> Any:
        return _parsed(line)

    @property
    def size(self) -> int:
        return len(self.content)


@dataclass(frozen=True, slots=True)
class TableRows(Lines):
    """Some rows of a table, each a paper."""

    header: tuple[str, ...] = ()
    """The column names, if the first line of the file has them."""

    def _value(self, line: bytes) -> Any:
        return _row(line, self.header)


@dataclass(frozen=True, slots=True)
class Items(Raw):
    """Some papers of a long list."""

    marshalled: bytes
    """JSON would refuse what is nested too deeply to be a paper before it is checked."""
    first: int = 1
    """Number of the first item."""

    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        yield from enumerate(marshal.loads(self.marshalled), self.first)

    @property
    def size(self) -> int:
        return len(self.marshalled)


@dataclass(frozen=True, slots=True)
class Unreadable(Raw):
    """A file that cannot be read."""

    reason: str

    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        yield 0, ValueError(self.reason)

    @property
    def size(self) -> int:
        return len(self.reason)


Chunk = Sequence[Raw]
"""What is checked and encoded at a time."""


def paper_place(file_place: str, number: int) -> str:
    """Where a paper stands: its file, and the line or item where there are several."""
    if not number:
        return file_place
    lines = PurePosixPath(file_place).suffix in LINE_BY_LINE
    return f"{file_place}:{number}" if lines else f"{file_place}[{number}]"


def _parsed(content: bytes) -> Any:
    try:
        return parse_unique_json(content)
    except ValueError as error:
        return error


def _papers_in(value: Any, layout: Layout) -> list[Any] | None:
    """The papers of a file, or None if the file is one."""
    if layout == "squad":
        return _paragraphs(value)
    if not isinstance(value, list):
        return None
    several = not value or layout == "list" or isinstance(value[0], dict)
    return value if several else None


def _paragraphs(value: Any) -> list[Any] | None:
    """SQuAD's paragraphs, each with its article's title and its number there.

    What is not a paragraph is replaced by a tuple of one text that says so: JSON has none.
    """
    articles = value.get("data") if isinstance(value, dict) else None
    if not isinstance(articles, list):
        return None  # the parser says what is wrong with it
    found: list[Any] = []
    for place, article in enumerate(articles, 1):
        paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
        if not isinstance(paragraphs, list):
            found.append((f'article {place} has no list "paragraphs"; add it',))
            continue
        title = article.get("title", "")
        title = title if isinstance(title, str) and title else f"article {place}"
        for number, paragraph in enumerate(paragraphs, 1):
            where = f"paragraph {number} of article {place}"
            found.append(
                {**paragraph, "title": title, "number": number}
                if isinstance(paragraph, dict)
                else (f"{where} is {kind_of(paragraph)}; it must be an object",)
            )
    return found


class Sources:
    """The files of one split.

    Args:
        path: a folder of papers, or one file.

    Raises:
        DataError: there is nothing at `path`.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; give the place of the raw papers")
        self.path = path
        self._is_folder = path.is_dir()
        self._inside = _listed(path) if self._is_folder else [path.name]
        listed = len(self._inside)
        if self._is_folder:
            self._inside = [name for name in self._inside if not name.lower().endswith(PRINTED)]
        self.num_printed = listed - len(self._inside)
        """Files of a folder that are passed over, as Word and PDF."""
        self._digest = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._inside)

    def keep(self, suffixes: tuple[str, ...]) -> None:
        """Forget the files of a folder that end otherwise."""
        if self._is_folder:
            self._inside = [inside for inside in self._inside if inside.endswith(suffixes)]

    def all_end_with(self, suffix: str | tuple[str, ...]) -> bool:
        """Whether every file has this suffix, or one of these."""
        return all(inside.endswith(suffix) for inside in self._inside)

    @property
    def names(self) -> str:
        """The files, for a message: the first few of them."""
        shown = ", ".join(map(shortened, self._inside[:3]))
        return f"{shown}, ..." if len(self) > 3 else shown

    def opening(self) -> str:
        """What the first file begins with, in words: a table's header, or a line that is none."""
        try:
            line = _first_line(self._file(self._inside[0]))
        except OSError as error:
            return f"cannot be read ({error.strerror})"
        if not line:
            return "there is nothing in it"
        header = header_of(line)
        said = line.decode("utf-8-sig", "replace").rstrip("\r\n")
        return f"its header is {quoted(said)}" if header else f"no header, but {quoted(said)}"

    def samples(self, count: int) -> Iterator[tuple[str, Any]]:
        """The first paper of each of the first `count` files that can be read.

        Yields:
            what the file's name ends with, and the JSON value or the row of a table.
        """
        for inside in self._inside[:count]:
            file = self._file(inside)
            if self._is_folder and not file.is_file():
                continue
            try:
                content = _first_line(file) if file.suffix == ".jsonl" else file.read_bytes()
                value = parse_json(content)
            except OSError:
                continue
            except ValueError:
                row = _first_row(content)
                if row is None:
                    continue
                value = row
            listed = isinstance(value, list) and value and isinstance(value[0], dict)
            yield file.suffix, value[0] if listed else value

    @property
    def hash(self) -> str:
        """SHA-256 over the places and bytes of the files that were read so far."""
        return self._digest.hexdigest()

    def _file(self, inside: str) -> Path:
        return self.path / inside if self._is_folder else self.path

    def chunks(self, layout: Layout) -> Iterator[Chunk]:
        """All papers in natural order of the files, about `CHUNK_BYTES` at a time.

        Args:
            layout: how papers lie in the files.
        """
        chunk: list[Raw] = []
        size = 0
        for raw in self._raws(layout):
            chunk.append(raw)
            size += max(_LEAST_BYTES, raw.size)
            if size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _raws(self, layout: Layout) -> Iterator[Raw]:
        prefix = f"{self.path.resolve().name}/" if self._is_folder else ""
        for inside in self._inside:
            place, file = prefix + inside, self._file(inside)
            try:
                shown = place.encode()
            except UnicodeEncodeError:
                shown = place.encode("utf-8", "backslashreplace")
                yield from self._misnamed(file, shown.decode())
                continue
            # Opening a named pipe would wait for somebody to write into it.
            if self._is_folder and file.exists() and not file.is_file():
                yield Unreadable(place, "must be an ordinary file; take it out")
                continue
            try:
                if layout == "table" or file.suffix == ".jsonl":
                    yield from self._lines(file, place, layout == "table")
                    continue
                content = file.read_bytes()
            except OSError as error:
                yield _unreadable(place, error)
                continue
            self._digest.update(shown + b"\0" + content)
            whole = WholeFile(place, content)
            yield from [whole] if whole.size <= CHUNK_BYTES else _slices(whole, layout)

    def _misnamed(self, file: Path, shown: str) -> Iterator[Raw]:
        try:
            file.open("rb").close()
        except OSError as error:
            yield _unreadable(shown, error)
        else:
            yield Unreadable(shown, "the file's name is not UTF-8; rename it")

    def _lines(self, file: Path, place: str, is_table: bool) -> Iterator[Raw]:
        with file.open("rb") as opened:
            self._digest.update(place.encode() + b"\0")
            number = 1
            header: tuple[str, ...] = ()
            while lines := opened.readlines(CHUNK_BYTES):
                content = b"".join(lines)
                self._digest.update(content)
                count = len(lines)
                if is_table and number == 1:
                    header = header_of(lines[0])
                    if header:
                        # An empty line in its place: the numbers stay those of the file.
                        content = b"\n" + b"".join(lines[1:])
                if is_table:
                    yield TableRows(place, content, number, header)
                else:
                    yield Lines(place, content, number)
                number += count


SAMPLED = 20
"""Lines of a table that are looked at to tell what it is."""
PRINTED = (".docx", ".doc", ".pdf")
"""What printed papers come as, besides .txt."""
OPENING = (b"{", b"[", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
"""What JSON begins with, and signs of an encoding, which are another matter."""
LINE_BY_LINE = (".jsonl", ".tsv")
TABLES = (".tsv", ".csv")
"""What is a table by its name; a .txt may be one."""
COLUMN_NAMES = {
    "sentence", "sentence1", "sentence2", "question", "question1", "question2", "label", "score",
    "gold_label", "is_duplicate", "Quality", "#1 String", "#2 String", "index",
}  # fmt: skip
"""A first line with one of these, and a tab, is a header."""


def _columns(line: bytes) -> list[str]:
    """GLUE's tables know no quotes: a quotation mark is one."""
    return line.decode("utf-8-sig").rstrip("\r\n").split("\t")


def header_of(line: bytes) -> tuple[str, ...]:
    """The column names in a table's first line; none if it is not a header."""
    try:
        names = tuple(_columns(line))
    except UnicodeDecodeError:
        return ()
    return names if len(names) > 1 and COLUMN_NAMES & set(names) else ()


def _row(line: bytes, header: tuple[str, ...]) -> Any:
    """Texts by column, a list of them without a header, or what is wrong with the line."""
    try:
        values = _columns(line)
    except UnicodeDecodeError as error:
        return ValueError(f"byte {error.start + 1} of the line is not UTF-8; save it as UTF-8")
    if not header:
        return values
    if len(values) < len(header):
        return ValueError(
            f"{len(values)} columns, but the header has {len(header)}; "
            "write every column, with nothing between its tabs where it is empty"
        )
    # Some of MRPC's and MNLI's lines have more: annotators' labels behind the named columns.
    return dict(zip(header, values, strict=False))


def _first_row(content: bytes) -> Any:
    """The first row of a table that is whole, or None if it is not a table.

    If none is whole, the header alone tells what the rows should be.
    """
    lines = content.split(b"\n", SAMPLED)[:SAMPLED]
    # A torn paper is not a table, though it may be indented with tabs.
    if b"\t" not in lines[0] or lines[0].lstrip().startswith((b"{", b"[{")):
        return None
    header = header_of(lines[0])
    given = [line for line in (lines[1:] if header else lines[:1]) if line.strip()]
    rows = [_row(line, header) for line in given]
    whole = next((row for row in rows if not isinstance(row, ValueError)), None)
    return dict.fromkeys(header, "") if whole is None and header and rows else whole


def _listed(folder: Path) -> list[str]:
    """Files of papers, printed ones too, in natural order, as paths inside the folder."""
    found = []
    # Symbolic links that lead nowhere are listed too: they are papers that cannot be read.
    for parent, folders, files in os.walk(folder, onerror=_unlisted):
        # A hidden folder holds half-written or foreign things.
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = Path(parent).relative_to(folder).as_posix()
        prefix = "" if inside == "." else f"{inside}/"
        found += [
            prefix + name
            for name in files
            if name.lower().endswith(PRINTED) or name.endswith((".json", ".jsonl", ".txt", ".tsv"))
            if not name.startswith(".") and name != REJECTS
        ]
    name = folder.resolve().name
    return sorted(found, key=lambda inside: natural_key(f"{name}/{inside}"))


def _unlisted(error: OSError) -> NoReturn:
    """A folder that may not be read: its papers would be missing without a word."""
    raise DataError(f"{error.filename}: cannot be listed ({error.strerror}); check the folder")


def _first_line(file: Path) -> bytes:
    with file.open("rb") as lines:
        return next((line.lstrip() for line in lines if line.strip()), b"")


def _unreadable(place: str, error: OSError) -> Raw:
    return Unreadable(place, f"cannot be read ({error.strerror}); check the file")


def _slices(file: WholeFile, layout: Layout) -> Iterable[Raw]:
    """A large list of papers in parts, so that it is not one process that encodes them all."""
    papers = _papers_in(_parsed(file.content), layout)
    if not papers:
        return [file]
    step = max(1, len(papers) * CHUNK_BYTES // file.size)
    return (
        Items(file.place, marshal.dumps(papers[i : i + step]), i + 1)
        for i in range(0, len(papers), step)
    )
