"""Which encoding a text is in: told where it is plain, and refused where it is not."""

import pytest

from albert_rc.io.decode import decode, encoding_of

ENGLISH = (
    "He said, “It’s the café’s own — you know…” and paid £5 for a slice. “Really?” asked Zoë. "
    "Nobody else spoke for a while; the naïve waiter counted the boys’ coins and smiled. "
    "Then the door opened, and the wind blew all of the papers from the tables to the floor. "
) * 3
CHINESE = "阅读下面短文，从短文后各题所给的四个选项中选出最佳选项。 The 2024 exam."


@pytest.mark.parametrize(
    ("text", "codec", "title"),
    [
        (ENGLISH, "utf-8", "UTF-8"),
        (ENGLISH, "utf-8-sig", "UTF-8 with a byte order mark"),
        (ENGLISH, "utf-16", "UTF-16"),
        (ENGLISH, "utf-16-be", "UTF-16 without a byte order mark"),
        (ENGLISH, "utf-32", "UTF-32"),
        (ENGLISH, "cp1252", "Windows-1252"),
        ("the animals’ noise", "cp1252", "Windows-1252"),
        (CHINESE, "gb18030", "GB18030"),
        ("(2024 高考) A paper.", "gb18030", "GB18030"),
    ],
)
def test_what_is_plain_is_read(tmp_path, text, codec, title):
    content = text.encode(codec)
    found, encoding = decode(content)
    assert (found, encoding.title) == (text, title)
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert path.read_text(encoding=encoding_of(path).codec) == text


@pytest.mark.parametrize("codec", ["utf-8", "cp1252"])
def test_a_stray_zero_is_a_space(tmp_path, codec):
    content = (ENGLISH * 9).encode(codec)
    content = content[:301] + b"\0" + content[301:]
    content += b" " * (len(content) % 2)  # nearly any bytes of even length are valid UTF-16
    text, encoding = decode(content)
    assert text == (content.replace(b"\0", b" ")).decode(codec)
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert encoding_of(path).codec == encoding.codec
    with pytest.raises(ValueError, match="not a text file"):
        decode(b"\0" * 300 + content)


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (ENGLISH, "mac_roman"),
        (ENGLISH, "cp437"),
        (ENGLISH, "cp850"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy, a pak šel domů.", "cp1250"),
        ("Był zły, bo mąż poszedł na łąkę z żoną.", "cp1250"),
        (CHINESE, "big5"),
        ("日本語の文章です。", "shift_jis"),
    ],
)
def test_what_is_not_plain_is_refused(tmp_path, text, codec):
    content = text.encode(codec, "replace")
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    for read in (lambda: decode(content), lambda: encoding_of(path)):
        with pytest.raises(ValueError, match=r"byte 0x.. in line 1 is not UTF-8.*; save it as"):
            read()


def test_damaged_utf_8_is_no_other_encoding(tmp_path):
    for content in (ENGLISH.encode() + b"\x92", ENGLISH.encode()[:-1] + b"\xe2\x80"):
        with pytest.raises(ValueError, match="is not UTF-8"):
            decode(content)


def test_a_file_is_looked_at_to_its_end(tmp_path):
    """A letter may stand on the border of two blocks, a bad byte at the very end."""
    path = tmp_path / "long.txt"
    path.write_bytes(b"x" * (2**20 - 1) + "é".encode() * 2**19)
    assert encoding_of(path).title == "UTF-8"
    path.write_bytes(b"x " * 2**19 + b"It\x92s")
    assert encoding_of(path).title == "Windows-1252"
    path.write_bytes(b"x " * 2**19 + b"\xc3")
    with pytest.raises(ValueError, match="byte 0xc3 in line 1"):
        encoding_of(path)
    path.write_bytes(b"a line with \0 in it")
    assert encoding_of(path).title == "UTF-8"
