"""JSON whose objects name each key once.

The standard leaves open which of two equal keys counts, and parsers differ: a paper with two
fields "answers" would silently be read with the later one.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

from albert_rc.errors import DataError
from albert_rc.io.files import parse_json
from albert_rc.io.messages import quoted

# Strings whole, so that a brace in one is not taken for structure. Possessive: nothing to retry.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}:]', re.DOTALL)


def parse_unique_json(content: bytes) -> Any:
    """Parse JSON in UTF-8 and refuse an object that names a key twice.

    Raises:
        ValueError: not UTF-8, not JSON, or a key stands twice; says where and what to do.
    """
    value = parse_json(content)
    if isinstance(value, (dict, list)) and _may_repeat(content, value):
        _refuse_repeats(content.decode("utf-8-sig"))
    return value


def read_unique_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        DataError: the file cannot be read, is not JSON in UTF-8, or a key stands twice.
    """
    try:
        return parse_unique_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None


def _may_repeat(content: bytes, value: Any) -> bool:
    """Whether the quick test cannot rule out a repeated key.

    What the parser dropped is missing when the value is written again, its colon included. Colons
    are not escaped in writing, but may have been in the file, which could make up for one.
    """
    try:
        again = orjson.dumps(value)
    except orjson.JSONEncodeError:  # nested more deeply than it writes
        return True
    return again.count(b":") != content.count(b":") or b"\\u003" in content


def _refuse_repeats(text: str) -> None:
    """Walk through valid JSON, however deep, and raise at the first key that stands twice."""
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
                        f"line {line}: the key {quoted(key)} stands twice in one object; keep the "
                        "right one and take out the other"
                    )
                objects[-1].add(key)
            case string:
                last = string
