"""Dev papers whose text is also in a training paper."""

import json
import random

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


def test_papers_without_common_text_are_not_found(tmp_path, tokenizer):
    train, dev = texts(3, 0), [["xylophone"] * 40, ["a"]]
    found = in_both(
        cloze(tmp_path / "train", train, 11, tokenizer), cloze(tmp_path / "dev", dev, 1, tokenizer)
    )
    assert found == []


def test_larger_stores_are_not_compared(tmp_path, tokenizer, monkeypatch):
    papers = cloze(tmp_path / "train", texts(2, 0), 17, tokenizer)
    assert in_both(papers, papers) == ["p0.json", "p1.json"]
    monkeypatch.setattr("albert_rc.stores.overlap.LARGEST", 100)
    assert in_both(papers, papers) == []


def test_the_advice_about_papers_in_both_fits_their_kind(tmp_path, tokenizer, capsys):
    """`evaluate --train` is for blanks and questions with options."""
    from albert_rc.cli.train import _say_in_both

    papers = texts(3, 0)
    store = cloze(tmp_path / "cloze", papers, 9, tokenizer)
    _say_in_both(store, store)
    assert "`evaluate --train` gives the accuracy without them" in " ".join(
        capsys.readouterr().err.split()
    )
    asked = [{"id": "q", "question": "Who?", "answers": [{"text": "the", "answer_start": 0}]}]
    paragraphs = [{"context": "the " + " ".join(words), "qas": asked} for words in papers[:1]]
    squad = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / "dev.json").write_text(json.dumps(squad))
    spans = make_store(read_split(tmp_path / "dev.json"), tokenizer, 256)
    _say_in_both(spans, spans)
    said = capsys.readouterr().err
    assert "names both" in " ".join(said.split())
    assert "--train" not in said
