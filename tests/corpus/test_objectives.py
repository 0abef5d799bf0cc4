"""What pretraining hides and swaps: its distribution, and that it follows from seed and epoch."""

from collections import Counter

import pytest
import torch
from scipy import stats

from albert_rc.corpus.batches import NGramMasker, PretrainCollator
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.errors import DataError, UsageError


class Lines:
    """A corpus in memory: sequence i is two segments of document i // 2."""

    def __init__(self, pairs):
        self.pairs = pairs
        self.lengths = torch.tensor([len(a) + len(b) for a, b in pairs])
        self.middles = torch.tensor([len(a) for a, _ in pairs])
        self.num_documents = (len(pairs) + 1) // 2
        self.meta, self.folder = {"max_length": 512}, "memory"

    def __len__(self):
        return len(self.pairs)

    def pair(self, item):
        return self.pairs[item]

    def same_document(self, one, other):
        return one // 2 == other // 2


@pytest.fixture(scope="module")
def words(tokenizer):
    """Ids of pieces that begin words, and of some that go on."""
    pieces = tokenizer.pieces(range(tokenizer.size))
    begins = [i for i, p in enumerate(pieces) if p.startswith("▁") and len(p) > 2]
    goes_on = [i for i, p in enumerate(pieces) if p.isalpha()]
    return begins, goes_on


@pytest.fixture(scope="module")
def corpus(words):
    draw = torch.Generator().manual_seed(1)
    begins, goes_on = words

    def segment(length):
        ids = torch.tensor(begins)[torch.randint(len(begins), (length,), generator=draw)]
        rest = torch.tensor(goes_on)[torch.randint(len(goes_on), (length,), generator=draw)]
        return torch.where(torch.rand(length, generator=draw) < 0.3, rest, ids)

    return Lines([(segment(40 + i), segment(60 - i)) for i in range(20)])


def test_lengths_of_ngrams_follow_one_over_n(tokenizer, words):
    """Chi-square over a large draw; words of one piece, so that runs can be counted in words."""
    masker = NGramMasker(tokenizer, MaskConfig())
    ids = torch.tensor(words[0])[torch.randint(len(words[0]), (400,))]
    generator = torch.Generator().manual_seed(0)
    runs, tokens, draws = Counter(), 0, 500
    for _ in range(draws):
        place_M = masker.choose(ids, generator)
        tokens += len(place_M)
        starts = torch.cat([torch.tensor([-2]), place_M]).diff() != 1
        runs.update(starts.cumsum(0).bincount()[1:].tolist())
    # N-grams stand in different gaps, so no two of them run together.
    assert set(runs) == {1, 2, 3}
    seen = [runs[n] for n in (1, 2, 3)]
    expected = [sum(seen) * (1 / n) / (1 + 1 / 2 + 1 / 3) for n in (1, 2, 3)]
    assert stats.chisquare(seen, expected).pvalue > 0.001
    assert sum(seen) > 10_000
    assert tokens / (draws * len(ids)) == pytest.approx(0.15, abs=0.003)


def test_whole_words_are_hidden(tokenizer, corpus):
    masker, generator = NGramMasker(tokenizer, MaskConfig()), torch.Generator().manual_seed(0)
    for ids, _ in corpus.pairs:
        begins = masker.begins_V[ids].clone()
        begins[0] = True
        word = begins.long().cumsum(0)
        for _ in range(20):
            hidden = torch.zeros(len(ids), dtype=torch.bool)
            hidden[masker.choose(ids, generator)] = True
            for number in word[hidden].unique():
                assert hidden[word == number].all()


def test_what_stands_in_their_place(tokenizer, words):
    masker, generator = NGramMasker(tokenizer, MaskConfig()), torch.Generator().manual_seed(0)
    ids = torch.full((50_000,), words[0][0])
    shown = masker.replace(ids, torch.arange(len(ids)), generator)
    masked = float((shown == tokenizer.mask_id).double().mean())
    same = float((shown == ids).double().mean())
    assert masked == pytest.approx(0.8, abs=0.01)
    assert same == pytest.approx(0.1, abs=0.01)
    others = shown[(shown != tokenizer.mask_id) & (shown != ids)]
    assert len(others.unique()) > 0.8 * (tokenizer.size - 5)
    specials = {tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.unk_id}
    assert not specials & set(others.tolist())


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_segments_of_a_few_words_do_not_fail(tokenizer, words, length):
    masker, generator = NGramMasker(tokenizer, MaskConfig(rate=0.5)), torch.Generator()
    ids = torch.tensor(words[0][:length])
    for seed in range(50):
        place_M = masker.choose(ids, generator.manual_seed(seed))
        assert len(place_M.unique()) == len(place_M)
        assert all(0 <= place < length for place in place_M.tolist())


