"""Options of several words read with a [MASK] for each piece: against a loop by hand."""

import json

import pytest
import torch
from conftest import SAMPLE, SHAPE

from albert_rc.answering.again import require_way
from albert_rc.answering.pieces import AROUND, _around, readings, rescored, too_long
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.errors import UsageError
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet, Passage, Question
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store

ALONE = Processes(torch.device("cpu"))
TEXT = "He _ the bag and ran , but nobody _ him that day ."
LONGEST = 512
OPTIONS = (("picked up", "dropped", "put on again", "sold"), ("was", "had", "and", "the"))


@pytest.fixture(scope="module")
def model():
    return load_model(SAMPLE / "vocabulary", "cloze", scratch="tiny", shape=SHAPE).model


@pytest.fixture(scope="module")
def store(tokenizer):
    blanks = tuple((i, i + 1) for i, sign in enumerate(TEXT) if sign == "_")
    questions = tuple(Question(options, 0) for options in OPTIONS)
    papers = [Passage(f"{n}.json", TEXT, questions, "cloze", blanks) for n in range(3)]
    return make_store(PaperSet("dev", "cloze", "cloze", papers), tokenizer, 64)


def by_hand(model, tokenizer, store, question):
    """One window and one option at a time, through the encoder's own padding-free call."""
    tensors = store.tensors
    end = int(tensors["token_offset"][1])
    text, place = tensors["token"][:end].tolist(), int(tensors["blank_position"][question])
    found = []
    for option in range(4):
        first, last = tensors["piece_offset"][4 * question + option :][:2].tolist()
        pieces = tensors["piece"][first:last].tolist()
        filling = [tokenizer.mask_id] * len(pieces)
        token_T = torch.tensor([*text[:place], *filling, *text[place + 1 :]])
        hidden_TD = model.encoder(token_T, torch.arange(len(token_T)), (len(token_T),))
        row_PD = model.head.transform(hidden_TD[place : place + len(pieces)].float())
        log_PV = (row_PD @ model.words.T + model.head.bias).log_softmax(-1)
        found.append(log_PV[range(len(pieces)), pieces].mean())
    return torch.stack(found).log_softmax(-1)


def test_each_piece_has_a_place_of_its_own(model, tokenizer, store):
    """The result is the mean of the plain reading and of one with a [MASK] for each piece."""
    scored_QK = score(model, tokenizer, store, ALONE)
    again = readings(store, tokenizer, LONGEST)
    found_QK = rescored(model, again, scored_QK, ALONE, token_budget=100)
    with torch.inference_mode():
        second_K = by_hand(model.eval(), tokenizer, store, 0)
        expected_K = ((scored_QK[0] + second_K) / 2).log_softmax(-1)
    torch.testing.assert_close(found_QK[0], expected_K, atol=1e-5, rtol=0)
    # The second blank has words of one piece each.
    counts = store.tensors["piece_offset"].diff()[4:8].tolist()
    assert counts == [1] * 4
    assert torch.equal(found_QK[1], scored_QK[1])
    for paper in (1, 2):
        torch.testing.assert_close(found_QK[2 * paper], found_QK[0], atol=1e-5, rtol=0)
    large = rescored(model, again, scored_QK, ALONE, token_budget=10_000)
    torch.testing.assert_close(large, found_QK, atol=1e-5, rtol=0)


def test_a_blank_is_read_once_for_each_length(store, tokenizer):
    lengths = store.tensors["piece_offset"].diff()[:4].tolist()
    assert len(readings(store, tokenizer, LONGEST)) == 3 * len(set(lengths))


def asked(*options, text="She _ it and _ home _ ."):
    """A paper with a blank for each tuple of options."""
    places = [i for i, sign in enumerate(text) if sign == "_"]
    blanks = tuple((place, place + 1) for place in places)
    questions = tuple(Question(some, 0) for some in options)
    return PaperSet("x", "cloze", "cloze", [Passage("1.json", text, questions, "cloze", blanks)])


ONE_WORD = ("unforgettableness", "dog", "sea", "sun")
PHRASES = ("gave up", "went on again", "sold", "is")


def test_words_of_several_pieces_are_left_to_the_plain_reading(tokenizer):
    store = make_store(asked(ONE_WORD, PHRASES, ONE_WORD), tokenizer, 64)
    assert int(store.tensors["piece_offset"].diff()[0]) > 1
    again = readings(store, tokenizer, LONGEST)
    assert {reading.question for reading in again} == {1}


