"""Text sources of commands: finding and examining them, and listing what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from albert_rc.cli.console import say
from albert_rc.io.messages import counted, first_of

if TYPE_CHECKING:
    from albert_rc.corpus.examine import Examined

OnTextError = Annotated[
    Literal["stop", "skip"],
    typer.Option(
        "--on-error",
        help="What to do with files and papers that cannot be read: stop, or skip them and list "
        "them in OUT/rejects.jsonl.",
    ),
]


def open_text(places: list[Path], on_error: str | None = None) -> Examined:
    """Find and examine sources; duplicates are reported and left out.

    Raises:
        DataError: nothing there, or unreadable files, all of which are listed.
    """
    from albert_rc.corpus.documents import find_sources, unread_files
    from albert_rc.corpus.examine import examine

    sources, copies = find_sources(places)
    for copy in copies:
        say(f"note: {copy} is left out as a duplicate; another file has the same text")
    if left := unread_files(places):
        said = counted(len(left), "file")
        names = ", ".join(first_of([str(path) for path in left], 3))
        say(f"note: {said} skipped, neither text nor papers by the name: {names}")
    examined = examine(sources, on_error)
    for note in examined.notes:
        say(f"note: {note}")
    return examined


def list_rejects(out: Path, examined: Examined) -> None:
    """Write the list of rejected items into the folder, replacing an earlier one."""
    from albert_rc.io.atomic import write_bytes
    from albert_rc.papers.files import REJECTS
    from albert_rc.papers.formats import rejects

    if not examined.problems:
        (out / REJECTS).unlink(missing_ok=True)
        return
    write_bytes(out / REJECTS, rejects(examined.problems))
    said = counted(len(examined.problems), "problem")
    typer.echo(f"{said}; the files and papers with them were left out, see {out / REJECTS}")
