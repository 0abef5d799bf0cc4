"""`answer` and `load_model` from Python: typed, and what `predict` answers."""

import contextlib
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ROOT, SAMPLE

from albert_rc import Answer, AnsweredPaper, answer, load_model
from albert_rc.checkpoints.load import save_model
from albert_rc.cli.predict import predict
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.io.files import file_sha256
from albert_rc.io.json import read_json, write_json

PAPER = {"article": "He _ home . She _ .", "options": [["went", "goes up"], ["sat", "sits", "s"]]}


@pytest.fixture(scope="module")
def tiny():
    return load_model("albert-rc-tiny", "cloze")


def test_a_name_that_is_not_there():
    with pytest.raises(ImportError, match="nothing"):
        from albert_rc import nothing  # noqa: F401


def test_threads_with_one_model_get_the_answers_of_one_after_the_other():
    """Training mode, precision and frozen weights are the model's, and so are shared."""
    model = load_model("albert-rc-tiny", "cloze", dropout=0.1)
    long = {"article": "He _ home . " * 60, "options": [["went", "goes", "go", "gone"]] * 60}
    papers = [PAPER, long, PAPER, long]
    alone = [answer(paper, model) for paper in papers]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda paper: answer(paper, model), papers))
    assert together == alone
    assert model.model.training


def test_a_head_that_was_never_trained_is_told():
    paper = {"article": "It is late.", "questions": ["When?"], "options": [["Now", "Never"]]}
    with pytest.warns(UserWarning, match="the model's head is untrained, so its answers"):
        answer(paper, load_model("albert-rc-tiny", "choice"))


def test_what_the_model_does_not_see_is_told(tiny):
    for paper, said in (
        ({"article": "He was_ to see.", "options": [["glad", "sad"]]}, "attached to a word"),
        ({"article": "He _ .", "options": [["去", "来"]]}, "the same for the model"),
    ):
        with pytest.warns(UserWarning, match=said):
            answer(paper, tiny)
    asked = {"questions": ["When?"], "options": [["Now", "Never"]]}
    with pytest.warns(UserWarning, match=r"are read, and [\d,]+ tokens are not"):
        answer({"article": "It is late. " * 600, **asked})
    with pytest.raises(UsageError, match="reuse is for cloze papers"):
        answer({"article": "It is late.", **asked}, reuse=True)


@pytest.mark.parametrize("name", ["cloze", "masks", "race", "excerpt"])
def test_the_answers_are_those_of_predict(tiny, tmp_path, name):
    way = name if name in ("masks", "excerpt") else None
    name = "race" if name in ("race", "excerpt") else "cloze"
    data = SAMPLE / name / "test"
    model, place = tiny, "albert-rc-tiny"
    if name == "race":
        place = tmp_path / "model"
        model = load_model(SAMPLE / "vocabulary", "choice", scratch="tiny", seed=2)
        save_model(model.model, model.tokenizer, place)
        model = load_model(place, "choice")
    out, scores = tmp_path / "answer.json", tmp_path / "scores.jsonl"
    predict(data=data, model=str(place), out=out, scores=scores, option_score=way)
    papers = answer(data, model, option_score=way)
    found = {paper.id: paper.letters for paper in papers}
    if name == "race":
        found = {f"{id_}#{n}": x for id_, all_ in found.items() for n, x in enumerate(all_, 1)}
    assert found == read_json(out)
    answers = [one for paper in papers for one in paper.answers]
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    for one, line in zip(answers, lines, strict=True):
        assert (one.number, one.letter) == (line["number"], line["answer"])
        assert list(one.probabilities.values()) == line["probabilities"]
        assert one.probability == one.probabilities[one.letter]


def test_dicts_lists_text_and_paths_are_alike(tiny, tmp_path):
    write_json(tmp_path / "one.json", PAPER)
    (from_dict,) = answer(PAPER, tiny)
    others = [answer(x, tiny) for x in ([PAPER], json.dumps(PAPER), tmp_path / "one.json",
                                        str(tmp_path), json.dumps([PAPER]))]  # fmt: skip
    assert all(other[0].answers == from_dict.answers for other in others)
    assert isinstance(from_dict, AnsweredPaper)
    first = from_dict.answers[0]
    assert isinstance(first, Answer)
    assert first.option == PAPER["options"][0]["AB".index(first.letter)]
    assert [list(a.probabilities) for a in from_dict.answers] == [["A", "B"], ["A", "B", "C"]]
    ids = [paper.id for paper in answer([{**PAPER, "id": "b"}, PAPER, {**PAPER, "id": "a"}], tiny)]
    assert ids == ["b", "papers[2]", "a"]


def test_text_and_folders_are_read_as_strictly_as_files(tiny, tmp_path):
    twice = json.dumps(PAPER)[:-1] + ', "article": "Another _ ."}'
    with pytest.raises(DataError, match="the key 'article' occurs twice"):
        answer(twice, tiny)
    for split in ("train", "dev"):
        write_json(tmp_path / split / "one.json", PAPER)
    with pytest.raises(UsageError, match="holds 2 splits; name one of them"):
        answer(tmp_path, tiny)


def test_the_model_is_left_as_it_was(tiny):
    before = tiny.model.encoder.compute
    exact = answer(PAPER, tiny, precision="fp32")
    assert tiny.model.encoder.compute == before
    assert answer(PAPER, tiny, precision="fp32", token_budget=1) == exact


