"""Settings without an option of their own, files with options, and what they were called before."""

import json

import pytest
from conftest import SAMPLE

from albert_rc.cli.settings import PREDICT, TABLES, TRAIN, lsh_of, parse
from albert_rc.errors import UsageError
from albert_rc.training.config import TrainConfig


def test_values_are_read_and_the_last_one_counts():
    found = parse(["clip=0.5", "keep=3", "with_dev=yes", "lsh.form=faithful", "clip=0"], TRAIN)
    assert found == {"clip": 0.0, "keep": 3, "with_dev": True, "lsh.form": "faithful"}
    assert parse(None, TRAIN) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("clip", "give NAME=VALUE, with one of"),
        ("colour=red", "give NAME=VALUE, with one of"),
        ("clip=-1", "--set clip=-1: must be a number of at least 0"),
        ("clip=nan", "must be a number of at least 0"),
        ("keep=two", "must be a whole number from 1 to 1,000"),
        ("keep=" + "9" * 5000, "must be a whole number from 1 to 1,000"),
        ("ema=1.5", "must be a number from 0 to 1"),
        ("with_dev=perhaps", "must be true or false"),
        ("recompute=all", "must be nothing or activations or layers"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(UsageError) as refused:
        parse([given], TRAIN)
    assert said in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_every_setting_of_a_run_is_one_that_training_knows():
    elsewhere = {"workers", "deterministic", "residual", "with_dev"}
    names = {name for name in TRAIN if "." not in name} - elsewhere
    assert names <= set(TrainConfig.__dataclass_fields__)
    assert all(
        setting.help.endswith(".") for table in TABLES.values() for setting in table.values()
    )


def test_hashing_settings_by_their_own_names():
    given = parse(
        ["lsh.form=faithful", "lsh.chunk=8", "lsh.landmarks=false", "ffn_chunk=9"], PREDICT
    )
    assert lsh_of(given) == {"shared": True, "chunk": 8, "landmarks": ()}
    assert lsh_of({}) == {}


def test_a_file_gives_what_the_command_line_does_not(cli, tmp_path):
    assert cli("preprocess", SAMPLE / "cloze", "--model", SAMPLE / "vocabulary", "--out", "data",
               cwd=tmp_path).returncode == 0  # fmt: skip
    (tmp_path / "run.toml").write_text(
        f'model = "{SAMPLE / "vocabulary"}"\nscratch = "tiny"\nmax_steps = 3\nbatch-size = 4\n'
        "clip = 0.25\nkeep = 1\n"
    )
    done = cli("train", "--config", "run.toml", "--max-steps", 2, "--set", "keep=2", "--out", "run",
               "--weight-decay", 0.5, "--device", "cpu", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "note: --weight-decay is written --set weight_decay=0.5 now" in done.stderr
    made = json.loads((tmp_path / "run" / "train.json").read_text())
    found = [made[name] for name in ("max_steps", "batch_size", "clip", "keep", "weight_decay")]
    assert found == [2, 4, 0.25, 2, 0.5]


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("epochs = ", 3, "run.toml: cannot be read as TOML"),
        ("epochs = [1, 2]", 3, "epochs must be a number, a text, true or false"),
        ("[a.b]\nc = 1", 3, "a.b must be a number"),
        ("colour = 1", 2, "--set colour=1: give NAME=VALUE"),
        ('config = "x"', 2, "config cannot stand in a file"),
        ("epochs = 0", 2, "epochs"),
    ],
)
def test_files_that_cannot_be_are_refused(cli, tmp_path, content, code, said):
    (tmp_path / "run.toml").write_text(content)
    done = cli("train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


def test_settings_are_listed(cli):
    shown = cli("train", "--set", "help").stdout
    assert all(f"{name}=" in shown for name in TRAIN)
