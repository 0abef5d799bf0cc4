"""Bytes of a text file to text: UTF-8, UTF-16 or GB18030, and nothing else by guessing."""

from __future__ import annotations

import codecs

from albert_rc.errors import DataError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
COMMON = 0.98
"""Share of a Chinese text's two-byte characters that GB 2312, the oldest set, has at least."""


def decode(content: bytes, name: str) -> tuple[str, str]:
    """The text, and the name of its encoding.

    Every byte must be right in it. GB18030 gives a meaning to nearly any two bytes, so it is only
    believed if what comes out are common Chinese characters: curly quotes of Windows-1252 before
    a letter come out as rare ones.

    Raises:
        DataError: none of the three, for certain.
    """
    for mark, codec, title in _MARKS:
        if content.startswith(mark):
            try:
                return content.decode(codec), title
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}: it begins as {title}, but byte {error.start + 1} is none; "
                    "save it again as UTF-8"
                ) from None
    zeros = content[:4000].count(0)
    if zeros:
        wide = _wide(content)
        if wide is None:
            raise DataError(f"{name}: bytes that are no text; give a .txt, .docx or .pdf file")
        return wide, "UTF-16 without a byte order mark"
    try:
        return content.decode("utf-8"), "UTF-8"
    except UnicodeDecodeError as error:
        bad = error.start
    text = _chinese(content)
    if text is None:
        line = content.count(b"\n", 0, bad) + 1
        raise DataError(
            f"{name}: byte 0x{content[bad]:02x} in line {line} is not UTF-8, and the text is "
            "neither UTF-16 nor, for certain, GB18030; save it as UTF-8"
        )
    return text, "GB18030"


def _wide(content: bytes) -> str | None:
    """UTF-16 by the zeros, which Latin letters have on one side only."""
    even, odd = content[::2].count(0), content[1::2].count(0)
    codec = "utf-16-le" if odd > 10 * even else "utf-16-be" if even > 10 * odd else None
    if codec is None:
        return None
    try:
        text = content.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _chinese(content: bytes) -> str | None:
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        return None
    wide = [char for char in text if not char.isascii()]
    known = sum(_in_gb2312(char) for char in wide)
    return text if known >= COMMON * len(wide) else None


def _in_gb2312(char: str) -> bool:
    try:
        char.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return True
