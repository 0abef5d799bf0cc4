"""Options that help does not list, files with options, and commands' old names."""

import json
import tomllib

import pytest
import typer
from conftest import SAMPLE
from typer.testing import CliRunner

from albert_rc.cli.app import COMMANDS, app
from albert_rc.cli.options import lsh_of
from albert_rc.cli.renamed import RENAMED
from albert_rc.errors import DataError, UsageError


def options_of(*names):
    command = typer.main.get_command(app)
    for name in names:
        command = command.commands[name]
    return command.params


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("clip", "--set clip: give NAME=VALUE"),
        ("colour=red", "--set colour=red: no such setting; `--set help` lists them"),
        ("mask_rat=0.1", "--set mask_rat=0.1: no such setting; did you mean mask_rate?"),
        ("clip=-1", "--clip -1.0 must be at least 0"),
        ("clip=nan", "--clip nan must be at least 0"),
        ("warmup=1.5", "--warmup 1.5 must be at least 0 and below 1"),
        ("with_dev=perhaps", "--set with_dev=perhaps: must be true or false"),
        ("teacher_weight=0", "--teacher-weight needs --teacher"),
        (
            "teacher_precision=int8",
            "--set teacher_precision=int8: no such setting; it is a setting of pretrain, not of "
            "train",
        ),
        ("config=run.toml", "--set config=run.toml: use the option --config instead"),
        ("low=1e-5", "--low needs --search"),
        ("json=true", "--json needs --search"),
        ("teacher=none.jsonl", "--teacher none.jsonl: no such file"),
    ],
)
def test_what_cannot_be_is_refused(stores, tmp_path, given, said):
    stores["cloze", "train"].save(tmp_path / "train.pt")
    done = CliRunner().invoke(app, ["train", "--data", str(tmp_path), "--set", given])
    assert isinstance(done.exception, UsageError | DataError)
    assert str(done.exception).startswith(said)
    assert len(str(done.exception)) < 1000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--set", "mask_rate=0.2"],
            "--mask-rate is for cloze papers, not for choice papers",
        ),
        (["--set", "option_score=salience"], "--option-score is for cloze papers"),
        (["--search", "2", "--learning-rate", "1e-3"], "--search chooses the learning rate"),
        (["--search", "2", "--minutes", "5"], "--search chooses the learning rate"),
        (["--minutes", "-1"], "--minutes -1.0 must be a number above 0"),
        (["--resume"], "--resume: no saved state in"),
    ],
)
def test_what_would_be_ignored_is_refused_before_any_work(stores, tmp_path, options, said):
    """A good run of before keeps the options that repeat it."""
    stores["race", "train"].save(tmp_path / "train.pt")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text("epochs = 3\n")
    words = ["train", "--data", str(tmp_path), "--out", str(tmp_path / "run"), *options]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith(said)
    assert (tmp_path / "run" / "run.toml").read_text() == "epochs = 3\n"


def test_the_command_line_overrides_files_and_later_files_earlier_ones(tmp_path):
    """Flags as well, which have no other form."""
    for name, content in (("a", "strict = true\nmax_length = 0"), ("b", "max_length = 300")):
        (tmp_path / name).write_text(content)
    files = ["--config", str(tmp_path / "a"), "--config", str(tmp_path / "b")]
    command = typer.main.get_command(app).commands["predict"]
    context = command.make_context("predict", [*files, "--set", "strict=false"])
    assert context.params["max_length"] == 300
    assert not context.params["strict"]
    assert command.make_context("predict", files).params["strict"] is True


@pytest.mark.parametrize("given", ["keep=two", "keep=" + "9" * 5000, "keep=0", "recompute=all"])
def test_what_the_parser_knows_to_be_wrong_is_refused_by_it(given):
    done = CliRunner().invoke(app, ["train", "--set", given])
    assert done.exit_code == 2
    assert f"--{given.partition('=')[0]}" in done.output


@pytest.mark.parametrize("names", [("train",), ("pretrain",), ("predict",), ("bench",)])
def test_what_is_hidden_is_explained_and_what_is_shown_has_its_help(names):
    hidden = [option for option in options_of(*names) if getattr(option, "hidden", False)]
    shown = CliRunner().invoke(app, [*names, "--set", "help"]).output
    assert len(hidden) >= 5
    assert all(f"\n{option.name}=" in f"\n{shown}" for option in hidden)
    assert all(option.help.endswith(".") for option in options_of(*names) if option.name != "help")


