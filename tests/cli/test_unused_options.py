"""Options that would have no effect beside the others: refused, or reported if the run makes sense.

What is refused is refused before a model is loaded.
"""

import json

import pytest
from conftest import SAMPLE
from typer.testing import CliRunner

from albert_rc.cli.app import app
from albert_rc.errors import UsageError
from albert_rc.training.runs.verify import OWN, kill_and_resume

PAPERS = SAMPLE / "cloze"
VOCABULARY = SAMPLE / "vocabulary"


def refusal(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(done.exception, UsageError), (done.exception, done.output)
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bench resume --against transformers", "--against is only for bench train, predict and"),
        ("bench resume --rounds 2", "--rounds is only for bench train, predict and pretrain"),
        ("bench resume --set rounds=3", "--rounds is only for bench train, predict and pretrain"),
        ("bench train --kills 2", "--kills is only for bench resume"),
        ("bench predict --runs 1", "--runs is only for bench resume"),
        ("bench pretrain --command train", "--command is only for bench resume"),
        ("bench --set folder=x", "--folder is only for bench resume"),
        ("bench predict --set moments=0", "--moments is only for bench resume"),
        ("train --max-restarts 2", "--max-restarts needs --on-collapse restart"),
        (
            "train --on-collapse stop --set max_restarts=3",
            "--max-restarts needs --on-collapse restart",
        ),
        ("pretrain --pair none --set pair_weight=9", "--pair-weight needs --pair sop or nsp"),
        ("pretrain --set max_restarts=3", "--max-restarts needs --on-collapse restart"),
        (
            "train --search 2 --batch-size 4 --batch-sizes 4,8",
            "--batch-size has no effect with --batch-sizes; leave one of them out",
        ),
        ("pretrain --out x data text", "--out before `data` is an option of pretrain itself"),
        (
            "pretrain --set clip=2 vocabulary text",
            "--clip before `vocabulary` is an option of pretrain itself; give the options of "
            "`pretrain vocabulary` after its name",
        ),
        ("predict --set gate=dev.pt", "--gate needs --precision int8"),
        ("predict --precision bf16 --tolerance 0.5", "--tolerance needs --precision int8"),
        ("export albert-rc-tiny --out x --format cloze", "--format needs --papers"),
        (f"doctor {PAPERS} --max-length 512", "--max-length needs --model, whose vocabulary"),
        ("evaluate a.json papers --bins 9", "--bins needs --calibrate"),
        ("evaluate a.json papers --set folds=4", "--folds needs --calibrate"),
        ("evaluate a.json papers --seed 0", "--seed needs --calibrate"),
        ("ensemble a.jsonl b.jsonl --out c.json --folds 4", "--folds needs --gold"),
        ("ensemble a.jsonl b.jsonl --out c.json --seed 1", "--seed needs --gold"),
        ("ensemble a.jsonl b.jsonl --out c.json --format cloze", "--format needs --gold"),
        ("ensemble a.jsonl b.jsonl --out c.json --json", "--json needs --gold"),
    ],
)
def test_refused_before_any_file_is_read(command, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(*command.split()).startswith(said)


def test_what_a_file_gives_counts_too(tmp_path):
    (tmp_path / "options.toml").write_text("tolerance = 1.0\n")
    said = refusal("predict", "--config", tmp_path / "options.toml")
    assert said == "--tolerance needs --precision int8"


@pytest.fixture
def data(stores, tmp_path):
    """A folder with a training store and no dev papers."""
    (tmp_path / "data").mkdir()
    stores["cloze", "train"].save(tmp_path / "data" / "train.pt")
    return tmp_path / "data"


@pytest.mark.parametrize("given", [["--patience", "2"], ["--set", "patience=2", "--folds", "3"]])
def test_patience_needs_dev_papers(data, stores, tmp_path, given):
    words = ["train", "--data", data, "--out", tmp_path / "run", *given]
    assert refusal(*words).startswith(f"--patience: there is no {data / 'dev.pt'} with answers")
    stores["cloze", "dev"].save(data / "dev.pt")
    assert refusal(*words, "--with-dev").startswith("--patience: --with-dev leaves no dev papers")


def test_what_a_sensible_run_ignores_is_reported(data, tmp_path):
    done = CliRunner().invoke(
        app,
        [
            "train", "--data", str(data), "--model", str(VOCABULARY), "--scratch", "tiny",
            "--out", str(tmp_path / "run"), "--epochs", "3", "--max-steps", "1",
            "--set", "eval_steps=1", "--device", "cpu",
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "note: --epochs has no effect with --max-steps" in said
    assert "so --eval-steps only sets how often the training loss is recorded" in said


def test_what_a_sensible_pretraining_ignores_is_reported(tmp_path):
    corpus, model = str(tmp_path / "corpus"), ["--model", str(VOCABULARY)]
    made = CliRunner().invoke(
        app,
        ["pretrain", "data", str(PAPERS / "train"), *model, "--out", corpus, "--max-length", "64",
         "--dev", "0", "--set", "workers=1"],
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    done = CliRunner().invoke(
        app,
        ["pretrain", "--data", corpus, *model, "--scratch", "tiny", "--out", str(tmp_path / "p"),
         "--epochs", "1", "--max-steps", "1", "--batch-size", "2", "--set", "eval_steps=1",
         "--device", "cpu"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert "note: --epochs has no effect with --max-steps" in said
    assert "so --eval-steps only sets how often the training loss is recorded" in said


def test_a_search_is_always_continued(data, stores, tmp_path):
    words = ["train", "--data", data, "--search", 2, "--resume", "--set", "low=1"]
    stores["cloze", "dev"].save(data / "dev.pt")
    done = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "run")])
    assert "note: --resume has no effect with --search" in " ".join(done.stderr.split())


@pytest.mark.parametrize("option", OWN)
@pytest.mark.parametrize("form", ["--set {}=1", "--set={}=1", "--set\n{}=true"])
def test_a_test_of_resuming_sets_its_own_options(tmp_path, option, form):
    written = form.format(option[2:].replace("-", "_")).split()
    with pytest.raises(UsageError, match=f"{option} is set by the test itself; leave it out"):
        kill_and_resume(["--data", "x", *written], tmp_path)


def test_predict_reports_what_it_does_not_need(data, tmp_path):
    """A store has no format to detect, but raw papers to recall from do."""
    given = (
        "predict", "--data", data / "train.pt", "--strict", "--format", "cloze",
        "--temperature", 2, "--model", tmp_path, "--device", "cpu",
    )  # fmt: skip
    done = CliRunner().invoke(app, [*map(str, given)])
    said = " ".join(done.stderr.split())  # before it says that there is no model
    for option in ("--format", "--strict"):
        assert f"note: {option} has no effect, because {data / 'train.pt'} is a store" in said
    assert "note: --temperature has no effect without --scores, --abstain or --recall" in said
    done = CliRunner().invoke(app, [*map(str, given), "--recall", str(PAPERS / "dev")])
    assert "has no effect" not in done.stderr


def test_strict_is_for_the_papers_of_recall_too(cli, tmp_path):
    paper = {
        "article": "She went _home and _ .",
        "options": [["far", "back"], ["sat", "ran"]],
        "answers": ["B", "A"],
    }
    (tmp_path / "known").mkdir()
    (tmp_path / "known" / "a.json").write_text(json.dumps(paper))
    given = (
        "predict", "--data", PAPERS / "dev", "--model", "albert-rc-tiny", "--out",
        tmp_path / "a.json", "--recall", tmp_path / "known", "--device", "cpu",
    )  # fmt: skip
    done = cli(*given)
    assert done.returncode == 0, done.stderr
    assert "warning: " in done.stderr
    done = cli(*given, "--strict")
    assert done.returncode == 3
    assert "attached to a word" in " ".join(done.stderr.split())