@pytest.mark.parametrize("pair", ["sop", "nsp", "none"])
def test_a_batch_is_a_function_of_seed_epoch_and_item(tokenizer, corpus, pair):
    def batch(items, epoch, seed=3):
        return PretrainCollator(corpus, tokenizer, MaskConfig(), pair, seed)(items, epoch)

    one, again = batch([4, 7, 2], 1), batch([4, 7, 2], 1)
    assert torch.equal(one.token_T, again.token_T)
    assert torch.equal(one.masked_token_M, again.masked_token_M)
    alone = batch([7], 1)
    at = one.lengths[0]
    assert torch.equal(one.token_T[at : at + one.lengths[1]], alone.token_T)
    assert not torch.equal(one.token_T, batch([4, 7, 2], 2).token_T)
    assert not torch.equal(one.token_T, batch([4, 7, 2], 1, seed=4).token_T)


@pytest.mark.parametrize("pair", ["sop", "nsp", "none"])
def test_what_is_asked_can_be_read_off(tokenizer, corpus, pair):
    """Hidden words put back, each sequence is [CLS] a [SEP] b [SEP] with the label that it has."""
    collate = PretrainCollator(corpus, tokenizer, MaskConfig(), pair, 0)
    labels = Counter()
    for epoch in range(30):
        items = list(range(len(corpus)))
        batch = collate(items, epoch)
        whole = batch.token_T.clone()
        whole[batch.read_S[batch.masked_index_M]] = batch.masked_token_M
        assert (batch.token_T[batch.read_S[batch.cls_index_B]] == tokenizer.cls_id).all()
        segments = batch.segment_T
        segments = torch.zeros_like(whole) if segments is None else segments
        rows = zip(
            items,
            whole.split(batch.lengths),
            segments.split(batch.lengths),
            batch.pair_B.tolist(),
            strict=True,
        )
        for item, row, segment, label in rows:
            labels[label] += 1
            first, second = corpus.pair(item)
            body = row[(row != tokenizer.cls_id) & (row != tokenizer.sep_id)]
            if label == 1 and pair == "sop":
                first, second = second, first
            if label == 1 and pair == "nsp":
                # A whole one: an end within a sentence would reveal the label.
                others = [x for x in items if not corpus.same_document(item, x)]
                assert torch.equal(body[: len(first)], first)
                assert any(torch.equal(body[len(first) :], corpus.pair(x)[1]) for x in others)
            else:
                assert torch.equal(body, torch.cat([first, second]))
            if pair != "none":
                assert int((segment == 0).sum()) == len(first) + 2
                assert row[len(first) + 1] == tokenizer.sep_id
            assert row[0] == tokenizer.cls_id
            assert row[-1] == tokenizer.sep_id
    if pair == "none":
        assert set(labels) == {-1}
    else:
        assert stats.binomtest(labels[1], labels.total(), 0.5).pvalue > 0.001


def test_the_length_of_a_segment_does_not_reveal_where_it_is_from(tokenizer):
    draw = torch.Generator().manual_seed(2)
    lengths = torch.randint(10, 200, (1000, 2), generator=draw).tolist()
    corpus = Lines([(torch.full((a,), 9), torch.full((b,), 9)) for a, b in lengths])
    batch = PretrainCollator(corpus, tokenizer, MaskConfig(), "nsp", 0)(list(range(1000)))
    seconds = [int((ids == 1).sum()) for ids in batch.segment_T.split(batch.lengths)]
    found = [[x for x, y in zip(seconds, batch.pair_B.tolist(), strict=True) if y == label]
             for label in (0, 1)]  # fmt: skip
    assert min(map(len, found)) > 400
    assert stats.ks_2samp(*found).pvalue > 0.01


def test_a_single_document_has_no_segments_of_others(tokenizer):
    corpus = Lines([(torch.full((9,), 9), torch.full((9,), 9))])
    with pytest.raises(
        DataError, match=r"this corpus has only one; give more text .*or use --pair sop"
    ):
        PretrainCollator(corpus, tokenizer, MaskConfig(), "nsp", 0)


def test_settings_out_of_range_are_refused():
    for wrong in ({"rate": 0.0}, {"rate": 1.0}, {"max_ngram": 0}, {"masked": 0.9, "random": 0.2}):
        with pytest.raises(UsageError):
            MaskConfig(**wrong)


@pytest.mark.parametrize(("max_ngram", "most"), [(1, 0.5), (3, 0.62), (10, 0.77)])
def test_a_rate_that_n_grams_cannot_reach_is_refused(tokenizer, max_ngram, most):
    with pytest.raises(UsageError, match=f"at most {most:.2f} of the words can be masked"):
        MaskConfig(rate=most + 0.01, max_ngram=max_ngram)
    masker = NGramMasker(tokenizer, MaskConfig(rate=most, max_ngram=max_ngram))
    generator = torch.Generator().manual_seed(0)
    ids_T = masker.begins_V.nonzero()[:, 0][:1].repeat(2000)  # 2,000 words of a piece
    masked = [len(masker.choose(ids_T, generator)) for _ in range(50)]
    assert sum(masked) / 50 / 2000 == pytest.approx(most, abs=0.02)
