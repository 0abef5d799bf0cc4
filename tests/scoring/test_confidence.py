"""How far probabilities can be believed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import SHAPE
from drawn_scores import drawn, softmax
from typer.testing import CliRunner

from albert_rc.answering.score import answers_of, score_lines
from albert_rc.answering.temperature import keep, kept_temperature, why_unused
from albert_rc.checkpoints.load import load_model, save_model
from albert_rc.errors import CheckpointError, DataError, UsageError
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import letter
from albert_rc.scoring.abstain import find_unsure
from albert_rc.scoring.calibration import calibrate
from albert_rc.scoring.confidence import (
    calibration_error,
    fit_temperature,
    folds_of,
    held_out,
    measure,
    reliability,
    selective_errors,
    temper,
)
from albert_rc.scoring.score_file import read_scores


@pytest.fixture
def sure():
    """Probabilities that are right about themselves, and their right answers."""
    chances = softmax(np.random.default_rng(1).normal(size=(8000, 4)) * 1.5)
    return chances, np.ones_like(chances, bool), drawn(chances)


def test_calibration_error_by_hand():
    """Two bins of five: (0.7 + 0.8) / 2 against 1/2, and 0.3 against 1: 2/3 * 0.25 + 1/3 * 0.7."""
    confidence, right = np.array([0.7, 0.3, 0.8]), np.array([True, True, False])
    table = reliability(confidence, right, bins=2)
    assert [(row.low, row.questions, row.accuracy) for row in table] == [(0, 1, 1), (0.5, 2, 0.5)]
    assert calibration_error(table) == pytest.approx(2 / 3 * 0.25 + 1 / 3 * 0.7)


def test_an_edge_belongs_to_the_bin_that_it_ends():
    edges = np.arange(1, 16) / 15
    table = reliability(edges, np.ones(15, bool), bins=15)
    assert [row.high for row in table] == pytest.approx(edges)


def test_calibration_error_as_a_plain_loop_counts_it(sure):
    chances, _, gold = sure
    confidence, right = chances.max(-1), chances.argmax(-1) == gold
    expected = 0.0
    for low in range(15):
        inside = [i for i, c in enumerate(confidence) if low / 15 < c <= (low + 1) / 15]
        if inside:
            gap = sum(confidence[i] - right[i] for i in inside) / len(inside)
            expected += len(inside) / len(right) * abs(gap)
    found = measure(chances, gold)
    assert found.ece == pytest.approx(expected)
    assert found.nll == pytest.approx(-np.log(chances[range(8000), gold]).mean())
    assert found.ece < 0.02


def test_a_planted_temperature_is_found(sure):
    chances, present, gold = sure
    too_sure = temper(chances, present, 0.4)
    assert fit_temperature(too_sure, present, gold) == pytest.approx(2.5, rel=0.05)
    fixed = temper(too_sure, present, fit_temperature(too_sure, present, gold))
    assert measure(fixed, gold).ece < 0.02
    assert measure(too_sure, gold).ece > 0.1


def test_temperatures_have_ends_where_none_is_best():
    chances, present = np.array([[0.9, 0.1]] * 5), np.ones((5, 2), bool)
    assert 0.01 < fit_temperature(chances, present, np.zeros(5, int)) < 0.1
    assert 10 < fit_temperature(chances, present, np.ones(5, int)) < 100


def test_a_temperature_at_its_limit_is_reported(sample, tmp_path):
    """Also with --json, and by `ensemble`."""
    from albert_rc.cli.app import app

    gold, files = sample / "cloze" / "dev", []
    for chance in (0.28, 0.31):
        lines = [
            {"paper": p.id, "number": n, "answer": letter(q.answer),
             "probabilities": [chance if k == q.answer else (1 - chance) / 3 for k in range(4)]}
            for p in read_split(gold).passages for n, q in enumerate(p.questions, 1)
        ]  # fmt: skip
        files.append(tmp_path / f"{chance}.jsonl")
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    for command in (
        ["evaluate", "--calibrate", files[0], gold, "--json"],
        ["evaluate", "--calibrate", files[0], gold],
        ["ensemble", *files, "--gold", gold, "--method", "logits", "--json"],
    ):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert "this is the lower limit for temperatures" in " ".join(done.stderr.split()), command
        if "--json" in command:
            json.loads(done.stdout)


def test_right_answers_in_a_file_of_their_own(scored, sample, tmp_path):
    """`--key` gives the same temperature, and the same weights of an ensemble."""
    from albert_rc.cli.app import app

    gold, bare, key = sample / "cloze" / "dev", tmp_path / "papers", {}
    bare.mkdir()
    for path in gold.iterdir():
        paper = json.loads(path.read_text())
        key[path.name] = paper.pop("answers")
        (bare / path.name).write_text(json.dumps(paper))
    (tmp_path / "key.json").write_text(json.dumps(key))
    first, second = (scored(tmp_path / f"{t}.jsonl", t) for t in (1.0, 3.0))
    for command in (
        ["evaluate", "--calibrate", first],
        ["ensemble", first, second, "--method", "logits", "--gold"],
    ):
        found = []
        for papers in ([gold], [bare, "--key", tmp_path / "key.json"]):
            done = CliRunner().invoke(app, [str(x) for x in (*command, *papers, "--json")])
            assert done.exit_code == 0, done.output
            found.append(json.loads(done.stdout))
            found[-1].pop("gold_sha256", None)  # other papers, with the same answers
        assert found[0] == found[1]


def test_absent_options_stay_absent():
    chances, present = np.array([[0.6, 0.4, 0.0]]), np.array([[True, True, False]])
    for temperature in (0.1, 3.0):
        found = temper(chances, present, temperature)
        assert found[0, 2] == 0
        assert found.sum() == pytest.approx(1)


def test_risk_and_coverage_by_hand():
    confidence, right = np.array([0.2, 0.9, 0.8, 0.5]), np.array([False, True, False, True])
    assert selective_errors(confidence, right).tolist() == pytest.approx([0, 1 / 2, 1 / 3, 2 / 4])


def test_equally_sure_answers_come_in_no_order():
    confidence, right = np.array([0.5, 0.5, 0.9]), np.array([True, False, True])
    one = selective_errors(confidence, right)
    other = selective_errors(confidence, right[[1, 0, 2]])
    assert one.tolist() == other.tolist() == pytest.approx([0, 1 / 4, 1 / 3])


def test_a_paper_stands_in_one_fold_and_is_not_fitted_on():
    papers = [f"p{i // 7}" for i in range(100)]
    folds = folds_of(papers, 4)
    assert len({*folds}) == 4
    assert len({(p, f) for p, f in zip(papers, folds, strict=True)}) == len({*papers})
    seen = []

    def apply(others, here):
        seen.extend(here)
        assert not {papers[i] for i in others} & {papers[i] for i in here}
        return np.ones((len(here), 1))

    held_out(folds, lambda others: others, apply)
    assert sorted(seen) == list(range(100))
    with pytest.raises(DataError, match="one paper"):
        folds_of(["p", "p"], 5)


@pytest.mark.parametrize("temperature", [0.01, 0.5, 1.7, 90.0])
def test_a_temperature_changes_no_answer(stores, temperature):
    """Also where options all but tie, which dividing makes equal."""
    torch.manual_seed(0)
    for name in ("cloze", "race"):
        store = stores[name, "train"]
        logits = torch.randn(store.num_questions, int(store.num_options.max())) * 4
        logits[::3] = logits[::3].mean() + torch.randn_like(logits[::3]) * 1e-7
        absent = torch.arange(logits.shape[1]) >= store.num_options[:, None]
        scored = logits.masked_fill(absent, float("-inf")).log_softmax(-1)
        plain, tempered = score_lines(store, scored), score_lines(store, scored, temperature)
        assert [x["answer"] for x in plain] == [x["answer"] for x in tempered]
        assert plain[1]["probabilities"] != tempered[1]["probabilities"]
        for line in tempered:
            assert line["temperature"] == temperature
            assert sum(line["probabilities"]) == pytest.approx(1, abs=1e-5)
            best = max(line["probabilities"])
            assert line["probabilities"]["ABCDEFG".index(line["answer"])] == best


@pytest.fixture
def scored(sample, stores):
    """Too sure scores of the sample's dev papers, by temperature."""
    store = stores["cloze", "dev"]
    answers = store.tensors["answer"].long()
    logits = torch.randn(store.num_questions, 4, generator=torch.manual_seed(0))
    logits[torch.arange(len(answers)), answers] += 1
    absent = torch.arange(4) >= store.num_options[:, None]
    scored = (3 * logits).masked_fill(absent, float("-inf")).log_softmax(-1)

    def write(path, temperature=1.0):
        lines = score_lines(store, scored, temperature)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return write


