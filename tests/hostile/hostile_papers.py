"""Papers as a careless or ill-meaning hand might write them, from a seed.

`Author` writes papers that are right, out of any texts; `spoil` damages them. Both are shared by
the tests and by `fuzz.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

NASTY = (
    "", " ", "glad", "ran out of", "a_b", "don't", "'s", "-year-old", ", she said .", "A",
    "a" * 300, "\x00", "\x1b[2J\x1b[31m", "\r\n\t\v", "\u202eevil\u202c", "\ufeff",
    "\u200b\u200d\u2060",
    "\u2028\u2029", "\ud7ff\ue000\uffff", "\U0010ffff", "e\u0301\u0323\u0301", "\u0301",
    "a\u0300" * 40, "👩\u200d👩\u200d👧", "🇬🇧", "ＦＵＬＬ－ＷＩＤＴＨ", "［ＭＡＳＫ］", "[MASK]",
    "▁▁", "[mask] [CLS][SEP]<pad><unk></s>", "ﬃ ½ ① ㎏", "שלום עולם", "مرحبا", "漢字かな", "한국어",
    "Ωμέγα Σ", "İstanbul", "ß", "naïve café", '"quoted"', "\\", "{}[]:,", '"article":',
    "../../etc/passwd",
)  # fmt: skip
"""Texts that something has stumbled over somewhere."""
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 1.5, 10**30, -(10**30), "", " ", "A", "a", "А", "１",
    "AAAAAAA", "text", [], {}, [[]], [None], ["a"], {"a": {"b": []}}, [1, 2],
)  # fmt: skip
"""Values that may stand where another is expected."""
GOOD, BAD, EITHER = "good", "bad", "either"


@dataclass(frozen=True)
class Written:
    """A paper as bytes, and whether it must be read, refused, or may be either."""

    content: bytes
    must_be: str


class Author:
    """Writes papers.

    Args:
        rng: decides everything.
        texts: what passages, questions and options are made of.
    """

    def __init__(self, rng: Random, texts: Sequence[str]) -> None:
        self.rng = rng
        self.texts = [*texts, *NASTY]

    def text(self) -> str:
        """Some running text without a blank in it, never empty."""
        parts = [self.rng.choice(self.texts) for _ in range(self.rng.randrange(4))]
        return " ".join(["It", *parts]).replace("_", "-")

    def options(self, least: int = 2) -> list[str]:
        """Options of one question."""
        count = 40 if self.rng.random() < 0.02 else self.rng.randint(least, 5)
        return [self.rng.choice(self.texts) for _ in range(count)]

    def letters(self, options: Sequence[Sequence[str]]) -> list[str]:
        """A right answer to each question."""
        return [chr(65 + self.rng.randrange(min(26, len(own)))) for own in options]

    def cloze(self) -> dict[str, Any]:
        """A cloze paper."""
        blanks = self.rng.randint(1, 6)
        # White space and signs may stand on either side of a blank, and nothing at the edges.
        edges = [self.rng.choice((" ", "\n", "\u3000", "\t ", "\u2009")) for _ in range(2 * blanks)]
        article = self.text() if self.rng.random() < 0.8 else ""
        for number in range(blanks):
            before = edges[2 * number] if article else ""
            article += f"{before}_{edges[2 * number + 1]}{self.text()}"
        options = [self.options() for _ in range(blanks)]
        paper: dict[str, Any] = {"article": article, "options": options}
        if self.rng.random() < 0.8:
            paper["answers"] = self.letters(options)
        return paper

    def race(self) -> dict[str, Any]:
        """A paper with questions."""
        count = self.rng.randint(1, 3)
        options = [self.options() for _ in range(count)]
        return {
            "article": self.text(),
            "questions": [f"{self.text()}{self.rng.choice((' _ .', '', '?'))}" for _ in options],
            "options": options,
            "answers": self.letters(options),
        }

    def dream(self) -> list[Any]:
        """A dialogue."""
        questions = []
        for _ in range(self.rng.randint(1, 3)):
            choice = self.options()
            right = self.rng.choice(choice)
            questions.append({"question": self.text(), "choice": choice, "answer": right})
        return [[f"M: {self.text()}" for _ in range(self.rng.randint(1, 4))], questions]

    def squad(self, key: str) -> dict[str, Any]:
        """An article with one paragraph and one question."""
        context = self.text()
        first = self.rng.randrange(len(context))
        last = self.rng.randint(first + 1, len(context))
        answer = {"text": context[first:last], "answer_start": first}
        qas = [{"id": key, "question": self.text(), "answers": [answer]}]
        return {"title": key, "paragraphs": [{"context": context, "qas": qas}]}


def write(value: Any, rng: Random) -> bytes:
    """JSON in one line, in one of its spellings."""
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()


def _nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values inside of one."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if isinstance(inner, (dict, list)):
            found += _nodes(inner, (*path, key))
        else:
            found.append((*path, key))
    return found


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def put_junk(paper: Any, rng: Random) -> Any:
    """Any value of the paper becomes another one, goes, or comes twice."""
    path = rng.choice(_nodes(paper))
    owner, key = _at(paper, path[:-1]), path[-1]
    how = rng.random()
    if how < 0.7:
        owner[key] = deepcopy(rng.choice(JUNK))
    elif how < 0.85:
        del owner[key]
    elif isinstance(owner, list):
        owner.insert(key, deepcopy(owner[key]))
    return paper


def _wrong_answer(paper: Any, rng: Random) -> Any:
    paper["answers"] = ["A"] * len(paper["options"])
    wrong = ("ａ", "ß", "А", "Ａ", "", "AB C", "ZZZZ", "A" * 5000, 1, None, True, ["A"], "AAA")
    paper["answers"][rng.randrange(len(paper["options"]))] = rng.choice(wrong)
    return paper


def _wrong_count(paper: Any, rng: Random) -> Any:
    name = rng.choice(("options", "answers"))
    paper["answers"] = ["A"] * len(paper["options"])
    if rng.random() < 0.5:
        paper[name].append(paper[name][0])
        return paper
    paper[name].pop()
    if name == "answers" and not paper[name]:
        paper[name] = ["A", "A"]  # none at all is a test paper
    return paper


def _no_options(paper: Any, rng: Random) -> Any:
    paper["options"][rng.randrange(len(paper["options"]))] = rng.choice(([], ["one"]))
    return paper


def _too_many_options(paper: Any, rng: Random) -> Any:
    paper["options"][0] = ["x"] * 703
    return paper


def _not_text(paper: Any, rng: Random) -> Any:
    paper["article"] = rng.choice((None, 5, [], {}, "", " \n", True))
    return paper


def _no_field(paper: Any, rng: Random) -> Any:
    del paper[rng.choice(("article", "options"))]
    return paper


def _glued(paper: Any, rng: Random) -> Any:
    paper["article"] += rng.choice((" un_", " _ing", " ____", " é_", "_漢"))
    return paper


WRONG: tuple[Callable[[Any, Random], Any], ...] = (
    _wrong_answer, _wrong_count, _no_options, _too_many_options, _not_text, _no_field,
)  # fmt: skip
"""What makes a cloze or race paper unusable for certain."""


def _torn(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(1, len(content))]


def _key_twice(content: bytes, rng: Random) -> bytes:
    key = rng.choice(('"article"', '"options"', '"answers"', '"artic\\u006ce"', '"o\\u0070tions"'))
    return b"{" + key.encode() + b': "other", "answers": [], "colon": "\\u003a", ' + content[1:]


def _not_utf8(content: bytes, rng: Random) -> bytes:
    place = content.index(b'"article"') + 11
    return (
        content[:place]
        + rng.choice((b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xe9"))
        + content[place:]
    )


def _lone_surrogate(content: bytes, rng: Random) -> bytes:
    return content.replace(b'"article": "', b'"article": "\\ud800', 1)


def _no_json(content: bytes, rng: Random) -> bytes:
    wrong = (b"NaN", b"Infinity", b"01", b"'x'", b"\x00", b"1e", b"{", b"tru", b"1" + b"0" * 400)
    return b'{"number": ' + rng.choice(wrong) + b", " + content[1:]


def _deep(content: bytes, rng: Random) -> bytes:
    depth = rng.choice((1100, 5000, 100_000))
    return b'{"deep": ' + b"[" * depth + b"]" * depth + b", " + content[1:]


TORN: tuple[Callable[[bytes, Random], bytes], ...] = (
    _torn, _key_twice, _not_utf8, _lone_surrogate, _no_json, _deep,
)  # fmt: skip
"""What makes the bytes of a cloze or race paper unreadable for certain."""


def _harmless(content: bytes, rng: Random) -> bytes:
    extra = (
        b'"number": 1' + b"0" * 40, b'"number": -1e-999', b'"deep": ' + b"[" * 300 + b"]" * 300,
        b'"x": null', b'"a:b": "c:\\u003ad"', b'"unknown": {"article": 5, "options": {}}',
    )  # fmt: skip
    return b"{" + rng.choice(extra) + b", " + content[1:]


def written(author: Author, kind: str) -> Written:
    """A cloze or race paper: two of five as they should be, the others damaged in some way."""
    rng = author.rng
    paper = author.cloze() if kind == "cloze" else author.race()
    how = rng.random()
    if how < 0.4:
        return Written(write(paper, rng), GOOD)
    if how < 0.5:
        return Written(_harmless(write(paper, rng), rng), GOOD)
    if how < 0.65:
        wrong = (*WRONG, _glued) if kind == "cloze" else WRONG
        return Written(write(rng.choice(wrong)(paper, rng), rng), BAD)
    if how < 0.75:
        return Written(rng.choice(TORN)(write(paper, rng), rng), BAD)
    for _ in range(rng.randint(1, 3)):
        paper = put_junk(paper, rng) if _nodes(paper) else paper
    return Written(write(paper, rng), EITHER)
