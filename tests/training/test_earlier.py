"""Where a run may begin: never over the model that it starts from, nor over somebody's weights."""

import shutil
from pathlib import Path

import pytest
import torch
from conftest import run_until_power_cut

from albert_rc.checkpoints.hub import SHIPPED
from albert_rc.errors import UsageError
from albert_rc.runtime.devices import Processes
from albert_rc.training.runs.earlier import EARLIER, MARK, require_kept

ALONE = Processes(torch.device("cpu"))
TINY = SHIPPED / "albert-rc-tiny-pretrained"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A model as it was downloaded, in models/, and a run that was begun in models/run."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(TINY, "models")
    Path("models/run/sub").mkdir(parents=True)
    Path("models/run/train.json").write_text("{}")
    Path("models/run/model.safetensors").write_text("weights")
    Path("linked").symlink_to("models")
    Path("by_file").mkdir()
    Path("by_file/model.safetensors").symlink_to("../models/run/model.safetensors")
    Path("models/run", EARLIER).mkdir()
    Path("models/run", EARLIER, MARK).touch()
    Path("models/run", EARLIER, "model.safetensors").write_text("earlier weights")
    return tmp_path


@pytest.mark.parametrize(
    ("model", "out", "said"),
    [
        ("models", "models", "are the same"),
        ("models", "linked", "are the same"),
        ("models", "models/run/../../models", "are the same"),
        ("models/run", "models/run", "are the same"),
        ("by_file", "models/run", "are the same"),
        ("models/run/earlier", "models/run", "an earlier run that is removed"),
        ("models/run", "models", "not written by a run"),
        ("albert-rc-tiny", "models", "not written by a run"),
    ],
)
def test_a_run_that_would_remove_weights_does_not_begin(place, model, out, said):
    with pytest.raises(UsageError, match=said) as caught:
        require_kept(model, [Path("elsewhere"), Path(out)], ALONE)
    assert any(way in str(caught.value) for way in ("another --out", "rename that folder"))


def test_a_log_of_the_users_own_does_not_make_weights_a_runs(place):
    Path("models/log.txt").write_text("my notes")
    with pytest.raises(UsageError, match="not written by a run"):
        require_kept("albert-rc-tiny", [Path("models")], ALONE)


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(
    ("teacher", "said"),
    [
        ("models/run", "the student would replace its teacher"),
        ("by_file", "the student would replace its teacher"),
        ("models/run/earlier", "an earlier run that is removed"),
        ("models/run/earlier/scores.jsonl", "an earlier run that is removed"),
    ],
)
def test_a_run_that_would_remove_its_teacher_does_not_begin(place, teacher, said, resume):
    Path("models/run", EARLIER, "scores.jsonl").touch()
    if resume:
        Path("models/run/resume-00000001.pt").touch()
    with pytest.raises(UsageError, match=said):
        require_kept(
            "albert-rc-tiny", [Path("models/run")], ALONE, resume=resume, scratch=True,
            teacher=teacher,
        )  # fmt: skip


def test_a_search_that_would_remove_its_teacher_does_not_begin(place):
    with pytest.raises(UsageError, match="--teacher models/run is in models, which a better run"):
        require_kept("albert-rc-tiny", [Path("models")], ALONE, replaced=True, teacher="models/run")


def test_what_removes_nothing_may_begin(place):
    require_kept("albert-rc-tiny", [Path("models/new")], ALONE, teacher="models/run")
    require_kept("models", [Path("models/run"), Path("models/new")], ALONE)
    require_kept("models/run", [Path("models/run/sub")], ALONE)
    require_kept("albert-rc-tiny", [Path("models/run")], ALONE)
    # Of the folder of --model only the vocabulary is read, and that stays where it is.
    require_kept("models/run", [Path("models/run")], ALONE, scratch=True)
    Path("models/run/resume-00000001.pt").touch()
    require_kept("models/run", [Path("models/run")], ALONE, resume=True)
    with pytest.raises(UsageError, match="is in"):
        require_kept("models/run/earlier", [Path("models/run")], ALONE, resume=True)


def test_a_trainer_does_not_begin_over_foreign_weights(trainer, tmp_path):
    shutil.copytree(TINY, tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="these weights were not written by a run"):
        trainer(tmp_path).run()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_run_that_has_a_state_goes_on_with_its_own_weights(trainer, tmp_path):
    run_until_power_cut(trainer(tmp_path, save_steps=1), 7)
    require_kept(str(tmp_path), [tmp_path], ALONE, resume=True)


@pytest.mark.parametrize("more", [(), ("--resume",)])
@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_commands_refuse_the_model_as_their_folder(stores, place, cli, command, more):
    before = {path: path.read_bytes() for path in place.glob("models/*") if path.is_file()}
    stores["cloze", "train"].save(place / "train.pt")
    done = cli(command, "--data", place, "--model", "models", "--out", "linked", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--model models and the run's folder linked are the same" in done.stderr
    assert {path: path.read_bytes() for path in before} == before


def test_several_runs_and_searches_do_not_remove_it_either(stores, place, cli):
    for split in ("train", "dev"):
        stores["cloze", split].save(place / f"{split}.pt")
    shutil.copytree(TINY, "models/seed-1")
    shutil.copytree(TINY, "models/best")
    arguments = ("--data", place, "--out", "models", "--max-steps", 1)
    done = cli("train", *arguments, "--model", "models/seed-1", "--seeds", 2)
    assert (done.returncode, "are the same" in done.stderr) == (2, True)
    done = cli("train", "--search", 12, *arguments, "--model", "models/best")
    assert (done.returncode, "which a better run will replace" in done.stderr) == (2, True)
    done = cli("train", "--search", 12, *arguments, "--model", "albert-rc-tiny")
    assert (done.returncode, "not written by a run" in done.stderr) == (2, True)
    assert Path("models/best/model.safetensors").is_file()


def test_a_vocabulary_does_not_replace_that_of_a_model(place, sample, cli):
    before = Path("models/spiece.model").read_bytes()
    done = cli(
        "pretrain", "vocabulary", sample / "cloze" / "train", "--size", 300, "--out", "models"
    )
    assert (done.returncode, "--out models holds a model" in done.stderr) == (2, True)
    assert Path("models/spiece.model").read_bytes() == before
    # Nor that of one whose vocabulary is in another file, which spiece.model would hide.
    Path("models/spiece.model").rename("models/vocab.txt")
    done = cli(
        "pretrain", "vocabulary", sample / "cloze" / "train", "--size", 300, "--out", "models"
    )
    assert (done.returncode, "--out models holds a model" in done.stderr) == (2, True)
    assert not Path("models/spiece.model").exists()
