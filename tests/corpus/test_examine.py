"""Text that cannot be read: all of it is named before any work, and left out if that is wished."""

import json
import os

import pytest

from albert_rc.corpus.shards import Corpus
from albert_rc.errors import DataError

STORY = "The dog followed them. Nobody spoke for a while. They walked on by the river. " * 4


@pytest.fixture
def text(tmp_path):
    """Two stories, one of them in Windows-1252, among files that cannot be read."""
    folder = tmp_path / "text"
    (folder / "exam").mkdir(parents=True)
    (folder / "a.txt").write_text(STORY)
    (folder / "b.txt").write_bytes(f"{STORY} It’s here.".encode("cp1252"))
    (folder / "odd1.txt").write_bytes(b"Fine.\nIt\x81s odd.\n")
    (folder / "odd2.md").write_bytes(STORY.encode() + b"\x81")
    (folder / "table.txt").write_text("It is good.\t1\n" * 3)
    for name, answers in (("good", ["A"]), ("bad", ["A", "B"])):
        paper = {"article": f"{STORY} He _ .", "options": [["ran", "sat"]], "answers": answers}
        (folder / "exam" / f"{name}.json").write_text(json.dumps(paper))
    return folder


def names_all(said):
    return all(name in said for name in ("odd1.txt", "odd2.md", "table.txt", "bad.json"))


def papers_of(folder, texts):
    folder.mkdir(parents=True)
    for number, text in enumerate(texts):
        paper = {"article": f"{text} He _ .", "options": [["ran", "sat"]], "answers": ["A"]}
        (folder / f"p{number}.json").write_text(json.dumps(paper))


def test_papers_beside_splits_are_named_and_not_excluded_in_silence(sample, tmp_path, cli):
    place, out = tmp_path / "papers", tmp_path / "out"
    stories = [STORY.replace("dog", animal) for animal in ("cat", "cow", "pig", "hen")]
    papers_of(place / "train", stories[:2])
    papers_of(place / "more", stories[2:])
    given = ["--model", sample / "vocabulary", "--out", out, "--workers", 1, "--dev", 0]
    done = cli("pretrain", "data", place, *given)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert f"{place / 'more'} was not read" in said
    assert len(Corpus(out / "train")) == 2
    text = tmp_path / "text.txt"
    text.write_text(STORY)
    done = cli("pretrain", "data", text, *given, "--exclude", place)
    assert done.returncode == 3
    assert f"--exclude {place}: {place / 'more'} is next to its splits" in " ".join(
        done.stderr.split()
    )


def test_equal_papers_count_once(sample, tmp_path, cli):
    """One of them could be held out, and the other not."""
    place, out = tmp_path / "papers", tmp_path / "out"
    stories = [STORY.replace("dog", animal) for animal in ("cat", "cow", "pig", "hen")]
    papers_of(place, stories + stories)
    given = ["--model", sample / "vocabulary", "--out", out, "--workers", 1, "--dev", 0]
    done = cli("pretrain", "data", place, place, *given)
    assert done.returncode == 0, done.stderr
    assert f"note: {place} is left out as a duplicate" in " ".join(done.stderr.split())
    assert "4 documents" in done.stdout


def test_a_corpus_of_two_plans_is_not_opened(sample, tmp_path, cli):
    """A command that was stopped leaves new shards beside old ones; both may have a text."""
    place, out = tmp_path / "text", tmp_path / "out"
    place.mkdir()
    for number in range(8):
        (place / f"u{number}.txt").write_text(STORY.replace("dog", f"dog {number}"))
    given = ["--model", sample / "vocabulary", "--out", out, "--workers", 1, "--dev", 0]
    given += ["--shard-size", f"{4.5 * len(STORY) / 1000:.2f}kB"]
    assert cli("pretrain", "data", place, *given).returncode == 0
    before = len(Corpus(out / "train"))
    (place / "u7.txt").rename(place / "a7.txt")
    done = cli("pretrain", "data", place, *given, "--part", "1/2")
    assert done.returncode == 0, done.stderr
    with pytest.raises(DataError, match="made with different text than"):
        Corpus(out / "train")
    done = cli("pretrain", "data", place, *given)
    assert done.returncode == 0, done.stderr
    assert len(Corpus(out / "train")) == before
    # A shard whose text stayed is kept, and belongs to the new plan.
    (place / "u6.txt").write_text(STORY.replace("dog", "cow"))
    done = cli("pretrain", "data", place, *given)
    assert "already there" in done.stderr
    assert len(Corpus(out / "train")) == before


@pytest.mark.parametrize(
    "command",
    [("pretrain", "data", "--shard-size", "1kB"), ("pretrain", "vocabulary", "--size", 40)],
    ids=lambda command: command[1],
)
def test_all_is_named_at_once_or_left_out(text, sample, tmp_path, cli, command):
    out = tmp_path / "out"
    *name, flag, value = command
    more = [flag, value]
    if "data" in name:
        more += ["--model", sample / "vocabulary", "--workers", 1, "--dev", 0]
    done = cli(*name, text, "--out", out, *more)
    assert done.returncode == 3
    assert "4 problems in the text" in done.stderr
    assert "--on-error skip" in done.stderr
    assert names_all(done.stderr)
    assert not out.exists()
    done = cli(*name, text, "--out", out, *more, "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    assert f"note: {text / 'b.txt'} is read as Windows-1252" in done.stderr
    rejects = [json.loads(line) for line in (out / "rejects.jsonl").read_bytes().splitlines()]
    assert len(rejects) == 4
    assert names_all(str(rejects))
    assert str(out / "rejects.jsonl") in done.stdout
    for bad in ("odd1.txt", "odd2.md", "table.txt", "exam/bad.json"):
        (text / bad).unlink()
    other = cli(*name, text, "--out", tmp_path / "other", *more)
    assert other.returncode == 0, other.stderr
    assert not (tmp_path / "other" / "rejects.jsonl").exists()
    if "data" in name:  # what was left out is all that is missing
        assert Corpus(out / "train").count == Corpus(tmp_path / "other" / "train").count
    else:
        made = [(tmp_path / x / "spiece.model").read_bytes() for x in ("out", "other")]
        assert made[0] == made[1]


def test_the_list_of_what_was_left_out_is_no_text(text, tmp_path, cli):
    out = tmp_path / "v"
    done = cli("pretrain", "vocabulary", text, "--out", out, "--size", 40, "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    (text / "rejects.jsonl").write_bytes((out / "rejects.jsonl").read_bytes())
    again = cli("pretrain", "vocabulary", text, "--out", out, "--size", 40, "--on-error", "skip")
    assert (again.returncode, again.stdout) == (0, done.stdout)


def test_nothing_left_and_other_choices_are_refused(text, tmp_path, cli):
    place = text / "odd1.txt"
    done = cli("pretrain", "vocabulary", place, "--out", tmp_path / "v", "--on-error", "skip")
    assert (done.returncode, "nothing is left to read" in done.stderr) == (3, True)
    done = cli("pretrain", "vocabulary", place, "--out", tmp_path / "v", "--on-error", "ignore")
    assert (done.returncode, "'ignore' is not one of" in done.stderr) == (2, True)
    if os.geteuid():  # root reads everything
        (text / "a.txt").chmod(0)
        assert (
            "a.txt: cannot be read"
            in cli("pretrain", "vocabulary", text, "--out", tmp_path / "v").stderr
        )
