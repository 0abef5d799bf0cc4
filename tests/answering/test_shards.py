"""Stores in shards: answered part by part, and the same in the end."""

import json
import re
import subprocess
import sys
import time

import pytest
import torch
from conftest import SAMPLE

from albert_rc.answering.int8_check import Trial, identity
from albert_rc.answering.lookup import Memory
from albert_rc.answering.parts import Parts
from albert_rc.answering.request import Request
from albert_rc.answering.run import run
from albert_rc.answering.tasks import Show
from albert_rc.checkpoints.hub import shipped_models
from albert_rc.checkpoints.load import load_model
from albert_rc.cli.console import bar
from albert_rc.errors import DataError
from albert_rc.io.atomic import only_run
from albert_rc.runtime.devices import processes
from albert_rc.stores.shards import open_store, split_path
from albert_rc.stores.store import load_store

MODEL = "albert-rc-tiny"
EXACT = "fp32"
"""On AMX the last bits of a bf16 product depend on its number of rows, so on the batch."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folders of stores: in one file each, and in shards of 3 papers."""
    from conftest import run_cli

    made = {}
    for kind, raw in (("cloze", SAMPLE / "cloze"), ("dream", SAMPLE / "dream")):
        for size in (1000, 3):
            out = made[kind, size] = tmp_path_factory.mktemp(f"{kind}{size}")
            done = run_cli(
                "preprocess", raw, "--model", MODEL, "--out", out, "--shard-papers", size
            )
            assert done.returncode == 0, done.stderr
    return made


@pytest.mark.parametrize("kind", ["cloze", "dream"])
def test_shards_opened_as_one_are_the_store_that_they_were_cut_from(data, kind):
    whole = open_store(split_path(data[kind, 1000], "train"))
    shards = open_store(split_path(data[kind, 3], "train"))
    assert split_path(data[kind, 3], "train").suffix == ".shards"
    assert shards.meta == whole.meta
    for name, tensor in whole.tensors.items():
        assert torch.equal(shards.tensors[name], tensor)
        assert shards.tensors[name].dtype == tensor.dtype


@pytest.mark.parametrize("kind", ["cloze", "dream"])
def test_joined_answers_are_those_of_one_store(data, tmp_path, works, kind):
    for size in (1000, 3):
        done = works("predict", "--data", split_path(data[kind, size], "dev"), "--model", MODEL,
                     "--out", tmp_path / f"{size}.json", "--scores", tmp_path / f"{size}.jsonl",
                     "--abstain", "0.4", "--precision", EXACT)  # fmt: skip
        unsure = tmp_path / f"{size}.unsure.jsonl"
        number = len(unsure.read_bytes().splitlines())
        said = " ".join((done.stdout + done.stderr).split())
        assert said.count("with a probability below 0.4") == 1
        assert f"{unsure}: {number} " in said
    assert sorted(path.name.replace("1000", "3") for path in tmp_path.glob("1000*")) == sorted(
        path.name for path in tmp_path.glob("3*")
    )
    for path in tmp_path.glob("1000*"):
        other = path.with_name(path.name.replace("1000", "3"))
        assert path.read_bytes() == other.read_bytes(), path.name


def test_what_int8_costs_is_remembered_for_shards_too(data):
    model = load_model(MODEL, "cloze").model
    folder = shipped_models()[MODEL]
    whole, shards = (
        identity(model, folder, split_path(data["cloze", size], "dev"), Trial(precision=EXACT))
        for size in (1000, 3)
    )
    assert whole["weights"] == shards["weights"]
    assert len(shards["store"]) == len(whole["store"]) == 64


def test_papers_to_recall_are_read_once_for_all_parts(data, tmp_path, works, monkeypatch):
    made = []
    first = Memory.__init__
    monkeypatch.setattr(Memory, "__init__", lambda self, store: made.append(first(self, store)))
    for size in (1000, 3):
        with processes("cpu") as group:
            request = Request(
                data=split_path(data["cloze", size], "dev"), model=MODEL,
                out=tmp_path / f"{size}.json", scores=tmp_path / f"{size}.scores.json",
                recall=split_path(data["cloze", size], "dev"), precision=EXACT,
            )  # fmt: skip
            said = []
            run(request, group, Show(said.append, bar))
        assert len(made) == 1
        assert sum("this only copies their key" in line for line in said) == 1
        made.clear()
    for end in ("json", "scores.json"):
        assert (tmp_path / f"3.{end}").read_bytes() == (tmp_path / f"1000.{end}").read_bytes()


