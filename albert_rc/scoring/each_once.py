"""Probabilities of options that are each used at most once, in papers with one list for all blanks.

An option that surely belongs to one blank belongs to no other. The probability of a choice of
options is proportional to the product of the model's probabilities if all are different, and 0
otherwise. What each blank's probabilities become is summed up over sets of used options (dynamic
programming); there are 2^K of them, so for long lists belief propagation on the pairs of blanks and
options finds it approximately (the Bethe approximation of the permanent: Huang and Jebara,
"Approximating the Permanent with Belief Propagation", 2009), with probabilities that are too sure
where nearly all options are used: with 17 options for 17 blanks, single ones were off by up to 0.12
in random examples, by 0.05 for 12 blanks.
"""

from __future__ import annotations

import numpy as np

from albert_rc.scoring.confidence import Chances, Indices

EXACT = 16
"""Options up to which sets are summed up: 20 ms for 10 blanks and 15 options, and 0.1 s for as many
blanks as options; each option more takes twice as long."""
STEPS, CLOSE = 1000, 1e-9
LEAST = 1e-12
"""Probabilities below this count as it, so that no choice is impossible."""


def each_once(chance_BK: Chances) -> Chances:
    """Probabilities of a bank's options if each is used at most once, [B, K]; rows sum to 1.

    Exact up to `EXACT` options.
    """
    chance_BK = np.maximum(chance_BK, LEAST)
    options = chance_BK.shape[1]
    weight_BK = (_by_sets if options <= EXACT else _by_propagation)(chance_BK)
    return np.asarray(weight_BK / weight_BK.sum(1, keepdims=True))


def _by_sets(chance_BK: Chances) -> Chances:
    """The weight of all choices in which a blank has an option, [B, K]."""
    blanks, options = chance_BK.shape
    # A set of used options is a number with a bit for each. The first blanks' choices, and the
    # last ones'.
    first = np.zeros((blanks + 1, 2**options))
    last = np.zeros_like(first)
    first[0, 0] = 1
    sets = np.arange(2**options)
    used = sum((sets >> option) & 1 for option in range(options))
    last[blanks, used == blanks] = 1
    for blank in range(blanks):
        for option in range(options):
            free, _ = _halves(first[blank], option)
            _, taken = _halves(first[blank + 1], option)
            taken += free * chance_BK[blank, option]
    weight_BK = np.empty_like(chance_BK)
    for blank in reversed(range(blanks)):
        for option in range(options):
            free, _ = _halves(first[blank], option)
            before, _ = _halves(last[blank], option)
            _, taken = _halves(last[blank + 1], option)
            after = taken * chance_BK[blank, option]
            weight_BK[blank, option] = (free * after).sum()
            before += after
    return weight_BK


def _halves(weight: Chances, option: int) -> tuple[Chances, Chances]:
    """Views of a vector over all sets: those without an option, and those with it."""
    split = weight.reshape(-1, 2, 2**option)
    return split[:, 0], split[:, 1]


def _by_propagation(chance_BK: Chances) -> Chances:
    """An approximation of `_by_sets`, but for a factor of each row."""
    free_BK = np.ones_like(chance_BK)
    for _ in range(STEPS):
        weight_BK = chance_BK * free_BK
        other_BK = np.maximum(weight_BK.sum(1, keepdims=True) - weight_BK, LEAST)
        claim_BK = chance_BK / other_BK
        before_BK = free_BK
        # The geometric mean with the step before, as the messages of nearly sure blanks swing.
        free_BK = np.sqrt(before_BK / (1 + np.maximum(claim_BK.sum(0) - claim_BK, 0)))
        if abs(free_BK - before_BK).max() < CLOSE:
            break
    return np.asarray(chance_BK * free_BK)


def assigned(chance_BK: Chances) -> Indices:
    """Different options for a bank's blanks, with the highest expected number of right ones, [B].

    Args:
        chance_BK: result of `each_once`.
    """
    from scipy.optimize import linear_sum_assignment  # takes a third of a second to import

    first_K = np.arange(chance_BK.shape[1])  # of equals, on every machine
    answer_B: Indices = linear_sum_assignment(LEAST * first_K - chance_BK)[1]
    return answer_B


def with_likeliest(chance_BK: Chances, answer_B: Indices) -> Chances:
    """Probabilities in which every answer is the likeliest option of its blank, [B, K].

    Where it was not, because another blank has a better claim to the likeliest option, these two
    change places, so that an option's probabilities may sum to more than 1. The answer's gets
    `LEAST` more, so that it has no equal.
    """
    row_B, best_B = np.arange(len(answer_B)), chance_BK.argmax(1)
    result = chance_BK.copy()
    result[row_B, best_B] = chance_BK[row_B, answer_B]
    result[row_B, answer_B] = chance_BK[row_B, best_B] + LEAST
    return result
