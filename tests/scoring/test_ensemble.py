"""Several models' scores made one, and what that is worth."""

from functools import partial

import numpy as np
import pytest
from drawn_scores import drawn, softmax

from albert_rc.errors import DataError
from albert_rc.scoring.accuracy import gain, permutation_p
from albert_rc.scoring.ensemble.assess import assess
from albert_rc.scoring.ensemble.mix import (
    MIX,
    WEIGH,
    Fit,
    Pool,
    cross_validate,
    fit,
    greedy_weights,
    likeliest_weights,
)


def pool_of(chances, gold=None, size=20):
    chances = np.asarray(chances, float)
    questions = chances.shape[1]
    return Pool(
        chances_MQK=chances,
        present_QK=np.ones(chances.shape[1:], bool),
        gold_Q=np.full(questions, -1) if gold is None else np.asarray(gold),
        papers=[f"p{i // size}" for i in range(questions)],
        once_Q=np.zeros(questions, bool),
    )


def models(count, questions, seed=0, scale=1.5):
    return softmax(np.random.default_rng(seed).normal(size=(count, questions, 4)) * scale)


def test_a_planted_mixture_is_found():
    chances = models(4, 20_000)
    wanted = np.array([0.5, 0.0, 0.35, 0.15])
    gold = drawn(np.tensordot(wanted, chances, 1))
    assert np.abs(likeliest_weights(pool_of(chances, gold)) - wanted).max() < 0.03


def test_greedy_selection_takes_the_two_that_complete_each_other():
    """Each knows one half and is undecided in the other; the third is sure, and often wrong."""
    gold = np.random.default_rng(0).integers(0, 4, 400)
    known = np.full((400, 4), 0.1)
    known[np.arange(400), gold] = 0.7
    even = np.full((400, 4), 0.25)
    first = np.where(np.arange(400)[:, None] < 200, known, even)
    second = np.where(np.arange(400)[:, None] < 200, even, known)
    third = np.full((400, 4), 0.05)
    third[np.arange(400), np.where(np.arange(400) % 5 < 2, gold, (gold + 1) % 4)] = 0.85
    found = greedy_weights(pool_of([first, second, third], gold))
    assert found.tolist() == [0.5, 0.5, 0.0]


def test_greedy_selection_may_be_one_model():
    gold = np.arange(40) % 4
    right = np.full((40, 4), 0.1)
    right[np.arange(40), gold] = 0.7
    found = greedy_weights(pool_of([models(1, 40)[0], right], gold))
    assert found.tolist() == [0, 1]


def test_means_by_hand():
    chances = np.array([[[0.5, 0.3, 0.2]], [[0.2, 0.7, 0.1]]])
    pool = pool_of(chances)
    half = np.array([0.5, 0.5])
    assert MIX["probabilities"](pool, half)[0] == pytest.approx([0.35, 0.5, 0.15])
    root = np.sqrt([0.1, 0.21, 0.02])
    assert MIX["logits"](pool, half)[0] == pytest.approx(root / root.sum())
    # Ranks 3 2 1 and 2 3 1: the first two tie, and the mean probability decides.
    ranks = MIX["ranks"](pool, half)[0]
    assert ranks.argsort().tolist() == [2, 0, 1]
    assert ranks.sum() == pytest.approx(1)


@pytest.mark.parametrize("method", sorted(WEIGH))
def test_fewer_options_and_temperatures(method):
    """What there is not gets nothing, and a temperature changes no answer."""
    chances = models(3, 200)
    present = np.ones((200, 4), bool)
    present[::2, 2:] = False
    chances = np.where(present, chances, 0)
    chances /= chances.sum(-1, keepdims=True)
    pool = pool_of(chances, drawn(chances.mean(0)))
    pool = Pool(**{**vars(pool), "present_QK": present})
    weights = WEIGH[method](pool)
    plain = Fit(method, tuple(weights))(pool)
    assert (plain[~present] == 0).all()
    assert plain.sum(-1) == pytest.approx(1)
    for temperature in (0.1, 12.0):
        other = Fit(method, tuple(weights), temperature)(pool)
        assert (other.argmax(-1) == plain.argmax(-1)).all()
        assert (other[~present] == 0).all()


def test_cross_validation_never_sees_its_fold():
    """A method that learns the right answers by heart knows none of those it is measured on."""
    gold = np.random.default_rng(3).integers(0, 4, 2000)
    pool = pool_of(models(1, 2000, seed=5), gold)

    def by_heart(seen):
        # The model's probabilities are as good as a name for a question.
        learned = {
            row.tobytes(): right
            for row, right in zip(seen.chances_MQK[0], seen.gold_Q, strict=True)
        }

        def answer(asked):
            found = [learned.get(row.tobytes(), 0) for row in asked.chances_MQK[0]]
            return np.eye(4)[found]

        return answer

    assert (by_heart(pool)(pool).argmax(-1) == gold).all()
    honest = cross_validate(pool, by_heart, 5, 0)
    assert (honest.argmax(-1) == 0).all()


