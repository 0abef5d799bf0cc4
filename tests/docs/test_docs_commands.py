"""What the documentation shows is run, page by page, on the sample and with the model that ships.

Slow. tests/docs/test_docs.py looks quickly whether every command could be given at all.
"""

import importlib.util
import json
import re
import shutil

import documented
import pytest
from commands import run_cli
from conftest import ROOT, SAMPLE
from exam import CLOZE, as_word

pytestmark = pytest.mark.slow

STANDS_FOR = {
    "albert/albert-xxlarge-v2": "albert-rc-tiny",
    "albert/albert-base-v2": "albert-rc-tiny",
    "answers.txt": str(SAMPLE / "printed" / "answers.txt"),
    "data/sample/printed/exam.txt": str(SAMPLE / "printed" / "exam.txt"),
    "data/sample/printed/answers.txt": str(SAMPLE / "printed" / "answers.txt"),
    "data/sample/cloze/dev": str(SAMPLE / "cloze" / "dev"),
    "8000": "1200",  # pieces: the sample has not text enough for more
}
"""What the pages name, and what is taken for it."""
SHORTER = {"train": ["--max-steps", "2"], "pretrain": ["--max-steps", "2"]}
PICTURES_ARE_READ = all(map(importlib.util.find_spec, ("rapidocr", "pypdfium2", "reportlab")))
OF_PICTURES = ("photo.jpg", "scans/")
AGREES = {"--tolerance": "100"}  # two steps on 28 papers are no model that int8 must keep up with
TRIED_ELSEWHERE = {
    "bench": "test_bench.py",
    "serve": "test_serve.py",
}
PAGES = (
    "README", "quickstart", "pretraining", "import", "confidence", "report", "export",
    "troubleshooting",
)  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder in which the pages' placeholders stand: papers, stores, a run, scores."""
    folder = tmp_path_factory.mktemp("docs")
    for split in ("train", "dev", "test"):
        shutil.copytree(SAMPLE / "cloze" / split, folder / "papers" / split)
    text = folder / "text"
    text.mkdir()
    for number, page in enumerate(("architecture.md", "experiments.md", "formats.md")):
        shutil.copy(ROOT / "docs" / page, text / f"{number}.txt")
    shutil.copytree(SAMPLE / "vocabulary", folder / "models" / "vocabulary")
    as_word(SAMPLE / "printed" / "exam.txt", folder / "exam.docx")
    if PICTURES_ARE_READ:
        photograph(folder)
    corpus = ("--model", "models/vocabulary", "--out", "data/corpus", "--exclude", "papers/dev")
    must(folder, "pretrain", "data", "text/", "papers/train", *corpus)
    tiny = ("--model", "albert-rc-tiny")
    must(folder, "preprocess", "papers", *tiny, "--out", "data")
    must(folder, "train", "--data", "data", *tiny, "--out", "models/run1", *SHORTER["train"])
    models = {
        "a": "models/run1",
        "b": "albert-rc-tiny",
        "c": "albert-rc-tiny-pretrained",
        "predictions": "models/run1",
    }
    for name, model in models.items():
        for split in ("dev", "test"):
            out = ("--out", f"{name}/{split}.json", "--scores", f"{name}/{split}.jsonl")
            must(folder, "predict", "--data", f"papers/{split}", "--model", model, *out)
    shutil.copy(folder / "b" / "dev.jsonl", folder / "predictions" / "other.jsonl")
    return folder


def photograph(folder):
    """A printed paper as a picture: photo.jpg, and again in the folder scans."""
    import pypdfium2

    from albert_rc.papers.formats import read_split
    from albert_rc.printed.render.pdf import pdf_bytes
    from albert_rc.printed.render.sheet import make_sheet

    (folder / "one").mkdir()
    (folder / "one" / "exam.json").write_text(json.dumps(CLOZE))
    (page,) = pypdfium2.PdfDocument(pdf_bytes(make_sheet(read_split(folder / "one"))))
    picture = page.render(scale=200 / 72).to_pil().convert("RGB")
    picture.save(folder / "photo.jpg", quality=90)
    (folder / "scans").mkdir()
    picture.save(folder / "scans" / "page1.jpg", quality=90)


def must(folder, *arguments):
    done = run_cli(*arguments, cwd=folder)
    line = " ".join(map(str, arguments))
    assert done.returncode == 0, f"albert-rc {line}\n{done.stdout}\n{done.stderr}"
    return done


def stand_ins(words):
    """The words with what is taken for them; a place to write to stays what it is."""
    before = ["", *words]
    return [
        word if last.startswith("--out") else STANDS_FOR.get(word, word)
        for last, word in zip(before, words, strict=False)
    ]


def commands(page):
    """The whole commands of a page that are to be run, as lists of words."""
    path = ROOT / "README.md" if page == "README" else ROOT / "docs" / f"{page}.md"
    for one in documented.shown([path]):
        if one.whole and one.text.startswith("albert-rc ") and "..." not in one.text:
            words = documented.words(one.text)[1:]
            if words[0] in TRIED_ELSEWHERE:
                continue
            if PICTURES_ARE_READ or not set(words) & set(OF_PICTURES):
                yield words


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(page, work, tmp_path):
    folder = tmp_path / "work"
    shutil.copytree(work, folder)
    found = list(commands(page))
    assert found
    for words in found:
        taken = stand_ins(words)
        if words[1].startswith("-"):  # not `pretrain vocabulary`
            taken += SHORTER.get(words[0], [])
        for option, value in AGREES.items():
            if "int8" in words:
                taken += [option, value]
        if "--resume" in words:  # of a run with these settings
            must(folder, *(word for word in taken if word != "--resume"))
        must(folder, *taken)
        for option in ("--out", "--scores", "--fit"):
            if option in words:
                out = folder / words[words.index(option) + 1]
                assert out.exists() or out.with_suffix(".png").exists(), (page, words)


def test_the_quick_start_is_short():
    page = ROOT / "docs" / "quickstart.md"
    first = documented.FENCE.search(page.read_text())[2].strip().splitlines()
    assert len(first) < 6
    assert [line.split()[1] for line in first[2:]] == ["import", "predict", "report"]


def test_what_the_quick_start_leaves(work, tmp_path):
    """Answers to every blank of the printed paper, and a page that says which are right."""
    as_word(SAMPLE / "printed" / "exam.txt", tmp_path / "exam.docx")
    for line in documented.FENCE.search((ROOT / "docs/quickstart.md").read_text())[2].splitlines():
        words = documented.words(line)
        if words and words[0] == "albert-rc":
            must(tmp_path, *stand_ins(words[1:]))
    assert len((tmp_path / "predictions/scores.jsonl").read_text().splitlines()) == 10
    assert "library" in (tmp_path / "report.html").read_text()


def test_the_example_of_the_python_api(capsys):
    """The README's is run by test_answering.py."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)
    exec(compile(code, "docs/api.md", "exec"), {})
    assert capsys.readouterr().out.strip() in ("['A']", "['B']")