@pytest.mark.parametrize(
    ("kind", "split", "said"),
    [("dream", "train", "its task differs"), ("cloze", "train", "made from different papers")],
)
def test_a_shard_of_other_papers_is_refused_amid_the_others(
    data, tmp_path, works, cli, kind, split, said
):
    out = tmp_path / "data"
    works("preprocess", SAMPLE / "cloze" / "dev", "--model", MODEL, "--out", out)
    done = works(
        "preprocess", SAMPLE / "cloze", "--model", MODEL, "--out", out, "--shard-papers", "3"
    )
    assert "dev.pt is from an earlier run and was left unchanged; dev.shards is used" in done.stderr
    other = load_store(next(split_path(data[kind, 3], split).glob("*00001-*")))
    other.save(out / "dev.shards" / "shard-00002-of-00003.pt")
    done = cli("predict", "--data", out / "dev.shards", "--model", MODEL, "--out", out / "a.json")
    assert (done.returncode, said in done.stderr) == (3, True), done.stderr
    assert not (out / "a.json").exists()


def test_a_job_that_was_ended_goes_on_where_whole_parts_are(data, tmp_path, works, cli):
    store, out = split_path(data["cloze", 3], "dev"), tmp_path / "answers"
    command = ("predict", "--data", store, "--model", MODEL, "--out", out)
    works(*command)
    parts = sorted(out.glob("shard-*.json"))
    assert len(parts) == 3
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in parts}
    parts[1].unlink()
    assert "parts already done: 2 of 3" in works(*command).stderr
    assert parts[1].read_bytes() == before[parts[1]][0]
    assert parts[0].stat().st_mtime_ns == before[parts[0]][1]
    (out / "manifest.json").unlink()  # now nothing says whose answers these are
    parts[1].write_text('{"another": ["model"]}\n')
    assert "already done" not in works(*command).stderr
    assert parts[1].read_bytes() == before[parts[1]][0]
    said = cli(*command, "--precision", "fp32", "--max-length", "400", "--temperature", "2")
    assert said.returncode == 2
    assert "has answers from different papers, weights or settings" in said.stderr
    shown = json.loads((out / "manifest.json").read_text())
    assert shown["made_by"]["papers"]["max_length"] == 512


def test_a_part_without_all_its_files_is_answered_again(data, tmp_path, works, cli):
    store, out = split_path(data["cloze", 3], "dev"), tmp_path / "a.parts"
    command = ("predict", "--data", store, "--model", MODEL, "--temperature", 1)
    works(*command, "--out", out)
    other = cli(*command, "--out", out, "--option-score", "masks")
    assert (other.returncode, "papers, weights or settings" in other.stderr) == (2, True)
    works(*command, "--out", tmp_path / "a.json", "--scores", tmp_path / "a.jsonl")
    answers = json.loads((tmp_path / "a.json").read_bytes())
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert len(lines) == sum(map(len, answers.values()))


def test_parts_of_unknown_origin_are_never_taken_for_done(data, tmp_path, works):
    """Nor if the run that finds them is killed before it comes to them."""
    store = split_path(data["cloze", 3], "dev")
    parts = Parts(Request(data=store, model=MODEL, out=tmp_path / "parts"))
    for part in parts.all:
        part.out.parent.mkdir(exist_ok=True)
        part.out.write_text('{"stale.json": ["B"]}')
    for _ in range(2):  # the second is after a kill
        assert parts.begin({}) == parts.all
    assert not any(part.out.exists() for part in parts.all)


def test_parts_can_have_scores_later(data, tmp_path, works, cli):
    """The model has a calibrated temperature, which only scores show."""
    store, out = split_path(data["cloze", 3], "dev"), tmp_path / "answers"
    command = ("predict", "--data", store, "--model", MODEL)
    works(*command, "--out", out)
    assert json.loads((out / "manifest.json").read_text())["made_by"]["temperature"] != 1
    out.rename(tmp_path / "a.parts")
    works(*command, "--out", tmp_path / "a.json", "--scores", tmp_path / "a.jsonl")


