"""ALBERTs made of BERTs: the same function first, then each saving by itself."""

from collections import Counter

import pytest
import torch
import transformers

from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import UsageError
from albert_rc.model.config import EncoderConfig
from albert_rc.model.pretraining_head import PretrainingModel
from albert_rc.text.tokenizer import load_tokenizer
from experiments.models.conversion import (
    as_albert,
    count_pieces,
    cut_tokenizer,
    fit_embeddings,
    most_used,
    with_common,
    with_embedding_size,
    with_vocabulary,
)

TEXTS = ["The dog ran home, and nobody saw it.", "It was late; she gave the dog its food."]


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    from tokenizers import BertWordPieceTokenizer

    folder = tmp_path_factory.mktemp("wordpiece")
    pieces = BertWordPieceTokenizer(lowercase=True)
    pieces.train_from_iterator(TEXTS * 3, vocab_size=90, min_frequency=1)
    pieces.save_model(str(folder))
    return load_tokenizer(folder)


@pytest.fixture
def bert(wordpiece):
    """Random weights, norms and biases too, or they would hide faults."""
    torch.manual_seed(5)
    model = PretrainingModel(
        EncoderConfig(
            family="bert", vocab_size=wordpiece.size, embedding_size=32, hidden_size=32,
            num_layers=4, num_groups=4, num_heads=4, ffn_size=64, activation="gelu",
        ),
        with_pairs=False,
    )  # fmt: skip
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(parameter, std=0.3)
        else:
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def states(model, tokenizer, text):
    ids = [tokenizer.cls_id, *tokenizer.encode([text])[0], tokenizer.sep_id]
    with torch.no_grad():
        return model.encoder.eval()(torch.tensor(ids), torch.arange(len(ids)), (len(ids),))


def test_the_albert_of_a_bert_computes_the_same_here_and_in_transformers(bert, wordpiece, tmp_path):
    albert = as_albert(bert)
    save_model(bert, wordpiece, tmp_path / "bert")
    kept = list(range(wordpiece.size))
    save_model(albert, cut_tokenizer(wordpiece, kept, tmp_path / "albert"), tmp_path / "albert")
    theirs = transformers.BertModel.from_pretrained(tmp_path / "bert").eval()
    opened = transformers.AlbertModel.from_pretrained(tmp_path / "albert").eval()
    splits = transformers.AutoTokenizer.from_pretrained(tmp_path / "albert")
    for text in TEXTS:
        given = splits(text, return_tensors="pt")
        ids = [wordpiece.cls_id, *wordpiece.encode([text])[0], wordpiece.sep_id]
        assert given["input_ids"][0].tolist() == ids
        with torch.no_grad():
            expected = theirs(**given).last_hidden_state[0]
            assert torch.allclose(opened(**given).last_hidden_state[0], expected, atol=1e-5)
        assert torch.allclose(states(albert, wordpiece, text), expected, atol=1e-5)
    loaded = load_model(tmp_path / "albert", "pretraining", with_pairs=False)
    assert loaded.model.config.num_groups == 4
    for name, weight in albert.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weight), name


@pytest.mark.parametrize(("common", "kept"), [("attention", "up"), ("ffn", "query")])
def test_layers_share_the_mean_of_what_they_had(bert, wordpiece, tmp_path, common, kept):
    made = with_common(as_albert(bert), common)
    shared = {"attention": "query", "ffn": "up"}[common]
    of = [layer.get_submodule(shared).weight for layer in bert.encoder.layers]
    for layer, before in zip(made.encoder.layers, bert.encoder.layers, strict=True):
        assert torch.allclose(layer.get_submodule(shared).weight, torch.stack(of).mean(0))
        assert torch.equal(layer.get_submodule(kept).weight, before.get_submodule(kept).weight)
    save_model(made, wordpiece, tmp_path)
    again = load_model(tmp_path, "pretraining", with_pairs=False).model
    assert again.config.common == common
    assert torch.equal(states(again, wordpiece, TEXTS[0]), states(made, wordpiece, TEXTS[0]))


def test_only_berts_become_alberts(bert):
    with pytest.raises(UsageError, match="albert cannot be made"):
        as_albert(as_albert(bert))


def test_factorised_embeddings_are_near_and_fitting_brings_them_nearer(bert, wordpiece):
    albert = as_albert(bert)
    tokens = torch.tensor(wordpiece.encode([" ".join(TEXTS)])[0])
    distances = []
    for size in (30, 12):
        small = with_embedding_size(albert, size)
        assert small.config.embedding_size == size
        errors = fit_embeddings(small, albert, tokens, steps=150, batch=256, rate=3e-3)
        assert errors[-1] < 0.9 * errors[0]
        distances.append(errors[0])
    assert distances[0] < distances[1]
    with pytest.raises(UsageError, match="cannot be reduced to 12"):
        with_embedding_size(small, 12)


def test_words_of_low_rank_are_factorised_without_loss(bert):
    """Two thirds of the directions are empty; the norms have nothing to take away."""
    bert.encoder.embeddings.norm.bias.data.zero_()
    for name in ("word", "position", "segment"):
        table = getattr(bert.encoder.embeddings, name)
        table.weight.data[:, 10:] = 0
        table.weight.data -= table.weight.data.mean(1, keepdim=True)
    albert = as_albert(bert)
    tokens = torch.arange(albert.config.vocab_size)
    errors = fit_embeddings(with_embedding_size(albert, 16), albert, tokens, steps=1, rate=0.0)
    assert errors[0] < 0.05


def test_a_cut_vocabulary_splits_as_before_where_it_can(bert, wordpiece, tmp_path):
    counts = count_pieces([(TEXTS[0], 2), (TEXTS[1], 1)], wordpiece)
    assert counts[wordpiece.encode(["dog"])[0][0]] == 3
    needed = len(most_used(Counter(), wordpiece, wordpiece.size))
    kept = most_used(Counter(wordpiece.encode(TEXTS[:1])[0]), wordpiece, needed + 5)
    assert len(kept) == needed + 5
    assert kept == sorted(kept)
    cut = cut_tokenizer(wordpiece, kept, tmp_path)
    assert cut.size == len(kept)
    assert cut.mask_id == kept.index(wordpiece.mask_id)
    whole, part = (t.encode(["the dog saw it , xyz"])[0] for t in (wordpiece, cut))
    assert [kept[index] for index in part if index != cut.unk_id]
    assert "".join(cut.pieces(part)).replace("##", "") == "".join(wordpiece.pieces(whole)).replace(
        "##", ""
    )
    model = with_vocabulary(as_albert(bert), kept)
    assert model.config.vocab_size == len(kept)
    save_model(model, cut, tmp_path)
    old = as_albert(bert)
    ids = torch.tensor(part)
    given = torch.arange(len(part)), (len(part),)
    with torch.no_grad():
        expected = old.encoder.eval()(torch.tensor(kept)[ids], *given)
        assert torch.equal(model.encoder.eval()(ids, *given), expected)
    with pytest.raises(UsageError, match="pieces are needed at least"):
        most_used(counts, wordpiece, needed - 1)


def test_only_wordpiece_vocabularies_are_cut(tokenizer, tmp_path):
    with pytest.raises(UsageError, match="only WordPiece"):
        cut_tokenizer(tokenizer, [0, 1, 2, 3, 4], tmp_path)
