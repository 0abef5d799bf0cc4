"""Raw content of paper files: a whole file, or some of its lines, rows or items."""

from __future__ import annotations

import marshal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from albert_rc.io.json import parse_unique_json
from albert_rc.io.messages import kind_of
from albert_rc.papers.opening import content_name
from albert_rc.papers.tables import row_of

Layout = Literal["paper", "list", "table", "squad"]
"""Arrangement of papers in a file: a single paper or a list of papers, as objects (`paper`); a list
of papers (`list`); tab-separated columns with a paper per line (`table`); or SQuAD's articles with
their paragraphs (`squad`)."""
CHUNK_BYTES = 2**19  # some 200 cloze papers: a tenth of a second's work
PRINTED = (".docx", ".doc", ".pdf")
"""Suffixes of printed papers, besides .txt."""
OPENING = (b"{", b"[", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
"""First bytes of JSON, and byte order marks; a file with one is not taken for a printed paper."""
LINE_BY_LINE = (".jsonl", ".tsv")


@dataclass(frozen=True, slots=True)
class Raw(ABC):
    """Raw papers of one file."""

    place: str
    """Path of the file, relative to the split's folder."""

    @abstractmethod
    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        """The papers: number of the line or item (0 if the file is one paper), and JSON value.

        Content that is not JSON is yielded as a ValueError with the reason.

        Args:
            layout: how papers are arranged in the files.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """Size in bytes."""

    @property
    def looks_printed(self) -> bool:
        """Whether a file that cannot be parsed may be a printed paper rather than JSON."""
        return False


@dataclass(frozen=True, slots=True)
class WholeFile(Raw):
    """All of a .json or .txt file."""

    content: bytes

    def records(self, layout: Layout) -> Iterator[tuple[int, Any]]:
        value = _parsed(self.content)
        if isinstance(value, ValueError) and isinstance(
            _parsed(self.content.lstrip().partition(b"\n")[0]), dict
        ):
            value = ValueError(
                f"{value}; if each line is a paper, let the file's name end in .jsonl"
            )
        papers = _papers_in(value, layout)
        if papers is None:
            yield 0, value
        elif not papers:
            yield 0, ValueError("the list is empty; add papers, or remove the file")
        else:
            yield from enumerate(papers, 1)

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def looks_printed(self) -> bool:
        plain = self.place.lower().endswith(".txt") and not self.content.lstrip().startswith(
            OPENING
        )
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
        return _parsed(line, is_line=True)

    @property
    def size(self) -> int:
        return len(self.content)


@dataclass(frozen=True, slots=True)
class TableRows(Lines):
    """Some rows of a table, each a paper."""

    header: tuple[str, ...] = ()
    """The column names, if the first line of the file has them."""

    def _value(self, line: bytes) -> Any:
        return row_of(line, self.header)


@dataclass(frozen=True, slots=True)
class Items(Raw):
    """Some papers of a long list."""

    marshalled: bytes
    """In `marshal` format, as JSON refuses deeply nested values before they are checked."""
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
"""Raw papers that are checked and encoded together."""


def paper_place(file_place: str, number: int) -> str:
    """Place of a paper: its file, and the line or item if the file has several papers."""
    if not number:
        return file_place
    lines = PurePosixPath(content_name(file_place)).suffix.lower() in LINE_BY_LINE
    return f"{file_place}:{number}" if lines else f"{file_place}[{number}]"


def _parsed(content: bytes, is_line: bool = False) -> Any:
    try:
        return parse_unique_json(content, is_line)
    except ValueError as error:
        return error


def _papers_in(value: Any, layout: Layout) -> list[Any] | None:
    """The papers of a file, or None if the file is a single paper."""
    if layout == "squad":
        return _paragraphs(value)
    if not isinstance(value, list):
        return None
    if layout == "list":
        return None if _is_dialogue(value) else value
    return value if not value or isinstance(value[0], dict) else None


def _is_dialogue(value: list[Any]) -> bool:
    """Whether a list is a single dialogue of DREAM, `[turns, questions, id]`, and not several."""
    return (
        len(value) > 1
        and isinstance(value[0], list)
        and bool(value[0])
        and all(isinstance(turn, str) for turn in value[0])
        and isinstance(value[1], list)
    )


def _paragraphs(value: Any) -> list[Any] | None:
    """SQuAD's paragraphs, each with its article's title and its number in the article.

    An invalid item is replaced by a tuple with one message, as tuples never come from JSON.
    """
    articles = value.get("data") if isinstance(value, dict) else None
    if not isinstance(articles, list):
        return None  # the parser reports what is wrong
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


def slices(file: WholeFile, layout: Layout) -> Iterable[Raw]:
    """A large list of papers in parts, so that several processes can encode it."""
    papers = _papers_in(_parsed(file.content), layout)
    if not papers:
        return [file]
    step = max(1, len(papers) * CHUNK_BYTES // file.size)
    return (
        Items(file.place, marshal.dumps(papers[i : i + step]), i + 1)
        for i in range(0, len(papers), step)
    )
