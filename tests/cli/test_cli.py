"""The main job as a user runs it, its exit codes, and what it says."""

import json
import re
import shutil
from pathlib import Path

import pytest
from commands import run_cli
from conftest import SAMPLE
from safetensors.torch import load_file, save_file
from typer.main import get_command

from albert_rc.checkpoints.hub import SHIPPED
from albert_rc.io.json import read_json, write_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import gold_letters

VOCABULARY = SAMPLE / "vocabulary"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Stores and briefly trained models of every format, made by the commands."""
    root = tmp_path_factory.mktemp("work")
    for name in ("cloze", "race", "dream"):
        done = run_cli(
            "preprocess", SAMPLE / name, "--model", VOCABULARY, "--out", root / "data" / name
        )
        assert done.returncode == 0, done.stderr
        done = run_cli(
            "train", "--data", root / "data" / name, "--model", VOCABULARY, "--scratch", "tiny",
            "--out", root / "models" / name, "--max-steps", 3, "--batch-size", 4,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "random weights" in done.stderr
    return root


@pytest.mark.parametrize("name", ["cloze", "race", "dream"])
def test_the_whole_job(trained, cli, tmp_path, name):
    answers = tmp_path / "predictions" / "answer.json"
    scores = tmp_path / "scores.jsonl"
    done = cli(
        "predict", "--data", trained / "data" / name / "dev.pt", "--model",
        trained / "models" / name, "--out", answers, "--scores", scores,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    gold = SAMPLE / name / ("dev.json" if name == "dream" else "dev")
    papers = read_split(gold).passages
    found = read_json(answers)
    if name == "cloze":
        assert list(found) == [p.id for p in papers]
        assert [len(v) for v in found.values()] == [len(p.questions) for p in papers]
    else:
        expected = [f"{p.id}#{n + 1}" for p in papers for n in range(len(p.questions))]
        assert list(found) == expected
        assert set("".join(found.values())) <= set("ABCD")
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    questions = [q for p in papers for q in p.questions]
    assert len(lines) == len(questions)
    for line, question in zip(lines, questions, strict=True):
        assert len(line["probabilities"]) == len(question.options)
        assert sum(line["probabilities"]) == pytest.approx(1, abs=1e-4)

    done = cli("evaluate", answers, gold, "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["total"] == len(questions)
    assert figures["low"] <= figures["accuracy"] <= figures["high"]
    assert figures["no_reading"] is not None
    assert ("level" in figures["groups"]) == (name == "race")


def test_raw_papers_and_their_store_get_the_same_answers(trained, cli, tmp_path):
    outputs = []
    for number, data in enumerate((trained / "data/cloze/test.pt", SAMPLE / "cloze" / "test")):
        for budget in (4096, 300):
            out = tmp_path / f"{number}{budget}.json"
            done = cli(
                "predict", "--data", data, "--model", trained / "models/cloze", "--out", out,
                "--token-budget", budget,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            outputs.append(out.read_bytes())
    assert len(set(outputs)) == 1


def test_perfect_answers_are_perfect_and_compare(cli, tmp_path):
    papers = read_split(SAMPLE / "cloze" / "dev").passages
    letters = iter(gold_letters(papers))
    gold = {p.id: [next(letters) for _ in p.questions] for p in papers}
    write_json(tmp_path / "gold.json", gold)
    write_json(tmp_path / "all_a.json", {k: ["A"] * len(v) for k, v in gold.items()})
    done = cli(
        "evaluate", tmp_path / "gold.json", SAMPLE / "cloze/dev", "--json", "--against",
        tmp_path / "all_a.json",
    )  # fmt: skip
    figures = json.loads(done.stdout)
    assert figures["accuracy"] == 1.0
    assert figures["against"]["only_second_right"] == 0
    assert figures["against"]["mcnemar_p"] < 0.001
    done = cli("evaluate", tmp_path / "gold.json", SAMPLE / "cloze/dev")
    assert "100.00%" in done.stdout
    assert "without reading" in done.stdout


def broken_copy(folder: Path) -> Path:
    shutil.copytree(SAMPLE / "cloze", folder)
    paper = read_json(folder / "train" / "train0003.json")
    paper["answers"][1] = "Z"
    paper["options"].pop()
    write_json(folder / "train" / "train0003.json", paper)
    (folder / "dev" / "dev0002.json").write_text("{")
    return folder


def test_bad_papers_stop_everything_and_all_are_named(cli, tmp_path):
    raw, out = broken_copy(tmp_path / "raw"), tmp_path / "out"
    done = cli("preprocess", raw, "--model", VOCABULARY, "--out", out)
    assert done.returncode == 3
    assert "train/train0003.json: 10 blanks but 9 option lists" in done.stderr
    assert "dev/dev0002.json: not JSON at line 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_bad_papers_can_be_skipped_and_are_named(cli, tmp_path):
    raw, out = broken_copy(tmp_path / "raw"), tmp_path / "out"
    done = cli("preprocess", raw, "--model", VOCABULARY, "--out", out, "--on-error", "skip")
    assert done.returncode == 0
    assert "2 papers skipped" in done.stdout
    rejected = [
        json.loads(line)["file"] for line in (out / "rejects.jsonl").read_text().splitlines()
    ]
    assert set(rejected) == {"train/train0003.json", "dev/dev0002.json"}
    assert "27 papers" in done.stdout
    assert "7 papers" in done.stdout


def test_a_split_keeps_what_is_known_of_the_papers_of_others(works, tmp_path):
    raw, out = broken_copy(tmp_path / "raw"), tmp_path / "out"

    def skipped(place):
        works("preprocess", place, "--model", VOCABULARY, "--out", out, "--on-error", "skip")
        path = out / "rejects.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        return [json.loads(line)["file"] for line in lines]

    first = skipped(raw / "train")
    assert set(first) == {"train/train0003.json"}
    assert skipped(raw / "train") == first
    both = skipped(raw / "dev")
    assert set(both) == {"train/train0003.json", "dev/dev0002.json"}
    (raw / "dev" / "dev0002.json").unlink()
    assert skipped(raw / "dev") == first
    (out / "train.pt").unlink()
    assert skipped(raw / "dev") == []


def test_papers_of_one_file_are_listed_once(works, tmp_path):
    """Also after the file was mended, and next to those of another split."""
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    good = {"article": "It _ .", "options": [["is", "was"]], "answers": ["A"]}
    lines = [json.dumps(good | {"answers": [letter]}) for letter in "AQ"]
    for split in ("train", "dev"):
        (raw / f"{split}.jsonl").write_text("\n".join(lines))
    once = ("--model", VOCABULARY, "--out", out, "--on-error", "skip")
    listed = []
    for place in (raw, raw / "dev.jsonl", raw / "dev.jsonl"):
        works("preprocess", place, *once)
        found = (out / "rejects.jsonl").read_text().splitlines()
        listed.append(sorted(json.loads(line)["file"] for line in found))
    assert listed == [["dev.jsonl:2", "train.jsonl:2"]] * 3
    (raw / "dev.jsonl").write_text(lines[0])
    works("preprocess", raw / "dev.jsonl", *once)
    assert json.loads((out / "rejects.jsonl").read_text())["file"] == "train.jsonl:2"


def test_brackets_in_papers_are_no_markup(cli, tmp_path):
    paper = {"article": "It was _ .", "options": [["glad [/b]☃", "[red]sad"]], "answers": ["A"]}
    write_json(tmp_path / "raw" / "[x].json", paper)
    done = cli("doctor", tmp_path / "raw", "--model", VOCABULARY)
    assert done.returncode == 0, done.stderr
    assert "glad [/b]☃" in done.stdout


def test_a_failed_run_leaves_the_old_stores(cli, tmp_path):
    out = tmp_path / "out"
    assert cli("preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--out", out).returncode == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    raw = broken_copy(tmp_path / "raw")
    assert cli("preprocess", raw, "--model", VOCABULARY, "--out", out).returncode == 3
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


def test_doctor_tells_all(cli, tmp_path):
    done = cli("doctor", SAMPLE / "cloze", "--model", VOCABULARY)
    assert done.returncode == 0, done.stderr
    for said in ("papers", "tokens, percentiles", "options of several words", "right answers"):
        assert said in done.stdout
    raw = broken_copy(tmp_path / "raw")
    shutil.copy(SAMPLE / "cloze/train/train0001.json", raw / "dev" / "dev0099.json")
    done = cli("doctor", raw, "--model", VOCABULARY, "--json", "--max-length", 100)
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["train"]["rejected"] == 1
    assert found["dev"]["overlaps"]["train"][0]["other"] == "train0001.json"
    assert len(found["train"]["tokens"]["longer_than_window"]) > 20


def test_doctor_finds_the_questions_that_preprocess_refuses_as_too_long(cli, tmp_path):
    window = ("--model", VOCABULARY, "--max-length", 24)
    refused = cli("preprocess", SAMPLE / "race", *window, "--out", tmp_path / "out")
    found = cli("doctor", SAMPLE / "race", *window, "--json")
    assert refused.returncode == found.returncode == 3
    too_long = re.compile(r"question \d+ with its longest option has \d+ tokens")
    messages = [line for split in json.loads(found.stdout).values() for line in split["errors"]]
    assert messages
    assert too_long.findall("".join(messages)) == too_long.findall(refused.stderr)
    whole = ("--model", VOCABULARY, "--json")
    assert cli("doctor", SAMPLE / "race", *whole).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["preprocess", "nowhere"], 3, "nowhere: no such file or folder"),
        (
            ["preprocess", SAMPLE / "cloze", "--model", "nowhere"],
            2,
            "--model nowhere: no such folder",
        ),
        (
            ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--format", "x"],
            2,
            "choose from",
        ),
        (
            ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--on-error", "x"],
            2,
            "'x' is not one of",
        ),
        (
            ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--max-length", "3"],
            2,
            "at least 8",
        ),
        (
            ["train", "--data", "nowhere"],
            3,
            "train.pt: no such store; make it with `albert-rc preprocess PAPERS --out nowhere`",
        ),
        (["train", "--data", VOCABULARY / "spiece.model"], 3, "is a file, so give the folder"),
        (["predict", "--data", "nowhere.pt"], 3, "no such store"),
        (["predict", "--data", SAMPLE / "cloze"], 2, "holds 3 splits; name one of them: "),
        (["predict", SAMPLE], 2, "collections of papers; name one of them: "),
        (["preprocess"], 3, "data/raw_data: no such file or folder"),
        (
            ["preprocess", SAMPLE / "cloze", "--out", SAMPLE / "README.md"],
            2,
            "README.md is a file; name a folder",
        ),
        (
            ["import", *sorted((SAMPLE / "printed").glob("*.txt")), "--out", SAMPLE / "README.md"],
            2,
            "README.md is a file; name a folder",
        ),
        (
            ["preprocess", SAMPLE / "cloze", "--model", "albert-rc-smal"],
            2,
            "did you mean albert-rc-small?",
        ),
        (
            ["preprocess", SAMPLE / "cloze", "--model", "bert-base-uncased"],
            2,
            "did you mean google-bert/bert-base-uncased?",
        ),
        (["preprocess", SAMPLE / "cloze", "--model", SAMPLE / "README.md"], 2, "a file; give the"),
        (
            ["predict", "--data", SAMPLE / "cloze" / "dev", "--model", SHIPPED],
            2,
            "holds no model, but folders with one; give one of them: ",
        ),
        (["import", SAMPLE / "printed", "--out", "x"], 2, "for others give the files: "),
        (
            ["inspect", "layers", "albert-rc-tiny", "albert-rc-tiny", "--text", SAMPLE],
            2,
            "albert-rc-tiny is given twice; give each model only once",
        ),
        (["report", "a.jsonl", "b", "--out", "r.pdf"], 2, "let its name end in .html"),
        (
            ["predict", "--data", SAMPLE / "cloze" / "dev", "--model", VOCABULARY],
            4,
            "cannot be read",
        ),
        (
            [
                "evaluate",
                "--calibrate",
                SAMPLE / "cloze" / "test_answers.json",
                SAMPLE / "cloze" / "dev",
            ],
            3,
            "where answers alone are enough, rename this one to end in .json",
        ),
        (
            ["evaluate", "nowhere.json", SAMPLE / "cloze" / "dev"],
            3,
            "nowhere.json: no such file; check the path",
        ),
        (["train", "--nonsense"], 2, "No such option"),
        (["train", "--device", "gpu"], 2, "--device gpu: choose cpu or cuda"),
        (
            ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--out", "data.pt"],
            2,
            "--out data.pt: name a folder",
        ),
        (["doctor", SAMPLE / "cloze", "--model", VOCABULARY, "--max-length", 7], 2, "at least 8"),
        (
            ["preprocess", SAMPLE / "cloze", "--model", VOCABULARY, "--out", "/dev/null/x"],
            2,
            "/dev/null",
        ),
    ],
)
def test_exit_codes_and_one_clear_sentence(cli, tmp_path, arguments, code, said):
    done = cli(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in re.sub(r"\s+", " ", done.stderr)
    assert "Traceback" not in done.stderr
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_store_of_another_vocabulary_is_refused(trained, cli, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(trained / "models/cloze", other)
    (other / "spiece.model").unlink()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"]
    (other / "vocab.txt").write_text("\n".join(words))
    out = tmp_path / "a.json"
    command = ["predict", "--data", trained / "data/cloze/dev.pt", "--model", other, "--out", out]
    done = cli(*command)
    assert done.returncode == 4
    assert "not the one that the weights were trained with" in done.stderr
    # Weights of others do not say which vocabulary is theirs.
    save_file(load_file(other / "model.safetensors"), other / "model.safetensors")
    done = cli(*command)
    assert done.returncode == 3
    assert "a different vocabulary" in done.stderr
    assert not out.exists()


def test_strict_refuses_papers_that_need_a_guess(cli, tmp_path):
    paper = {"article": "She went _home and _ .", "options": [["far", "back"], ["sat", "ran"]]}
    write_json(tmp_path / "test" / "a.json", paper)
    work = ("--model", VOCABULARY, "--out", tmp_path / "data")
    commands = (
        ("doctor", tmp_path / "test"),
        ("preprocess", tmp_path / "test", *work),
        ("predict", "--data", tmp_path / "test", "--model", "albert-rc-tiny",
         "--out", tmp_path / "answer.json"),
    )  # fmt: skip
    for command in commands:
        done = cli(*command)
        assert done.returncode == 0, done.stderr
        assert "a.json: blank 1 (character 10, ...She went _home and _ ....)" in " ".join(
            (done.stdout + done.stderr).split()
        )
        refused = cli(*command, "--strict")
        assert refused.returncode == 3
        assert "attached to a word" in " ".join((refused.stdout + refused.stderr).split())


@pytest.mark.parametrize("command", ["doctor", "preprocess", "train", "predict", "evaluate"])
def test_every_help_ends_in_an_example(cli, command):
    done = cli(command, "--help")
    assert done.returncode == 0
    assert f"Example: albert-rc {command}" in re.sub(r"\s+", " ", done.stdout)


def test_the_contracts_options_exist(cli):
    """Scripts outside the project call these names."""
    contract = {
        "preprocess": "--out --model --format --max-length --on-error",
        "train": "--data --model --scratch --out --epochs --batch-size --learning-rate --max-steps "
        "--save-steps --seed --precision --attention --max-length --resume",
        "predict": "--data --model --out --scores",
        "evaluate": "--json",
    }
    for command, options in contract.items():
        shown = cli(command, "--help", env={"COLUMNS": "200"}).stdout
        assert all(f"{option} " in shown for option in options.split()), command


def test_the_choices_of_options_are_those_of_the_code():
    """Each name that the parser lets through is one that the work knows, and the other way."""
    from albert_rc.cli.app import app
    from albert_rc.corpus.batches import PAIRS
    from albert_rc.model.attention import ATTENTION
    from albert_rc.model.config import READ_AGAIN, READ_ONCE, RECOMPUTE, SHARING
    from albert_rc.model.encoder import LAYERS
    from albert_rc.model.heads import OPTION_SCORES
    from albert_rc.training.config import COLLAPSE, STATES
    from albert_rc.training.objectives.pretraining import RECIPES as PRETRAINING
    from albert_rc.training.optim import OPTIMIZERS
    from albert_rc.training.runs.recipes import RECIPES as TRAINING

    known = {
        "on_collapse": COLLAPSE, "sharing": SHARING, "pair": PAIRS, "attention": ATTENTION,
        "optimizer": OPTIMIZERS, "recompute": RECOMPUTE, "residual": LAYERS,
        "optimizer_states": STATES,
        "train option_score": OPTION_SCORES, "predict option_score": (READ_ONCE, *READ_AGAIN),
        "pretrain recipe": PRETRAINING, "train recipe": TRAINING,
    }  # fmt: skip
    tried = set()
    commands = get_command(app).commands
    for name in ("train", "pretrain", "predict"):
        for option in commands[name].params:
            key = option.name if option.name in known else f"{name} {option.name}"
            if key in known:
                for choice in known[key]:
                    commands[name].make_context(name, [f"{option.opts[0]}={choice}"])
                with pytest.raises(Exception, match=r"nonsense|is not|should be"):
                    commands[name].make_context(name, [f"{option.opts[0]}=nonsense"])
                tried.add(key)
    assert tried == set(known)
