"""JSON in UTF-8: reading with located errors, atomic writing, detection of duplicate keys.

The standard leaves open which of two equal keys counts, and parsers differ: a paper with two
fields "answers" would silently be read with the later one. `*_unique_*` refuse it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from albert_rc.errors import DataError
from albert_rc.io.atomic import write_bytes
from albert_rc.io.files import read_bytes
from albert_rc.io.messages import quoted

# Whole strings, so that a brace in one is not taken for structure. Possessive: no backtracking.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}:]', re.DOTALL)


def to_json(value: Any, indent: bool = True) -> bytes:
    """JSON in UTF-8 with a newline at the end; keys keep their order."""
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    return orjson.dumps(value, option=options | (orjson.OPT_INDENT_2 if indent else 0))


def json_lines(values: Iterable[Any]) -> bytes:
    """One line of JSON per value."""
    return b"".join(to_json(value, indent=False) for value in values)


def write_json(target: Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    write_bytes(target, to_json(value))


def write_each(folder: Path, contents: Mapping[str, Any]) -> None:
    """Write files by name, each atomically: bytes as they are, anything else as JSON."""
    for name, content in contents.items():
        found = content if isinstance(content, bytes) else to_json(content)
        write_bytes(folder / name, found)


_PACKED = "compressed by {}; unpack it first, or if it holds papers, let its name end in {}"
_NOT_TEXT = {
    b"%PDF": "a PDF, not JSON",
    b"PK\3\4": "a Word document or another zip archive, not JSON; unpack an archive first",
    b"\xd0\xcf\x11\xe0": "an old Word document, not JSON; save it as .docx",
    b"\x1f\x8b": _PACKED.format("gzip", ".gz"),
    b"\x28\xb5\x2f\xfd": _PACKED.format("Zstandard", ".zst"),
    b"\xfd7zXZ": "compressed by xz; unpack it first",
    b"BZh": "compressed by bzip2; unpack it first",
}
"""First bytes of files that are not text, and the message about each."""


def parse_json(content: bytes, is_line: bool = False) -> Any:
    """Parse JSON in UTF-8, with or without a byte order mark.

    Args:
        content: the JSON.
        is_line: whether it is a line of a file, so that its own lines have no numbers.

    Raises:
        ValueError: not UTF-8 or not JSON; the message names the position and a solution.
    """
    for opening, said in _NOT_TEXT.items():
        if content.startswith(opening):
            raise ValueError(said)
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError("the text is UTF-16, not UTF-8; save the file as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = "" if is_line else f" in line {content.count(10, 0, error.start) + 1}"
        raise ValueError(
            f"byte 0x{content[error.start]:02x}{where} is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        above = "" if is_line else f"line {error.lineno}, "
        raise ValueError(
            f"not JSON at {above}column {error.colno} ({error.msg}); fix it there"
        ) from None


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """A value as it is read back from JSON: tuples are lists."""
    found: dict[str, Any] = parse_json(to_json(value))
    return found


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: the file cannot be read, or is not JSON in UTF-8.
    """
    return _parsed(path, parse_json)


def read_json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON Lines file, such as a run's metrics.jsonl.

    Lines truncated by a crash are left out; a missing file counts as empty.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        try:
            value = parse_json(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def six_digits(value: float) -> float:
    """Round to six significant digits, which preserve a small probability's logarithm."""
    return float(f"{value:.6g}")


def parse_unique_json(content: bytes, is_line: bool = False) -> Any:
    """Parse JSON in UTF-8 and refuse an object with a duplicate key; see `parse_json`.

    Raises:
        ValueError: not UTF-8, not JSON, or a duplicate key; names the position and a solution.
    """
    value = parse_json(content, is_line)
    if isinstance(value, (dict, list)) and _may_repeat(content, value):
        _refuse_repeats(content.decode("utf-8-sig"))
    return value


def read_unique_json(path: Path) -> Any:
    """Read a JSON file without duplicate keys.

    Raises:
        DataError: the file cannot be read, is not JSON in UTF-8, or has a duplicate key.
    """
    return _parsed(path, parse_unique_json)


def _parsed(path: Path, parse: Callable[[bytes], Any]) -> Any:
    try:
        return parse(read_bytes(path))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def _may_repeat(content: bytes, value: Any) -> bool:
    """Whether a quick test cannot rule out a duplicate key.

    A dropped key, with its colon, is missing when the value is written again. Colons escaped in the
    file are written plainly, which could compensate for one.
    """
    try:
        again = orjson.dumps(value)
    except orjson.JSONEncodeError:  # nested too deeply to be written
        return True
    return again.count(b":") != content.count(b":") or b"\\u003" in content


def _refuse_repeats(text: str) -> None:
    """Walk through valid JSON of any depth, and raise at the first duplicate key."""
    objects: list[set[str]] = []
    last = '""'
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                objects.append(set())
            case "}":
                objects.pop()
            case ":":
                key = orjson.loads(last)
                if key in objects[-1]:
                    line = text.count("\n", 0, token.start()) + 1
                    raise ValueError(
                        f"line {line}: the key {quoted(key)} occurs twice in one object; keep the "
                        "right one and remove the other"
                    )
                objects[-1].add(key)
            case string:
                last = string
