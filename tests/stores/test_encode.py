"""Positions of blanks, windows, truncation, and what a batch makes of them."""

import random
from itertools import pairwise

import pytest
import torch

from albert_rc.errors import DataError
from albert_rc.io.atomic import atomic_path
from albert_rc.papers.formats import read_split
from albert_rc.papers.parse import Problems, parse_cloze
from albert_rc.papers.schema import PaperSet, Passage, Question, letter, letter_index
from albert_rc.stores.batches import BatchOrder, Collator, batches_by_length, share
from albert_rc.stores.encode import (
    encode_choice,
    encode_cloze,
    most_central,
    question_with_option,
    windows,
)
from albert_rc.stores.masking import WordHider
from albert_rc.stores.store import check_store, load_store, make_store


def cloze_of(num_words, every, seed=0):
    rng = random.Random(seed)
    words = [
        rng.choice(["the", "old", "farmer", "house", "walked", "home"]) for _ in range(num_words)
    ]
    for i in range(every // 2, num_words, every):
        words[i] = "_"
    count = words.count("_")
    raw = {"article": " ".join(words), "options": [["glad", "very sad"]] * count}
    return parse_cloze(raw | {"answers": ["A"] * count}, f"p{seed}", None, Problems("x"))


def paper_set(*passages):
    return PaperSet("train", passages[0].kind, "cloze", passages)


def test_letters():
    assert [letter(i) for i in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]
    assert all(letter_index(letter(i)) == i for i in range(800))
    assert letter_index("a") is None
    assert letter_index("") is None
    assert letter_index("É") is None


@pytest.mark.parametrize("length", [1, 10, 11, 12, 20, 37, 100, 1000])
def test_windows_cover_everything(length):
    starts = windows(length, 10)
    covered = {i for s in starts for i in range(s, min(s + 10, length))}
    assert covered == set(range(length))
    assert all(b - a <= 5 for a, b in pairwise(starts))
    assert starts[-1] == max(0, length - 10)


def test_a_blank_belongs_to_the_window_whose_middle_is_nearest():
    starts = windows(40, 10)
    for position in range(40):
        chosen = most_central(position, starts, 10)
        distances = [abs(position - start - 4.5) for start in starts]
        assert distances[chosen] == min(distances)
        assert starts[chosen] <= position < starts[chosen] + 10


@pytest.mark.parametrize("max_length", [8, 16, 33, 64, 512])
@pytest.mark.parametrize("num_words", [5, 60, 700])
def test_every_blank_is_scored_exactly_once_where_its_mask_is(tokenizer, max_length, num_words):
    passage = cloze_of(num_words, 4)
    encoded = encode_cloze([passage], tokenizer, max_length)
    places = sum(len(blanks) for blanks in encoded.window_blanks)
    assert places == len(passage.questions) == len(encoded.answers)
    for ids, blanks in zip(encoded.window_tokens, encoded.window_blanks, strict=True):
        assert len(ids) <= max_length
        assert blanks == sorted(set(blanks))
        assert blanks
        assert all(ids[b] == tokenizer.mask_id for b in blanks)
        assert ids[0] == tokenizer.cls_id
        assert ids[-1] == tokenizer.sep_id


def test_blanks_of_a_long_passage_keep_their_order(tokenizer):
    """Decode what stands left of each mask: it must be the word left of that blank in the text."""
    words = [f"{a}{b}" for a in "bcdfghklmnprst" for b in ("an", "en", "in", "on", "un")]
    text = " ".join(f"{word} _" for word in words)
    options = [["glad", "sad"]] * len(words)
    passage = parse_cloze({"article": text, "options": options}, "x", None, Problems("x"))
    store = make_store(paper_set(passage), tokenizer, 40)
    assert store.num_items > 3
    seen = {}
    collate = Collator(store, tokenizer)
    for items in batches_by_length(store.lengths, 200, 8):
        batch = collate(items)
        flat = batch.token_T
        blanks = batch.read_S[batch.blank_index_Q].tolist()
        for question, blank in zip(batch.question_Q.tolist(), blanks, strict=True):
            start = blank
            while flat[start - 1] not in (tokenizer.mask_id, tokenizer.cls_id):
                start -= 1
            seen[question] = tokenizer.to_text(flat[start:blank].tolist())
    # A window may begin inside a word, so the last letters decide.
    assert [seen[q][-2:] for q in range(len(words))] == [w[-2:] for w in words]


def test_batches_hold_the_options_pieces(tokenizer, stores):
    store = stores["cloze", "train"]
    batch = Collator(store, tokenizer)([6, 0, 19])
    options = store.tensors["option_offset"]
    for place, question in enumerate(batch.question_Q.tolist()):
        for k, option in enumerate(range(options[question], options[question + 1])):
            slot = place * batch.num_options + k
            index = (batch.option_slot_O == slot).nonzero().item()
            start, end = store.tensors["piece_offset"][option : option + 2].tolist()
            mine = batch.piece_P[batch.piece_option_P == index]
            assert mine.tolist() == store.tensors["piece"][start:end].tolist()
            assert batch.piece_place_P[batch.piece_option_P == index].tolist() == list(
                range(end - start)
            )


def choice_passage(question, options, words=30, answer=0):
    text = " ".join(["the old farmer walked home"] * (words // 5))
    return Passage("p", text, (Question(tuple(options), answer, question),), "choice")


def test_the_option_fills_the_questions_blank():
    assert question_with_option("He is _ .", "very glad") == "He is very glad ."
    assert question_with_option("Who is he?", r"a \1 farmer") == r"Who is he? a \1 farmer"
    assert question_with_option("_ is he", r"\g<0>") == r"\g<0> is he"
    assert question_with_option("It is about_.", "bread") == "It is about bread."
    assert question_with_option("It__is", "was") == "It was is"
    # A single underscore inside a word is no blank.
    asked = "Who should write to john_smith@163.com?"
    assert question_with_option(asked, "Tom") == f"{asked} Tom"
    assert question_with_option(f"{asked} _ .", "Tom") == f"{asked} Tom ."
    # Two blanks take an option's two parts, or both take all of it.
    asked = "He _ the job and _ home."
    assert question_with_option(asked, "lost; went") == "He lost the job and went home."
    assert question_with_option(asked, "lost, went") == "He lost the job and went home."
    assert question_with_option(asked, "left") == "He left the job and left home."
    assert question_with_option("He is _ .", "sad, old") == "He is sad, old ."


def test_pairs_are_whole_and_see_the_same_passage(tokenizer):
    passage = choice_passage("Who is he?", ["the farmer", "an old man who walked home", "no"], 200)
    (question,) = passage.questions
    store = make_store(PaperSet("dev", "choice", "race", [passage]), tokenizer, 48)
    batch = Collator(store, tokenizer)([0])
    assert len(batch.lengths) == 3
    assert max(batch.lengths) == 48
    kept = int(store.tensors["kept"][0])
    rows = torch.split(batch.token_T, batch.lengths)
    segment_rows = torch.split(batch.segment_T, batch.lengths)
    places = torch.split(batch.place_T, batch.lengths)
    assert batch.token_T[batch.read_S].tolist() == [tokenizer.cls_id] * 3
    for row, option in enumerate(question.options):
        ids = rows[row].tolist()
        tail = tokenizer.encode([f"Who is he? {option}"])[0]
        assert ids[0] == tokenizer.cls_id
        assert torch.equal(rows[row][1 : 1 + kept], rows[0][1 : 1 + kept])
        assert ids[1 + kept :] == [tokenizer.sep_id, *tail, tokenizer.sep_id]
        assert places[row].tolist() == list(range(len(ids)))
        assert segment_rows[row].tolist() == [0] * (kept + 2) + [1] * (len(tail) + 1)
    assert store.meta["num_cut"] == 1
    assert store.meta["tokens_cut"] == len(tokenizer.encode([passage.text])[0]) - kept


def test_a_question_that_does_not_fit_is_refused(tokenizer):
    passage = choice_passage("Who " * 40, ["a", "b"])
    with pytest.raises(DataError, match=r"p: question 1 with its longest option has \d+ tokens"):
        encode_choice([passage], tokenizer, 32)


def test_stores_come_back_as_they_were(tokenizer, stores, tmp_path):
    for store in stores.values():
        path = tmp_path / "s.pt"
        with atomic_path(path) as temporary:
            store.save(temporary)
        again = load_store(path)
        assert again.meta == store.meta
        assert again.tensors.keys() == store.tensors.keys()
        assert all(torch.equal(again.tensors[k], store.tensors[k]) for k in store.tensors)


def test_stores_are_deterministic(sample, tokenizer, tmp_path):
    for name in ("a.pt", "b.pt"):
        split = read_split(sample / "cloze" / "dev")
        make_store(split, tokenizer, 512).save(tmp_path / name)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()


def test_a_store_of_another_vocabulary_or_window_is_refused(tokenizer, stores, tmp_path):
    class Other:
        fingerprint = "0" * 64
        folder = tmp_path

    store = stores["cloze", "dev"]
    with pytest.raises(DataError, match=r"different vocabulary .*albert-rc preprocess RAW --model"):
        check_store(store, tmp_path / "dev.pt", Other(), 512)
    with pytest.raises(DataError, match=r"512 tokens, but the model takes 128.*--max-length 128"):
        check_store(store, tmp_path / "dev.pt", tokenizer, 128)
    with pytest.raises(DataError, match=r"512 tokens, but --max-length is 128; leave --max-length"):
        check_store(store, tmp_path / "dev.pt", tokenizer, 128, limited=True)


@pytest.mark.parametrize(("count", "size"), [(1, 4), (10, 3), (997, 8), (400, 1)])
def test_an_epoch_sees_every_item_once(count, size):
    order = BatchOrder(lengths=torch.randint(5, 500, (count,)), batch_size=size, seed=3)
    for epoch in (0, 1):
        batches = order.epoch(epoch)
        assert sorted(i for b in batches for i in b) == list(range(count))
        assert len(batches) == order.batches_per_epoch
        assert max(map(len, batches)) <= size
    assert order.epoch(1) == order.epoch(1)
    assert count == 1 or order.epoch(0) != order.epoch(1)


def test_batches_are_bucketed_by_length():
    lengths = torch.randint(50, 500, (2000,))
    batches = BatchOrder(lengths=lengths, batch_size=8, seed=0).epoch(0)
    padded = sum(int(lengths[b].max()) * len(b) for b in batches)
    assert padded < 1.05 * int(lengths.sum())


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("micro", [1, 2, 5])
def test_ranks_and_micro_batches_share_a_batch_out(world, micro):
    batch = list(range(7))
    parts = [part for rank in range(world) for part in share(batch, rank, world, micro)]
    assert sorted(i for part in parts for i in part) == batch
    assert all(len(share(batch, rank, world, micro)) <= micro for rank in range(world))


def test_prediction_batches_stay_within_the_budget():
    lengths = torch.tensor([10, 600, 50, 50, 50, 20])
    batches = list(batches_by_length(lengths, 120, 64))
    assert sorted(i for b in batches for i in b) == list(range(6))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * int(lengths[batch].max()) <= 120


def test_hidden_words_are_whole_and_a_pure_function(tokenizer, stores):
    store = stores["cloze", "train"]
    collate = Collator(store, tokenizer, WordHider(tokenizer, 0.3, seed=1))
    plain = Collator(store, tokenizer)([0, 3, 5])
    batch, again = collate([0, 3, 5], epoch=2), collate([0, 3, 5], epoch=2)
    assert torch.equal(batch.token_T, again.token_T)
    assert not torch.equal(batch.token_T, collate([0, 3, 5], epoch=3).token_T)
    alone = collate([3], epoch=2).token_T
    assert torch.equal(torch.split(batch.token_T, batch.lengths)[1], alone)  # whoever else is there
    hidden = batch.masked_index_M[batch.masked_index_M[:, None].ne(batch.blank_index_Q).all(1)]
    hidden = batch.read_S[hidden]
    assert (batch.token_T[hidden] == tokenizer.mask_id).all()
    words = plain.token_T
    share_hidden = len(hidden) / len(words)
    assert 0.2 < share_hidden < 0.4
    for index in hidden.tolist():
        follower = tokenizer.pieces([int(words[index + 1])])[0]
        if follower.isalpha():  # continues the word, so it must be hidden too
            assert index + 1 in hidden.tolist()
    single = batch.masked_index_M[len(hidden) :]
    assert torch.isin(single, batch.blank_index_Q).all()


@pytest.mark.parametrize(
    ("pieces", "begins"),
    [
        (["▁glad", "ly", ".", "▁", "–"], [True, False, True, True, True]),
        (["Ġglad", "ly", ",", "Ġ", "s"], [True, False, True, True, False]),
        (["glad", "##ly", ".", "he", "##s"], [True, False, True, True, False]),
    ],
)
def test_where_words_begin_in_each_kind_of_vocabulary(pieces, begins):
    class Vocabulary:
        size, pad_id, cls_id, sep_id, mask_id = 5, 0, 0, 0, 0

        def pieces(self, ids):
            return pieces

    assert WordHider(Vocabulary(), 0.1, 0).begins_V.tolist() == begins
