"""From documents to sequences: nothing is lost, nothing crosses a document, shards go together."""

import json
import random

import pytest
import torch
from conftest import SAMPLE
from stories import STORY, write_stories

from albert_rc.corpus.cut import LEAST, Cut, ShardMaker, cut_document, plan_shards
from albert_rc.corpus.documents import find_sources, read_paragraphs, sentences, unread_files
from albert_rc.corpus.examine import examine
from albert_rc.corpus.shards import Corpus
from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import write_json
from albert_rc.text.tokenizer import load_tokenizer


@pytest.fixture
def text(tmp_path):
    return write_stories(tmp_path / "text")


@pytest.fixture
def make(sample, tmp_path):
    def make(sources, out="corpus", exclude=(), **cut):
        maker = ShardMaker(
            tmp_path / out, sample / "vocabulary", Cut(**({"dev": 0.0} | cut)), list(exclude)
        )
        return [maker(shard) for shard in plan_shards(sources, 4000)]

    return make


def test_sentences_end_where_they_do():
    assert sentences(STORY) == [
        "Mr. Brown met Dr. A. Lee at the gate.",
        "'Are you well?' he asked.",
        '"Very," said she!',
        "They walked on...",
        "The dog followed them (it always did).",
        "Nobody spoke.",
    ]
    assert sentences("   ") == []
    assert sentences("no end") == ["no end"]


def test_documents_are_read_as_they_are_laid_out(tmp_path):
    wrapped = tmp_path / "wrapped.txt"
    wrapped.write_text("A line that was broken\nto fit the page.\n\n\nAnother paragraph.\n")
    (source,), _ = find_sources([wrapped])
    assert [p and " ".join(p.split()) for p in read_paragraphs(source)] == [
        "A line that was broken to fit the page.",
        "Another paragraph.",
        None,
    ]
    lines = [p and p.strip() for p in read_paragraphs(source, blank_lines=True)]
    assert lines == [
        "A line that was broken",
        "to fit the page.",
        None,
        "Another paragraph.",
        None,
    ]


def test_exam_papers_are_documents_with_their_blanks_filled(tmp_path):
    paper = {"article": "He was _ to see us.", "options": [["glad", "sad"]], "answers": ["A"]}
    (tmp_path / "p1.json").write_text(json.dumps(paper))
    (source,), _ = find_sources([tmp_path])
    assert list(read_paragraphs(source)) == ["He was glad to see us.", None]


def test_papers_whose_names_end_in_txt_are_no_running_text(tmp_path):
    paper = {
        "article": "He was glad.", "questions": ["Who?"], "options": [["he", "she"]],
        "answers": ["A"], "id": "1.txt",
    }  # fmt: skip
    (tmp_path / "race" / "high").mkdir(parents=True)
    place = tmp_path / "race" / "high" / "1.txt"
    place.write_text(json.dumps(paper))
    for given in (tmp_path / "race", place):
        (source,), _ = find_sources([given])
        assert source.files() == [place]
        assert list(read_paragraphs(source)) == ["He was glad.", None]
    story = tmp_path / "race" / "story.txt"
    story.write_text('[Illustration]\n\n"Once," he said.')
    with pytest.raises(DataError, match=r"story\.txt: plain text in a folder of .*1\.txt"):
        find_sources([tmp_path / "race"])
    assert [source.is_text for source in find_sources([story])[0]] == [True]
    story.unlink()
    (tmp_path / "race" / "0.json").write_text(json.dumps({"article": "A _", "options": [["b"]]}))
    with pytest.raises(DataError, match=r"1\.txt: its format differs .*\(cloze\)"):
        find_sources([tmp_path / "race"])


@pytest.mark.parametrize(
    "rows", [["Quality\t#1 ID\t#1 String", "1\t7\tHe ran."], ["It is good.\t1"] * 3]
)
def test_tables_are_no_running_text(tmp_path, rows):
    (tmp_path / "msr_train.txt").write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"msr_train\.txt: a table .* rename it to msr_train\.tsv"):
        examine(find_sources([tmp_path])[0])
    (tmp_path / "msr_train.txt").write_text("\tA line.\nNo\ttable.\n\tAnother.")
    assert examine(find_sources([tmp_path])[0]).sources


def test_text_that_stands_twice_is_read_once(text):
    (text / "sub").mkdir()
    copy = text / "sub" / "again.txt"
    copy.write_bytes((text / "story3.txt").read_bytes())
    sources, copies = find_sources([text])
    assert copies == [copy]
    assert len(sources) == 12


