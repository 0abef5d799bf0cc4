"""Recall: blanks whose surroundings stand in training papers, and nothing else."""

import json

import pytest
import torch

from albert_rc.answering.lookup import CONTEXT, EVIDENCE, Memory, Recalled, with_recall
from albert_rc.errors import UsageError
from albert_rc.papers.schema import PaperSet, Passage, Question
from albert_rc.stores.store import make_store

TEXT = (
    "The old man walked slowly down to the river every morning before the sun came up and looked "
    "at the boats that lay on the other side of the water without a word to anybody at all."
)


def paper(name, text, blanks):
    """A paper with these words of a text left out, the right option in a place of its own."""
    words = text.split()
    questions = []
    for number, (word, others) in enumerate(blanks):
        place = words.index(word) if word in words else None
        options = [*others]
        options.insert(number % 4, word)
        if place is not None:
            words[place] = "_"
        questions.append(Question(tuple(options), number % 4))
    joined = " ".join(words)
    spans = tuple((i, i + 1) for i, sign in enumerate(joined) if sign == "_")
    return Passage(name, joined, tuple(questions), "cloze", spans)


def stored(tokenizer, *papers, **more):
    return make_store(PaperSet("train", "cloze", "cloze", papers, **more), tokenizer, 128)


TRAIN = paper("t1", TEXT, [("slowly", ("fast", "up", "out")), ("boats", ("men", "cars", "birds"))])
ASKED = [("river", ("hill", "road", "shop")), ("word", ("sign", "look", "song"))]


def test_what_stood_there_is_recalled_through_the_blanks_of_both(tokenizer):
    memory = Memory(stored(tokenizer, TRAIN))
    found = memory.recall(stored(tokenizer, paper("d1", TEXT, ASKED)))
    assert found.option_Q.tolist() == [0, 1]
    assert found.known == 2
    # "slowly" was asked in training: its answer is known as well.
    again = memory.recall(stored(tokenizer, TRAIN))
    assert again.option_Q.tolist() == [0, 1]


def test_options_of_several_words_and_at_the_edges(tokenizer):
    first = paper("d1", TEXT.replace("river every", "river-every"), [("The", ("A", "An", "My"))])
    found = Memory(stored(tokenizer, TRAIN)).recall(stored(tokenizer, first))
    assert found.option_Q.tolist() == [0]
    text = TEXT.replace("came up", "_")
    spans = ((text.index("_"), text.index("_") + 1),)
    several = Passage(
        "d2", text, (Question(("came", "came up", "went up", "rose"), 1),), "cloze", spans
    )
    found = Memory(stored(tokenizer, TRAIN)).recall(stored(tokenizer, several))
    assert found.option_Q.tolist() == [1]


def test_another_text_recalls_nothing(tokenizer):
    other = (
        "A young girl ran quickly up the hill one evening after the moon had gone and sang a song"
    )
    asked = paper("d1", other, [("hill", ("river", "road", "shop"))])
    found = Memory(stored(tokenizer, TRAIN)).recall(stored(tokenizer, asked))
    assert found.option_Q.tolist() == [-1]
    # A few words that are the same are no proof; many are, if on one side only.
    for before, expected in (("My aunt went", [-1]), ("The old man walked slowly", [1])):
        half = f"{before} down to the hill where nobody had ever been before that day"
        asked = paper("d2", half, [("hill", ("river", "road", "shop"))])
        found = Memory(stored(tokenizer, TRAIN)).recall(stored(tokenizer, asked))
        assert found.option_Q.tolist() == expected


def test_two_options_that_both_stood_there_are_no_evidence(tokenizer):
    text = TRAIN.text.replace("river", "hill")
    spans = tuple((i, i + 1) for i, sign in enumerate(text) if sign == "_")
    twin = Passage("t2", text, TRAIN.questions, "cloze", spans)
    found = Memory(stored(tokenizer, TRAIN, twin)).recall(
        stored(tokenizer, paper("d", TEXT, ASKED))
    )
    assert found.option_Q.tolist() == [-1, 1]


def test_unanswered_training_blanks_prove_nothing(tokenizer):
    unknown = tuple(Question(q.options, None) for q in TRAIN.questions)
    bare = Passage("t1", TRAIN.text, unknown, "cloze", TRAIN.blanks)
    found = Memory(stored(tokenizer, bare)).recall(stored(tokenizer, TRAIN))
    assert found.option_Q.tolist() == [-1, -1]


def test_evidence_moves_probabilities_and_no_others():
    rows = [[0.5, 0.3, 0.2], [0.98, 0.02, 0.0], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2]]
    scored = torch.tensor(rows).log()
    recalled = Recalled(torch.tensor([2, 1, -1, 2]), torch.tensor([CONTEXT, 9, 0, 60]))
    found = with_recall(scored, recalled).exp()
    assert found.sum(-1).tolist() == pytest.approx([1] * 4)
    assert found[2].tolist() == pytest.approx([0.2, 0.5, 0.3])
    odds = found / (1 - found)
    before = scored.exp() / (1 - scored.exp())
    gained = (odds[:, 2] / before[:, 2]).log()
    assert gained[[0, 3]].tolist() == pytest.approx([EVIDENCE[0], EVIDENCE[-1]], abs=1e-4)
    assert found[1, 2] == 0


def test_only_cloze_papers_of_one_vocabulary(stores, tokenizer):
    with pytest.raises(UsageError, match="--recall is for cloze papers, not for choice"):
        Memory(stores["race", "train"])
    memory = Memory(stores["cloze", "train"])
    other = stores["cloze", "dev"]
    other = type(other)(other.tensors, other.meta | {"vocabulary": "another"})
    with pytest.raises(UsageError, match="a different vocabulary"):
        memory.recall(other)


def test_answers_that_were_recalled_are_told_apart(sample, tmp_path, works):
    """The training papers themselves: all their blanks are known."""
    gold = sample / "cloze" / "train"
    out, scores = tmp_path / "a.json", tmp_path / "a.jsonl"
    done = works(
        "predict", "--data", gold, "--model", "albert-rc-tiny", "--out", out, "--scores", scores,
        "--recall", gold,
    )  # fmt: skip
    assert "recalled from training papers: " in done.stdout
    assert "this only copies their key" in done.stderr
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    known = [line for line in lines if "read" in line]
    assert len(known) > 0.9 * len(lines)
    found = json.loads(works("evaluate", scores, gold, "--json").stdout)
    assert found["groups"]["answered by"]["recall"]["accuracy"] > 0.95
    assert found["accuracy"] > found["reading_alone"]["accuracy"] + 0.2
    assert json.loads(works("evaluate", out, gold, "--json").stdout)["correct"] == found["correct"]
