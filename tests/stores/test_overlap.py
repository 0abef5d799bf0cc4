"""Dev papers whose text is also in a training paper."""

import json
import random

import pytest

from albert_rc.papers.formats import read_split
from albert_rc.stores.overlap import in_both
from albert_rc.stores.store import make_store


def texts(count, seed):
    """Texts of made-up sentences, about 120 words each."""
    draw = random.Random(seed)
    words = "the old farmer walked home and she was glad to see him in a small green garden".split()
    return [" ".join(draw.choice(words) for _ in range(120)).split() for _ in range(count)]


def cloze(folder, papers, every, tokenizer):
    """A store of cloze papers with every so many words a blank."""
    folder.mkdir(parents=True)
    for number, words in enumerate(papers):
        kept = list(words)
        blanks = list(range(every - 1, len(words), every))
        options = [[words[place], "xylophone"] for place in blanks]
        for place in blanks:
            kept[place] = "_"
        paper = {"article": " ".join(kept), "options": options, "answers": ["A"] * len(blanks)}
        (folder / f"p{number}.json").write_text(json.dumps(paper))
    return make_store(read_split(folder), tokenizer, 64)


def dialogues(path, papers, tokenizer):
    """A store of dialogues with a question each."""
    asked = [{"question": "Who?", "choice": ["He.", "She."], "answer": "He."}]
    lines = [[["M: " + " ".join(words)], asked, f"p{n}"] for n, words in enumerate(papers)]
    path.write_text(json.dumps(lines))
    return make_store(read_split(path), tokenizer, 256)


def test_cloze_papers_with_other_blanks_in_the_same_text_are_found(tmp_path, tokenizer):
    """In windows of 64 tokens, so that every paper has several."""
    train, dev = texts(6, 0), texts(5, 1)
    dev[1] = train[4]
    dev[3] = train[2][:70] + dev[3][70:]
    found = in_both(
        cloze(tmp_path / "train", train, 17, tokenizer), cloze(tmp_path / "dev", dev, 19, tokenizer)
    )
    assert found == ["p1.json", "p3.json"]


def test_dialogues_are_found(tmp_path, tokenizer):
    train, dev = texts(6, 0), texts(5, 1)
    dev[4] = train[0]
    found = in_both(
        dialogues(tmp_path / "train.json", train, tokenizer),
        dialogues(tmp_path / "dev.json", dev, tokenizer),
    )
    assert found == ["p4"]


@pytest.mark.parametrize("block", [1, 100, 2**20])
def test_the_size_of_blocks_does_not_matter(tmp_path, tokenizer, monkeypatch, block):
    monkeypatch.setattr("albert_rc.stores.overlap.BLOCK", block)
    papers = texts(4, 0)
    train = cloze(tmp_path / "train", papers, 11, tokenizer)
    dev = cloze(tmp_path / "dev", papers[2:], 12, tokenizer)
    assert in_both(train, dev) == ["p0.json", "p1.json"]