def test_a_place_that_is_given_twice_is_read_once(text):
    once, _ = find_sources([text])
    twice, copies = find_sources([text, text])
    assert twice == once
    assert copies == sorted(source.path for source in once)


def test_linked_folders_are_read_and_hidden_files_are_not(text, tmp_path):
    (tmp_path / "all" / ".trash").mkdir(parents=True)
    (tmp_path / "all" / ".trash" / "a.txt").write_text("Deleted. " * 20)
    (tmp_path / "all" / "linked").symlink_to(text, target_is_directory=True)
    names = [[source.path.name for source in find_sources([place])[0]] for place in
             (text, tmp_path / "all")]  # fmt: skip
    assert names[0] == names[1] != []


@pytest.mark.parametrize("short", [0.0, 0.3])
def test_sequences_hold_all_text_in_order(text, make, tmp_path, tokenizer, short):
    sources, _ = find_sources([text])
    made = make(sources, max_length=64, short=short)
    corpus = Corpus(tmp_path / "corpus" / "train")
    assert corpus.count.documents == 12
    assert len(made) > 2  # so shards do go together
    dropped = sum(part.train.dropped for part in made)
    assert len(corpus) == sum(part.train.sequences for part in made)
    assert corpus.lengths.max() + 3 <= 64
    assert corpus.lengths.min() >= LEAST
    read = [torch_list(corpus, item) for item in range(len(corpus))]
    whole = []
    for source in sources:
        paragraphs = [p for p in read_paragraphs(source) if p]
        parts = [sentence for paragraph in paragraphs for sentence in sentences(paragraph)]
        whole += [i for ids in tokenizer.encode(parts) for i in ids]
    assert sum(map(len, read)) == len(whole) - dropped
    if not dropped:
        assert [i for ids in read for i in ids] == whole
    full = sum(length + 3 > 40 for length in map(len, read)) / len(read)
    assert (full > 0.8) == (short == 0.0)


def test_what_is_too_short_for_a_sequence_is_not_lost_unseen():
    sentences = [("a", [1] * 10), ("b", [2] * 60), ("c", [3] * 5)]
    parts = list(cut_document(sentences, Cut(max_length=64, short=0.0), seed=0))
    assert [part.ids for part in parts] == [[1] * 10, [2] * 60, [3] * 5]


@pytest.mark.parametrize("max_length", [64, 128])
def test_lengths_do_not_tell_which_segment_is_first(max_length):
    """Filled in from the front alone, first segments are longer in 60% of these pairs."""
    draw = random.Random(1)
    lengths = []
    for seed in range(300):
        told = [("a", [1] * min(90, 1 + int(draw.expovariate(0.05)))) for _ in range(300)]
        for sequence in cut_document(told, Cut(max_length=max_length), seed):
            lengths.append((sequence.middle, len(sequence.ids) - sequence.middle))
    told = [first > second for first, second in lengths if first != second]
    assert sum(told) / len(told) == pytest.approx(0.5, abs=0.02)
    shares = [first / (first + second) for first, second in lengths if first and second]
    assert sum(shares) / len(shares) == pytest.approx(0.5, abs=0.01)


def torch_list(corpus, item):
    first, second = corpus.pair(item)
    assert len(first)
    assert len(second)
    return first.tolist() + second.tolist()


def test_no_sequence_crosses_a_document(text, make, tmp_path):
    sources, _ = find_sources([text])
    make(sources, max_length=64)
    corpus = Corpus(tmp_path / "corpus" / "train")
    groups = [
        [item for item in range(len(corpus)) if corpus.same_document(item, first)]
        for first in range(len(corpus))
    ]
    assert len({tuple(group) for group in groups}) == 12


def test_the_same_shards_whoever_makes_them(text, make, tmp_path):
    sources, _ = find_sources([text])
    make(sources, "one")
    make(sources, "two")
    for path in (tmp_path / "one" / "train").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / "train" / path.name).read_bytes()


