"""Results never replace what is read, and what cannot be written is said before the work."""

import shutil

import pytest

from albert_rc.checkpoints.hub import SHIPPED
from albert_rc.cli.outputs import check_outputs, require_folder
from albert_rc.errors import UsageError
from albert_rc.io.atomic import only_run, require_new


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("papers/a.json", "papers/high/b.json", "scores.jsonl", "run/config.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    (tmp_path / "run/answer.json").write_text("{}")
    for name in ("model.safetensors", "metrics.jsonl", "calibration-masks.json"):
        (tmp_path / "run" / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("scores.jsonl", "--out scores.jsonl is one of the input files"),
        ("papers/../scores.jsonl", "is one of the input files"),
        ("papers/a.json", "is in the folder of the input papers"),
        ("papers/new.json", "is in the folder of the input papers"),
        ("papers/high/b.json", "is in the folder of the input papers"),
        ("papers/predictions/new.json", "is in the folder of the input papers"),
        ("papers", "--out papers is a folder; name a file in it"),
        ("run/config.json", "is a file of a model"),
        ("run/model.safetensors", "is a file of a model"),
        ("run/metrics.jsonl", "is a file of a model"),
        ("run/calibration-masks.json", "is a file of a model"),
        ("kept.json", "--out and --scores are both kept.json"),
    ],
)
def test_a_result_replaces_nothing_that_is_needed(place, out, said):
    outputs = {"--out": place.joinpath(out).relative_to(place), "--scores": None}
    if out == "kept.json":
        outputs["--scores"] = outputs["--out"]
    with pytest.raises(UsageError, match=said):
        check_outputs(outputs, [place / "papers", place / "scores.jsonl", None])


def test_other_places_are_fine_and_earlier_answers_may_be_replaced(place):
    for out in ("run/answer.json", "papers/.kept/answer.json", "new/folder/a.json"):
        check_outputs({"--out": place / out}, [place / "papers"])
    # Of a collection only the splits are read.
    for split in ("train", "dev"):
        (place / "collection" / split).mkdir(parents=True)
        (place / "collection" / split / "a.json").write_text("{}")
    out = place / "collection" / "predictions" / "answer.json"
    check_outputs({"--out": out}, [place / "collection"])
    with pytest.raises(UsageError, match="is in the folder of the input papers"):
        check_outputs({"--out": place / "collection/dev/x/a.json"}, [place / "collection/dev"])
    assert (place / "new/folder").is_dir()
    assert (place / "run/answer.json").read_text() == "{}"


def test_what_is_in_the_way_is_named(place):
    with pytest.raises(NotADirectoryError) as caught:
        check_outputs({"--out": place / "scores.jsonl" / "a.json"}, [])
    assert caught.value.filename == str(place / "scores.jsonl")


def test_commands_look_before_they_work(sample, tmp_path, cli):
    papers = tmp_path / "papers"
    shutil.copytree(sample / "cloze" / "dev", papers)
    before = {path: path.read_bytes() for path in papers.iterdir()}
    paper = next(iter(before))
    scores = tmp_path / "scores.jsonl"
    scores.write_text("")
    for command in (
        ("predict", "--data", papers, "--model", "nowhere", "--out", paper),
        ("ensemble", scores, scores, "--out", scores),
        ("evaluate", "--calibrate", scores, papers, "--out", paper),
        ("report", scores, papers, "--out", paper),
        ("bench", "--data", scores, "--out", scores),
        ("inspect", "layers", "nowhere", "--text", papers, "--out", paper),
    ):
        done = cli(*command)
        assert done.returncode == 2
        assert "the input " in done.stderr
    assert {path: path.read_bytes() for path in papers.iterdir()} == before
    assert scores.read_text() == ""


def test_figures_do_not_replace_the_temperature_that_is_kept(sample, tmp_path, cli):
    """Which would lose them: the temperature is written after them."""
    run = tmp_path / "run"
    shutil.copytree(SHIPPED / "albert-rc-tiny", run)
    (run / "calibration.json").unlink()
    scores = tmp_path / "scores.jsonl"
    scores.write_text("")
    command = ("evaluate", "--calibrate", scores, sample / "cloze" / "dev", "--model", run)
    done = cli(*command, "--out", run / "calibration.json")
    assert (done.returncode, "one of the input files" in done.stderr) == (2, True), done.stderr


def test_a_model_of_the_package_is_not_written_to(sample, tmp_path, cli):
    done = cli(
        "evaluate",
        "--calibrate",
        tmp_path / "s.jsonl",
        sample / "cloze",
        "--model",
        "albert-rc-tiny",
    )
    assert done.returncode == 2
    assert "albert-rc export albert-rc-tiny --out models/albert-rc-tiny" in done.stderr


def test_a_folder_that_is_a_link_to_nothing_is_refused(tmp_path):
    link = tmp_path / "models"
    link.symlink_to("disk/models")
    said = r"--out \S+/models: is a link to disk/models, which does not exist"
    with pytest.raises(UsageError, match=said):
        require_folder("--out", link)
    with pytest.raises(UsageError, match=said), only_run(link):
        pass
    with pytest.raises(UsageError, match=said):
        require_new(link)
    assert list(tmp_path.iterdir()) == [link]
    (tmp_path / "disk/models").mkdir(parents=True)
    require_folder("--out", link)
