"""Options of several pieces read with a [MASK] for each: against a loop that does it by hand."""

import json

import pytest
import torch
from conftest import SAMPLE, SHAPE

from albert_rc.answering.pieces import WAYS, _widened, readings, rescored, too_long
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.errors import UsageError
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet, Passage, Question
from albert_rc.runtime.devices import Processes
from albert_rc.stores.store import make_store

ALONE = Processes(torch.device("cpu"))
TEXT = "He _ the bag and ran , but nobody _ him that day ."
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


def by_hand(model, tokenizer, store, question, way):
    """One window and one piece at a time, through the encoder's own padding-free call."""
    tensors = store.tensors
    end = int(tensors["token_offset"][1])
    text, place = tensors["token"][:end].tolist(), int(tensors["blank_position"][question])
    found = []
    for option in range(4):
        first, last = tensors["piece_offset"][4 * question + option :][:2].tolist()
        pieces = tensors["piece"][first:last].tolist()
        total = 0.0
        for hidden, piece in enumerate(pieces):
            filling = [tokenizer.mask_id] * len(pieces)
            if way == "pll":
                filling = [x if i != hidden else tokenizer.mask_id for i, x in enumerate(pieces)]
            token_T = torch.tensor([*text[:place], *filling, *text[place + 1 :]])
            hidden_TD = model.encoder(token_T, torch.arange(len(token_T)), (len(token_T),))
            head = model.head
            row = head.transform(hidden_TD[place + hidden].float())
            total += float((model.words @ row + head.bias).log_softmax(-1)[piece])
        found.append(total / len(pieces))
    return torch.tensor(found).log_softmax(-1)


@pytest.mark.parametrize("way", WAYS)
def test_each_piece_has_a_place_of_its_own(model, tokenizer, store, way):
    scored_QK = score(model, tokenizer, store, ALONE)
    again = readings(model, tokenizer, store, way)
    found_QK = rescored(model, again, scored_QK, ALONE, token_budget=100)
    with torch.inference_mode():
        expected_K = by_hand(model.eval(), tokenizer, store, 0, way)
    torch.testing.assert_close(found_QK[0], expected_K, atol=1e-5, rtol=0)
    # The second blank has words of one piece each, or it would not tell the two apart.
    counts = store.tensors["piece_offset"].diff()[4:8].tolist()
    assert counts == [1] * 4
    assert torch.equal(found_QK[1], scored_QK[1])
    for paper in (1, 2):
        torch.testing.assert_close(found_QK[2 * paper], found_QK[0], atol=1e-5, rtol=0)
    large = rescored(model, again, scored_QK, ALONE, token_budget=10_000)
    torch.testing.assert_close(large, found_QK, atol=1e-5, rtol=0)


def test_how_many_windows_are_read(model, store, tokenizer):
    lengths = store.tensors["piece_offset"].diff()[:4].tolist()
    assert len(readings(model, tokenizer, store, "masks")) == 3 * len(set(lengths))
    assert len(readings(model, tokenizer, store, "pll")) == 3 * sum(lengths)


@pytest.mark.parametrize("place", [1, 4, 7])
def test_what_is_too_long_goes_at_the_far_end(place):
    text = [2, 11, 12, 13, 14, 15, 16, 17, 3]
    tokens, first = _widened(text, place, [4, 4, 4], 9)
    assert len(tokens) == 9
    assert tokens[first : first + 3] == [4, 4, 4]
    assert (tokens[0], tokens[-1]) == (2, 3)
    assert text[place - 1] in (tokens[first - 1], 2) or tokens[first - 1] == text[place - 1]
    assert tokens[first + 3] == text[place + 1]
    assert _widened(text, place, [4], 9) == ([*text[:place], 4, *text[place + 1 :]], place)


@pytest.mark.parametrize("place", [1, 4, 7])
def test_both_ends_go_where_one_is_not_enough(place):
    text = [2, 11, 12, 13, 14, 15, 16, 17, 3]
    for room in (5, 6, 7):
        tokens, first = _widened(text, place, [4, 4, 4], room)
        assert len(tokens) == room
        assert tokens[first : first + 3] == [4, 4, 4]
        assert (tokens[0], tokens[-1]) == (2, 3)
        around = [*text[1:place], *text[place + 1 : -1]]
        assert set(tokens) - {2, 3, 4} <= set(around)


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
    store = make_store(PaperSet("dev", "cloze", "cloze", papers), tokenizer, 512)
    (said,) = too_long(store, 512)
    assert said.startswith("600.json, blank 1: an option of 6")
    scored_QK = score(model, tokenizer, store, ALONE)
    again = readings(model, tokenizer, store, "masks")
    assert max(len(reading.tokens) for reading in again) <= 512
    found_QK = rescored(model, again, scored_QK, ALONE, token_budget=512)
    kept = [torch.equal(a, b) for a, b in zip(found_QK, scored_QK, strict=True)]
    assert kept == [False, False, False, False, True, False]
    done = works(
        "predict", "--data", tmp_path / "600.json", "--model", "albert-rc-tiny", "--out",
        tmp_path / "answer.json", "--option-score", "masks",
    )  # fmt: skip
    assert "their blanks are answered as without --option-score" in done.stderr
    assert "600.json, blank 1: an option of" in done.stderr


def test_other_questions_and_ways_are_refused(model, stores, tokenizer, store):
    for way, papers in (("masks", stores["race", "dev"]), ("all", store)):
        with pytest.raises(UsageError, match=f"--option-score {way}"):
            readings(model, tokenizer, papers, way)
