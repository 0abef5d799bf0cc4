"""Ids as SentencePiece and the tokenizers library give them, and blanks without stray pieces."""

import json

import pytest
import sentencepiece
import transformers
from conftest import SAMPLE

from albert_rc.errors import CheckpointError
from albert_rc.papers.formats import read_collection
from albert_rc.papers.parse import Problems, parse_cloze
from albert_rc.stores.encode import encode_cloze, encode_segments, split_at_blanks
from albert_rc.stores.masking import begins_word
from albert_rc.text.tokenizer import load_tokenizer


def passage(article, count):
    raw = {"article": article, "options": [["glad", "sad"]] * count}
    return parse_cloze(raw, "x", None, Problems("x"))


def test_the_ids_are_alberts(tokenizer):
    special = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id)
    assert (*special, tokenizer.mask_id) == (0, 1, 2, 3, 4)


def test_text_goes_through_sentencepiece_unchanged(tokenizer):
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(SAMPLE / "vocabulary/spiece.model")
    )
    for split in read_collection(SAMPLE / "cloze"):
        texts = [p.text for p in split.passages]
        assert tokenizer.encode(texts) == [processor.encode(tokenizer.normalize(t)) for t in texts]


def test_case_and_accents_are_folded_as_alberts(tokenizer):
    assert tokenizer.normalize("  Émile\tsaid\n“No” ") == "emile said “no”"


@pytest.mark.parametrize(
    "sign",
    [".", ",", "!", "?", ";", ":", ")", "”", "’", '"', '."', "'s", "'ll", "...", "-year-old"],
)
def test_signs_after_a_blank_are_split_as_in_running_text(tokenizer, sign):
    running = tokenizer.encode([f"she was glad{sign} then he left"])[0]
    start = len(tokenizer.encode(["she was glad"])[0])
    (ids,) = encode_cloze(
        [passage(f"she was _ {sign} then he left", 1)], tokenizer, 64
    ).window_tokens
    mask = ids.index(tokenizer.mask_id)
    assert ids[mask + 1 : -1] == running[start:]


def test_a_word_after_a_blank_begins_a_word(tokenizer):
    (ids,) = encode_cloze([passage('he was _ and "_ then" she', 2)], tokenizer, 64).window_tokens
    assert tokenizer.to_text(ids).startswith("[CLS] he was[MASK] and")


@pytest.mark.parametrize("quote", ['"', "'"])
def test_an_opening_quote_after_a_blank_opens_a_word(quote):
    (_, glued) = split_at_blanks(passage(f"she _ {quote}hello{quote} to us", 1))[1]
    assert not glued


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_closing_quote_after_a_blank_is_glued(quote):
    (text, glued) = split_at_blanks(passage(f"the word {quote} _ {quote} is hard", 1))[1]
    assert glued
    assert text.startswith(quote)


def test_every_blank_is_one_mask_with_nothing_before_it(tokenizer):
    for split in read_collection(SAMPLE / "cloze"):
        encoded = encode_cloze(split.passages, tokenizer, 512)
        for ids in encoded.window_tokens:
            pieces = tokenizer.pieces(ids)
            for i, piece in enumerate(pieces):
                if piece == "[MASK]":
                    assert pieces[i - 1] != "▁"


def test_every_real_passage_has_sentencepieces_ids(real_data):
    """0 differences on all 5,403 ELE papers, with ALBERT's own vocabulary."""
    folder = real_data / "albert-v2-vocabulary"
    tokenizer = load_tokenizer(folder)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    passages = [p for s in read_collection(real_data / "ele") for p in s.passages]
    assert len(passages) == 5403
    texts = [p.text for p in passages]
    assert tokenizer.encode(texts) == processor.encode([t.lower() for t in texts])
    # Blank by blank: what stands between two blanks is what SentencePiece makes of that text.
    for p in passages[::50]:
        for (text, glued), ids in zip(
            split_at_blanks(p), encode_segments(split_at_blanks(p), tokenizer), strict=True
        ):
            if not glued:
                assert ids == processor.encode(text.lower())


@pytest.fixture
def wordpiece(tmp_path):
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "he",
        "was",
        "glad",
        ".",
        ",",
        "##ly",
        "then",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    return load_tokenizer(tmp_path)


def test_bert_vocabularies_load(wordpiece):
    (ids,) = encode_cloze([passage("He was _ , gladly . then", 1)], wordpiece, 64).window_tokens
    assert wordpiece.pieces(ids) == "[CLS] he was [MASK] , glad ##ly . then [SEP]".split()


def test_a_mask_written_in_a_paper_is_no_blank(wordpiece, tokenizer):
    for vocabulary in (wordpiece, tokenizer):
        encoded = encode_cloze([passage("he was [MASK] _ .", 1)], vocabulary, 64)
        assert encoded.window_tokens[0].count(vocabulary.mask_id) == 1


@pytest.fixture
def byte_level(tmp_path):
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    texts = [p.text for s in read_collection(SAMPLE / "cloze") for p in s.passages]
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train_from_iterator(texts, vocab_size=600, special_tokens=special)
    trained.save_model(str(tmp_path))
    return load_tokenizer(tmp_path)