@pytest.mark.parametrize("method", ["greedy", "weights", "best"])
def test_selection_among_guesses_gains_nothing(method):
    """Thirty models that guess: some choice of them fits these papers, and none fits others."""
    gold = np.random.default_rng(4).integers(0, 4, 600)
    pool = pool_of(models(30, 600, seed=6), gold, size=10)
    names = [str(i) for i in range(30)]
    fitted, report = assess(pool, names, method, folds=5, seed=0)
    if method == "greedy":
        inside = (fitted(pool).argmax(-1) == gold).mean()
        assert inside > 0.33
    assert report.methods[method].accuracy.value < 0.29
    assert report.gain.value < 0
    assert report.gain_in_folds.low < 0 < report.gain_in_folds.high
    # The best single, chosen on what it is measured on, flatters itself; chosen in folds, not.
    assert report.singles[report.best].accuracy.value > 0.28
    assert report.methods["single"].accuracy.value < 0.28


def test_models_that_err_apart_gain():
    gold = np.random.default_rng(7).integers(0, 4, 3000)
    noise = np.random.default_rng(8).normal(size=(4, 3000, 4))
    noise[:, np.arange(3000), gold] += 0.8
    _, report = assess(pool_of(softmax(noise), gold), list("abcd"), "weights", 5, 0)
    assert report.gain.low > 0.05
    assert report.gain.p_value < 1e-6
    assert report.as_json()["best_single"] in "abcd"


def test_best_is_chosen_in_each_fold_anew():
    pool = pool_of(models(3, 400), drawn(models(3, 400).mean(0)))
    fitted, report = assess(pool, list("abc"), "best", 4, 0)
    assert fitted.method in WEIGH
    assert list(report.methods) == ["single", *WEIGH, "best"]
    assert report.chosen == "best"


def test_questions_without_a_right_answer_are_passed_over():
    gold = np.arange(200) % 4
    gold[::2] = -1
    _, report = assess(pool_of(models(2, 200), gold), ["a", "b"], "weights", 5, 0)
    assert report.singles[0].accuracy.total == 100


def test_gain_is_the_difference_with_its_tests():
    first = [True] * 12 + [False] * 8
    second = [True] * 4 + [False] * 16
    found = gain(first, second, [i % 10 for i in range(20)])
    assert (found.value, found.only_first, found.only_second) == (pytest.approx(0.4), 8, 0)
    assert found.p_value == pytest.approx(2 / 2**8)
    assert found.low < 0.4 < found.high
    # Eight of the ten papers differ, all in the same direction: 2 of 2^8 permutations are as far.
    assert found.permutation_p == pytest.approx(2 / 2**8)
    assert gain(first, first, range(20)).p_value == 1
    assert gain(first, first, range(20)).permutation_p == 1


def test_questions_of_one_paper_are_exchanged_together():
    """A single paper proves nothing, however many of its questions differ."""
    assert permutation_p([1] * 20, ["one"] * 20) == 1
    assert permutation_p([1] * 20, [i // 5 for i in range(20)]) == pytest.approx(2 / 2**4)
    assert permutation_p([1, -1] * 10, [i // 5 for i in range(20)]) == 1
    # Too many papers for every permutation: drawn, and at least one in as many as are drawn.
    assert permutation_p([1] * 40, range(40)) == pytest.approx(2 / 10_000, rel=0.5)


def test_the_permutation_test_keeps_its_level_where_blanks_of_a_paper_go_together():
    draw = np.random.default_rng(5)
    papers = np.repeat(np.arange(40), 20)
    found = []
    for _ in range(100):
        shift = draw.normal(scale=0.8, size=(2, 40, 1))
        right = draw.normal(size=(2, 40, 20)) < shift
        found.append(gain(*right.reshape(2, -1).tolist(), papers.tolist()))
    assert sum(one.permutation_p < 0.05 for one in found) <= 10
    assert sum(one.p_value < 0.05 for one in found) > 20  # McNemar's is fooled


def test_fits_are_of_their_questions_alone():
    """`fit` gives the same for a part as for a pool that never had the rest."""
    pool = pool_of(models(3, 300), drawn(models(3, 300).mean(0)))
    some = np.arange(0, 300, 2)
    alone = pool_of(pool.chances_MQK[:, some], pool.gold_Q[some])
    for method in WEIGH:
        one, other = (partial(fit, method)(p) for p in (pool.part(some), alone))
        assert one == other


def test_best_wants_papers_to_choose_by():
    pool = pool_of(models(2, 40), drawn(models(1, 40)[0]))
    with pytest.raises(DataError, match="best compares the methods by cross-validation"):
        assess(pool, ["a", "b"], "best", 5, 0)