def test_calibrating_twice_finds_the_same_temperature(scored, sample, tmp_path):
    """Scores say what they were divided by, so that it is not forgotten."""
    papers = read_split(sample / "cloze" / "dev")
    found = [
        calibrate(read_scores(scored(tmp_path / f"{t}.jsonl", t)), papers, folds=3)
        for t in (1.0, 2.0)
    ]
    assert found[0].temperature == pytest.approx(found[1].temperature, rel=1e-2)
    assert found[0].after.ece < found[0].before.ece
    assert found[0].before.accuracy == found[0].after.accuracy


def test_folds_do_not_shuffle_the_surest_answers(sample, tmp_path):
    """Of two options any temperature keeps the order of all answers, so coverage stays."""
    rows = tmp_path / "dev.tsv"
    draw = np.random.default_rng(1)
    chances = np.round(draw.uniform(0.05, 0.95, 40), 6)
    gold = (draw.random(40) < 0.5 + (chances - 0.5) * 0.4).astype(int)
    lines = [f"A {i}.\tB {i}.\t{label}" for i, label in enumerate(gold)]
    rows.write_text("\n".join(["sentence1\tsentence2\tlabel", *lines, ""]))
    scores = [
        {"paper": str(i + 2), "number": 1, "answer": str(int(p > 0.5)),
         "probabilities": [round(1 - p, 6), p]} for i, p in enumerate(chances.tolist())
    ]  # fmt: skip
    file = tmp_path / "dev.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in scores))
    found = calibrate(read_scores(file), read_split(rows, format_name="wnli"), folds=5)
    assert found.before.nll != found.after.nll
    assert found.after.aurc == pytest.approx(found.before.aurc)
    assert found.after.coverage == pytest.approx(found.before.coverage)


