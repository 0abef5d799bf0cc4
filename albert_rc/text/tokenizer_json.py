"""What our tokenizer does to a text first, as steps of a `tokenizer.json`.

`encode` collapses white space, and puts a space before the first word. A tokenizer.json for other
libraries has to do the same (`with_our_steps`); it remains the same vocabulary
(`without_our_steps`).
"""

from __future__ import annotations

from typing import Any

# White space of Python's str.split; the regular expressions' \s lacks four of these characters.
SPACES = {"Regex": r"[\s\x1c-\x1f]+"}
STRIP_END = {"type": "Strip", "strip_left": False, "strip_right": True}


def sequence(*steps: dict[str, Any], of: str = "normalizers") -> dict[str, Any]:
    """Steps in order, as one."""
    return {"type": "Sequence", of: list(steps)}


def replace(pattern: dict[str, str], content: str) -> dict[str, Any]:
    """A step that replaces what a pattern matches."""
    return {"type": "Replace", "pattern": pattern, "content": content}


def word_start(mark: str) -> dict[str, Any]:
    """A rule that puts a word-start mark before the text, but not after a special token.

    There, a word has its own space, and glued text has none.
    """
    return {"type": "Metaspace", "replacement": mark, "prepend_scheme": "first", "split": False}


def with_our_steps(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a tokenizer.json, with our own steps before its own."""
    steps = [replace(SPACES, " "), STRIP_END]
    parts: Any = content.get("pre_tokenizer")
    if content.get("normalizer"):
        steps.append(content["normalizer"])
    kinds = str(parts)
    if "Metaspace" in kinds or "ByteLevel" in kinds:
        # Ensures a leading space, which Metaspace and ByteLevel then mark.
        parts = sequence(word_start(" "), parts, of="pretokenizers")
    return content | {"normalizer": sequence(*steps), "pre_tokenizer": parts}


def without_our_steps(content: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `with_our_steps`; what it did not make is returned as it is."""
    inner, parts = None, content.get("pre_tokenizer")
    match content.get("normalizer"):
        case {"normalizers": [_, _, inner]}:
            pass
    match parts:
        case {"pretokenizers": [{"replacement": " "}, parts]}:
            pass
    original = content | {"normalizer": inner, "pre_tokenizer": parts}
    return original if with_our_steps(original) == content else content
