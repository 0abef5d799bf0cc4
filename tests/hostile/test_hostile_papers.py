"""Ten thousand papers a run: each is encoded exactly and in order, or refused in a sentence."""

import re
import tempfile
from pathlib import Path
from random import Random

import pytest
from hostile_papers import BAD, EITHER, Author, put_junk, write, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import check_choice, check_cloze, check_problems, check_read

from albert_rc.papers.formats import read_split
from albert_rc.stores.encode import encode_labels
from albert_rc.stores.encode_spans import encode_spans

EXAMPLES = 50
PAPERS = 100
"""Of an example, for cloze and for race each: 2 x 50 x 100 papers in all."""
STATES = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,  # fuzz.py is for seeds that nobody has tried
    database=None,
    suppress_health_check=list(HealthCheck),
)
SPLITS = {
    "seed": st.integers(0, 2**32),
    "texts": st.lists(st.text(max_size=30), max_size=12),
    "max_length": st.sampled_from((8, 9, 16, 40, 512)),
}
tried = {"cloze": 0, "race": 0}
seen = {"read": 0, "refused": 0, "options": 0}


def lay_out(folder, kind, papers, rng):
    """A split: some papers as files of their own, the others as lines; where each one lies."""
    files = {}
    suffix = ".json" if kind == "cloze" else ".txt"
    lines = []
    for number, paper in enumerate(papers):
        if rng.random() < 0.1 or b"\n" in paper.content:
            mark = b"\xef\xbb\xbf" if rng.random() < 0.3 else b""
            name = f"p{number}{suffix}"
            (folder / name).write_bytes(mark + paper.content)
            files[name] = paper
        else:
            lines += [b""] * (rng.random() < 0.05)
            lines.append(paper.content)
            files[f"l.jsonl:{len(lines)}"] = paper
    (folder / "l.jsonl").write_bytes(b"\n".join(lines))
    return files