def test_roberta_vocabularies_load(byte_level):
    (ids,) = encode_cloze([passage("She was _ , and he _ it", 2)], byte_level, 64).window_tokens
    pieces = byte_level.pieces(ids)
    assert pieces[0] == "<s>"
    assert pieces[-1] == "</s>"
    first = pieces.index("<mask>")
    assert pieces[first + 1] == ","
    assert pieces[first + 2].startswith("Ġ")
    assert byte_level.separators_in_pair == 2


def test_mpnets_vocabulary_uses_its_own_special_pieces(tmp_path):
    """It holds all of BERT's too, and BERT's unknown piece is the one that it uses."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "she", "was", "glad"]
    own = ["<s>", "<pad>", "</s>", "<unk>"]
    (tmp_path / "vocab.txt").write_text("\n".join([*own, *words, "<mask>"]) + "\n")
    tokenizer = load_tokenizer(tmp_path)
    (ids,) = encode_cloze([passage("She was _ , zyx", 1)], tokenizer, 64).window_tokens
    pieces = tokenizer.pieces(ids)
    assert pieces == ["<s>", "she", "was", "<mask>", "[UNK]", "[UNK]", "</s>"]
    assert (tokenizer.pad_id, tokenizer.unk_id) == (1, 5)
    assert tokenizer.separators_in_pair == 2


def test_a_tokenizer_json_loads(byte_level, tmp_path):
    other = tmp_path / "json"
    other.mkdir()
    byte_level._backend.save(str(other / "tokenizer.json"))
    texts = ["She was glad, and he knew it."]
    assert load_tokenizer(other).encode(texts) == byte_level.encode(texts)


def test_empty_segments_leave_no_piece(byte_level):
    (ids,) = encode_cloze([passage("_ was glad _ _ he _", 4)], byte_level, 64).window_tokens
    assert "Ġ" not in byte_level.pieces(ids)


def test_an_albert_with_only_a_tokenizer_json_begins_its_words(tmp_path):
    """What transformers 5 writes for ALBERT; the pieces are SentencePiece's but for its signs."""
    vocabulary = SAMPLE / "vocabulary"
    transformers.AlbertTokenizer.from_pretrained(vocabulary).save_pretrained(tmp_path)
    (tmp_path / "spiece.model").unlink(missing_ok=True)
    loaded, exact = load_tokenizer(tmp_path), load_tokenizer(vocabulary)
    text = "the old farmer walked home and was glad to see us"
    assert loaded.pieces(loaded.encode([text])[0]) == exact.pieces(exact.encode([text])[0])
    assert loaded.mask_id == 4


def test_fingerprints_tell_vocabularies_apart(tokenizer, wordpiece):
    assert tokenizer.fingerprint != wordpiece.fingerprint
    assert tokenizer.fingerprint == load_tokenizer(SAMPLE / "vocabulary").fingerprint


def test_a_folder_without_vocabulary_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"no vocabulary there; one of spiece\.model"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("content", [b"\x93 nothing of the kind", b"[]", b"{}", b""])
@pytest.mark.parametrize("name", ["spiece.model", "tokenizer.json"])
def test_a_damaged_vocabulary_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=str(tmp_path)):
        load_tokenizer(tmp_path)


def test_wordpiece_keeps_accents_if_its_settings_say_so(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "schön", "schon"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    found = {}
    for accents in (None, False):
        settings = {"do_lower_case": True, "strip_accents": accents}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        found[accents] = load_tokenizer(tmp_path).encode(["Schön"])
    assert found == {None: [[6]], False: [[5]]}


def test_a_blank_is_followed_by_what_stands_there_in_byte_level_vocabularies(tmp_path):
    """RoBERTa's may be saved with a space before every text."""
    from tokenizers import ByteLevelBPETokenizer

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained = ByteLevelBPETokenizer(add_prefix_space=True)
    trained.train_from_iterator(["It is . It is ."], 300, special_tokens=special)
    trained.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    (glued,) = tokenizer.encode(["."], glued=True)
    assert tokenizer.pieces(glued) == ["."]


def test_a_wordpiece_vocabulary_may_have_letters_that_others_mark_words_with(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dog", "##s", "Ġ"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    assert begins_word(load_tokenizer(tmp_path))[5:7].tolist() == [True, False]


def test_a_byte_level_vocabulary_may_have_the_sign_of_wordpiece(tmp_path):
    """GPT-2's has ##, ### and ####, of headings; and letters in place of bytes."""
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer(add_prefix_space=True)
    text = ["## The homeward way ## She’s walking homewards ##"] * 4
    trained.train_from_iterator(
        text, 400, min_frequency=1, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    trained.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    begins = begins_word(tokenizer).tolist()
    pieces = tokenizer.pieces(range(tokenizer.size))
    assert "##" in pieces
    found = dict(zip(pieces, begins, strict=True))
    assert found["##"]
    assert found["Ġhomewards"]
    assert not found["a"]
    apostrophe = "âĢĻ"  # the three bytes of ’
    assert found[apostrophe]


def test_cased_vocabularies_keep_case(tmp_path):
    (tmp_path / "spiece.model").write_bytes((SAMPLE / "vocabulary/spiece.model").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    cased = load_tokenizer(tmp_path)
    assert cased.normalize("He") == "He"
    assert cased.fingerprint != load_tokenizer(SAMPLE / "vocabulary").fingerprint
