"""Reading of documents for pretraining: text files, and exam papers with filled blanks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from albert_rc.corpus.textfiles import TEXT, is_paper, text_lines
from albert_rc.errors import DataError
from albert_rc.io.decode import UTF_8
from albert_rc.io.files import file_sha256, natural_key, sha256
from albert_rc.io.messages import counted
from albert_rc.papers.files import REJECTS, files_inside, is_ignored
from albert_rc.papers.formats import READERS, open_sources, read_split
from albert_rc.papers.opening import suffix_of
from albert_rc.papers.schema import PaperSet
from albert_rc.papers.splits import find_splits

PAPERS = (".json", ".jsonl")
WRAPPED = 120  # characters; with a shorter average, lines were wrapped to fit a page

# A sentence ends at a full stop, exclamation or question mark, plus closing punctuation, if a
# capital, a digit or opening punctuation follows. Errors only shift a segment boundary.
_END = re.compile(r"""(?<=[.!?])([)\]"'’”]*)\s+(?=[("'‘“\[]*[A-Z0-9])""")
_SHORT = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|Rev|Hon|Capt|Col|Gen|Lt|Sgt|Messrs|Mme|No|vs|etc|[A-Z])\.$"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of documents: a text file, or exam papers."""

    path: Path
    is_text: bool
    size: int
    """Size in bytes."""
    problem: str = ""
    """Why it cannot be read, if its beginning shows that."""
    codec: str = UTF_8.codec
    """Encoding of a text file."""
    skips: bool = False
    """Whether papers with errors are skipped, not refused."""
    inside: str = ""
    """Path in the folder that was given; empty for what was given itself."""

    @property
    def name(self) -> str:
        """The name by which its documents are drawn for dev; copies elsewhere have the same."""
        return self.inside or self.path.name

    def files(self) -> list[Path]:
        """The files of the source."""
        return [self.path] if self.is_text else _papers(self.path)