def test_what_was_recalled_fits_no_temperature(scored, sample, tmp_path):
    papers = read_split(sample / "cloze" / "dev")
    plain = calibrate(read_scores(scored(tmp_path / "a.jsonl")), papers, folds=3)
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    recalled = [
        {**line, "answer": "A", "probabilities": [0.999994, 2e-6, 2e-6, 2e-6], "read": "B"}
        for line in lines[:30]
    ]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("".join(json.dumps(line) + "\n" for line in [*recalled, *lines[30:]]))
    found = calibrate(read_scores(mixed), papers, folds=3)
    assert found.before.questions == plain.before.questions - 30
    assert found.temperature == pytest.approx(plain.temperature, rel=0.5)
    all_of_them = [{**line, "read": "B"} for line in lines]
    mixed.write_text("".join(json.dumps(line) + "\n" for line in all_of_them))
    with pytest.raises(DataError, match="every answer was recalled"):
        calibrate(read_scores(mixed), papers, folds=3)


def test_the_temperature_is_of_these_weights(scored, sample, tmp_path):
    papers = read_split(sample / "cloze" / "dev")
    found = calibrate(read_scores(scored(tmp_path / "s.jsonl")), papers, folds=3)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        keep(found, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert kept_temperature(tmp_path) == (1.0, False)
    record = keep(found, tmp_path)
    assert kept_temperature(tmp_path) == (pytest.approx(found.temperature, abs=1e-5), True)
    (tmp_path / "model.safetensors").write_bytes(b"others")
    assert kept_temperature(tmp_path) == (1.0, False)
    record.write_text('{"temperature": -1, "weights_sha256": ""}')
    with pytest.raises(CheckpointError, match="damaged"):
        kept_temperature(tmp_path)


def test_a_temperature_that_predict_would_refuse_is_not_kept(scored, sample, tmp_path):
    papers = read_split(sample / "cloze" / "dev")
    found = calibrate(read_scores(scored(tmp_path / "s.jsonl")), papers, folds=3)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    extreme = replace(found, temperature=9000.0, scores_temperature=2000.0)
    with pytest.raises(UsageError, match="were made with 2000; make them with --temperature 1"):
        keep(extreme, tmp_path)
    assert kept_temperature(tmp_path) == (1.0, False)


def test_a_temperature_is_of_its_way_to_read_options(scored, sample, tmp_path):
    papers = read_split(sample / "cloze" / "dev")
    path = scored(tmp_path / "s.jsonl")
    lines = [json.loads(text) | {"option_score": "masks"} for text in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = calibrate(read_scores(path), papers, folds=3)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    keep(found, tmp_path)
    assert kept_temperature(tmp_path) == (1.0, False)
    keep(replace(found, way=None, temperature=1.5), tmp_path)
    assert kept_temperature(tmp_path) == (1.5, True)
    assert kept_temperature(tmp_path, "masks") == (pytest.approx(found.temperature, 1e-5), True)
    path.write_text(json.dumps(lines[0] | {"option_score": "../masks"}) + "\n")
    with pytest.raises(DataError, match="must be the name of a method"):
        read_scores(path)


def test_a_temperature_is_of_how_the_model_read(scored, sample, tmp_path):
    """One that was fitted to dense attention is not used with hashing, nor the other way round."""
    papers = read_split(sample / "cloze" / "dev")
    path = scored(tmp_path / "s.jsonl")
    dense = {"task": "cloze", "attention": "dense", "int8": False, "max_length": 512}
    hashed = dense | {"attention": "lsh", "lsh": {"rounds": 4}}
    first, rest = path.read_text().split("\n", 1)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    others = [dense, hashed, hashed | {"lsh": {"rounds": 1}}, dense | {"int8": True}]
    others.append(dense | {"max_length": 128})
    for reading in others:
        path.write_text(json.dumps(json.loads(first) | {"reading": reading}) + "\n" + rest)
        keep(calibrate(read_scores(path), papers, folds=3), tmp_path)
        used = [kept_temperature(tmp_path, reading=other)[1] for other in others]
        assert used == [other == reading for other in others]
    assert why_unused(tmp_path, reading=dense) == "for scores with max_length 128, not 512"
    path.write_text(first + "\n" + rest)  # as earlier versions wrote them
    keep(calibrate(read_scores(path), papers, folds=3), tmp_path)
    used = [kept_temperature(tmp_path, reading=other)[1] for other in others]
    assert used == [True, False, False, False, True]
    path.write_text(json.dumps(json.loads(first) | {"reading": "dense"}) + "\n" + rest)
    with pytest.raises(DataError, match='"reading" must be an object'):
        read_scores(path)


def test_predict_says_which_temperature_is_not_its_own(sample, tmp_path, works, cli):
    """The whole way: scores remember how they were made, the record too, and `predict` compares."""
    made = load_model(sample / "vocabulary", "cloze", scratch="tiny", shape=SHAPE)
    save_model(made.model, made.tokenizer, tmp_path / "run")
    scores, gold = tmp_path / "s.jsonl", sample / "cloze" / "dev"
    predict = ("predict", "--data", gold, "--model", tmp_path / "run", "--scores", scores,
               "--out", tmp_path / "answer.json")  # fmt: skip
    works(*predict)
    calibrate_run = ("evaluate", "--calibrate", scores, gold, "--model", tmp_path / "run")
    first = works(*calibrate_run).stderr
    assert "in place of" not in first
    assert "turns it off" in works(*predict).stderr
    # A damaged record is replaced by the command that its error names.
    (tmp_path / "run" / "calibration.json").write_text("{")
    assert "damaged; make it again" in " ".join(cli(*predict).stderr.split())
    assert "in place of" not in works(*calibrate_run).stderr
    kept = json.loads((tmp_path / "run" / "calibration.json").read_text())
    (tmp_path / "run" / "calibration.json").write_text(json.dumps(kept | {"temperature": 3.5}))
    assert "in place of 3.5000" in works(*calibrate_run).stderr
    lines = scores.read_text().splitlines(keepends=True)
    last = json.loads(lines[-1])
    chances = last["probabilities"][::-1]
    last |= {"probabilities": chances, "answer": "ABCD"[chances.index(max(chances))]}
    (tmp_path / "t.jsonl").write_text("".join([*lines[:-1], json.dumps(last) + "\n"]))
    works("ensemble", scores, tmp_path / "t.jsonl", "--out", tmp_path / "e.json", "--scores",
          tmp_path / "e.jsonl")  # fmt: skip
    done = cli("evaluate", "--calibrate", tmp_path / "e.jsonl", gold, "--model", tmp_path / "run")
    assert "e.jsonl was made by an ensemble; leave --model out" in done.stderr
    said = works(*predict, "--attention", "lsh").stderr
    assert "is for scores with attention dense, not lsh, so it is not used" in said


def test_a_sharp_temperature_is_not_lost_in_rounding(scored, sample, tmp_path):
    papers = read_split(sample / "cloze" / "dev")
    found = [
        calibrate(read_scores(scored(tmp_path / f"{t}.jsonl", t)), papers, folds=3).temperature
        for t in (1.0, 0.1)
    ]
    assert found[1] == pytest.approx(found[0], rel=1e-2)


def test_a_temperature_is_kept_with_the_model_that_it_is_of(scored, sample, tmp_path):
    """Cloze scores are none of a model's that answers questions, nor is any temperature its own."""
    from albert_rc.cli.app import app

    for task, fits in (("choice", False), ("cloze", True)):
        made = load_model(sample / "vocabulary", task, scratch="tiny", shape=SHAPE)
        save_model(made.model, made.tokenizer, tmp_path / task)
        scores, gold = scored(tmp_path / "s.jsonl"), sample / "cloze" / "dev"
        done = CliRunner().invoke(
            app,
            ["evaluate", "--calibrate", str(scores), str(gold), "--model", str(tmp_path / task)],
        )
        assert (done.exit_code == 0) == fits, done.output
        assert (tmp_path / task / "calibration.json").is_file() == fits
    predict = ["predict", "--data", str(gold), "--model", str(tmp_path / "cloze")]
    own = [*predict, "--out", str(tmp_path / "b.json"), "--scores", str(tmp_path / "b.jsonl")]
    assert CliRunner().invoke(app, own).exit_code == 0
    again = [
        "evaluate",
        "--calibrate",
        str(tmp_path / "b.jsonl"),
        str(gold),
        "--model",
        str(tmp_path / "cloze"),
    ]
    assert CliRunner().invoke(app, again).exit_code == 0
    changed = tmp_path / "cloze" / "model.safetensors"
    kept, weights = (tmp_path / "cloze" / "calibration.json").read_bytes(), changed.read_bytes()
    changed.write_bytes(weights + b" ")
    assert "made with different weights" in str(CliRunner().invoke(app, again).exception)
    changed.write_bytes(weights)
    assert (tmp_path / "cloze" / "calibration.json").read_bytes() == kept
    predict += ["--out", str(tmp_path / "a.json"), "--abstain", "0.01"]
    kept = kept_temperature(tmp_path / "cloze")[0]
    for temperature, said in ((0.1, "not calibrated"), (kept, "of the rest should be right")):
        done = CliRunner().invoke(app, [*predict, "--temperature", str(temperature)])
        assert said in done.output, done.output


def test_who_is_unsure_and_who_comes_next():
    lines = [
        {"paper": "p", "number": 1, "answer": "B", "probabilities": [0.3, 0.45, 0.25]},
        {"paper": "p", "number": 2, "answer": "A", "probabilities": [0.9, 0.1]},
    ]
    found = find_unsure(lines, 0.6)
    assert found.lines == [
        {"paper": "p", "number": 1, "answer": "B", "probability": 0.45, "runner_up": "A",
         "runner_up_probability": 0.3}
    ]  # fmt: skip
    assert (found.total, found.expected) == (2, 0.9)
    named = [{"paper": "1", "number": 1, "answer": "no", "probabilities": [0.4, 0.6]}]
    assert find_unsure(named, 0.7, ["yes", "no"]).lines[0]["runner_up"] == "yes"
    assert math.isnan(find_unsure(lines[:1], 0.6).expected)


def test_the_whole_way(stores, sample, tmp_path):
    """Predict, calibrate, predict with what was kept: same answers, other probabilities."""
    from albert_rc.cli.app import app

    def works(*arguments):
        done = CliRunner().invoke(app, [str(a) for a in arguments])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    made = load_model(sample / "vocabulary", "cloze", scratch="tiny", shape=SHAPE)
    save_model(made.model, made.tokenizer, tmp_path / "run")
    stores["cloze", "dev"].save(tmp_path / "dev.pt")
    predict = ("predict", "--data", tmp_path / "dev.pt", "--model", tmp_path / "run")
    plain = works(*predict, "--out", tmp_path / "a.json", "--scores", tmp_path / "a.jsonl",
                  "--abstain", 0.99)  # fmt: skip
    assert "answers with a probability below 0.99" in plain
    gold = sample / "cloze" / "dev"
    files = ("--figure", tmp_path / "f.png", "--out", tmp_path / "c.json")
    shown = works("evaluate", "--calibrate", tmp_path / "a.jsonl", gold,
                  "--model", tmp_path / "run", *files)  # fmt: skip
    assert "temperature" in shown
    assert (tmp_path / "f.svg").is_file()
    said = works(*predict, "--out", tmp_path / "b.json", "--scores", tmp_path / "b.jsonl",
                 "--abstain", 0.3)  # fmt: skip
    assert "turns it off" in said
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    first, second = (read_scores(tmp_path / f"{name}.jsonl") for name in "ab")
    record = json.loads((tmp_path / "c.json").read_text())
    assert second.temperature == pytest.approx(record["temperature"])
    present = np.arange(4) < first.num_options_Q[:, None]
    expected = temper(first.chances_QK, present[:, : first.chances_QK.shape[1]], second.temperature)
    assert np.abs(expected - second.chances_QK).max() < 1e-4
    listed = (tmp_path / "b.unsure.jsonl").read_text().splitlines()
    assert len(listed) == (second.chances_QK.max(-1) < 0.3).sum()
    outdated = f"note: {tmp_path / 'b.unsure.jsonl'} is about earlier answers"
    assert outdated not in said
    assert outdated in works(*predict, "--out", tmp_path / "b.json")
    again = works(*predict, "--out", tmp_path / "c.json", "--scores", tmp_path / "c.jsonl",
                  "--temperature", 1)  # fmt: skip
    assert "turns it off" not in again
    assert (tmp_path / "c.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def test_answers_come_of_the_scores_as_they_are(stores):
    """answer.json and the score file agree, whatever the temperature."""
    store = stores["cloze", "train"]
    scored = torch.zeros(store.num_questions, int(store.num_options.max())).log_softmax(-1)
    given = [a for paper in answers_of(store, scored).values() for a in paper]
    assert given == [line["answer"] for line in score_lines(store, scored, 7.0)]
