"""Several runs of one recipe: over seeds, over folds, and over train and dev."""

import json
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from albert_rc import answer
from albert_rc.answering.score import score_lines
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import DataError, DivergedError, Interrupted, UsageError
from albert_rc.io.json import json_lines
from albert_rc.papers.formats import read_split
from albert_rc.runtime.devices import Processes, release_unused
from albert_rc.scoring.score_file import read_scores
from albert_rc.stores.store import load_store, make_store
from albert_rc.training.checkpoint import state_path
from albert_rc.training.config import TrainConfig
from albert_rc.training.identity import difference
from albert_rc.training.memory.planner import Levers
from albert_rc.training.objectives.teacher import Teacher
from albert_rc.training.runs import several
from albert_rc.training.runs.earlier import EARLIER
from albert_rc.training.runs.finetune import FineTuning, made_of, open_stores, unlike
from albert_rc.training.runs.several import over_folds, over_seeds, run_all
from albert_rc.training.tally import TrainResult

TINY = ("--scratch", "tiny", "--max-steps", 3, "--batch-size", 4, "--learning-rate", 1e-3)


@pytest.fixture
def data(stores, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev"):
        stores["cloze", split].save(folder / f"{split}.pt")
    return folder


@pytest.fixture
def tuning(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in "xy":
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "model.safetensors").write_text(f"weights {name}")
    return FineTuning(
        model="./models/x",
        how={"scratch": None, "lsh": {}},
        settings=TrainConfig(),
        levers=Levers(),
        memory=None,
        data=data,
        group=Processes(torch.device("cpu")),
        workers=0,
    )


@pytest.fixture
def go(data, tuning, tmp_path, monkeypatch):
    """Goes through several runs that learn nothing; gives the names of those that were run."""
    out = tmp_path / "out"

    def answer(store, folder, group, precision):
        options = int(store.num_options.max())
        scored = torch.zeros(store.num_questions, options)
        (folder / "held_out.jsonl").write_bytes(json_lines(score_lines(store, scored)))
        return 0.5

    monkeypatch.setattr(several, "_answer", answer)

    def run_them(resume=False, seeds=None, folds=None, seed=0, stop=None, **changed):
        fails, diverges = changed.pop("fails", None), changed.pop("diverges", None)
        stores = open_stores(data)
        parts = over_seeds(seeds, seed, *stores) if seeds else over_folds(folds, seed, *stores)
        asked = replace(tuning, settings=replace(tuning.settings, seed=seed, **changed))
        record = {"--seeds": seeds, "--folds": folds} | made_of(asked, *stores)
        ran = []

        def run(part, folder, resuming):
            ran.append(part.name + " again" * resuming)
            if part.name == fails:
                raise RuntimeError("power cut")
            if part.name == diverges:
                raise DivergedError("step 7: the run has diverged")
            folder.mkdir(parents=True, exist_ok=True)
            state_path(folder, 3).write_bytes(b"state")
            return TrainResult(3, 3, 0.5, 3, False, False, 1.0, stop_asked=part.name == stop)

        run_them.said = []
        found = run_all(parts, out, record, asked.group, resume, run, run_them.said.append)
        run_them.rows = found["runs"]
        return ran

    run_them.out = out
    return run_them


def test_folds_share_the_papers_out(data):
    train, dev = open_stores(data)
    parts = over_folds(3, 7, train, dev)
    held = [set(part.held_out.meta["ids"]) for part in parts]
    assert sorted(x for ids in held for x in ids) == sorted(train.meta["ids"])
    assert max(map(len, held)) - min(map(len, held)) <= 1
    for part, ids in zip(parts, held, strict=True):
        assert set(part.train.meta["ids"]) == set(train.meta["ids"]) - ids
        assert part.dev is dev
    others = over_folds(3, 8, train, dev)
    assert [set(part.held_out.meta["ids"]) for part in others] != held


def test_what_makes_no_sense_is_refused(data):
    train, dev = open_stores(data)
    for count in (1, len(train.meta["ids"]) + 1):
        with pytest.raises(UsageError, match=f"--folds {count} must be from 2"):
            over_folds(count, 0, train, dev)
    (data / "dev.pt").unlink()
    with pytest.raises(DataError, match="--with-dev"):
        open_stores(data, with_dev=True)


def test_dev_papers_can_be_learned_from_too(data):
    train, dev = open_stores(data)
    both, none = open_stores(data, with_dev=True)
    assert none is None
    assert both.num_questions == train.num_questions + dev.num_questions
    assert both.meta["ids"] == train.meta["ids"] + dev.meta["ids"]


def test_folds_answer_every_paper_once_and_go_on(data, sample, tmp_path, works, cli):
    out = tmp_path / "runs"
    given = ("--data", data, "--model", sample / "vocabulary", "--out", out, *TINY, "--folds", 2)
    done = works("train", *given)
    assert "2 runs, held-out papers accuracy" in done.stdout
    found = json.loads((out / "runs.json").read_text())
    assert [row["name"] for row in found["runs"]] == ["fold-1", "fold-2"]
    scores = read_scores(out / "scores.jsonl")
    train = load_store(data / "train.pt")
    assert list(dict.fromkeys(scores.papers)) == train.meta["ids"]
    assert len(scores.keys) == train.num_questions
    # As if the second had been stopped before its end.
    found["runs"].pop()
    (out / "runs.json").write_text(json.dumps(found))
    before = (out / "scores.jsonl").read_bytes()
    weights = (out / "fold-1" / "model.safetensors").stat().st_mtime_ns
    again = works("train", *given, "--resume")
    assert "fold-1:" not in again.stderr
    assert (out / "scores.jsonl").read_bytes() == before
    assert (out / "fold-1" / "model.safetensors").stat().st_mtime_ns == weights
    other = cli("train", *given, "--learning-rate", 5e-2, "--resume")
    assert other.returncode == 2
    assert "were started with --learning-rate 0.001, not 0.05; use their" in other.stderr
    assert (out / "scores.jsonl").read_bytes() == before


def test_folds_are_answered_as_predict_would(sample, tokenizer, tmp_path):
    loaded = load_model(sample / "vocabulary", "choice", scratch="tiny", seed=2)
    loaded.model.read_again = "excerpt"
    save_model(loaded.model, loaded.tokenizer, tmp_path)
    papers = read_split(sample / "race" / "dev")
    several._answer(
        make_store(papers, tokenizer, loaded.model.config.max_length),
        tmp_path,
        Processes(torch.device("cpu")),
        "fp32",
    )
    lines = [json.loads(line) for line in (tmp_path / several.HELD_OUT).read_text().splitlines()]
    given = answer(sample / "race" / "dev", load_model(tmp_path, "choice"), precision="fp32")
    expected = [one.probability for paper in given for one in paper.answers]
    assert [max(line["probabilities"]) for line in lines] == pytest.approx(expected, abs=1e-5)
    assert {line["option_score"] for line in lines} == {"excerpt"}


def test_papers_whose_answers_nobody_knows_have_no_score(stores, sample, tmp_path):
    made = load_model(sample / "vocabulary", "cloze", scratch="tiny")
    save_model(made.model, made.tokenizer, tmp_path)
    alone = Processes(torch.device("cpu"))
    assert several._answer(stores["cloze", "test"], tmp_path, alone, "fp32") is None
    assert several._answer(stores["cloze", "dev"], tmp_path, alone, "fp32") > 0


def test_other_folds_do_not_go_on_with_these(go):
    with pytest.raises(RuntimeError):
        go(folds=4, fails="fold-3")
    with pytest.raises(
        UsageError, match=r"out were started with --folds 4, not 2; use their original"
    ):
        go(resume=True, folds=2)
    with pytest.raises(UsageError, match="started without --seeds, not with 4"):
        go(resume=True, seeds=4)
    assert go(resume=True, folds=4) == ["fold-3", "fold-4"]
    good = (go.out / "scores.jsonl").read_bytes()
    with pytest.raises(UsageError, match="--folds 4, not 2"):
        go(resume=True, folds=2)
    assert (go.out / "scores.jsonl").read_bytes() == good


def test_runs_with_other_settings_are_not_passed_off_as_these(go, data, stores):
    go(seeds=2)
    assert go(resume=True, seeds=2) == []
    assert go(resume=True, seeds=3) == ["seed-2"]
    with pytest.raises(UsageError, match="were started with --seeds 3; give that number or a"):
        go(resume=True, seeds=2)
    with pytest.raises(UsageError, match=r"started with --learning-rate 1e-05, not 0\.1; use"):
        go(resume=True, seeds=3, learning_rate=0.1)
    with pytest.raises(UsageError, match="started with --seed 0, not 1"):
        go(resume=True, seeds=3, seed=1)
    stores["cloze", "dev"].save(data / "train.pt")
    with pytest.raises(
        UsageError, match="started with a different train store: split train, not dev; so"
    ):
        go(resume=True, seeds=3)
    stores["cloze", "train"].save(data / "train.pt")
    (data / "dev.pt").unlink()
    with pytest.raises(UsageError, match="started with a dev store; use"):
        go(resume=True, seeds=3)
    stores["cloze", "dev"].save(data / "dev.pt")
    assert go(resume=True, seeds=3) == []
    old = json.loads((go.out / "runs.json").read_text())
    del old["made_of"]
    (go.out / "runs.json").write_text(json.dumps(old))
    with pytest.raises(UsageError, match=r"runs.json was written by an older version and lacks"):
        go(resume=True, seeds=3)
    assert go(seeds=2) == ["seed-0", "seed-1"]


def test_what_runs_are_made_of_is_compared(tuning, data):
    train, dev = open_stores(data)
    before = made_of(tuning, train, dev)
    assert before["--model"] == "models/x"
    assert difference(before, json.loads(json.dumps(before))) is None
    for changed, said in (
        ({"model": "models/y"}, "with --model models/x, not models/y"),
        ({"how": {"scratch": "tiny"}}, "without --scratch, not with tiny"),
        ({"how": {"lsh": {"chunk": 16}}}, "with a different setting of lsh: chunk None, not 16"),
        ({"levers": Levers(states="8bit")}, "with --optimizer-states fp32, not 8bit"),
    ):
        now = made_of(replace(tuning, **changed), train, dev)
        assert difference(before, now) == said
    assert difference(before, made_of(tuning, train, None)) == "with a dev store"
    assert difference(made_of(tuning, train, None), before) == "without a dev store, not with one"
    # The same places with other weights, or papers kept otherwise.
    scores = data / "scores.jsonl"
    scores.write_text("{}")
    taught = replace(tuning, teacher=Teacher(str(scores)))
    with_teacher = made_of(taught, train, dev)
    scores.write_text("[]")
    said = difference(with_teacher, made_of(taught, train, dev))
    assert said == "with other content of --teacher"
    weights = Path("models/x/model.safetensors")
    weights.write_text("trained again")
    assert difference(before, made_of(tuning, train, dev)) == "with other weights of --model"
    weights.write_text("weights x")
    fewer = replace(train, meta=train.meta | {"ids": train.meta["ids"][1:]})
    said = difference(before, made_of(tuning, fewer, dev))
    assert said.startswith("with a different train store: papers ")
    # Of a version that did not note these.
    old = {name: value for name, value in with_teacher.items() if " of --" not in name}
    old["train store"] = {"split": "train"}
    assert difference(old, made_of(taught, train, dev)) is None
    # Of a version without the option: the run was as it usually is.
    del before["--clip"]
    assert difference(before, made_of(tuning, train, dev)) is None
    other = replace(tuning, settings=TrainConfig(clip=0.9))
    assert difference(before, made_of(other, train, dev)) == "with --clip 1.0, not 0.9"
    # Of a version with options that are gone since.
    assert difference(before | {"--ema": 0.0}, made_of(tuning, train, dev)) is None
    assert difference(before | {"--ema": 0.9}, made_of(tuning, train, dev)) == (
        "with --ema 0.9, not without"
    )


def test_what_earlier_runs_left_is_not_resumed_in_new_ones(go):
    go(seeds=2)
    with pytest.raises(RuntimeError):
        go(seeds=2, learning_rate=0.1, fails="seed-0")
    assert (go.out / "seed-1" / EARLIER / "resume-00000003.pt").is_file()
    (go.out / "seed-0" / "resume-00000001.pt").write_bytes(b"state")
    assert go(resume=True, seeds=2, learning_rate=0.1) == ["seed-0 again", "seed-1"]


def test_the_earlier_results_stay_until_new_runs_have_finished(go):
    go(folds=2)
    before = {name: (go.out / name).read_bytes() for name in ("runs.json", "scores.jsonl")}
    for _ in range(2):  # stopped and begun anew, before any run has finished
        with pytest.raises(RuntimeError):
            go(folds=2, learning_rate=0.1, fails="fold-1")
        aside = go.out / EARLIER
        assert {name: (aside / name).read_bytes() for name in before} == before
    go(folds=2, learning_rate=0.1)
    assert not aside.exists()
    assert (go.out / "runs.json").read_bytes() != before["runs.json"]


def test_runs_of_before_that_stay_are_named(go):
    go(seeds=3)
    go(seeds=2, learning_rate=0.1)
    assert f"note: {go.out / 'seed-2'} stays there, but belongs to the earlier runs" in go.said
    assert not any("seed-1 stays" in line for line in go.said)


def test_paused_runs_are_continued_as_they_were_started(data, sample, tmp_path, works):
    """A run of several has no options of its own in its folder."""
    out = tmp_path / "runs"
    given = ("--data", data, "--model", sample / "vocabulary", "--out", out, *TINY, "--folds", 2)
    done = works("train", *given, "--minutes", 1e-5)
    assert f"paused; give --out {out} --resume to continue" in done.stdout
    done = works("train", "--out", out, "--resume")
    assert "2 runs, held-out papers accuracy" in done.stdout


def test_ctrl_c_at_the_end_of_a_run_keeps_the_next_from_beginning(go):
    with pytest.raises(Interrupted, match=r"stopped after fold-1, 1 of 2; .*--resume to continue"):
        go(folds=2, stop="fold-1")
    assert [row["name"] for row in json.loads((go.out / "runs.json").read_text())["runs"]] == [
        "fold-1"
    ]
    assert (go.out / "fold-1" / "held_out.jsonl").is_file()
    # Nothing is left after the last.
    assert go(resume=True, folds=2, stop="fold-2") == ["fold-2"]
    assert (go.out / "scores.jsonl").is_file()


def test_a_seed_that_diverges_does_not_keep_the_others_from_running(go):
    """It would diverge again in the same way."""
    assert go(seeds=3, diverges="seed-1") == ["seed-0", "seed-1", "seed-2"]
    assert [row["dev"] for row in go.rows] == [0.5, None, 0.5]
    assert go.rows[1]["diverged"] == "step 7: the run has diverged"
    assert "seed-1 diverged: step 7: the run has diverged" in go.said
    assert json.loads((go.out / "runs.json").read_text())["dev"]["mean"] == 0.5
    assert go(resume=True, seeds=4) == ["seed-3"]


def test_a_fold_that_diverges_ends_the_runs(go):
    with pytest.raises(DivergedError, match="step 7"):
        go(folds=3, diverges="fold-2")
    assert [row["name"] for row in json.loads((go.out / "runs.json").read_text())["runs"]] == [
        "fold-1"
    ]


def test_seeds_that_diverge_are_named_at_the_end(data, sample, tmp_path, cli):
    out = tmp_path / "runs"
    done = cli(
        "train", "--data", data, "--model", sample / "vocabulary", "--out", out, *TINY[:-1], 1e12,
        "--seeds", 2, "--set", "clip=0", "--set", "warmup=0", "--precision", "fp32",
    )  # fmt: skip
    assert "2 runs of 2 diverged (seed-0, seed-1)" in done.stderr, done.stderr
    assert done.returncode != 0
    assert len(json.loads((out / "runs.json").read_text())["runs"]) == 2


def test_held_out_papers_are_answered_in_the_precision_of_the_runs(stores, sample, tmp_path):
    made = load_model(sample / "vocabulary", "cloze", scratch="tiny")
    save_model(made.model, made.tokenizer, tmp_path)
    written = {}
    for precision in ("fp32", "bf16"):
        several._answer(stores["cloze", "dev"], tmp_path, Processes(torch.device("cpu")), precision)
        written[precision] = (tmp_path / several.HELD_OUT).read_bytes()
    assert written["fp32"] != written["bf16"]


def test_a_finished_run_leaves_no_model_in_memory(trainer, tmp_path):
    run = trainer(tmp_path, max_steps=1)
    run.run()
    model = weakref.ref(run.model)
    del run
    release_unused(torch.device("cpu"))
    assert model() is None


def test_scores_are_of_all_papers_and_no_others(go):
    go(folds=2)
    good = (go.out / "scores.jsonl").read_bytes()
    held = go.out / "fold-1" / "held_out.jsonl"
    lines = held.read_bytes().splitlines(keepends=True)
    other = (go.out / "fold-2" / "held_out.jsonl").read_bytes().splitlines(keepends=True)
    for wrong in (lines[1:], [*lines, lines[0]], [*lines[1:], other[0]], [b"torn"], None):
        held.unlink() if wrong is None else held.write_bytes(b"".join(wrong))
        with pytest.raises(DataError, match="not the scores of the papers held out from fold-1"):
            go(resume=True, folds=2)
        assert (go.out / "scores.jsonl").read_bytes() == good
    held.write_bytes(b"".join(lines))
    assert go(resume=True, folds=2) == []


def test_several_do_not_go_on_with_one_nor_with_nothing(go):
    with pytest.raises(UsageError, match=r"--resume: no saved state in .*out; start without"):
        go(resume=True, seeds=2)
    for name in ("train.json", "model.safetensors", "resume-00000003.pt"):
        go.out.mkdir(exist_ok=True)
        (go.out / name).write_bytes(b"of one run")
        with pytest.raises(
            UsageError, match=f"--resume: .*{name} belongs to a single run, but --seeds"
        ):
            go(resume=True, seeds=2)
        # Nor do new ones begin there: its run.toml would be theirs.
        with pytest.raises(UsageError, match=f"{name} belongs to a single run, whose folder"):
            go(seeds=2)
        (go.out / name).unlink()
    # What failed before its first state is nothing to go on with, whatever it was to be.
    with pytest.raises(RuntimeError):
        go(seeds=2, fails="seed-0", learning_rate=0.1)
    with pytest.raises(UsageError, match=r"--resume: no saved state in .*out; start without"):
        go(resume=True, seeds=2)
    assert go(seeds=2) == ["seed-0", "seed-1"]
    # An older version began, and wrote no record before the first run was done.
    (go.out / "runs.json").unlink()
    assert go(resume=True, seeds=2) == ["seed-0 again", "seed-1 again"]


@pytest.mark.slow
def test_seeds_differ_and_their_spread_is_told(data, sample, tmp_path, works):
    out = tmp_path / "runs"
    given = ("--data", data, "--model", sample / "vocabulary", "--out", out, *TINY, "--seeds", 2)
    done = works("train", *given, "--seed", 5)
    assert "standard deviation" in done.stdout
    names = [row["name"] for row in json.loads((out / "runs.json").read_text())["runs"]]
    assert names == ["seed-5", "seed-6"]
    one, other = ((out / name / "model.safetensors").read_bytes() for name in names)
    assert one != other


def test_stores_of_two_lengths_are_said(sample, tokenizer):
    papers = read_split(sample / "cloze" / "dev")
    long, short = (make_store(papers, tokenizer, length) for length in (128, 64))
    assert unlike(long, None) is unlike(long, long) is None
    assert "windows of 128 tokens, but dev.pt of 64" in unlike(long, short)
