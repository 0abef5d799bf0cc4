"""Output of answers; and uncertain ones, with a probability below a threshold, for review."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from albert_rc.io.atomic import write_files
from albert_rc.io.json import json_lines, to_json
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

    def line(
        self,
        below: float,
        answers: Path,
        calibrated: bool,
        how: str = "use `albert-rc evaluate --calibrate` first",
    ) -> str:
        """The result as a sentence, with advice for probabilities that are not calibrated."""
        path = unsure_path(answers)
        count = f"{len(self.lines):,} of {self.total:,} answers"
        said = f"{path}: {count} with a probability below {below:g}"
        if len(self.lines) == self.total:
            return said
        if not calibrated:
            return f"{said}; the probabilities are not calibrated ({how})"
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


def write_answers(
    answers: Mapping[str, Any],
    path: Path,
    lines: Sequence[Mapping[str, Any]],
    scores: Path | None,
    abstain: float | None,
    labels: Sequence[str] = (),
) -> Unsure | None:
    """Write answer.json and the requested files next to it, all or none.

    Args:
        answers: content of answer.json.
        path: its path.
        lines: records of the score file; not used if neither file is requested.
        scores: path of the score file.
        abstain: list the answers whose probability is below this, next to answer.json.
        labels: names of the options by index, where they are not letters.

    Returns:
        The answers listed.
    """
    unsure = None if abstain is None else find_unsure(lines, abstain, labels)
    contents = {path: to_json(answers)}
    if scores is not None:
        contents[scores] = json_lines(lines)
    if unsure is not None:
        contents[unsure_path(path)] = json_lines(unsure.lines)
    write_files(contents)
    return unsure


def outdated(answers: Path) -> list[str]:
    """A note if there is a list next to new answers for which none was asked for."""
    path = unsure_path(answers)
    return [f"note: {path} is about earlier answers"] if path.is_file() else []


def unsure_path(answers: Path) -> Path:
    """Path of the list: `answer.unsure.jsonl` next to `answer.json`."""
    return answers.with_name(f"{answers.stem}.unsure.jsonl")
