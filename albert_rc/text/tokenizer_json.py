"""What our tokenizer does to a text first, as steps of a `tokenizer.json`.

`encode` collapses white space, and puts a space before the first word. A tokenizer.json for other
libraries has to do the same (`with_our_steps`); it remains the same vocabulary (`original_steps`).
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


def with_our_steps(normalizer: Any, pre_tokenizer: Any) -> tuple[Any, Any]:
    """A tokenizer.json's normalizer and pre-tokenizer, after our own first steps."""
    steps = [replace(SPACES, " "), STRIP_END]
    if normalizer:
        steps.append(normalizer)
    kinds = str(pre_tokenizer)
    if "Metaspace" in kinds or "ByteLevel" in kinds:
        # Ensures a leading space, which Metaspace and ByteLevel then mark.
        pre_tokenizer = sequence(word_start(" "), pre_tokenizer, of="pretokenizers")
    return sequence(*steps), pre_tokenizer


def original_steps(normalizer: Any, pre_tokenizer: Any) -> tuple[Any, Any]:
    """The inverse of `with_our_steps`; what it did not make is returned as it is."""
    match normalizer:
        case {"normalizers": [_, _]}:
            inner = None
        case {"normalizers": [_, _, inner]}:
            pass
        case _:
            return normalizer, pre_tokenizer
    match pre_tokenizer:
        case {"pretokenizers": [_, outer]} if pre_tokenizer == with_our_steps(None, outer)[1]:
            parts = outer
        case _:
            parts = pre_tokenizer
    made = with_our_steps(inner, parts) == (normalizer, pre_tokenizer)
    return (inner, parts) if made else (normalizer, pre_tokenizer)
