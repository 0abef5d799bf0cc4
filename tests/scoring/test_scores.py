"""SQuAD's and GLUE's scores against the definitions, scikit-learn and scipy."""

import collections
import random
import re
import string
import time
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from albert_rc.errors import DataError
from albert_rc.scoring import accuracy as accuracies
from albert_rc.scoring.glue_squad import (
    accuracy,
    best_threshold,
    f1,
    interval,
    matthews,
    mean,
    normalize_answer,
    pearson,
    spearman,
    squad1_match,
    squad1_totals,
    squad2_match,
    squad2_totals,
)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Norman's\tan A-team, a", "normans ateam"),
        ("a.m.", "am"),
        ("An theatre", "theatre"),
        ("“the” end—a", "“ ” end—"),
        ("the, a; AN!", ""),
        ("A$AP", "aap"),
        ("ÉCOLE İ", "école i̇"),
        ("", ""),
    ],
)
def test_answers_are_normalized(text, normalized):
    assert normalize_answer(text) == normalized


@pytest.mark.parametrize(
    ("answer", "golds", "first", "second"),
    [
        ("the Normans", ["Normans"], (1, 1), (1, 1)),
        ("in the year 1066", ["1066", "year 1066"], (0, 0.8), (0, 0.8)),
        # "b b c" and "b c c": two shared of three and three.
        ("b b c", ["b c c"], (0, 2 / 3), (0, 2 / 3)),
        ("x", ["y"], (0, 0), (0, 0)),
        ("", ["y"], (0, 0), (0, 0)),
        # Nothing but an article: 1.1 finds it exact, without a word in common; in 2.0 such a
        # right answer is none, and none is what was said.
        ("the", ["A"], (1, 0), (1, 1)),
        ("", ["the"], (1, 0), (1, 1)),
        ("x", ["the"], (0, 0), (0, 0)),
        # 2.0 passes the empty one over as soon as there is another.
        ("", ["the", "y"], (1, 0), (0, 0)),
        ("?!", ["...", "y"], (1, 0), (0, 0)),
    ],
)
def test_one_answer_by_hand(answer, golds, first, second):
    assert squad1_match(answer, golds) == pytest.approx(first)
    assert squad2_match(answer, golds) == pytest.approx(second)


def test_an_unanswerable_question_wants_silence():
    assert squad2_match("", []) == (1, 1)
    assert squad2_match("the", []) == (1, 1)
    assert squad2_match("x", []) == (0, 0)
    with pytest.raises(ValueError, match="empty"):
        squad1_match("x", [])


def test_totals_by_hand():
    golds = {"a": ["red fox"], "b": ["1066"], "c": []}
    assert squad1_totals({"a": "fox"}, {"a": ["red fox"], "b": ["1066"]}) == pytest.approx(
        {"exact_match": 0, "f1": 100 / 3}
    )
    answers = {"a": "the fox", "b": "1066", "c": "no", "of another file": "x"}
    assert squad2_totals(answers, golds) == pytest.approx(
        {
            "exact": 100 / 3, "f1": 500 / 9, "total": 3,
            "HasAns_exact": 50, "HasAns_f1": 250 / 3, "HasAns_total": 2,
            "NoAns_exact": 0, "NoAns_f1": 0, "NoAns_total": 1,
        }
    )  # fmt: skip
    odds = {"a": -3.0, "b": 0.5, "c": 2.0}
    found = squad2_totals(answers, golds, odds)
    # c is silent above the threshold of 1; by F1 a is worth answering, by exact match b too.
    assert (found["exact"], found["NoAns_exact"]) == pytest.approx((200 / 3, 100))
    assert (found["best_exact"], found["best_exact_thresh"]) == pytest.approx((200 / 3, 0.5))
    assert (found["best_f1"], found["best_f1_thresh"]) == pytest.approx((800 / 9, 0.5))
    assert squad2_totals(answers, golds, odds, threshold=-9)["exact"] == pytest.approx(100 / 3)


def test_parts_without_questions_are_left_out():
    assert "NoAns_exact" not in squad2_totals({"a": "x"}, {"a": ["x"]})
    assert "HasAns_exact" not in squad2_totals({"a": "x"}, {"a": []})
    assert np.isnan(squad2_totals({}, {}, {})["exact"])


def test_silence_may_be_best():
    assert best_threshold({"a": 1.0}, {"a": "x"}, {"a": []}, {"a": 0.3}) == (100, 0)


@pytest.mark.parametrize(("odds", "said"), [(None, "question b: no answer"), ({}, "no null odds")])
def test_questions_without_answer_or_odds_are_named(odds, said):
    answers = {"a": "x"} if odds is None else {"a": "x", "b": "x"}
    with pytest.raises(DataError, match=said):
        squad2_totals(answers, {"a": ["x"], "b": []}, odds)


