"""Reading of printed papers in a separate process, so that malicious files can do no harm.

Parsers of Word and PDF files are not hardened against attacks: a small file may unpack to gigabytes
or keep a parser busy for hours, and a thread cannot be killed. So a child process with limits on
memory and time reads the files. It ends with the server, and sees only copies, under neutral names,
in a separate folder.
"""

from __future__ import annotations

import base64
import contextlib
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from albert_rc.errors import AlbertRcError, DataError, UsageError
from albert_rc.io.json import parse_json, to_json
from albert_rc.io.messages import LONGEST, first_of, shortened
from albert_rc.papers.raw import WholeFile
from albert_rc.printed.papers import FOLDERS, Import
from albert_rc.runtime.pool import cores
from albert_rc.serve.confine import confine, small_environment
from albert_rc.serve.limits import Limits
from albert_rc.serve.messages import Messages
from albert_rc.serve.reading import ReadText, read_raws
from albert_rc.serve.uploads import Upload
from albert_rc.serve.workplace import workplace

PAPER, KEY, RESULT = "paper", "key", "result.json"
SHOWN_LINES = 20
LONGEST_TEXT = 200_000
_SUFFIXES = {
    "text": ".txt",
    "docx": ".docx",
    "pdf": ".pdf",
    "doc": ".doc",
    "picture": ".jpg",
    "heic": ".heic",
}
_PAGE = rf"{PAPER}(?:[/\\]page(?P<number>\d+)\.jpg)?"
_ROOT = Path(__file__).parents[2]
_OPTIONS = {
    "or give it with --key": "or give the key separately",
    "; --glosses keep leaves them in the text": "",
    "write the text with --text, correct it, and import it": "correct the text below",
}
"""Options in the messages of the import, and what stands for them on the page and in the API."""


def read_printed(
    upload: Upload, key: Upload | None, limits: Limits, stopped: Callable[[], bool] = lambda: False
) -> ReadText:
    """Read a printed paper as `import` does, in a separate process.

    Args:
        upload: text, Word, PDF, or pictures.
        key: the answer key, if it is not in the paper; likewise.
        limits: limits of time and memory.
        stopped: called repeatedly; returns whether to stop.

    Raises:
        DataError: the paper cannot be read, or not within the limits.
        InterruptedError: stopped.
    """
    if key is not None and key.kind in ("json", "lines"):
        raise DataError("an answer key must be text, Word or PDF, such as `36-40 ABCDA`")
    with workplace() as folder:
        if upload.pages:
            files = [PAPER]
            (folder / PAPER).mkdir()
            for number, page in enumerate((upload.content, *upload.pages), 1):
                (folder / PAPER / f"page{number}.jpg").write_bytes(page)
        else:
            files = [PAPER + _SUFFIXES[upload.kind]]
            (folder / files[0]).write_bytes(upload.content)
        if key is not None:
            files.append(KEY + _SUFFIXES[key.kind])
            (folder / files[1]).write_bytes(key.content)
        _run_child(folder, files, _for_pictures(upload, key, limits), stopped)
        try:
            if (folder / RESULT).stat().st_size > limits.found_bytes:
                raise DataError(
                    "its blanks have too many options in total; give the paper in parts"
                )
            found = parse_json((folder / RESULT).read_bytes())
        except (OSError, ValueError):  # ended by the system, most likely for its memory
            raise DataError(
                "reading it ended without a result, most likely for lack of memory; give the paper "
                "in parts, or as text"
            ) from None
    if "error" in found:
        raise DataError(_named(found["error"], upload, key))
    return _as_reading(found, upload, key)


def _for_pictures(upload: Upload, key: Upload | None, limits: Limits) -> Limits:
    """The limits, increased for text recognition if there may be pictures."""
    given = [upload] if key is None else [upload, key]
    pictures = sum(1 + len(one.pages) for one in given if one.kind in ("picture", "pdf"))
    if not pictures:
        return limits
    return replace(
        limits,
        read_seconds=limits.read_seconds + pictures * limits.picture_seconds,
        read_bytes=limits.read_bytes + limits.picture_bytes,
    )