def test_a_blank_is_read_with_all_its_options_in_its_place(tokenizer):
    store = make_store(asked(PHRASES, ONE_WORD, PHRASES[:3]), tokenizer, 64)
    tensors = store.tensors
    text, mask, found = tensors["token"].tolist(), tokenizer.mask_id, []
    for reading in readings(store, tokenizer, LONGEST):
        place = int(tensors["blank_position"][reading.question])
        filling = [mask] * reading.width
        assert reading.tokens == [*text[:place], *filling, *text[place + 1 :]]
        assert reading.first == place
        for option, pieces in reading.options.items():
            assert len(pieces) == reading.width
            found.append((reading.question, option))
    assert sorted(found) == [*((0, option) for option in range(4)), (2, 0), (2, 1), (2, 2)]


def test_fewer_options_than_other_questions_have(model, tokenizer):
    store = make_store(asked(PHRASES, ONE_WORD, PHRASES[:3]), tokenizer, 64)
    scored_QK = score(model, tokenizer, store, ALONE)
    again = readings(store, tokenizer, LONGEST)
    found_QK = rescored(model, again, scored_QK, ALONE, token_budget=512)
    assert found_QK.exp().sum(-1).tolist() == pytest.approx([1, 1, 1])
    assert torch.equal(found_QK.isinf(), scored_QK.isinf())
    assert not torch.equal(found_QK[2], scored_QK[2])


TOKENS = [2, 11, 12, 13, 14, 15, 16, 17, 3]


@pytest.mark.parametrize(
    ("place", "most", "expected"),
    [
        (4, 9, [2, 12, 13, 4, 4, 4, 15, 16, 3]),
        (4, 8, [2, 13, 4, 4, 4, 15, 16, 3]),
        (4, 5, [2, 4, 4, 4, 3]),
        (1, 9, [2, 4, 4, 4, 12, 13, 14, 15, 3]),
        (7, 9, [2, 13, 14, 15, 16, 4, 4, 4, 3]),
        (6, 10, [2, 12, 13, 14, 15, 4, 4, 4, 17, 3]),
        (4, 64, [2, 11, 12, 13, 4, 4, 4, 15, 16, 17, 3]),
    ],
)
def test_the_text_on_both_sides_of_a_blank_is_kept(place, most, expected):
    tokens, first = _around(TOKENS, place, [4, 4, 4], most)
    assert tokens == expected
    assert tokens[first : first + 3] == [4, 4, 4]
    assert first == expected.index(4)


def test_a_blank_is_read_again_with_what_is_near_it(tokenizer):
    """A long passage takes no longer than a short one, and a long option leaves it its place."""
    many = " ".join(["word"] * 200)
    options = ("gave up", "put it all down again", "went", "is")
    store = make_store(asked(options, text=f"{many} _ {many} ."), tokenizer, LONGEST)
    widths = store.tensors["piece_offset"].diff().tolist()
    lengths = [len(reading.tokens) for reading in readings(store, tokenizer, LONGEST)]
    assert lengths == [AROUND + width for width in sorted(set(widths))]
    (shortest,) = {len(reading.tokens) for reading in readings(store, tokenizer, 40)}
    assert shortest == 40


def test_an_option_that_no_window_holds_leaves_its_blank_to_the_plain_reading(
    model, tokenizer, works, tmp_path
):
    """The others are read again; the longest that fits is, too, with what room it leaves."""
    papers = []
    for words in (300, 507, 600):
        options = (("sea", "sea " * words, "dry land", "sun"), ("is", "has been there", "a", "b"))
        text = " ".join(["word"] * 200) + " _ " + " ".join(["end"] * 200) + " _ now ."
        paper = {"article": text, "options": options}
        (tmp_path / f"{words}.json").write_text(json.dumps(paper))
        papers.append(read_split(tmp_path / f"{words}.json").passages[0])
    store = make_store(PaperSet("dev", "cloze", "cloze", papers), tokenizer, LONGEST)
    (said,) = too_long(store, LONGEST)
    assert said.startswith("600.json, blank 1: an option of 6")
    scored_QK = score(model, tokenizer, store, ALONE)
    again = readings(store, tokenizer, LONGEST)
    assert max(len(reading.tokens) for reading in again) <= LONGEST
    found_QK = rescored(model, again, scored_QK, ALONE, token_budget=512)
    kept = [torch.equal(a, b) for a, b in zip(found_QK, scored_QK, strict=True)]
    assert kept == [False, False, False, False, True, False]
    done = works(
        "predict", "--data", tmp_path / "600.json", "--model", "albert-rc-tiny", "--out",
        tmp_path / "answer.json", "--option-score", "masks",
    )  # fmt: skip
    assert "their blanks are read only once" in done.stderr
    assert "600.json, blank 1: an option of" in done.stderr


def test_other_questions_and_ways_are_refused(model, stores, store):
    for way, papers in (("masks", stores["race", "dev"]), ("all", store)):
        with pytest.raises(UsageError, match=f"--option-score {way}"):
            require_way(model, papers, way)
