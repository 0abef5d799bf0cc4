"""Decoding of text files: reliable detection of UTF-8, UTF-16, GB18030 and Windows-1252."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_BLOCK = 2**20
_HEAD = 4000  # bytes checked for zeros, as in UTF-16
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),  # begins like UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
LEAST_ZEROS = 0.3
"""Minimum share of zeros among every other byte of UTF-16."""
MOST_ZEROS = 0.01
"""Maximum share of stray zeros in a text."""
COMMON = 0.98
"""Minimum share of a Chinese text's two-byte characters that are in GB 2312, the oldest set."""
ACCENTED, FEW = 0.02, 3
"""Maximum share of accented letters in English Windows-1252 text, or their number if larger."""

# Evidence that text decoded as Windows-1252 has another encoding: accented capitals after a small
# letter or a sign, or before a capital and a small letter (Mac OS Roman's quotation marks); signs
# inside a word (DOS, Windows-1250); three accented letters in a row (Cyrillic); letters of
# Icelandic only; and pairs of a letter and a sign that are one letter in UTF-8.
_CAPITAL, _LETTER = "À-ÖØ-ÞŠŒŽŸ", "À-ÖØ-öø-ÿŠŒŽšœžŸ"
_IMPLAUSIBLE = re.compile(
    rf"[a-zà-öø-ÿ.,!?][{_CAPITAL}]|[{_CAPITAL}][A-Z][a-z]"
    rf"|[A-Za-z{_LETTER}][‚ƒ„†‡ˆ‰‹•˜›¡-¬®-¶¸-¿×÷][a-z{_LETTER}]"
    rf"|[{_LETTER}]{{3}}|[ÐÞðþÿ]|[\x00-\x08\x0e-\x1f\x7f]"
)
# Multi-byte letters of UTF-8, or the beginning of one if the text is truncated.
_UTF_8 = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xc2-\xf4][\x80-\xbf]{0,2}\Z"
)


@dataclass(frozen=True)
class Encoding:
    """A text encoding."""

    codec: str
    """Name of the codec in Python."""
    title: str
    """Name in messages."""


UTF_8 = Encoding("utf-8-sig", "UTF-8")


def decode(content: bytes) -> tuple[str, Encoding]:
    """The text, and its encoding.

    Every byte must be valid. Nearly any two bytes are valid GB18030, so GB18030 is accepted only
    if the result is common Chinese characters: curly quotes of Windows-1252 before a letter would
    decode to rare ones. Nearly any byte is valid Windows-1252, so Windows-1252 is accepted only if
    the result is English with a few signs and accents in plausible places.

    Raises:
        ValueError: no encoding is certain; the message names the position and a solution.
    """
    for mark, codec, title in _MARKS:
        if content.startswith(mark):
            try:
                return content.decode(codec), Encoding(codec, title)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"it begins as {title}, but byte {error.start + 1} is invalid; "
                    "save it again as UTF-8"
                ) from None
    if 0 in content[:_HEAD]:
        wide = _wide(content)
        if wide is not None:
            return wide
        if content.count(0) > MOST_ZEROS * len(content):
            raise ValueError("not a text file; save it as plain text in UTF-8")
    content = content.replace(b"\0", b" ")  # stray ones, such as a program's mistake
    try:
        return content.decode("utf-8"), UTF_8
    except UnicodeDecodeError as error:
        bad = error.start
    for read, encoding in (
        (_chinese, Encoding("gb18030", "GB18030")),
        (_western, Encoding("cp1252", "Windows-1252")),
    ):
        text = read(content)
        if text is not None:
            return text, encoding
    line = len(re.findall(rb"\r\n|\r|\n", content[:bad])) + 1
    raise ValueError(
        f"byte 0x{content[bad]:02x} in line {line} is not UTF-8, and the text is not UTF-16, "
        "and not clearly GB18030 or Windows-1252; save it as UTF-8"
    )


def encoding_of(path: Path) -> Encoding:
    """The encoding of a text file, which is read completely, in blocks if it is UTF-8.

    Raises:
        ValueError: as `decode`.
        OSError: the file cannot be read.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        head = file.read(_BLOCK)
        try:
            block = head
            while block:
                decoder.decode(block)
                block = file.read(_BLOCK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return decode(path.read_bytes())[1]
    # Zeros are valid UTF-8, too, and nearly every second byte of English UTF-16 is zero.
    start = head[:_HEAD]
    wide = _wide(path.read_bytes()) if start.count(0) > len(start) / 4 else None
    return UTF_8 if wide is None else wide[1]


def _wide(content: bytes) -> tuple[str, Encoding] | None:
    """Detect UTF-16 by zero bytes, which Latin letters have at even or at odd positions only."""
    even, odd = content[::2].count(0), content[1::2].count(0)
    codec = "utf-16-le" if odd > 10 * even else "utf-16-be" if even > 10 * odd else None
    # A stray zero shifts no other byte: nearly any bytes would be valid UTF-16.
    if codec is None or max(odd, even) < LEAST_ZEROS * len(content) / 2:
        return None
    try:
        text = content.decode(codec)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else (text, Encoding(codec, "UTF-16 without a byte order mark"))


def _chinese(content: bytes) -> str | None:
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        return None
    wide = {char: count for char, count in Counter(text).items() if not char.isascii()}
    known = sum(count for char, count in wide.items() if _in_gb2312(char))
    return text if known >= COMMON * sum(wide.values()) else None


def _in_gb2312(char: str) -> bool:
    try:
        char.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return True


def _western(content: bytes) -> str | None:
    if _UTF_8.search(content):  # damaged UTF-8
        return None
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        return None
    letters = Counter(char.isascii() for char in text if char.isalpha())
    few = letters[False] <= max(FEW, ACCENTED * letters[True])
    return text if few and not _IMPLAUSIBLE.search(text) else None
