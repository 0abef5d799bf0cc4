"""Health statistics of training steps, and tests of the answers against chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

SIGMAS = 2.0
"""Number of standard errors by which a mean must differ from chance."""
POWER = 0.05
"""Nats: no verdict while chance cannot be distinguished from a loss this far below it."""
NO_GAIN, NO_SKILL = 0.01, 0.1
"""Minimum gains to count as learned, as shares of chance's loss and of its accuracy."""
WORSE = 0.5
"""Minimum excess over chance's loss, as a share of it, to count as far above chance."""
SAME, VARIED = 0.95, 0.8
"""Constant answers: minimum share of one letter, and maximum share of questions it is right for."""


class Vitals(NamedTuple):
    """Statistics of a step, summed over all processes. Those that do not apply stay 0."""

    loss: float
    """Loss per item, as the run reports it."""
    questions: float = 0.0
    lost: float = 0.0
    """Cross-entropy of the questions, summed."""
    chance: float = 0.0
    """Sum of ln(#options): the loss of guessing on the same questions."""
    right: float = 0.0
    guessed: float = 0.0
    """Sum of 1/#options: the expected number of right guesses."""
    chosen: tuple[float, ...] = ()
    """How often each letter was answered."""
    gold: tuple[float, ...] = ()
    """How often each letter was right."""
    step: int = 0
    norm: float = 0.0
    """Norm of the gradient before clipping."""


class Answers:
    """A run's recent answers compared with guessing.

    Args:
        rows: the steps, oldest first.
        early: accept accuracy as evidence while the loss is not yet better than guessing's.
        names: what the columns of `Vitals.chosen` are called; letters by default.
    """

    def __init__(self, rows: Sequence[Vitals], early: bool, names: Sequence[str] = ()) -> None:
        self._early, self._names = early, names
        self.began = rows[0].step
        self._rows = rows
        self.questions = sum(row.questions for row in rows)
        self.loss = sum(row.lost for row in rows) / self.questions
        self.chance = sum(row.chance for row in rows) / self.questions
        self.right = sum(row.right for row in rows) / self.questions
        self.guessed = sum(row.guessed for row in rows) / self.questions
        self.gain, self._error = _mean_gain(rows)
        self._right_error = math.sqrt(self.guessed * (1 - self.guessed) / self.questions)
        chosen = [sum(column) for column in zip(*(row.chosen for row in rows), strict=True)]
        gold = [sum(column) for column in zip(*(row.gold for row in rows), strict=True)]
        self._letter = max(range(len(chosen)), key=chosen.__getitem__)
        self.same = chosen[self._letter] / self.questions
        self.same_gold = gold[self._letter] / self.questions
        shares = [count / self.questions for count in gold if count]
        self._prior = -sum(share * math.log(share) for share in shares)

    @property
    def learned(self) -> bool:
        """Whether the loss, or early on the accuracy, is significantly better than guessing's."""
        skill = self.right - self.guessed
        skilled = skill > max(SIGMAS * self._right_error, NO_SKILL * self.guessed)
        gained = self.gain > max(SIGMAS * self._error, NO_GAIN * self.chance)
        return gained or (self._early and skilled)

    @property
    def falling(self) -> bool:
        """Whether the loss of the later half is significantly below that of the earlier half."""
        half = len(self._rows) // 2
        (before, error), (after, other) = map(_mean_gain, (self._rows[:half], self._rows[half:]))
        return after - before > SIGMAS * math.hypot(error, other)

    @property
    def at_chance(self) -> bool:
        """Whether nothing was learned, with enough questions to tell, and the loss is not falling.

        The standard error must be small, except where the loss is far above chance.
        """
        sure = SIGMAS * self._error <= POWER or self.worse
        return not self.learned and sure and not self.falling

    @property
    def worse(self) -> bool:
        """Whether the loss is significantly, and far, above guessing's."""
        return -self.gain > max(SIGMAS * self._error, WORSE * self.chance)

    @property
    def constant(self) -> bool:
        """Whether nearly all answers are one letter that is not nearly always right.

        A model that prefers the commonest letter, but has a lower loss than the letters' prior,
        has begun to learn.
        """
        better = self.loss < self._prior - SIGMAS * self._error
        return self.same >= SAME and self.same_gold <= VARIED and not better and not self.falling

    def line(self) -> str:
        """The figures as a sentence."""
        return (
            f"over {self.questions:,.0f} questions the loss is {self.loss:.3f} (guessing: "
            f"{self.chance:.3f}) and {self.right:.1%} are right (guessing: {self.guessed:.1%})"
        )

    def figures(self) -> dict[str, float]:
        """The figures by name."""
        return {
            "questions": self.questions,
            "loss": self.loss,
            "chance": self.chance,
            "accuracy": self.right,
            "guessing": self.guessed,
            "one_letter": self.same,
            "one_letter_right": self.same_gold,
        }

    def symptoms(self) -> dict[str, str]:
        """The symptoms found: a sentence by the symptom's name."""
        found = {}
        if self.at_chance:
            than = "worse than" if self.worse else "no better than"
            found["chance"] = f"{than} guessing: {self.line()}"
        if self.constant:
            name = self._names[self._letter] if self._names else chr(ord("A") + self._letter)
            found["constant"] = (
                f"{self.same:.1%} of {self.questions:,.0f} answers are {name}, which is right for "
                f"only {self.same_gold:.1%} of the questions"
            )
        return found


def _mean_gain(rows: Sequence[Vitals]) -> tuple[float, float]:
    """Mean of chance minus loss in nats per question, and its standard error.

    Steps are the independent units (questions of a passage are not), so this is the ratio
    estimator of cluster sampling (Cochran 1977, section 6.3).
    """
    questions = max(1.0, sum(row.questions for row in rows))
    mean = sum(row.chance - row.lost for row in rows) / questions
    squares = sum((row.chance - row.lost - mean * row.questions) ** 2 for row in rows)
    return mean, math.sqrt(squares * len(rows) / max(1, len(rows) - 1)) / questions
