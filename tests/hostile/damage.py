"""The sample's papers and made-up ones, damaged by the byte or by the field, for `fuzz.py`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from random import Random

from hostile_papers import NASTY, Author, put_junk, write, written

SAMPLE = Path(__file__).parents[2] / "data" / "sample"


def papers_of_sample(form: str) -> list[bytes]:
    """The sample's papers of a format; of one that it lacks, none."""
    if form == "dream":
        return [file.read_bytes() for file in sorted((SAMPLE / form).glob("*.json"))]
    folder = SAMPLE / form
    return [file.read_bytes() for file in sorted(folder.rglob("*.*")) if file.parent != folder]


def made_up(author: Author, form: str, number: int) -> bytes:
    """A paper, or a file of them, that nobody wrote."""
    if form in ("cloze", "race"):
        return written(author, form).content
    if form == "dream":
        return write([author.dream() for _ in range(5)], author.rng)
    if form == "squad":
        return write({"data": [author.squad(f"q{number}.{i}") for i in range(5)]}, author.rng)
    rows = [f"{author.text()}\t{author.text()}\tentailment" for _ in range(20)]
    return "\n".join(["sentence1\tsentence2\tlabel", *rows]).encode()


def mangle(content: bytes, other: bytes, rng: Random) -> bytes:
    """Damage by the byte: changed, gone, repeated, or taken from another paper."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        if not found:
            break
        start = rng.randrange(len(found))
        end = min(len(found), start + rng.choice((1, 1, 2, 10, 200)))
        match rng.randrange(7):
            case 0:
                found[start] = rng.randrange(256)
            case 1:
                found[start] ^= 1 << rng.randrange(8)
            case 2:
                del found[start:end]
            case 3:
                found[start:start] = found[start:end] * rng.choice((1, 1, 3, 1000))
            case 4:
                found[start:end] = other[: end - start]
            case 5:
                found[start:start] = rng.choice(NASTY).encode()
            case _:
                found[start:start] = rng.choice(
                    (b"_", b" _ ", b'"', b"\\", b"{", b"[", b"\n", b",")
                )
    return bytes(found[: 2**20])


def spoil(content: bytes, other: bytes, rng: Random) -> bytes:
    """The paper as it is, or damaged in one of the ways."""
    how = rng.random()
    if how < 0.15:
        return content
    if how < 0.55:
        with contextlib.suppress(ValueError, RecursionError):
            paper = json.loads(content)
            if isinstance(paper, (dict, list)) and paper:
                for _ in range(rng.choice((1, 1, 2, 4))):
                    paper = put_junk(paper, rng) if paper else paper
                return write(paper, rng)
    return mangle(content, other, rng)


def lay_out(folder: Path, form: str, rng: Random) -> list[tuple[str, bytes]]:
    """A round's papers on the disk: names and contents."""
    texts = ["".join(map(chr, _points(rng))) for _ in range(8)]
    author = Author(rng, texts)
    pool = papers_of_sample(form)
    pool += [made_up(author, form, number) for number in range(max(8, len(pool)))]
    suffix = {"race": ".txt", "rte": ".tsv"}.get(form, ".json")
    # A split is one table: rows go by their numbers.
    count = {"cloze": 40, "race": 40, "rte": 1}.get(form, 4)
    files = []
    for number in range(count):
        content = spoil(rng.choice(pool), rng.choice(pool), rng)
        files.append((f"p{number}{suffix}", content))
    lines = [content.replace(b"\n", b" ") for _, content in files[::2]]
    if form in ("cloze", "race") and rng.random() < 0.7:
        files = [*files[1::2], ("l.jsonl", b"\n".join(lines))]
    for name, content in files:
        (folder / name).write_bytes(content)
    return files


def _points(rng: Random) -> list[int]:
    ends = (0x80, 0x300, 0x2100, 0xD800, 0x110000)
    points = [rng.randrange(rng.choice(ends)) for _ in range(rng.randrange(30))]
    return [point for point in points if not 0xD800 <= point < 0xE000]
