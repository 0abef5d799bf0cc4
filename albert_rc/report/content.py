"""The report's data for the page's script: compact lists, in a fixed order.

A paper is [id, mean loss per run, pieces of text, questions]; a question is [options, right option
or -1, chosen option or -1 per run, ten-thousandths per option per run, group per slice or -1, its
words].
`data.js` maps these positions to names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from albert_rc.io.files import natural_key
from albert_rc.io.json import to_json
from albert_rc.papers.schema import Passage
from albert_rc.report.figures import Figures
from albert_rc.report.runs import Run

SCALE = 10_000


def slice_names(figures: Figures) -> dict[str, list[str]]:
    """The groups of every slicing with more than one group, in natural order."""
    names = {
        kind: sorted({name for name in groups if name is not None}, key=natural_key)
        for kind, groups in figures.slices.items()
    }
    return {kind: found for kind, found in names.items() if len(found) > 1}


def page_data(figures: Figures, papers: Sequence[Passage]) -> dict[str, Any]:
    """All data for the page's script."""
    names = slice_names(figures)
    numbers = {kind: {name: i for i, name in enumerate(found)} for kind, found in names.items()}
    runs = [each.run for each in figures.runs]
    shown = []
    first = 0
    for passage in papers:
        count = len(passage.questions)
        places = range(first, first + count)
        groups = [
            [numbers[kind].get(figures.slices[kind][place] or "", -1) for kind in names]
            for place in places
        ]
        losses = [_mean(each.losses, places) for each in figures.runs]
        questions = [
            _question(passage, number, runs, place, groups[number])
            for number, place in enumerate(places)
        ]
        text = passage.segments() if passage.kind == "cloze" else [passage.text]
        shown.append([passage.id, losses, text, questions])
        first += count
    return {
        "kind": figures.kind,
        "runs": [run.name for run in runs],
        "slices": [[kind, found] for kind, found in names.items()],
        "papers": shown,
    }


def _mean(losses: Sequence[float | None] | None, places: range) -> float | None:
    known = [loss for i in places if losses is not None and (loss := losses[i]) is not None]
    return round(sum(known) / len(known), 3) if known else None


def _question(
    passage: Passage, number: int, runs: Sequence[Run], place: int, groups: list[int]
) -> list[Any]:
    question = passage.questions[number]
    chances = [
        0 if run.probabilities is None else [_part_of(p) for p in run.probabilities[place]]
        for run in runs
    ]
    right = -1 if question.answer is None else question.answer
    chosen = [run.chosen[place] for run in runs]
    row: list[Any] = [list(question.options), right, chosen, chances, groups]
    return [*row, question.text] if question.text else row


def _part_of(probability: float) -> int:
    """Ten-thousandths, rounded down, so that they are below a threshold if the probability is.

    In integers, from the six digits of score files: 10,000 times 0.57 is 5699.99...
    """
    return round(1_000_000 * probability) * SCALE // 1_000_000


def embedded(data: Any) -> str:
    """JSON that is safe in an HTML script element whatever the papers contain.

    Without a `<` it cannot start or end an element or comment (HTML Living Standard, section on
    restrictions for contents of script elements).
    """
    return to_json(data, indent=False).decode().replace("<", "\\u003c")