def plain_normalize(text):
    kept = "".join(" " if c.isspace() else c for c in text.lower() if c not in string.punctuation)
    words = re.split(r"(\W+)", kept)
    return " ".join("".join(w for w in words if w not in ("a", "an", "the")).split())


def plain_f1(answer, gold, version):
    ours, theirs = plain_normalize(answer).split(), plain_normalize(gold).split()
    if version == 2 and not (ours and theirs):
        return float(ours == theirs)
    left, same = list(theirs), 0
    for word in ours:
        if word in left:
            left.remove(word)
            same += 1
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def plain_match(answer, golds, version):
    if version == 2:
        golds = [g for g in golds if plain_normalize(g)] or [""]
    exact = max(plain_normalize(answer) == plain_normalize(g) for g in golds)
    return float(exact), max(plain_f1(answer, g, version) for g in golds)


def plain_best(values, answers, golds, odds):
    """Try every cut through the questions in order of their odds."""
    order = sorted(odds, key=odds.get)
    found = []
    for answered in range(len(order) + 1):
        score = sum(values[i] if golds[i] else not answers[i] for i in order[:answered])
        score += sum(not golds[i] for i in order[answered:])
        found.append((score, -answered))
    score, answered = max(found)
    return 100 * score / len(order), odds[order[-answered - 1]] if answered else 0.0


WORDS = ["a", "The", "an", "fox", "Fox.", "(red)", "—", "1,066", "A-team", "", "!?", "é", "the\n"]


def test_random_answers_score_as_the_plain_way():
    generator = random.Random(0)

    def text():
        return generator.choice([" ", "  ", ""]).join(
            generator.choices(WORDS, k=generator.randrange(4))
        )

    for _ in range(40):
        golds = {str(i): [text() for _ in range(generator.randrange(4))] for i in range(30)}
        answers = {i: text() for i in golds}
        # Whole numbers, so that many are equal.
        odds = {i: float(generator.randrange(-4, 5)) for i in golds}
        raw = {i: plain_match(answers[i], golds[i], 2) for i in golds}
        for i, right in golds.items():
            assert squad2_match(answers[i], right) == pytest.approx(raw[i])
            if right:
                plain = plain_match(answers[i], right, 1)
                assert squad1_match(answers[i], right) == pytest.approx(plain)
        found = squad2_totals(answers, golds, odds, 2.0)
        kept = {i: ((not golds[i],) * 2 if odds[i] > 2 else raw[i]) for i in golds}
        for k, name in enumerate(("exact", "f1")):
            for prefix, members in (
                ("", list(golds)),
                ("HasAns_", [i for i in golds if golds[i]]),
                ("NoAns_", [i for i in golds if not golds[i]]),
            ):
                expected = 100 * sum(kept[i][k] for i in members) / len(members)
                assert found[f"{prefix}{name}"] == pytest.approx(expected)
                assert found[f"{prefix}total"] == len(members)
            best = plain_best({i: raw[i][k] for i in golds}, answers, golds, odds)
            assert (found[f"best_{name}"], found[f"best_{name}_thresh"]) == pytest.approx(best)
        answerable = {i: g for i, g in golds.items() if g}
        given = {i: answers[i] for i in list(answerable)[3:]}
        plain = [plain_match(given[i], golds[i], 1) if i in given else (0, 0) for i in answerable]
        exact, words = np.mean(plain, axis=0) * 100
        assert squad1_totals(given, answerable) == pytest.approx(
            {"exact_match": exact, "f1": words}
        )


def labels():
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 10, 500):
        for classes in (1, 2, 3):
            for _ in range(8):
                yield rng.integers(0, classes, size), rng.integers(0, classes, size)
    yield np.zeros(5, int), np.ones(5, int)
    yield np.ones(5, int), np.ones(5, int)
    yield np.array([0, 1, 1]), np.ones(3, int)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classification_scores_are_scikit_learns():
    for gold, predicted in labels():
        assert accuracy(gold, predicted) == pytest.approx(
            sklearn.metrics.accuracy_score(gold, predicted)
        )
        theirs = sklearn.metrics.f1_score(
            gold, predicted, labels=[1], average="micro", zero_division=0
        )
        assert f1(gold, predicted) == pytest.approx(theirs)
        assert matthews(gold, predicted) == pytest.approx(
            sklearn.metrics.matthews_corrcoef(gold, predicted)
        )


def test_labels_may_be_words():
    gold, predicted = ["yes", "no", "yes"], ["yes", "yes", "yes"]
    assert float(accuracy(gold, predicted)) == pytest.approx(2 / 3)
    assert float(f1(gold, predicted, positive="no")) == 0
    assert float(matthews(gold, gold)) == pytest.approx(1)


