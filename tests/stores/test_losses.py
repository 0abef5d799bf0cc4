"""What a model cannot see of its papers is said."""

import json

from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet, Passage, Question
from albert_rc.stores.losses import losses, twins
from albert_rc.stores.store import load_store, make_store
from albert_rc.stores.subset import chosen_papers
from albert_rc.text.tokenizer import load_tokenizer


def asked(*options, kind="cloze", text="It was _ to go.", question="What?"):
    rows = [Question(tuple(each), 0, "" if kind == "cloze" else question) for each in options]
    places = tuple((i, i + 1) for i, char in enumerate(text) if char == "_")
    return PaperSet("p", kind, kind, [Passage("p", text, tuple(rows), kind, places)])


def test_options_of_the_same_pieces_are_found(tokenizer):
    papers = asked(
        ("good", "bad"), ("late", "The", "the"), ("café", "tea", "Cafe"), ("a b", "ab"),
        text="_ was _ to _ and _.",
    )  # fmt: skip
    store = make_store(papers, tokenizer, 512)
    assert twins(store) == [(1, 1, 2), (2, 0, 2)]
    (said,) = losses(store)
    assert said == (
        "2 questions with options that are the same for the model, which cannot choose between "
        "them: p question 2 (B and C), p question 3 (A and C)"
    )
    choice = make_store(asked(("Tom", "Ann", "TOM"), ("x", "y"), kind="choice"), tokenizer, 512)
    assert twins(choice) == [(0, 0, 2)]


def test_options_of_other_pieces_are_not_taken_for_the_same(tokenizer):
    store = make_store(asked(("good", "bad", "late")), tokenizer, 512)
    assert twins(store) == []


def test_parts_of_a_passage_that_are_not_read_are_said(tokenizer):
    papers = asked(("a cat", "a dog"), kind="choice", text="word " * 200 + "Tom is a dog.")
    (said,) = losses(make_store(papers, tokenizer, 64))
    assert said.startswith("1 question has a passage that is longer than the window; the parts ")
    assert not losses(make_store(papers, tokenizer, 512))


def test_a_question_of_squad_that_does_not_fit_is_said(tokenizer, tmp_path):
    context = "Tom lives in Paris. " * 40
    asked = {"id": "q", "question": "Where " + "on earth " * 60 + "?", "answers": []}
    short = {"id": "s", "question": "Where?", "answers": []}
    data = [{"paragraphs": [{"context": context, "qas": [asked, short]}]}]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"version": "2.0", "data": data}))
    store = make_store(read_split(path), tokenizer, 64)
    assert losses(store) == ["1 question is too long for the window; their ends are not read"]
    assert "1 question truncated" in store.summary()
    # How many questions of a subset were truncated is not known any more.
    assert "truncated" not in chosen_papers(store, [0], "half").summary()


def test_a_subset_counts_its_own_papers_with_several_windows(tokenizer):
    long, short = (
        Passage(name, text, (Question(("a", "b"), 0, ""),) * 2, "cloze", ((0, 1), (end, end + 1)))
        for name, text, end in (
            ("long", f"_ {'word ' * 200}_", 1002),
            ("short", f"_ {'word ' * 5}_", 27),
        )
    )
    store = make_store(PaperSet("p", "cloze", "cloze", [long, short, long]), tokenizer, 64)
    counts = [chosen_papers(store, papers, "some").meta["num_long"] for papers in ([1], [0, 1])]
    assert (store.meta["num_long"], *counts) == (2, 0, 1)


def test_a_question_without_any_text_keeps_its_store_whole(sample, tmp_path):
    """Blanks alone and an empty option leave no pieces."""
    tokenizer = load_tokenizer(sample / "vocabulary")
    path = tmp_path / "a.json"
    path.write_text('{"article": "A cat.", "questions": ["_"], "options": [["", "a cat"]],'
                    ' "answers": ["B"]}')  # fmt: skip
    store = make_store(read_split(path), tokenizer, 512)
    store.save(tmp_path / "a.pt")
    assert load_store(tmp_path / "a.pt").num_questions == 1