def test_hashing_settings_by_their_own_names():
    rest = {"lsh_rounds": None, "lsh_probes": None, "lsh_hash": None}
    given = {"lsh_chunk": 8, "ffn_chunk": 9, **rest}
    assert lsh_of("faithful", False, given) == {"shared": True, "chunk": 8, "landmarks": ()}
    assert given == {"ffn_chunk": 9}
    assert lsh_of(None, None, {"lsh_chunk": None, **rest}) == {}
    assert lsh_of(None, True, {"lsh_chunk": None, **rest}) == {"landmarks": True}


@pytest.fixture
def prepared(cli, tmp_path):
    assert cli("preprocess", SAMPLE / "cloze", "--model", SAMPLE / "vocabulary", "--out", "data",
               cwd=tmp_path).returncode == 0  # fmt: skip
    return tmp_path


def test_a_file_gives_what_the_command_line_does_not(cli, prepared):
    (prepared / "data").rename(prepared / "papers \U00020bb7")
    (prepared / "run.toml").write_text(
        'data = "papers \U00020bb7"\n'
        f'model = "{SAMPLE / "vocabulary"}"\nscratch = "tiny"\nmax_steps = 3\nbatch-size = 4\n'
        "clip = 0.25\nkeep = 1\nwith_dev = false\n[lsh]\nchunk = 8\n"
    )
    done = cli("train", "--attention", "lsh", "--config", "run.toml", "--max-steps", 2, "--set",
               "keep=2", "--out", "run", "--weight-decay", 0.5, "--device", "cpu",
               cwd=prepared)  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = json.loads((prepared / "run" / "train.json").read_text())
    found = [made[name] for name in ("max_steps", "batch_size", "clip", "keep", "weight_decay")]
    assert found == [2, 4, 0.25, 2, 0.5]
    assert made["lsh"]["chunk"] == 8

    repeats = prepared / "run" / "run.toml"
    assert tomllib.loads(repeats.read_text()) == {
        "data": "papers \U00020bb7", "model": str(SAMPLE / "vocabulary"), "scratch": "tiny",
        "max_steps": 2, "batch_size": 4, "clip": 0.25, "keep": 2, "weight_decay": 0.5,
        "attention": "lsh", "lsh_chunk": 8,
        "device": "cpu", "with_dev": False,
    }  # fmt: skip
    done = cli("train", "--config", repeats, "--out", "again", cwd=prepared)
    assert done.returncode == 0, done.stderr
    (prepared / "papers \U00020bb7").rename(prepared / "donn\udce9es")
    refused = cli(
        "train", "--config", repeats, "--data", "donn\udce9es", "--out", "new", cwd=prepared
    )
    assert refused.stderr == "error: donn\\udce9es: is not UTF-8; rename the file or folder\n"
    weights = [(prepared / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("several", [(), ("--seeds", 2)])
def test_a_run_is_resumed_with_its_own_options(cli, prepared, several):
    begin = (
        "train", "--model", SAMPLE / "vocabulary", "--scratch", "tiny", "--max-steps", 4, "--set",
        "clip=0.5", "--batch-size", 2, "--seed", 7, "--save-steps", 1, "--deterministic", *several,
    )  # fmt: skip
    whole = cli(*begin, "--out", "whole", cwd=prepared)
    assert whole.returncode == 0, whole.stderr
    parted = cli(*begin, "--out", "parted", "--minutes", 0.0001, cwd=prepared)
    assert "paused" in parted.stdout, parted.stderr
    with_other = cli("train", "--out=parted", "--resume", "--set", "clip=0.4", cwd=prepared)
    assert "clip" in with_other.stderr
    # Also where both are settings.
    done = cli("train", "--set", "resume=true", "--set", "out=parted", cwd=prepared)
    assert done.returncode == 0, done.stderr
    names = [
        path.relative_to(prepared / "whole") for path in prepared.glob("whole/**/*.safetensors")
    ]
    assert len(names) == (2 if several else 1)
    for name in names:
        weights = [(prepared / run / name).read_bytes() for run in ("whole", "parted")]
        assert weights[0] == weights[1]


def test_a_resumed_run_may_be_given_another_response_to_a_collapse(works, prepared):
    """The number of restarts, which needs the earlier one, is still in the run's file."""
    begin = ("--model", SAMPLE / "vocabulary", "--scratch", "tiny", "--max-steps", 2, "--out", "x")
    restart = ("--set", "on_collapse=restart", "--set", "max_restarts=3", "--minutes", 0.0001)
    works("train", *begin, *restart, cwd=prepared)
    works("train", "--out", "x", "--resume", "--set", "on_collapse=warn", cwd=prepared)
    assert json.loads((prepared / "x" / "train.json").read_text())["on_collapse"] == "warn"


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        ("epochs = ", 3, "run.toml: not TOML"),
        ("epochs = [1, 2]", 3, "epochs must be a number, text, true or false"),
        ("[a.b]\nc = 1", 3, "a.b must be a number"),
        ("colour = 1", 2, "run.toml: colour: no such setting"),
        ("learning-rate = 'x'", 2, "run.toml: Invalid value for '--learning-rate'"),
        ('config = "x"', 2, "config is not allowed in a file"),
        ("resume = 1", 2, "run.toml: resume: must be true or false"),
        ("epochs = 0", 2, "epochs"),
    ],
)
def test_files_that_cannot_be_are_refused(cli, tmp_path, content, code, said):
    (tmp_path / "run.toml").write_text(content)
    done = cli("train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())


def test_settings_end_where_a_command_below_begins():
    """`pretrain --data data` names a folder, and `pretrain data` a command."""
    done = CliRunner().invoke(app, ["pretrain", "--data", "data", "--set", "clip=-1"])
    assert str(done.exception) == "--clip -1.0 must be at least 0"
    done = CliRunner().invoke(app, ["pretrain", "data", "none", "--set", "part=3/2"])
    assert str(done.exception) == "--part 3/2: give a part I/N, from 1/N to N/N"


@pytest.mark.parametrize(
    "names",
    [
        *((name,) for commands in COMMANDS.values() for name in commands if name != "inspect"),
        ("pretrain", "data"),
        ("pretrain", "vocabulary"),
    ],
)
def test_a_command_with_hidden_options_shows_how_to_find_them(names):
    shown = " ".join(CliRunner().invoke(app, [*names, "--help"]).output.split())
    hidden = any(getattr(option, "hidden", False) for option in options_of(*names))
    assert ("--set" in shown) == hidden
    said = CliRunner().invoke(app, [*names, "--set", "help"]).output
    assert ("no settings besides" in said) != hidden


@pytest.mark.parametrize(
    "names",
    [
        (),
        *((name,) for commands in COMMANDS.values() for name in commands),
        ("pretrain", "data"),
        ("pretrain", "vocabulary"),
        ("inspect", "parameters"),
        ("inspect", "layers"),
    ],
)
def test_types_are_shown_in_plain_words(names):
    """Flags are off unless given, and take no value."""
    shown = CliRunner().invoke(app, [*names, "--help"], env={"COLUMNS": "200"}).output
    assert "Show this message and exit" in shown
    assert "bool" not in shown
    assert "--no-" not in shown
    assert "list[" not in shown
    assert " range" not in shown


@pytest.mark.parametrize("flag", ["--bins", "--folds", "--seed"])
def test_what_calibration_alone_uses_is_refused_without_it(flag):
    """With their defaults, too: whoever gives them expects them to matter."""
    value = {"--bins": "15", "--folds": "5", "--seed": "0"}[flag]
    done = CliRunner().invoke(app, ["evaluate", "answer.json", "papers", flag, value])
    assert str(done.exception) == f"{flag} needs --calibrate"


@pytest.mark.parametrize(
    ("old", "arguments", "said"),
    [
        ("search", ["--trials", "0"], "--search"),
        ("pretrain-data", ["none", "--part", "3/2"], "--part 3/2: give a part I/N"),
        ("vocabulary", ["none", "--size", "0"], "--size"),
        ("calibrate", ["none.jsonl", "none"], "none: no such file or folder"),
        ("average", ["none", "none", "--out", "mean"], "error: none: no such folder"),
        ("verify-resume", ["--kills", "0"], "--kills"),
    ],
)
def test_old_names_still_work_and_say_the_new_one(cli, tmp_path, old, arguments, said):
    assert old in RENAMED
    done = cli(old, *arguments, cwd=tmp_path)
    assert done.stderr.startswith(f"note: {old} is now called ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["train", "pretrain"])
def test_a_run_to_resume_is_looked_for_before_its_data(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [command, "--resume", "--out", "run"])
    assert str(done.exception) == "--resume: no saved state in run; start without --resume"
