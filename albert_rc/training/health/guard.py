"""Watches a run for collapse: a loss at chance, constant answers, spikes, numbers that are none.

What a step says about itself is kept on the device and looked at every few steps, so that a GPU is
not waited for. All figures are sums over all processes, so every process comes to the same verdict.
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
"""Steps between two looks; a multiple of it is where a verdict can fall."""
NOTICE, PATIENCE = 0.03, 0.1
"""Shares of a run's learning (the sum of its learning rates) after which answers no better than
guesses are said, and are acted on: many a sound run starts slowly."""
QUESTIONS, STEPS = 1000, 50
"""The least that a verdict on answers is made of."""
RECENT, BEFORE = 10, 40
"""Steps whose median is compared, and the least before them that it is compared with."""
RISE, RISE_SIGMAS, NORM_RATIO = 0.3, 3.0, 10.0
"""A spike: by how many nats and robust sigmas the loss, how many times the gradient norm rises."""
SKIPS = 3
"""Steps in a row without a finite gradient after which going on is of no use."""
OVERFLOWS = 20
"""The same with fp16, where each of them halves the scale of the loss: by a million in all."""
HISTORY = 100
"""Steps that are remembered at least; more where these hold too few questions."""

NOTE, ASKED, ALWAYS = "note", "asked", "always"


@dataclass(frozen=True, kw_only=True)
class Symptom:
    """What was found, in a sentence and in figures."""

    name: str
    """`chance`, `constant`, `spike`, `not finite`, `overflow`; or the notes `skipped` and
    `recovered`."""
    step: int
    """Where it was found."""
    began: int
    """The first step that it was found in."""
    sentence: str
    weight: str = ASKED
    """NOTE: is only said; ASKED: is acted on if the user wants it; ALWAYS: going on is useless."""
    figures: dict[str, float] = field(default_factory=dict)


def not_numbers(step: int) -> Symptom:
    """That weights are NaN or infinite, found when they were about to be kept."""
    said = "weights are NaN or infinite"
    return Symptom(name="not finite", step=step, began=step, sentence=said, weight=ALWAYS)


class Guard:
    """Judges a run by its last steps.

    Args:
        read: makes `Vitals` of the sums that `add` was given, all but the last of them.
        reached: the first step at which the run has had a share of its learning.
        scaled: gradients come from a scaled fp16 loss, where overflow is part of the method.
        device: where the sums lie.
    """

    def __init__(
        self,
        read: Callable[[Sequence[float]], Vitals],
        reached: Callable[[float], int],
        scaled: bool,
        device: torch.device,
    ) -> None:
        self._read = read
        self._notice, self._patience = reached(NOTICE), reached(PATIENCE)
        self._scaled = scaled
        self._device = device
        self.forget()

    def forget(self) -> None:
        """Begin anew, with nothing seen and nothing said."""
        self._waiting: list[tuple[int, Tensor]] = []
        self._rows: deque[Vitals] = deque()
        self._questions = 0.0
        self._in_row = 0
        self._said: set[str] = set()

    def add(self, step: int, sums: Tensor) -> None:
        """Note a step: its sums over all processes, and behind them the gradient's norm."""
        self._waiting.append((step, sums))

    def look(self) -> list[Symptom]:
        """What the steps since the last look give cause to say; each symptom once."""
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
        """Whether what was seen last is worth going back to."""
        if self._in_row or len(self._rows) < STEPS:
            return False
        if any(True for _ in self._spikes(self._rows[-1].step)):
            return False
        answers = self._answers()
        if answers is None:
            return not self._questions
        return answers.learned and not answers.constant

    def state(self) -> dict[str, Any]:
        """All that decides what will be found, in plain numbers; `restore` takes it."""
        return {
            "rows": [tuple(row) for row in self._rows],
            "waiting": [[step, *sums.tolist()] for step, sums in self._waiting],
            "in_row": self._in_row,
            "said": sorted(self._said),
            "healthy": self.healthy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken; an empty one, of a version without it, begins anew."""
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
            not row.questions or self._questions - self._rows[0].questions >= QUESTIONS
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
            sentence = f"the {what} was NaN or infinite in {self._in_row} steps in a row"
            if self._scaled:
                sentence += ", however small the scale of the fp16 loss"
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
                    sentence=f"the answers have left {name}: {answers.line()}",
                    weight=NOTE,
                    figures=answers.figures(),
                )

    def _spikes(self, step: int) -> Iterator[Symptom]:
        rows = list(self._rows)[-HISTORY:]
        if len(rows) < RECENT + BEFORE:
            return
        began = rows[-RECENT].step
        # Next to what guessing would lose on the same questions: batches differ in their options.
        losses = [row.loss - row.chance / max(1.0, row.questions) for row in rows]
        usual, spread, now = _compare(losses)
        if now - usual > max(RISE, RISE_SIGMAS * spread):
            sentence = f"the loss of the last {RECENT} steps is {now - usual:.3f} above the usual"
            figures = {"rise": now - usual, "spread": spread}
            yield Symptom(name="spike", step=step, began=began, sentence=sentence, figures=figures)
            return
        usual, spread, now = _compare([math.log(max(row.norm, 1e-30)) for row in rows])
        if now - usual > max(math.log(NORM_RATIO), RISE_SIGMAS * spread):
            times = math.exp(min(700.0, now - usual))
            sentence = f"the gradient of the last {RECENT} steps is {times:.3g} times the usual"
            yield Symptom(
                name="spike", step=step, began=began, sentence=sentence, figures={"times": times}
            )

    def _answers(self) -> Answers | None:
        """The shortest run of last steps that a verdict can be made of."""
        rows: list[Vitals] = []
        questions = 0.0
        for row in reversed(self._rows):
            rows.append(row)
            questions += row.questions
            if questions >= QUESTIONS and len(rows) >= STEPS:
                return Answers(rows[::-1], early=rows[0].step < self._patience)
        return None


def _compare(values: Sequence[float]) -> tuple[float, float, float]:
    """The median before the last steps, its robust sigma (1.4826 MAD), and the median of those."""
    before, recent = values[:-RECENT], values[-RECENT:]
    usual = median(before)
    return usual, 1.4826 * median(abs(value - usual) for value in before), median(recent)