def test_what_is_there_is_kept_and_what_changed_is_made_anew(text, make, tmp_path):
    sources, _ = find_sources([text])
    assert not any(part.kept for part in make(sources, dev=0.3))
    assert all(part.kept for part in make(sources, dev=0.3))
    assert not any(part.kept for part in make(sources, dev=0.3, max_length=64))
    assert all(part.kept for part in make(sources, dev=0.3, max_length=64))
    torn = next(iter((tmp_path / "corpus" / "train").iterdir()))
    torn.write_bytes(torn.read_bytes()[:100])
    assert sum(not part.kept for part in make(sources, dev=0.3, max_length=64)) == 1
    before = make(sources, dev=0.3, max_length=64)
    (text / "story0.txt").write_text("Another story. It is short. But it is long enough to count.")
    sources, _ = find_sources([text])
    after = make(sources, dev=0.3, max_length=64)
    assert [part.kept for part in after] == [False, *[True] * (len(before) - 1)]


def test_some_documents_are_kept_apart(text, make, tmp_path):
    sources, _ = find_sources([text])
    make(sources, dev=0.3)
    train, dev = (Corpus(tmp_path / "corpus" / part) for part in ("train", "dev"))
    assert train.count.documents + dev.count.documents == 12
    assert train.count.documents > dev.count.documents > 0


def test_what_overlaps_with_exam_papers_is_left_out(text, make, tmp_path):
    paper = {"article": f"{STORY} _ .", "options": [["Yes", "No"]]}
    (tmp_path / "exam").mkdir()
    (tmp_path / "exam" / "p.json").write_text(json.dumps(paper))
    (text / "other.txt").write_text("A tale of the sea and of ships that sailed far away. " * 9)
    sources, _ = find_sources([text])
    made = make(sources, exclude=[tmp_path / "exam"])
    assert sum(part.train.overlapping for part in made) > 12
    corpus = Corpus(tmp_path / "corpus" / "train")
    assert len(corpus) >= 1
    kept = sum(part.train.sequences + part.train.overlapping for part in made)
    assert kept == sum(part.train.sequences for part in make(sources, "all"))


@pytest.mark.parametrize("seed", range(4))
def test_overlap_within_a_sentence_longer_than_a_sequence_is_left_out(make, tmp_path, seed):
    """Text without capitals after full stops is one sentence; each part is compared by itself."""
    draw = random.Random(seed)
    words = "sea ship wind mast rope sail deck wave storm gull tide crew port anchor".split()
    far = [" ".join(draw.choices(words, k=200)) for _ in range(2)]
    story = " ".join(f"{a} {b}" for a in ("tom", "ann") for b in "ate ran sat hid won fell".split())
    (tmp_path / "exam").mkdir()
    paper = {"article": f"{story} _ {story}", "options": [["yes", "no"]]}
    (tmp_path / "exam" / "p.json").write_text(json.dumps(paper))
    (tmp_path / "t.txt").write_text(f"{far[0]} {story} and {story} {far[1]}")
    sources, _ = find_sources([tmp_path / "t.txt"])
    (made,) = make(sources, exclude=[tmp_path / "exam"], max_length=64, seed=seed)
    assert 1 <= made.train.overlapping <= 3
    (whole,) = make(sources, "all", max_length=64, seed=seed)
    assert whole.train.sequences == made.train.sequences + made.train.overlapping
    # What is left has at most the ends of the story.
    corpus, every = (Corpus(tmp_path / name / "train") for name in ("corpus", "all"))
    tom = load_tokenizer(SAMPLE / "vocabulary").encode(["tom"])[0]
    held = [sum(in_a_row(torch_list(c, n), tom) for n in range(len(c))) for c in (corpus, every)]
    assert held[0] < held[1] / 2


def in_a_row(ids, some):
    return sum(ids[at : at + len(some)] == some for at in range(len(ids)))


def test_papers_that_cannot_be_read_cannot_be_kept_apart(text, make, tmp_path):
    (tmp_path / "exam").mkdir()
    (tmp_path / "exam" / "good.json").write_text(
        json.dumps({"article": "A _", "options": [["b", "c"]]})
    )
    (tmp_path / "exam" / "bad.json").write_text("{torn")
    with pytest.raises(DataError, match=r"bad\.json.*1 error in all; see `albert-rc doctor"):
        make(find_sources([text])[0], exclude=[tmp_path / "exam"])


