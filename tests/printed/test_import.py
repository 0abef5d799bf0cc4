"""The command `import`, and papers printed in layouts drawn at random that come back."""

import json
import random
from collections import Counter

import pytest
from conftest import SAMPLE
from exam import LISTS, QUESTIONS, STORY, TEXT
from printed import draw, expected, print_papers

from albert_rc.errors import DataError, UsageError
from albert_rc.papers.formats import read_split
from albert_rc.printed.run import import_papers


def test_the_command(tmp_path, cli):
    good, bad = tmp_path / "exam 1 (A).txt", tmp_path / "bad.txt"
    good.write_text(f"{STORY}{LISTS}\n{TEXT}{QUESTIONS}\nAnswers\n36-40 DDABA\n")
    bad.write_text(STORY.replace("__37__", "want") + LISTS)
    out = tmp_path / "papers"
    done = cli("import", good, bad, "--out", out, "--split", "dev")
    assert done.returncode == 3
    assert "the options of 37 have no blank; write __37__ where it belongs" in done.stdout
    assert "no paper was written" in done.stderr
    assert not out.exists()
    done = cli("import", good, bad, "--out", out, "--split", "dev", "--on-error", "skip", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["files"][1]["unplaced"][0]["numbers"] == [37]
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*")) == [
        "cloze/dev/exam_1_A-1.json",
        "race/dev/exam_1_A-2.txt",
    ]
    assert [p.filled()[:50] for p in read_split(out / "cloze" / "dev").passages] == [
        "Last Friday Tom was on the bus home when he found "
    ]
    assert [len(p.questions) for p in read_split(out / "race" / "dev").passages] == [2]
    done = cli("import", bad, "--out", out, "--on-error", "skip")
    assert done.returncode == 3
    assert "no complete passage among 1: 1 problem, listed above" in done.stderr
    key = tmp_path / "key.txt"
    key.write_text("36-40 DDABA\n99. A\n")
    done = cli("import", good, "--key", key, "--out", tmp_path / "whole", "--on-error", "skip")
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    assert "1 problem, listed above" in done.stderr
    done = cli("import", good, "--out", out, "--split", "../../x")
    assert done.returncode == 2
    assert "is not one of 'train'" in done.stderr


def test_papers_outside_of_the_splits_are_warned_of(tmp_path, cli):
    exam, out = tmp_path / "exam.txt", tmp_path / "papers"
    exam.write_text(STORY + LISTS)
    for split in ((), ("--split", "dev"), ("--split", "test")):
        done = cli("import", exam, "--out", out, *split)
        assert done.returncode == 0
        assert "outside" not in done.stderr
    done = cli("import", exam, "--out", out)
    assert "has the split dev and test, and now papers outside of it" in done.stderr
    (tmp_path / "others" / "cloze" / "2021" / "dev").mkdir(parents=True)
    done = cli("import", exam, "--out", tmp_path / "others")
    assert (done.returncode, "error" in done.stderr) == (0, False)


def test_papers_of_an_earlier_import_are_named(tmp_path, cli):
    exam, out = tmp_path / "exam.txt", tmp_path / "papers"
    (tmp_path / "exam-2.txt").write_text(STORY + LISTS)
    exam.write_text(f"{STORY}{LISTS}\nSection B\n{TEXT}{QUESTIONS}")
    first = cli("import", exam, tmp_path / "exam-2.txt", "--out", out, "--split", "dev")
    assert first.returncode == 0
    assert "earlier" not in first.stderr
    exam.write_text(STORY + LISTS)
    done = cli("import", exam, "--out", out, "--split", "dev")
    assert done.returncode == 0
    left = out / "race" / "dev" / "exam-2.txt"
    said = " ".join(done.stderr.split())
    assert f"{left.name}: left from an earlier import of a file of this name" in said
    assert "`predict` would answer them, too" in said
    assert "exam-2-1" not in said
    assert left.is_file()
    done = cli("import", exam, "--out", out, "--split", "dev", "--json")
    assert json.loads(done.stdout)["earlier"] == [str(left)]


def test_two_files_of_one_name(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "exam.txt").write_text(STORY + LISTS)
    with pytest.raises(UsageError, match="same names"):
        import_papers([tmp_path / "a" / "exam.txt", tmp_path / "b" / "exam.txt"])


@pytest.mark.parametrize(
    ("files", "key", "said"),
    [
        (["page.png", "none.txt"], None, r"none\.txt: no such file"),
        (["page.png"], "key.doc", r"key\.doc: an old Word document"),
        (["page.png"], "key.txt", r"key\.txt: no such file"),
        (["page.png", "b/page.txt"], None, "same names"),
    ],
)
def test_what_cannot_be_read_is_refused_before_pictures_are(tmp_path, files, key, said):
    """The picture is no picture, which whoever recognised it would say first."""
    (tmp_path / "page.png").write_bytes(b"not a picture")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "page.txt").write_text(STORY + LISTS)
    with pytest.raises((UsageError, DataError), match=said):
        import_papers([tmp_path / file for file in files], key and tmp_path / key)


def round_trip(folder, pool, draws):
    """Print papers in layouts drawn at random and import them: how many came back, and how."""
    tally = Counter()
    for number in range(draws):
        rng = random.Random(number)
        layout = draw(rng)
        papers = rng.sample(pool, rng.choice((1, 1, 2, 3)))
        sheet, key = print_papers(papers, layout, rng)
        path = folder / f"{number}.txt"
        path.write_text(f"{sheet}\n\n{key}\n" if layout.answers else sheet)
        (found,) = import_papers([path])
        wanted = [expected(paper, layout.answers) for paper in papers]
        whole = [paper for paper in found.papers if paper.whole]
        for paper in whole:
            content = {"answers": [], **paper.content()}
            content.pop("id", None)
            said = found.all_troubles() or any("end of a line" in note for note in paper.notes)
            tally["exact" if content in wanted else "told" if said else "wrong"] += 1
        tally["papers"] += len(papers)
        tally["lost"] += len(whole) < len(papers) and not found.all_troubles()
    return tally


def test_the_sample_comes_back(tmp_path):
    cloze = sorted((SAMPLE / "cloze").glob("*/*.json"))
    pool = [json.loads(path.read_text()) for path in (*cloze, *(SAMPLE / "race").rglob("*.txt"))]
    tally = round_trip(tmp_path, sorted(pool, key=str), 120)
    assert tally["wrong"] == tally["lost"] == 0, tally
    assert tally["exact"] >= 0.97 * tally["papers"], tally


def test_real_papers_come_back(tmp_path, real_data):
    paths = sorted((real_data / "ele").rglob("*.json"))[:260]
    read = [json.loads(path.read_text()) for path in paths]
    # Some have the instruction of their sheet inside, which import rightly leaves out.
    pool = [
        paper
        for paper in read
        if isinstance(paper, dict) and not paper["article"].startswith(("For each", "(A", "Direct"))
    ][:200]
    tally = round_trip(tmp_path, pool, 120)
    assert tally["wrong"] == tally["lost"] == 0, tally
    assert tally["exact"] >= 0.95 * tally["papers"], tally