def check_split(kind, tokenizer, seed, texts, max_length):
    rng = Random(seed)
    author = Author(rng, texts)
    papers = [written(author, kind) for _ in range(PAPERS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "papers"
        folder.mkdir()
        files = lay_out(folder, kind, papers, rng)
        split = read_split(folder, "train", kind)
    assert len(split.passages) + split.num_rejected == PAPERS
    refused = {e.file.removeprefix("papers/") for e in split.errors}
    for place, paper in files.items():
        if paper.must_be != EITHER:
            said = [str(e) for e in split.errors if e.file == f"papers/{place}"]
            assert (place in refused) == (paper.must_be == BAD), (place, paper, said)
    check_problems(split.problems, ("papers/",))
    # The author gives no ids, so a paper is called by its place.
    ids = [passage.id for passage in split.passages]
    assert sorted(ids) == sorted(files.keys() - refused)
    for passage in split.passages:
        check_read(kind, passage, files[passage.id].content)
    if kind == "cloze":
        seen["options"] += check_cloze(split.passages, tokenizer, max_length)
    else:
        seen["options"] += check_choice(split.passages, tokenizer, 10**6)
    tried[kind] += PAPERS
    seen["read"] += len(split.passages)
    seen["refused"] += split.num_rejected


@STATES
@given(**SPLITS)
def test_cloze_papers(tokenizer, seed, texts, max_length):
    check_split("cloze", tokenizer, seed, texts, max_length)


@STATES
@given(**SPLITS)
def test_race_papers(tokenizer, seed, texts, max_length):
    check_split("race", tokenizer, seed, texts, max_length)


FEW = settings(STATES, max_examples=10)


def read_file(name, content, kind):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        split = read_split(path, "train", kind)
    check_problems(split.problems, (name,))
    return split


@FEW
@given(**SPLITS)
def test_dream_papers(tokenizer, seed, texts, max_length):
    rng = Random(seed)
    author = Author(rng, texts)
    papers = [author.dream() for _ in range(40)]
    spoilt = rng.sample(range(40), 15)
    for number in spoilt:
        put_junk(papers[number], rng)
    split = read_file("dev.json", write(papers, rng), "dream")
    assert len(split.passages) + split.num_rejected == 40
    read = {passage.id: passage for passage in split.passages}
    for number, paper in enumerate(papers):
        if number in spoilt:
            continue
        turns, questions = paper
        passage = read[f"dev.json[{number + 1}]"]
        assert passage.text == "\n".join(turns)
        assert [q.text for q in passage.questions] == [q["question"] for q in questions]
        for found, asked in zip(passage.questions, questions, strict=True):
            assert found.options[found.answer] == asked["answer"].strip()
    check_choice(split.passages, tokenizer, 10**6)


@FEW
@given(**SPLITS)
def test_squad_papers(tokenizer, seed, texts, max_length):
    rng = Random(seed)
    author = Author(rng, texts)
    articles = [author.squad(f"q{number}") for number in range(40)]
    spoilt = rng.sample(range(40), 15)
    for number in spoilt:
        put_junk(articles[number], rng)
    split = read_file("dev.json", write({"data": articles}, rng), "squad")
    read = {passage.id: passage for passage in split.passages}
    good = [number for number in range(40) if number not in spoilt]
    for number in good:
        # A spoilt article may have taken the id of its question, and is then named for it.
        (wanted,) = articles[number]["paragraphs"]
        passage = read[f"q{number}#1"]
        assert passage.text == wanted["context"]
        ((first, last),) = passage.questions[0].spans
        assert passage.text[first:last] == wanted["qas"][0]["answers"][0]["text"]
    encoded = encode_spans(split.passages, tokenizer, max(16, max_length))
    for passage, ids, begins, ends in zip(
        split.passages, encoded.passage_tokens, encoded.begins, encoded.ends, strict=True
    ):
        assert len(ids) == len(begins) == len(ends)
        assert all(0 <= a <= b <= len(passage.text) for a, b in zip(begins, ends, strict=True))
    asked = [question for passage in split.passages for question in passage.questions]
    lengths = [len(ids) for p, ids in zip(split.passages, encoded.passage_tokens, strict=True)
               for _ in p.questions]  # fmt: skip
    for question, windows, length in zip(asked, encoded.windows, lengths, strict=True):
        # Together the windows hold every token, and nothing else.
        held = {token for first, count in windows for token in range(first, first + count)}
        assert held == set(range(length)), question.id


@FEW
@given(**SPLITS)
def test_tables(tokenizer, seed, texts, max_length):
    rng = Random(seed)
    author = Author(rng, texts)
    rows, lines = [], [b"sentence1\tsentence2\tlabel"]
    for _ in range(60):
        row = [re.sub(r"[\t\n\r]", " ", author.text()) for _ in range(2)]
        row.append(rng.choice(("entailment", "not_entailment", "-", "evil", "", "Entailment")))
        rows.append(row)
        content = "\t".join(row[: rng.choice((3, 3, 3, 2))]).encode()
        lines.append(content.replace(b"It", b"It\xff") if rng.random() < 0.1 else content)
    split = read_file("train.tsv", b"\n".join(lines), "rte")
    assert len(split.passages) + split.num_rejected == 60
    assert [int(p.id) for p in split.passages] == sorted(int(p.id) for p in split.passages)
    for passage in split.passages:
        first, second, label = rows[int(passage.id) - 2]
        (question,) = passage.questions
        assert (passage.text, question.text) == (first.strip(), second.strip())
        known = {"entailment": 0, "not_entailment": 1}.get(label)
        assert question.answer == known
        assert label != "evil"
    encoded = encode_labels(split.passages, tokenizer, max_length)
    assert all(len(row) <= max_length for row in encoded.tokens)
    assert all(row.count(tokenizer.sep_id) == 2 for row in encoded.tokens)


def test_ten_thousand_papers_were_tried():
    """Of the two tests above; run with them."""
    if not all(tried.values()):
        pytest.skip("only counts what the tests above have tried in this process")
    assert sum(tried.values()) >= 2 * EXAMPLES * PAPERS == 10_000
    assert seen["read"] > 3000
    assert seen["refused"] > 3000
    assert seen["options"] > 10_000