def _run_child(folder: Path, files: list[str], limits: Limits, stopped: Callable[[], bool]) -> None:
    """Wait for the child process, and kill it when its time is up."""
    # -P: never import files of the folder, whatever their names.
    command = [sys.executable, "-P", "-m", "albert_rc.serve.printed"]
    # The child's own time limit matters only if this process is gone; one more second is enough.
    # The system counts all threads, and text recognition has one for each core.
    seconds = cores() * (math.ceil(limits.read_seconds) + 1)
    bounds = (limits.read_bytes, seconds, os.getpid())
    child = subprocess.Popen(
        [*command, *map(str, bounds), *files],
        cwd=folder,
        env=small_environment(_ROOT, folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    end = time.monotonic() + limits.read_seconds
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
                return
            if stopped():
                raise InterruptedError
            if time.monotonic() > end:
                raise DataError(
                    f"reading it takes more than {limits.read_seconds:g} seconds; give the paper "
                    "in parts, or as text"
                )
    finally:
        child.kill()
        child.wait()


def _as_reading(found: dict[str, Any], upload: Upload, key: Upload | None) -> ReadText:
    """The complete papers, checked by the usual reader, and the messages."""
    sets, messages = [], Messages()
    stem = Path(upload.name).stem
    for kind, format_name in FOLDERS.items():
        raws = [
            WholeFile(_own(paper["name"], stem), to_json(_with_id(paper["content"], stem)))
            for paper in found["papers"]
            if paper["kind"] == kind
        ]
        reading = read_raws(raws, format_name)
        sets += reading.sets
        for message in reading.messages:
            if message.level == "refused":  # the import's notes include the warnings
                messages.add(message.level, message.text, message.paper)
    for level, name, text, picture in found["messages"]:
        messages.add(level, _named(text, upload, key), _own(name, stem), picture)
    numbers = {_own(paper["name"], stem): paper["numbers"] for paper in found["papers"]}
    return ReadText(sets, messages.all(), numbers, found["text"])


def _own(name: str, stem: str) -> str:
    """A paper's name from the client's file name: `exam-1.json` for `paper-1.json`."""
    return stem + name.removeprefix(PAPER) if name.startswith(PAPER) else name


def _with_id(content: dict[str, Any], stem: str) -> dict[str, Any]:
    return {**content, "id": _own(content["id"], stem)} if "id" in content else content


def _named(text: str, upload: Upload, key: Upload | None) -> str:
    """A message with the client's file names instead of ours."""
    if key is not None:  # "36 is A in the paper's own key, but B in key.txt"
        for before in (" ", "("):
            text = text.replace(f"{before}{KEY}{_SUFFIXES[key.kind]}", f"{before}{key.shown}")
    for own, given in ((PAPER, upload), (KEY, key)):
        if given is not None:
            start = _PAGE if given.pages else re.escape(own + _SUFFIXES[given.kind])
            if found := re.match(f"{start}: ", text):
                page = f", page {found['number']}" if given.pages and found["number"] else ""
                return f"{given.shown}{page}: {text[found.end() :]}"
    return text


def main() -> None:
    """The child process: read the named files in its folder, and write the result there."""
    memory, seconds, parent, *names = sys.argv[1:]
    confine(int(memory), int(seconds), int(parent))
    try:
        result = _found([Path(name) for name in names])
    except AlbertRcError as error:
        result = {"error": shortened(str(error), LONGEST)}
    except MemoryError:
        return  # the missing result tells
    except Exception as error:  # a malicious file can make a parser raise anything
        result = {"error": f"{names[0]}: cannot be read ({type(error).__name__}); save it again"}
    Path(RESULT).write_bytes(to_json(result, indent=False))


def _found(paths: list[Path]) -> dict[str, Any]:
    from albert_rc.printed.run import import_papers

    imports = import_papers(paths[:1], paths[1] if len(paths) > 1 else None, keep_unsure=True)
    messages = Messages()
    for found in imports:
        _say(found, messages, f"{found.source}: " if found is not imports[0] else "")
    said = [(m.level, m.paper, m.text, m.picture) for m in messages.all()]
    papers = [
        {
            "kind": paper.kind,
            "name": paper.name,
            "numbers": paper.numbers,
            "content": paper.content(),
        }
        for found in imports
        for paper in found.papers
        if paper.whole
    ]
    if not papers and not said:
        raise UsageError(f"{paths[0]}: no passage with options found")
    doubtful = any(found.doubts for found in imports)
    text = "\n".join(imports[0].text)[:LONGEST_TEXT] if doubtful else ""
    return {"papers": papers, "messages": said, "text": text}


def _say(found: Import, messages: Messages, of: str) -> None:
    """All messages of the import.

    Args:
        found: the import.
        messages: where they go.
        of: the beginning of messages about a key in a file of its own.
    """
    for doubt in found.doubts:
        picture = base64.b64encode(doubt.picture).decode()
        shown = f"{doubt.text} ({doubt.place})" if doubt.text else f"not read: {doubt.place}"
        messages.add("check", shown, picture=picture)
    for note in found.notes:
        messages.add("note", of + _for_page(note))
    for paper in found.papers:
        for trouble in paper.troubles:
            messages.add("refused", _for_page(str(trouble)), paper.name)
        for note in dict.fromkeys(paper.notes):
            messages.add("note", note, paper.name)
    for trouble in found.troubles:
        messages.add("refused", of + _for_page(str(trouble)))
    left_out = [f"{of}{e.place} ({e.why}): {shortened(e.text, 100)}" for e in found.left_out]
    for line in first_of(left_out, SHOWN_LINES, "more lines"):
        messages.add("left out", line)


def _for_page(said: str) -> str:
    """A message of the import without the options of its command."""
    for command, page in _OPTIONS.items():
        said = said.replace(command, page)
    return said


if __name__ == "__main__":
    main()
