"""Accuracy, its intervals and groups, and the answers that it is computed from."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, ttest_1samp

from albert_rc.cli.papers import training_passages
from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import json_lines, write_json
from albert_rc.papers.formats import read_collection, read_split
from albert_rc.papers.overlap import OverlapIndex
from albert_rc.papers.parse import Problems, parse_cloze
from albert_rc.papers.schema import Passage, Question, gold_letters
from albert_rc.scoring.accuracy import (
    accuracy,
    by_group,
    compare,
    effective_size,
    gain,
    interval_over_papers,
    wilson,
)
from albert_rc.scoring.baseline import no_reading_answers
from albert_rc.scoring.evaluate import evaluate, read_answers, with_key


def test_the_interval_of_independent_questions_is_the_binomials():
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.7
    found = accuracy(right.tolist(), range(2000))
    low, high = binom.interval(0.95, 2000, found.value)
    assert abs(found.low - low / 2000) < 0.004
    assert abs(found.high - high / 2000) < 0.004


def test_papers_not_blanks_are_resampled():
    """20 blanks that stand and fall together are one observation, not twenty."""
    right = [True] * 500 + [False] * 500
    papers = [i // 20 for i in range(1000)]
    together, apart = accuracy(right, papers), accuracy(right, range(1000))
    assert (together.high - together.low) > 3 * (apart.high - apart.low)


def test_all_right_or_none_has_an_interval_with_a_correlation_assumed():
    """173 papers of two blanks: Wilson's interval of 314.5 blanks, not of 346."""
    papers = [i // 2 for i in range(346)]
    for right in (True, False):
        found = accuracy([right] * 346, papers)
        ends = wilson(right * 346 / 1.1, 346 / 1.1)
        assert (found.low, found.high) == pytest.approx(ends)


def test_a_mistake_does_not_make_an_accuracy_look_more_certain():
    papers = [i // 20 for i in range(280)]
    perfect, one_wrong = (accuracy([i >= wrong for i in range(280)], papers) for wrong in (0, 1))
    assert 0.95 < perfect.low < 0.98
    assert one_wrong.low < perfect.low + 0.02


@pytest.mark.parametrize("spread", [0.0, 0.1])
def test_the_interval_of_five_papers_covers_and_says_something(spread):
    """Coverage of at least 95%, less two standard errors of the simulation; a bootstrap has 83%."""
    draw, share, runs = np.random.default_rng(1), 0.63, 500
    papers = np.repeat(np.arange(5), 20)
    covered, width = 0, 0.0
    for _ in range(runs):
        if spread:
            odds = (1 - spread) / spread
            chance_P = draw.beta(share * odds, (1 - share) * odds, 5)
        else:
            chance_P = np.full(5, share)
        found = accuracy((draw.random(100) < chance_P[papers]).tolist(), papers.tolist())
        covered += found.low <= share <= found.high
        width += found.high - found.low
    assert covered / runs > 0.95 - 2 * (0.95 * 0.05 / runs) ** 0.5
    assert width / runs < 0.41  # 0.64 if each paper counted as one question


def test_effective_size():
    """Papers that do not differ count in full, but for t; those of one kind as one question."""
    papers = [i // 10 for i in range(50)]
    alike = [i % 10 < 6 for i in range(50)]
    assert effective_size(alike, papers) == pytest.approx(50 * (1.959964 / 2.776445) ** 2)
    together = [i < 30 for i in range(50)]
    assert effective_size(together, papers) == 5
    assert effective_size(together, range(50)) == 50


def test_a_gain_on_few_papers_has_students_interval():
    """With papers of the same size it is that of the papers' means, as scipy counts it."""
    draw, papers = np.random.default_rng(2), np.repeat(np.arange(6), 20)
    first, second = draw.random(120) < 0.7, draw.random(120) < 0.6
    found = gain(first.tolist(), second.tolist(), papers.tolist())
    means = (first.astype(float) - second).reshape(6, 20).mean(1)
    theirs = ttest_1samp(means, 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    alike = gain(first.tolist(), first.tolist(), papers.tolist())
    assert np.isnan([alike.low, alike.high]).all()
    none = gain([True] * 3 + [False] * 3, [False] * 3 + [True] * 3, [0] * 3 + [1] * 3)
    assert (none.low, none.high) == (-1, 1)


@pytest.mark.parametrize("papers", [10, 39, 40, 400])
def test_systems_that_never_differ_may_differ_elsewhere(papers):
    """If they differed in more papers than that, fewer than 2.5% of draws would show none."""
    found = gain([True] * papers, [True] * papers, range(papers))
    assert found.value == 0
    assert -found.low == found.high == pytest.approx(1 - 0.025 ** (1 / papers))
    assert (1 - found.high) ** papers == pytest.approx(0.025)


def test_the_interval_is_the_same_in_every_process():
    code = (
        "from albert_rc.scoring.accuracy import accuracy;"
        "print(accuracy([i % 3 > 0 for i in range(90)], [f'p{i // 7}' for i in range(90)]))"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(shown) == 1


def test_few_papers_have_a_wide_interval():
    """Two papers, half right each: every resample is alike, and tells nothing."""
    found = accuracy([True, False] * 20, [i // 20 for i in range(40)])
    assert (found.low, found.high) == pytest.approx((0.0945, 0.9055), abs=1e-4)
    low, high = interval_over_papers([0.5] * 40, [i // 20 for i in range(40)])
    assert np.isnan([low, high]).all()
    assert not np.isnan(interval_over_papers([0.5] * 10, range(10))).any()
    alike = ([True] * 15 + [False] * 7) * 3
    found = gain(alike, [False] * 66, np.repeat(np.arange(3), 22).tolist())
    assert np.isnan([found.low, found.high]).all()  # the variance is 0 but for rounding


def test_one_paper_has_no_interval():
    assert np.isnan(accuracy([True, False], ["a", "a"]).low)
    assert accuracy([], []).as_json()["accuracy"] is None


def test_groups_split_the_questions():
    found = by_group([True, False, True], ["a", "b", "c"], ["x", None, "y"])
    assert {k: (v.correct, v.total) for k, v in found.items()} == {"x": (1, 1), "y": (1, 1)}


def test_mcnemar_counts_only_where_they_differ():
    gold = ["A"] * 12
    first, second = ["A"] * 12, ["A"] * 2 + ["B"] * 10
    found = compare(first, second, gold)
    assert (found.only_first, found.only_second) == (10, 0)
    assert found.agreement == pytest.approx(2 / 12)
    assert found.p_value == pytest.approx(2 / 2**10)
    assert compare(first, first, gold).p_value == 1.0


def test_the_baseline_is_the_answer_rate_not_the_count():
    question = Question(("often", "rare"), 1)
    train = [
        Passage(str(i), "_", (Question(("often", "x"), i % 3 and 1),), "cloze") for i in range(9)
    ]
    train.append(Passage("r", "_", (question,), "cloze"))
    asked = [Passage("q", "_", (Question(("often", "rare", "new")),), "cloze")]
    assert no_reading_answers(train, asked) == [1]


TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"


def cloze(paper_id, blanks, text=TEXT):
    words = text.split()
    options = []
    for place in blanks:
        options.append([words[place], "other"])
        words[place] = "_"
    raw = {"article": " ".join(words), "options": options, "answers": ["A"] * len(options)}
    return parse_cloze(raw, paper_id, None, Problems(paper_id))


def test_kinds_of_quotation_marks_do_not_hide_an_overlap():
    said = "I don't know what you're doing here but it isn't right"
    index = OverlapIndex([cloze("t", [1], said)])
    assert index.best(cloze("d", [10], said.replace("'", "’"))).share == 1.0


def test_the_same_text_with_other_blanks_is_found():
    index = OverlapIndex(
        [
            cloze("far", [2], "quite another text that has no word with it in common"),
            cloze("t", [1]),
        ]
    )
    found = index.best(cloze("d", [6]))
    assert found.other == "t"
    assert found.share == 1.0


def test_other_texts_do_not_overlap():
    index = OverlapIndex([cloze("t", [3])])
    shuffled = " ".join(reversed(TEXT.split()))
    assert index.best(cloze("d", [3], shuffled)) is None


@pytest.mark.parametrize(("words", "overlaps"), [(33, False), (35, True)])
def test_thirty_in_a_hundred_is_the_border(words, overlaps):
    """104 words have 100 5-grams; 33 of them in common are 29, and 35 are 31."""
    index = OverlapIndex([cloze("t", [0], " ".join(f"a{n}" for n in range(104)))])
    parts = [f"a{n}" for n in range(words)] + [f"b{n}" for n in range(104 - words)]
    assert (index.best(cloze("d", [0], " ".join(parts))) is not None) is overlaps


def test_a_short_paper_inside_a_long_text_is_found():
    short = " ".join(f"a{n}" for n in range(14))
    index = OverlapIndex([cloze("t", [0], short)])
    around = " ".join(f"b{n}" for n in range(100))
    assert index.touches(f"{around} {short} {around}")
    assert not index.touches(f"{around} {around}")


def test_twins_inside_a_split_are_found_but_not_oneself():
    passages = [cloze("a", [2]), cloze("b", [9]), cloze("c", [1], " ".join(reversed(TEXT.split())))]
    found = OverlapIndex(passages).all(passages, within=True)
    assert {k: v.other for k, v in found.items()} == {"a": "b", "b": "a"}


def test_the_real_overlaps_are_found(real_data):
    """About a tenth of dev and of test; dev0009 stands whole in train3578; dev has exact twins."""
    splits = {s.name: s for s in read_collection(real_data / "ele")}
    index = OverlapIndex(splits["train"].passages)
    shared = index.all(splits["dev"].passages)
    assert shared["dev0009.json"].other == "train3578.json"
    assert shared["dev0009.json"].share == 1.0
    assert 0.08 < len(shared) / 400 < 0.15
    assert 0.08 < len(index.all(splits["test"].passages)) / 400 < 0.15
    dev = splits["dev"].passages
    guesses = no_reading_answers(splits["train"].passages, dev)
    gold = [q.answer for p in dev for q in p.questions]
    share = sum(a == b for a, b in zip(guesses, gold, strict=True)) / len(gold)
    assert 0.395 < share < 0.405


@pytest.fixture
def papers():
    return [cloze("d2", [1, 3]), cloze("d10", [2, 5, 7])]


def test_evaluation_counts_by_group(papers, tmp_path):
    write_json(tmp_path / "a.json", {"d2": ["A", "B"], "d10": ["A", "A", "B"]})
    answers = read_answers(tmp_path / "a.json", papers)
    found = evaluate(answers, papers, train=[cloze("t", [9])])
    assert (found.total.correct, found.total.total) == (3, 5)
    assert found.chance == 0.5
    assert found.groups["overlap with training"]["shared with training"].total == 5
    assert found.groups["blank number"]["blanks 1-5"].total == 5
    assert gold_letters(papers) == ["A"] * 5


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"d2": ["A", "B"]}, "d10: no answers"),
        ({"d2": ["A"], "d10": ["A"] * 3}, "d2: 1 answer to 2 questions"),
        ({"d2": {"1": "A"}, "d10": ["A"] * 3}, "d2: no list of answers to 2 questions"),
        ({"d2": ["A", "C"], "d10": ["A"] * 3}, "d2: answer 2 is 'C', not A to B"),
        ({"d2": ["A", "B"], "d10": ["A"] * 3, "d3": []}, "d3: answered, but it is not among"),
        ({"d2#1": "A", "d10": ["A"] * 3}, "d2#2: no answer"),
        (["A"], "must be an object"),
    ],
)
def test_answers_that_do_not_fit_are_refused(papers, tmp_path, answers, said):
    write_json(tmp_path / "a.json", answers)
    with pytest.raises(DataError, match=said):
        read_answers(tmp_path / "a.json", papers)


def test_letters_in_either_case_are_the_same_answers(papers, tmp_path):
    write_json(tmp_path / "a.json", {"d2": ["a", "B"], "d10": ["A", "A ", "b"]})
    assert read_answers(tmp_path / "a.json", papers) == ["A", "B", "A", "A", "B"]


def test_a_person_may_leave_a_question_without_an_answer(papers, tmp_path):
    write_json(tmp_path / "a.json", {"d2": ["A", "-"], "d10": ["A", "A", "A"]})
    answers = read_answers(tmp_path / "a.json", papers, unanswered=True)
    found = evaluate(answers, papers)
    assert (found.total.correct, found.as_json()["unanswered"]) == (4, 1)
    # One without a right answer counts as that alone.
    first = papers[0]
    unknown = replace(first.questions[1], answer=None)
    some = [replace(first, questions=(first.questions[0], unknown)), *papers[1:]]
    found = evaluate(answers, some)
    assert (found.total.total, found.unanswered, found.unanswered_gold) == (4, 0, 1)
    with pytest.raises(DataError, match="d2: answer 2 is '-', not A to B"):
        read_answers(tmp_path / "a.json", papers)  # such as a key
    write_json(tmp_path / "a.json", {"d2": ["A", None], "d10": ["A", "", "A"]})
    with pytest.raises(DataError, match='d2: answer 2 is null, not A to B, or "-" for none'):
        read_answers(tmp_path / "a.json", papers, unanswered=True)


def test_papers_without_answers_cannot_be_evaluated(sample):
    papers = read_split(sample / "cloze" / "test").passages
    with pytest.raises(DataError, match="have no right answers"):
        evaluate(["A"] * sum(len(p.questions) for p in papers), papers)


def test_answers_may_be_in_a_file_of_their_own(sample, cli, tmp_path):
    """As a competition keeps those to its test papers."""
    test, key = sample / "cloze" / "test", sample / "cloze" / "test_answers.json"
    right = json.loads(key.read_text())
    first = min(right)
    wrong = right | {first: ["A" if letter != "A" else "B" for letter in right[first]]}
    write_json(tmp_path / "answer.json", wrong)
    total = sum(map(len, right.values()))
    done = cli("evaluate", tmp_path / "answer.json", test, "--key", key, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["correct"], found["total"]) == (total - len(right[first]), total)
    done = cli("evaluate", tmp_path / "answer.json", test)
    assert done.returncode == 3
    assert "`evaluate --key` a file of them" in done.stderr
    page = tmp_path / "report.html"
    done = cli("report", tmp_path / "answer.json", test, "--key", key, "--out", page)
    assert done.returncode == 0, done.stderr
    assert f"{total - len(right[first])} of {total} right" in " ".join(done.stdout.split())
    with pytest.raises(UsageError, match="dev has right answers already"):
        with_key(read_split(sample / "cloze" / "dev"), key)
    write_json(tmp_path / "part.json", {first: right[first]})
    with pytest.raises(DataError, match=r"is incomplete:(?s:.*)\ncorrect the key: one list of"):
        with_key(read_split(test), tmp_path / "part.json")
    some = read_split(test)
    known = replace(some.passages[0].questions[0], answer=0)
    answered = replace(some.passages[0], questions=(known, *some.passages[0].questions[1:]))
    some = replace(some, passages=[answered, *some.passages[1:]])
    with pytest.raises(UsageError, match=f"has right answers to 1 of {len(some.passages)} papers"):
        with_key(some, key)


def test_training_papers_without_answers_say_nothing_about_guessing(sample, cli, works, tmp_path):
    dev, test = sample / "cloze" / "dev", sample / "cloze" / "test"
    papers = read_split(dev).passages
    write_json(tmp_path / "a.json", {p.id: ["A"] * len(p.questions) for p in papers})
    done = works("evaluate", tmp_path / "a.json", dev, "--train", test)
    assert "has no right answers, so the accuracy without reading is not known" in done.stderr
    assert "without reading (" not in done.stdout
    done = cli("evaluate", tmp_path / "a.json", dev, "--train", sample / "race" / "dev")
    assert done.returncode == 3
    assert "--train" in done.stderr
    assert "none of its papers can be read as cloze papers" in done.stderr


def test_the_graded_papers_are_not_used_as_training_papers(sample, tmp_path):
    dev = sample / "cloze" / "dev"
    papers = read_split(dev)
    with pytest.raises(UsageError, match="holds 3 splits; name one of them"):
        training_passages(sample / "cloze", dev, papers)
    with pytest.raises(UsageError, match="these are the graded papers"):
        training_passages(dev, dev, papers)
    shutil.copytree(dev, tmp_path / "papers" / "others")
    shutil.copytree(dev, tmp_path / "papers" / "graded")
    for train, gold in ((tmp_path / "papers", tmp_path / "papers" / "graded"),
                        (tmp_path / "papers" / "others", tmp_path / "papers")):  # fmt: skip
        with pytest.raises(UsageError, match="hold some of the same papers; give the training"):
            training_passages(train, gold, papers)


def test_labels_are_no_answers_to_papers_with_options(papers, tmp_path):
    lines = [
        {"paper": p.id, "number": n, "answer": "yes", "probabilities": [0.9, 0.1]}
        for p in papers
        for n in range(1, len(p.questions) + 1)
    ]
    (tmp_path / "a.jsonl").write_bytes(json_lines(lines))
    with pytest.raises(DataError, match="holds labels, but the papers have options to choose from"):
        read_answers(tmp_path / "a.jsonl", papers)