def test_papers_that_overlap_are_left_out_as_a_whole(make, tmp_path):
    """Also the part of them that stands in no other paper, which sequences alone would keep."""
    far = "Ships sailed to the south. Birds sat on the masts and looked at the grey water below. "
    for folder, article in (("exam", f"{STORY} _ ."), ("papers", f"{far * 8}\n{STORY} He _ .")):
        (tmp_path / folder).mkdir()
        paper = {"article": article, "options": [["slept", "ran"]], "answers": ["A"]}
        (tmp_path / folder / "p.json").write_text(json.dumps(paper))
    paper = {"article": f"{far} They _ .", "options": [["slept", "ran"]], "answers": ["A"]}
    (tmp_path / "papers" / "other.json").write_text(json.dumps(paper))
    sources, _ = find_sources([tmp_path / "papers"])
    (made,) = make(sources, exclude=[tmp_path / "exam"], max_length=64)
    assert (made.train.overlapping_papers, made.train.documents) == (1, 1)


def paper(number, answer="A"):
    article = f"Tom had {'very ' * number}old dogs in his house by the river , and he _ there ."
    return {
        "article": article,
        "options": [["slept", "ran"]],
        "answers": [answer] if answer else [],
    }


def test_papers_that_are_not_used_are_counted(make, tmp_path):
    for number, answer in ((1, "A"), (2, "A"), (3, "")):
        write_json(tmp_path / "papers" / f"{number}.json", paper(number, answer))
    write_json(tmp_path / "papers" / "again.json", paper(1))
    (made,) = make(find_sources([tmp_path / "papers"])[0])
    assert (made.train.documents, made.train.unanswered, made.train.duplicates) == (2, 1, 1)
    assert made.train.line().endswith(
        "; 1 paper left out without an answer to each blank; 1 duplicate paper left out"
    )


def test_copies_in_two_collections_are_on_one_side(make, tmp_path):
    """Or dev would have text that was trained on."""
    for number in range(40):
        write_json(tmp_path / "one" / f"{number}.json", paper(number))
        write_json(tmp_path / "two" / f"b{40 - number}.json", paper(number))
    sources, _ = find_sources([tmp_path / "one", tmp_path / "two"])
    assert len(sources) == 2
    made = make(sources, dev=0.3)
    held_out = sum(each.dev.documents for each in made)
    assert 4 <= held_out <= 40
    sides = [set(), set()]
    for side, name in zip(sides, ("train", "dev"), strict=True):
        corpus = Corpus(tmp_path / "corpus" / name)
        for number in range(len(corpus)):
            side.add(tuple(torch.cat(list(corpus.pair(number))).tolist()))
    assert not sides[0] & sides[1]


def test_files_that_are_not_read_are_named(text):
    (text / "c.txt.gz").write_bytes(b"")
    (text / "sub").mkdir()
    (text / "sub" / "d.html").write_text("<p>Text.")
    (text / "gone.txt").symlink_to(text / "nowhere.txt")
    (text / "README").write_text("About it.")
    assert [path.name for path in unread_files([text])] == ["c.txt.gz", "gone.txt", "d.html"]


def test_corpora_that_are_not_whole_are_refused(text, make, tmp_path):
    folder = tmp_path / "corpus" / "train"
    with pytest.raises(DataError, match="no shards there; make them with `albert-rc pretrain data"):
        Corpus(folder)
    sources, _ = find_sources([text])
    make(sources)
    paths = sorted(folder.iterdir())
    content = paths[1].read_bytes()
    paths[1].unlink()
    with pytest.raises(DataError, match=r"of \d+ shards \(shard-00002"):
        Corpus(folder)
    make(sources, "longer", max_length=256)
    paths[1].write_bytes((tmp_path / "longer" / "train" / paths[1].name).read_bytes())
    with pytest.raises(DataError, match="made with different max_length"):
        Corpus(folder)
    paths[1].write_bytes(content)
    Corpus(folder)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        find_sources([tmp_path / "nowhere"])
    (tmp_path / "picture.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"no text files there; their names must end in \.txt"):
        find_sources([tmp_path])
    for before, line in ((b"", 1), (b"A line.\r\n" * 3000, 3001), (b"One.\rTwo.\rThree, ", 3)):
        (tmp_path / "odd.txt").write_bytes(before + b"It\x81s another.\nAnd more.\n")
        said = rf"^{tmp_path}/odd\.txt: byte 0x81 in line {line} is not UTF-8.*; save it as UTF-8$"
        with pytest.raises(DataError, match=said):
            examine(find_sources([tmp_path / "odd.txt"])[0])
    for wrong in ({"max_length": 10}, {"short": 1.5}, {"dev": -0.1}):
        with pytest.raises(UsageError):
            Cut(**wrong)
