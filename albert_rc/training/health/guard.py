"""Detection of training collapse: loss at chance, constant answers, spikes, NaN and infinity.

The statistics of a step stay on the device and are read every few steps, to avoid synchronisation.
All of them are sums over all processes, so every process reaches the same verdict.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor

from albert_rc.training.health.vitals import Answers, Vitals

LOOK = 10
"""Steps between two checks; verdicts occur only at its multiples."""
NOTICE, PATIENCE = 0.03, 0.1
"""Shares of the sum of a run's learning rates after which answers at chance level are reported,
then acted on: many good runs start slowly."""
QUESTIONS, STEPS = 1000, 50
"""Minimum number of questions and steps for a verdict on answers."""
RECENT, BEFORE = 10, 40
"""Steps whose median is compared, and the minimum number of earlier steps to compare with."""
RISE, RISE_SIGMAS, NORM_RATIO = 0.3, 3.0, 10.0
"""Limits of a spike: rise of the loss in nats and robust sigmas; ratio of gradient norms."""
SKIPS = 3
"""Consecutive steps without a finite gradient after which a run is stopped."""
OVERFLOWS = 20
"""`SKIPS` for fp16, where each such step halves the loss scale: by a million in all."""
HISTORY = 100
"""Minimum number of steps kept; more if these hold too few questions."""

NOTE, ASKED, ALWAYS = "note", "asked", "always"
_RECOVERED = {
    "chance": "the answers are better than guessing now",
    "constant": "the answers are no longer constant",
}


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """A finding, as a sentence and as figures."""

    name: str
    """`chance`, `constant`, `spike`, `not finite`, `overflow`; or the notes `skipped` and
    `recovered`."""
    step: int
    """Step at which it was found."""
    began: int
    """First step that shows it."""
    sentence: str
    weight: str = ASKED
    """NOTE: only reported; ASKED: handled as `--on-collapse` says; ALWAYS: fatal."""
    figures: dict[str, float] = field(default_factory=dict)


def not_numbers(step: int, what: str = "weights") -> Symptom:
    """The symptom for numbers that are NaN or infinite when needed, such as weights to save."""
    said = f"{what} are NaN or infinite"
    return Symptom(name="not finite", step=step, began=step, sentence=said, weight=ALWAYS)


class Guard:
    """Checks the last steps of a run.

    Args:
        read: makes `Vitals` from the sums given to `add`, without the last one.
        reached: the first step at which a share of the learning rates' sum is reached.
        scaled: gradients come from a scaled fp16 loss, where overflow is expected.
        device: the device of the sums.
        names: see `Answers`.
    """

    def __init__(
        self,
        read: Callable[[Sequence[float]], Vitals],
        reached: Callable[[float], int],
        scaled: bool,
        device: torch.device,
        names: Sequence[str] = (),
    ) -> None:
        self._read, self._names = read, names
        self._notice, self._patience = reached(NOTICE), reached(PATIENCE)
        self._scaled = scaled
        self._device = device
        self.forget()

    def forget(self) -> None:
        """Reset: no steps seen, no symptoms reported."""
        self._waiting: list[tuple[int, Tensor]] = []
        self._rows: deque[Vitals] = deque()
        self._questions = 0.0
        self._in_row = 0
        self._said: set[str] = set()

    def add(self, step: int, sums: Tensor) -> None:
        """Record a step: its sums over all processes, then the gradient's norm."""
        self._waiting.append((step, sums))

    def look(self) -> list[Symptom]:
        """New symptoms in the steps since the last check; each is reported once."""
        if not self._waiting:
            return []
        values = torch.stack([sums for _, sums in self._waiting]).cpu().tolist()
        steps = [step for step, _ in self._waiting]
        self._waiting = []
        return [
            symptom
            for step, row in zip(steps, values, strict=True)
            for symptom in self._take(self._read(row[:-1])._replace(step=step, norm=row[-1]))
        ]

    def healthy(self) -> bool:
        """Whether the current state is worth restarting from."""
        if self._in_row or len(self._rows) < STEPS:
            return False
        if any(True for _ in self._spikes(self._rows[-1].step)):
            return False
        answers = self._answers()
        if answers is None:
            return not self._questions
        return answers.learned and not answers.constant

    def state(self) -> dict[str, Any]:
        """The complete state in plain numbers, for `restore`."""
        return {
            "rows": [tuple(row) for row in self._rows],
            "since": self._rows[0].step if self._rows else 0,
            "waiting": [[step, *sums.tolist()] for step, sums in self._waiting],
            "in_row": self._in_row,
            "said": sorted(self._said),
            "healthy": self.healthy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Load the result of `state`; an empty one, from a version without it, resets."""
        self.forget()
        for row in state.get("rows", ()):
            self._remember(Vitals(*row))
        for step, *sums in state.get("waiting", ()):
            self.add(step, torch.tensor(sums, device=self._device))
        self._in_row = state.get("in_row", 0)
        self._said = set(state.get("said", ()))

    def _take(self, row: Vitals) -> Iterator[Symptom]:
        if not (math.isfinite(row.norm) and math.isfinite(row.loss)):
            self._in_row += 1
            yield from self._not_finite(row)
            return
        self._in_row = 0
        self._remember(row)
        if row.step % LOOK == 0:
            yield from self._judge(row.step)

    def _remember(self, row: Vitals) -> None:
        self._rows.append(row)
        self._questions += row.questions
        while len(self._rows) > HISTORY and (
            not self._questions or self._questions - self._rows[0].questions >= QUESTIONS
        ):
            self._questions -= self._rows.popleft().questions

    def _not_finite(self, row: Vitals) -> Iterator[Symptom]:
        what = "loss" if not math.isfinite(row.loss) else "gradient"
        if self._in_row == 1 and not self._scaled and "skipped" not in self._said:
            self._said.add("skipped")
            yield Symptom(
                name="skipped",
                step=row.step,
                began=row.step,
                sentence=f"the {what} is NaN or infinite; the step is skipped",
                weight=NOTE,
            )
        if self._in_row == (OVERFLOWS if self._scaled else SKIPS):
            sentence = f"the {what} was NaN or infinite in {self._in_row} consecutive steps"
            if self._scaled:
                sentence += ", although the scale of the fp16 loss was reduced each time"
            yield Symptom(
                name="overflow" if self._scaled else "not finite",
                step=row.step,
                began=row.step - self._in_row + 1,
                sentence=sentence,
                weight=ALWAYS,
            )

    def _judge(self, step: int) -> Iterator[Symptom]:
        found = list(self._spikes(step))
        answers = self._answers() if step >= self._notice else None
        if answers is not None:
            weight = NOTE if step < self._patience else ASKED
            found += [
                Symptom(
                    name=name,
                    step=step,
                    began=answers.began,
                    sentence=said,
                    weight=weight,
                    figures=answers.figures(),
                )
                for name, said in answers.symptoms().items()
            ]
        for symptom in found:
            if f"{symptom.name} {symptom.weight}" not in self._said:
                self._said |= {symptom.name, f"{symptom.name} {symptom.weight}"}
                yield symptom
        standing = {symptom.name for symptom in found}
        if answers is not None and answers.learned:
            for name in sorted(self._said & {"chance", "constant"} - standing):
                self._said -= {name, f"{name} {NOTE}", f"{name} {ASKED}"}
                yield Symptom(
                    name="recovered",
                    step=step,
                    began=answers.began,
                    sentence=f"{_RECOVERED[name]}: {answers.line()}",
                    weight=NOTE,
                    figures=answers.figures(),
                )

    def _spikes(self, step: int) -> Iterator[Symptom]:
        # A batch without a known answer has no loss to compare, even if a teacher gave a gradient.
        counted = self._questions > 0
        rows = [row for row in self._rows if row.norm and (row.questions or not counted)]
        rows = rows[-HISTORY:]
        if len(rows) < RECENT + BEFORE:
            return
        began = rows[-RECENT].step
        # Relative to the loss of guessing on the same questions: batches differ in their options.
        losses = [row.loss - row.chance / max(1.0, row.questions) for row in rows]
        usual, spread, now = _compare(losses)
        if now - usual > max(RISE, RISE_SIGMAS * spread):
            sentence = f"the loss of the last {RECENT} steps is {now - usual:.3f} higher than usual"
            figures = {"rise": now - usual, "spread": spread}
            yield Symptom(name="spike", step=step, began=began, sentence=sentence, figures=figures)
            return
        usual, spread, now = _compare([math.log(max(row.norm, 1e-30)) for row in rows])
        if now - usual > max(math.log(NORM_RATIO), RISE_SIGMAS * spread):
            times = math.exp(min(700.0, now - usual))
            sentence = (
                f"the gradient norm of the last {RECENT} steps is {times:.3g} times the usual"
            )
            yield Symptom(
                name="spike", step=step, began=began, sentence=sentence, figures={"times": times}
            )

    def _answers(self) -> Answers | None:
        """Statistics over the fewest last steps that suffice for a verdict."""
        rows: list[Vitals] = []
        questions = 0.0
        for row in reversed(self._rows):
            rows.append(row)
            questions += row.questions
            if questions >= QUESTIONS and len(rows) >= STEPS:
                return Answers(rows[::-1], rows[0].step < self._patience, self._names)
        return None


def _compare(values: Sequence[float]) -> tuple[float, float, float]:
    """Median before the last steps, robust sigma (1.4826 MAD), and median of the last steps."""
    before, recent = values[:-RECENT], values[-RECENT:]
    usual = median(before)
    return usual, 1.4826 * median(abs(value - usual) for value in before), median(recent)