def test_a_kept_temperature_is_used(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(ROOT / "albert_rc/pretrained/albert-rc-tiny", folder)
    (folder / "calibration.json").unlink()
    plain = answer(PAPER, load_model(folder, "cloze"), precision="fp32")
    weights = file_sha256(folder / "model.safetensors")
    write_json(folder / "calibration.json", {"temperature": 4.0, "weights_sha256": weights})
    model = load_model(folder, "cloze")
    assert answer(PAPER, model, precision="fp32", temperature=1) == plain
    (cool,) = answer(PAPER, model, precision="fp32")
    assert cool.letters == plain[0].letters
    assert cool.answers[0].probability < plain[0].answers[0].probability
    write_json(folder / "calibration.json", {"temperature": "hot"})
    with pytest.raises(CheckpointError, match=r"calibration\.json: damaged"):
        answer(PAPER, model)


@pytest.mark.parametrize(
    ("papers", "said"),
    [
        ({"article": "no blank", "options": [["a", "b"]]}, "the article has no blanks"),
        ([PAPER, {**PAPER, "options": [["a", "b"]]}], r"papers\[2\]: 2 blanks"),
        ([{**PAPER, "id": "x"}, {**PAPER, "id": "x"}], r"the id 'x' is already used"),
        ([], "the list of papers is empty"),
        ([PAPER, 3], r"papers\[2\] is a number"),
        ("{torn", "papers' text"),
        ("/no/such/place", "no such file"),
        ({"article": object(), "options": []}, "the papers cannot be converted to JSON"),
        (
            {"article": "A.", "questions": ["b?"], "options": [["c", "d"]]},
            r"these are choice papers, but the model answers cloze papers; "
            r'load_model\(source, "choice"\)',
        ),
        (
            [{**PAPER, "id": "twice"}, {**PAPER, "id": "twice"}],
            r"^1 problem.*\n  papers\[2\]: the id 'twice' is already used by .*\[1\]; .*\nFix it",
        ),
    ],
)
def test_bad_papers_are_named(tiny, papers, said):
    with pytest.raises(DataError, match=said):
        answer(papers, tiny)


@pytest.mark.parametrize(
    "how",
    [
        {"precision": "int8"},
        {"precision": "fp99"},
        {"temperature": 0.0},
        {"temperature": math.inf},
        {"token_budget": 0},
        {"option_score": "mask"},
    ],
)
def test_what_cannot_work_is_refused(tiny, how):
    with pytest.raises(UsageError):
        answer(PAPER, tiny, **how)


def readme_example():
    text = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return code


@pytest.mark.parametrize(
    "papers", [None, 3, b'"/etc/hostname"', {"article": "a \ud800 _", "options": [["a", "b"]]}]
)
def test_what_is_no_paper_is_refused(tiny, papers):
    with pytest.raises(DataError, match="papers"):
        answer(papers, tiny)


@pytest.mark.parametrize(
    "text", ["", " ", "It was raining, so she took an _ with her. " * 99, "\0"]
)
def test_text_in_place_of_a_paper_is_refused(tiny, text):
    with pytest.raises(DataError, match="no such file or folder; give a dict, its JSON, or a path"):
        answer(text, tiny)


def test_tuples_and_bytes_are_papers_too(tiny):
    expected = answer(PAPER, tiny)
    tuples = {**PAPER, "options": tuple(map(tuple, PAPER["options"]))}
    assert answer((tuples,), tiny) == answer([PAPER], tiny)
    assert answer(json.dumps(PAPER).encode(), tiny) == expected


def test_a_model_is_also_its_name_or_folder(tiny):
    assert (
        answer(PAPER, "albert-rc-tiny")
        == answer(PAPER, tiny)
        == answer(PAPER, tiny.tokenizer.folder)
    )
    with pytest.raises(UsageError, match="the model is 3; give its name or folder"):
        answer(PAPER, 3)
    with pytest.raises(UsageError, match="none: no such folder"):
        answer(PAPER, "none")


def test_the_readmes_example_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    code = readme_example()
    assert len(code.strip().splitlines()) <= 10
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, "README.md", "exec"), {})
    assert re.fullmatch(r"1 A umbrella \d\d\.\d%\n", said.getvalue())


@pytest.mark.slow
def test_others_see_the_types(tmp_path):
    (tmp_path / "use.py").write_text(
        readme_example() + "\nreveal_type(answer({})[0].answers[0].probability)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(tmp_path / "use.py")],
        capture_output=True, text=True, cwd=tmp_path, check=False,
        # Where an editable install is a hook, mypy cannot follow it.
        env=os.environ | {"MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert 'Revealed type is "float"' in done.stdout.replace("builtins.", "")
    assert "use.py" not in done.stdout.replace("use.py:", "", 1).replace("note", "")


@pytest.mark.slow
def test_what_the_package_needs_is_packed(tmp_path):
    """The wheel holds the mark of types, the card's templates and the papers that it tries."""
    import zipfile

    source = tmp_path / "source"
    names = ("albert_rc", "pyproject.toml", "README.md", "LICENSE")
    source.mkdir()
    for name in names:
        whole = ROOT / name
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, source / name)
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", tmp_path]
    subprocess.run([sys.executable, "-m", *map(str, command), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    export = "albert_rc/export"
    assert {
        "albert_rc/py.typed", f"{export}/templates/card.md.j2", f"{export}/templates/example.py.j2",
        f"{export}/papers/cloze.jsonl", f"{export}/papers/race.jsonl",
    } <= packed  # fmt: skip