@pytest.mark.parametrize("out", ["answers.json", "answers"])
def test_two_runs_do_not_answer_the_same_parts(data, tmp_path, works, cli, out):
    folder = tmp_path / ("answers.parts" if out.endswith(".json") else out)
    given = ("predict", "--data", split_path(data["cloze", 3], "dev"), "--model", MODEL, "--out",
             tmp_path / out)  # fmt: skip
    with only_run(folder):
        done = cli(*given)
    assert done.returncode == 2
    assert f"{folder} is in use by another run" in done.stderr
    works(*given)
    assert not list(tmp_path.glob("**/.*"))


def test_other_names_of_the_same_model_go_on_with_its_parts(data, tmp_path, works):
    store, out = split_path(data["cloze", 3], "dev"), tmp_path / "answers"
    works("predict", "--data", store, "--model", MODEL, "--out", out)
    again = works(
        "predict", "--data", store, "--model", shipped_models()[MODEL], "--out", out, "--strict"
    )
    assert "parts already done: 3 of 3" in again.stderr


def test_names_that_would_lose_a_file_are_refused(data, tmp_path, cli):
    command = ("predict", "--data", split_path(data["cloze", 3], "dev"), "--model", MODEL)
    lost = tmp_path / "a.parts" / "scores.jsonl"
    for options, said in (
        (("--out", tmp_path / "a.json", "--scores", lost), "is removed when they are joined"),
        (("--out", tmp_path / "a.txt"), "its name ends in .json"),
    ):
        done = cli(*command, *options)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not list(tmp_path.iterdir())


def test_files_of_others_are_not_taken_for_parts(data, tmp_path, cli):
    store, mine = split_path(data["cloze", 3], "dev"), tmp_path / "a.parts" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    said = cli("predict", "--data", store, "--model", MODEL, "--out", tmp_path / "a.json")
    assert (said.returncode, mine.read_text()) == (2, "mine")
    assert "files that are not parts of answers" in said.stderr


@pytest.mark.slow
def test_a_command_that_is_killed_goes_on(data, tmp_path, works):
    store = split_path(data["cloze", 3], "train")
    out = tmp_path / "answer.json"
    command = ["predict", "--data", store, "--model", MODEL, "--scores", tmp_path / "a.jsonl"]
    works(*command[:-1], tmp_path / "whole.jsonl", "--out", tmp_path / "whole.json")
    started = [sys.executable, "-m", "albert_rc", *map(str, command), "--out", str(out)]
    with subprocess.Popen(started, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("answer.parts/shard-00003-*")) and process.poll() is None:
            time.sleep(0.002)
        process.kill()
    assert not out.exists()
    said = works(*command, "--out", out).stderr
    assert re.search(r"parts already done: \d+ of 10", said)
    assert out.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not (tmp_path / "answer.parts").exists()


def test_a_missing_shard_is_named(data, tmp_path, cli, works):
    out = tmp_path / "data"
    works("preprocess", SAMPLE / "cloze", "--model", MODEL, "--out", out, "--shard-papers", "3")
    copy = out / "dev.shards" / "shard-00002-of-00003 (copy).pt"
    copy.touch()
    with pytest.raises(DataError, match=r"\(copy\)\.pt is not a shard; remove it"):
        open_store(out / "dev.shards")
    copy.unlink()
    (out / "dev.shards" / "shard-00002-of-00003.pt").unlink()
    said = cli(
        "predict", "--data", out / "dev.shards", "--model", MODEL, "--out", tmp_path / "a.json"
    )
    assert said.returncode == 3
    assert "2 of 3 shards (shard-00002-of-00003.pt is the first that is missing" in said.stderr
    again = cli("preprocess", SAMPLE / "cloze", "--model", MODEL, "--out", out)
    assert again.returncode == 2
    assert "train.shards is from an earlier run; remove it" in again.stderr


def test_a_run_learns_from_shards_as_from_one_store(data, tmp_path, works):
    for size in (1000, 3):
        works("train", "--data", data["cloze", size], "--model", MODEL, "--out",
              tmp_path / str(size), "--max-steps", "2", "--batch-size", "4")  # fmt: skip
    one, other = (tmp_path / str(size) / "model.safetensors" for size in (1000, 3))
    assert one.read_bytes() == other.read_bytes()