def numbers():
    rng = np.random.default_rng(1)
    for size in (2, 3, 10, 500):
        for _ in range(8):
            gold = rng.integers(0, 6, size).astype(float)
            yield gold, gold + rng.normal(size=size)
            yield gold, rng.integers(0, 3, size)
    yield np.full(7, 0.1), rng.normal(size=7)
    yield np.full(7, 0.1), np.full(7, 0.3)
    yield np.arange(4) * 1e200, np.arange(4) ** 2 * 1e-200
    yield np.arange(4.0), -np.arange(4.0)


def test_correlations_are_scipys():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.stats.ConstantInputWarning)
        for gold, predicted in numbers():
            linear = scipy.stats.pearsonr(gold, predicted).statistic
            ranks = scipy.stats.spearmanr(gold, predicted).statistic
            assert pearson(gold, predicted) == pytest.approx(linear, nan_ok=True)
            assert spearman(gold, predicted) == pytest.approx(ranks, nan_ok=True)


@pytest.mark.filterwarnings("error")
def test_scores_of_nothing():
    assert np.isnan(accuracy([], []))
    assert (f1([], []), matthews([], [])) == (0, 0)
    for correlation in (pearson, spearman):
        assert np.isnan(correlation([], []))
        assert np.isnan(correlation([1.0], [2.0]))


METRICS = [accuracy, f1, matthews, pearson, spearman]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_many_resamples_at_once_score_as_one_by_one(metric):
    rng = np.random.default_rng(2)
    gold, predicted = rng.integers(0, 3, (2, 4, 5, 9))
    found = metric(gold, predicted)
    assert found.shape == (4, 5)
    for i, j in np.ndindex(4, 5):
        assert found[i, j] == pytest.approx(float(metric(gold[i, j], predicted[i, j])), nan_ok=True)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_intervals_are_those_of_scipys_bootstrap(metric):
    rng = np.random.default_rng(3)
    gold = rng.integers(0, 2, 300)
    predicted = np.where(rng.random(300) < 0.8, gold, 1 - gold)
    low, high = interval(metric, gold, predicted, resamples=4000)
    theirs = scipy.stats.bootstrap(
        (gold, predicted),
        lambda g, p, axis: metric(g, p),
        paired=True,
        vectorized=True,
        n_resamples=4000,
        method="percentile",
        rng=np.random.default_rng(4),
        batch=500,
    ).confidence_interval
    assert low < float(metric(gold, predicted)) < high
    width = high - low
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.1 * width)


def test_intervals_follow_their_settings():
    values = np.random.default_rng(5).random(400)
    assert interval(mean, values) == interval(mean, values)
    assert interval(mean, values) != interval(mean, values, seed=1)
    low, high = interval(mean, values)
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.006)
    inner = interval(mean, values, confidence=0.5)
    assert low < inner[0] < inner[1] < high
    assert all(np.isnan(interval(f1, [1, 1, 1, 1, 0], [1, 1, 1, 1, 0])))
    assert all(np.isnan(interval(mean, [1.0])))
    assert all(np.isnan(interval(pearson, [1.0, 2.0], [1.0, 2.0])))
    with pytest.raises(ValueError, match="same length"):
        interval(accuracy, [1, 0, 1], [1, 0])


@pytest.mark.parametrize(("right", "size"), [(11, 12), (30, 39)])
def test_an_accuracy_of_few_rows_has_wilsons_interval(right, size):
    """The bootstrap's covers 84 to 87% there, and Wilson's 90 to 93%."""
    found = accuracies.accuracy([i < right for i in range(size)], range(size))
    theirs = scipy.stats.binomtest(right, size).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


def test_all_right_is_no_interval_of_no_width():
    """Wilson's, as scipy counts it; F1 and correlations have none where all is right."""
    for right, size in ((173, 173), (0, 40)):
        found = accuracies.accuracy([i < right for i in range(size)], range(size))
        theirs = scipy.stats.binomtest(right, size).proportion_ci(method="wilson")
        assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert all(np.isnan(interval(f1, [1, 0] * 50, [1, 0] * 50)))
    assert all(np.isnan(interval(matthews, [1, 0, 1], [1, 1, 1])))


def test_batches_of_resamples_cover_them_all(monkeypatch):
    monkeypatch.setattr(accuracies, "BATCH", 50)
    counted = collections.Counter()

    def metric(values):
        counted[values.shape] += 1
        return mean(values)

    interval(metric, np.arange(10), resamples=12)
    assert counted == {(5, 10): 2, (2, 10): 1}


def test_ten_thousand_items_take_seconds():
    rng = np.random.default_rng(6)
    gold = rng.normal(size=10_000)
    start = time.process_time()
    low, high = interval(spearman, gold, gold + rng.normal(size=10_000))
    assert time.process_time() - start < 20
    assert 0.67 < low < high < 0.71
