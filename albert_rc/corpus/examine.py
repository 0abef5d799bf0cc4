"""Examination of all sources beforehand, to report every unreadable file at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from albert_rc.corpus.documents import Source
from albert_rc.errors import AlbertRcError, DataError
from albert_rc.io.decode import UTF_8, encoding_of
from albert_rc.io.messages import counted
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Problem


@dataclass(frozen=True)
class Examined:
    """Result of examining some sources."""

    sources: list[Source]
    """The readable sources, each with its encoding."""
    notes: list[str]
    """Messages about sources in encodings other than UTF-8."""
    problems: list[Problem]
    """The files and papers left out, with the reasons."""


def examine(sources: Sequence[Source], on_error: str | None = None) -> Examined:
    """Check every byte of text, and every paper.

    Args:
        sources: the sources to read.
        on_error: `stop` or `skip`; None for commands without this option.

    Raises:
        DataError: something cannot be read and must not be skipped (all of it is listed); or
            nothing is left.
    """
    good: list[Source] = []
    notes: list[str] = []
    problems: list[Problem] = []
    for source in sources:
        try:
            found, title, said = _looked_at(source)
        except (AlbertRcError, OSError, ValueError) as error:
            problems.append(_problem(source, error))
            continue
        problems += said
        if title != UTF_8.title:
            notes.append(f"{found.path} is read as {title}")
        good.append(replace(found, skips=on_error == "skip"))
    if problems and on_error != "skip":
        raise DataError(_all_of(problems, on_error))
    if not good:
        raise DataError(
            f"nothing is left to read:\n{_lines(problems)}\nFix these, or give other files"
        )
    return Examined(good, notes, problems)


def _looked_at(source: Source) -> tuple[Source, str, list[Problem]]:
    """A source with its encoding, the encoding's name, and the problems in its papers."""
    if source.problem:
        raise ValueError(source.problem)
    if not source.is_text:
        return source, UTF_8.title, read_split(source.path).errors
    encoding = encoding_of(source.path)
    return replace(source, codec=encoding.codec), encoding.title, []


def _problem(source: Source, error: Exception) -> Problem:
    said = str(error).removeprefix(f"{source.path}: ")
    if isinstance(error, OSError):
        said = f"cannot be read ({error.strerror}); check the file"
    return Problem(str(source.path), said)


def _all_of(problems: Sequence[Problem], on_error: str | None) -> str:
    way_out = "" if on_error is None else ", or leave it out with --on-error skip"
    if len(problems) == 1:
        return f"{problems[0]}{way_out}"
    way_out = "" if on_error is None else ", or leave them out with --on-error skip"
    said = f"{counted(len(problems), 'problem')} in the text:\n{_lines(problems)}"
    return f"{said}\nNothing was written. Fix these{way_out}"


def _lines(problems: Sequence[Problem]) -> str:
    return "\n".join(f"  {problem}" for problem in problems)
