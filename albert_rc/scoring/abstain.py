"""Uncertain answers: those with a probability below a threshold, listed for review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.papers.schema import letter, letter_index


@dataclass(frozen=True)
class Unsure:
    """Answers that a person should review."""

    lines: list[dict[str, Any]]
    """Records of the answers, in the papers' order."""
    total: int
    expected: float
    """Mean probability of the other answers: their expected accuracy, if calibrated. NaN if
    there are none."""

    def line(self, below: float, answers: Path, calibrated: bool) -> str:
        """The result as a sentence."""
        path = unsure_path(answers)
        count = f"{len(self.lines):,} of {self.total:,} answers"
        said = f"{path}: {count} with a probability below {below:g}"
        if len(self.lines) == self.total:
            return said
        if not calibrated:
            how = "`albert-rc evaluate --calibrate`"
            return f"{said}; the probabilities are not calibrated (use {how} first)"
        return f"{said}; about {self.expected:.1%} of the rest should be right"


def find_unsure(
    lines: Sequence[Mapping[str, Any]], below: float, labels: Sequence[str] = ()
) -> Unsure:
    """Answers whose probability is below a threshold, with the runner-up.

    Args:
        lines: records of a score file, with probabilities.
        below: the threshold.
        labels: names of the options by index, if they are not letters.
    """
    found, others = [], []
    for line in lines:
        chances = list(line["probabilities"])
        answer = line["answer"]
        place = letter_index(answer) if not labels else list(labels).index(answer)
        chance = chances[place or 0]
        if chance >= below:
            others.append(chance)
            continue
        second = max((i for i in range(len(chances)) if i != place), key=chances.__getitem__)
        keys = {name: line[name] for name in ("paper", "number", "id") if name in line}
        found.append(
            {
                **keys,
                "answer": answer,
                "probability": chance,
                "runner_up": labels[second] if labels else letter(second),
                "runner_up_probability": chances[second],
            }
        )
    return Unsure(found, len(lines), float(np.mean(others)) if others else float("nan"))


def unsure_path(answers: Path) -> Path:
    """Path of the list: `answer.unsure.jsonl` next to `answer.json`."""
    return answers.with_name(f"{answers.stem}.unsure.jsonl")