def _papers(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return sorted(p for p in _files_in(place) if suffix_of(p) in PAPERS or _begins_as(p)[0])


def _files_in(folder: Path) -> list[Path]:
    """The files in a folder and its subfolders, in natural order."""
    paths = (folder / name for name in sorted(files_inside(folder), key=natural_key))
    return [path for path in paths if path.is_file() and path.name != REJECTS]


def _begins_as(path: Path) -> tuple[bool, str]:
    """Whether a file begins like a paper; and the error if it is neither a paper nor text."""
    try:
        return is_paper(path), ""
    except DataError as error:
        return False, str(error).removeprefix(f"{path}: ")


@dataclass
class LeftOut:
    """Numbers of papers that are not used, though they can be read."""

    unanswered: int = 0
    """Without an answer to each blank."""
    duplicates: int = 0
    """The same as an earlier paper of the collection."""


def unread_files(places: list[Path]) -> list[Path]:
    """Files in folders that are neither text nor papers by their names, and broken links.

    Documents about the text, such as a README without a suffix, are not listed.
    """
    found = []
    for folder in (place for place in places if place.is_dir()):
        for name in sorted(files_inside(folder), key=natural_key):
            path = folder / name
            known = path.suffix.lower() in TEXT or suffix_of(path) in PAPERS
            if not is_ignored(path.name) and not (known and path.is_file()):
                found.append(path)
    return found


def find_sources(places: list[Path]) -> tuple[list[Source], list[Path]]:
    """Find text files in folders, in natural order, and collections of exam papers.

    Args:
        places: files, or folders to search recursively. A folder of JSON is one collection, even
            if the files' names end in .txt, as RACE's do.

    Returns:
        The sources, and the text files left out as duplicates.

    Raises:
        DataError: nothing there, nothing readable, or text among RACE's papers. Errors in single
            files are stored with them, so that `examine` can report all of them.
    """
    found: list[Source] = []
    for place in places:
        if not place.exists():
            raise DataError(f"{place}: no such file or folder; give the path of the text")
        files = _files_in(place) if place.is_dir() else [place]
        begins = {path: _begins_as(path) for path in files if path.suffix.lower() in TEXT}
        in_txt = {path for path, (paper, _) in begins.items() if paper}
        texts = [path for path in begins if path not in in_txt]
        found += [
            Source(
                path, True, path.stat().st_size, begins[path][1],
                inside="" if path == place else path.relative_to(place).as_posix(),
            )
            for path in texts
        ]  # fmt: skip
        papers = [path for path in files if suffix_of(path) in PAPERS] + sorted(in_txt)
        for path in find_splits(place).values() if papers else []:
            if in_txt:
                _require_alike(path, in_txt, texts)
            size = sum(file.stat().st_size for file in _papers(path))
            found.append(Source(path, False, size))
        if not texts and not papers:
            kinds = ", ".join((*TEXT, *PAPERS))
            raise DataError(f"{place}: no text files there; their names must end in {kinds}")
    copies = _copies(found)
    kept = [source for number, source in enumerate(found) if number not in copies]
    return kept, sorted(found[number].path for number in copies)


def _require_alike(split: Path, papers: set[Path], texts: list[Path]) -> None:
    """Refuse a split of papers in .txt files that also holds text, or papers of another format."""
    paper = next((path for path in sorted(papers) if path.is_relative_to(split)), None)
    if paper is None:
        return
    apart = "put each kind into a separate folder, and give both folders"
    for path in texts:
        if path.suffix == ".txt" and path.is_relative_to(split):
            raise DataError(f"{path}: plain text in a folder of exam papers ({paper}); {apart}")
    _, form = open_sources(split)
    if paper.suffix not in READERS[form].suffixes:
        raise DataError(
            f"{paper}: its format differs from that of the other papers ({form}); {apart}"
        )


def _copies(sources: list[Source]) -> set[int]:
    """Indices of sources given a second time, and of text files identical to an earlier one."""
    alike = defaultdict(list)
    for number, source in enumerate(sources):
        if source.is_text and not source.problem:
            alike[source.size].append(number)
    places: set[Path] = set()
    copies = set()
    for number, source in enumerate(sources):
        place = source.path.resolve()
        if not source.is_text and place in places:
            copies.add(number)
        places.add(place)
    for numbers in alike.values():
        seen = set()
        for number in numbers if len(numbers) > 1 else []:
            digest = file_sha256(sources[number].path)
            if digest in seen:
                copies.add(number)
            seen.add(digest)
    return copies


def read_paragraphs(
    source: Source, blank_lines: bool = False, left_out: LeftOut | None = None
) -> Iterator[str | None]:
    """The paragraphs of a source; None ends a document.

    Exam papers have their blanks filled; those with a blank whose answer is unknown are left out.

    Args:
        source: the source.
        blank_lines: a file holds many documents separated by blank lines, and each line is a
            paragraph; otherwise a file is one document and blank lines separate its paragraphs.
        left_out: counts the papers that are not used.

    Raises:
        DataError: a file has changed since `examine`, or papers cannot be read.
    """
    if not source.is_text:
        yield from _paper_paragraphs(source, left_out or LeftOut())
        return
    block: list[str] = []
    for line in chain(text_lines(source.path, source.codec), [""]):
        if line.strip():
            block.append(line)
        elif block:
            # Without blank lines every long line is a paragraph; short ones are wrapped lines.
            wrapped = sum(map(len, block)) < WRAPPED * len(block)
            yield from [" ".join(block)] if wrapped and not blank_lines else block
            block.clear()
            if blank_lines:
                yield None
    if not blank_lines:
        yield None


def _paper_paragraphs(source: Source, left_out: LeftOut) -> Iterator[str | None]:
    papers = read_split(source.path)
    if not source.skips:
        require_whole(papers, source.path)
    seen = set()
    for passage in papers.passages:
        if any(question.answer is None for question in passage.questions if passage.blanks):
            left_out.unanswered += 1  # text with unfilled blanks is not used
            continue
        lines = [line for line in passage.filled().splitlines() if line.strip()]
        digest = sha256("\n".join(lines).encode("utf-8", "surrogateescape"))
        if digest in seen:
            left_out.duplicates += 1
            continue
        seen.add(digest)
        yield from lines
        yield None


def named(sources: list[Source]) -> str:
    """Paths of sources, for messages; the first ones, if there are many."""
    names = ", ".join(str(source.path) for source in sources[:3])
    return f"{names} and {len(sources) - 3:,} more" if len(sources) > 3 else names


def no_text(sources: list[Source]) -> DataError:
    """The error if nothing could be read from any of the sources: names them and the reason."""
    kinds = {source.is_text for source in sources}
    why = []
    if True in kinds:
        why.append("there is no text in it" if len(sources) == 1 else "there is no text")
    if False in kinds:
        why.append("no paper has an answer to each of its blanks")
    return DataError(f"{named(sources)}: {', and '.join(why)}; give other files")


def require_whole(papers: PaperSet, place: Path) -> None:
    """Refuse papers unless every one could be read.

    Raises:
        DataError: names the first unreadable paper.
    """
    if papers.errors:
        raise DataError(
            f"{papers.errors[0]} ({counted(len(papers.errors), 'error')} in all; see `albert-rc "
            f"doctor {place}`)"
        )


def grouped(paragraphs: Iterable[str | None]) -> Iterator[list[str]]:
    """Group paragraphs into documents; None ends a document."""
    held: list[str] = []
    for paragraph in paragraphs:
        if paragraph is not None:
            held.append(paragraph)
        elif held:
            yield held
            held = []


def read_documents(source: Source) -> Iterator[str]:
    """The documents of a source, each as one string."""
    return map("\n".join, grouped(read_paragraphs(source)))


def sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, with their punctuation."""
    parts: list[list[str]] = []
    for part in _split(" ".join(paragraph.split())):
        if parts and _SHORT.search(parts[-1][-1]):
            parts[-1].append(part)
        else:
            parts.append([part])
    return [" ".join(part) for part in parts]


def _split(text: str) -> Iterator[str]:
    start = 0
    for end in _END.finditer(text):
        yield text[start : end.end(1)]
        start = end.end()
    if start < len(text):
        yield text[start:]
