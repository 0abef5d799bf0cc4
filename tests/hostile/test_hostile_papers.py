"""Ten thousand papers a run: each is encoded exactly and in order, or refused in a sentence."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hostile_papers import BAD, EITHER, Author, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import check_choice, check_cloze, check_problems, check_read

from albert_rc.data.readers import read_split

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


def test_ten_thousand_papers_were_tried():
    """Of the two tests above; run with them."""
    if not all(tried.values()):
        pytest.skip("only counts what the tests above have tried in this process")
    assert sum(tried.values()) >= 2 * EXAMPLES * PAPERS == 10_000
    assert seen["read"] > 3000
    assert seen["refused"] > 3000
    assert seen["options"] > 10_000
