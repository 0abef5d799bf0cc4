"""Slices by part of speech: tagged in the sentence, where the tagger is installed."""

import sys

import pytest

from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Passage, Question
from albert_rc.scoring import parts_of_speech as module
from albert_rc.scoring.parts_of_speech import parts_of_speech
from albert_rc.scoring.slices import slices_of


def paper(text, *options, answers=None):
    """A cloze paper whose right options come first."""
    blanks = tuple((i, i + 1) for i, sign in enumerate(text) if sign == "_")
    answers = [0] * len(options) if answers is None else answers
    questions = tuple(
        Question((option, "wrong"), answer) for option, answer in zip(options, answers, strict=True)
    )
    return Passage("p", text, questions, "cloze", blanks)


def test_every_kind_of_word():
    found = parts_of_speech(
        [
            paper("The _ barked _ at the _ man .", "dog", "loudly", "old"),
            paper("_ came in _ it rained , _ everybody knew .", "She", "because", "which"),
            paper("They _ go home _ .", "must", "at once"),
        ]
    )
    assert found[:3] == ["noun", "adverb", "adjective"]
    assert found[3:6] == [
        "pronoun or determiner",
        "preposition or conjunction",
        "question or relative word",
    ]
    assert found[6:] == ["verb", None]
    assert parts_of_speech([paper("He _ come .", "didn't")]) == ["verb"]


def test_a_capital_at_the_beginning_of_a_sentence_makes_no_name():
    found = parts_of_speech(
        [paper("It rained . _ an umbrella , he left . _ came .", "Carrying", "Nobody")]
    )
    assert found == ["verb", "noun"]


def test_signs_that_stick_to_words_do_not_shift_the_places():
    text = 'He said:"The (big) cat/dog isn\'t mine..."\n\nThen—slowly—the _ came; it was _!'
    assert parts_of_speech([paper(text, "animal", "beautiful")]) == ["noun", "adjective"]


def test_what_is_not_known_is_in_no_group():
    unknown = paper("The _ was _ .", "dog", "old", answers=[0, None])
    asked = Passage("q", "A text.", (Question(("a", "b"), 0, "Why?"),), "choice")
    signs = paper("The _ .", " ")
    assert parts_of_speech([unknown, asked, signs]) == ["noun", None, None, None]
    assert "part of speech" not in slices_of([asked])


@pytest.fixture
def no_tagger(monkeypatch):
    module._tagger.cache_clear()
    monkeypatch.setitem(sys.modules, "textblob.en.taggers", None)
    yield
    module._tagger.cache_clear()


def test_without_the_tagger_there_is_no_such_slice(no_tagger):
    assert "part of speech" not in slices_of([paper("The _ was old .", "dog")])


def test_real_papers(real_data):
    papers = read_split(real_data / "ele" / "dev").passages
    found = parts_of_speech(papers)
    assert len(found) == 7798
    assert found.count(None) == 621  # right options of several words
    assert found.count("other") < 20


@pytest.mark.parametrize(
    "text",
    [
        "a" * 30_000, "/" * 9_000, "1," * 9_000, "a-" * 9_000, ". " * 9_000, "'" * 9_000,
        "http://" * 3_000 + "[com", "a@" * 9_000, "ing" * 9_000, "\u202e\ufeff\u2028\x0b\x85\ud800",
    ],
    ids=range(10),
)  # fmt: skip
def test_no_text_is_too_odd(text):
    found = parts_of_speech([paper(f"{text} _ {text}", "dog"), paper("The _ .", text)])
    assert found[0] == "noun"
    assert len(found) == 2
