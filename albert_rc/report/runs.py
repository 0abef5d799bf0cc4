"""Reading of a system's answers: a score file, or answers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.papers.schema import Passage, letter_index
from albert_rc.scoring.align import rows_of
from albert_rc.scoring.evaluate import read_answers
from albert_rc.scoring.score_file import read_letters

NOT_ANSWERED = -1


@dataclass(frozen=True)
class Run:
    """One system's answers to all questions, in the papers' order."""

    name: str
    letters: list[str]
    chosen: list[int]
    """Indices of the chosen options; `NOT_ANSWERED` for none, in a file of answers alone."""
    probabilities: list[list[float]] | None
    """Probability of every option of every question; None for a file of answers alone."""

    @property
    def confidence(self) -> list[float] | None:
        """The chosen option's probability of every question."""
        if self.probabilities is None:
            return None
        return [row[i] for row, i in zip(self.probabilities, self.chosen, strict=True)]


def run_names(paths: Sequence[Path]) -> list[str]:
    """Names of the systems: file names, with as many folders as needed to distinguish them.

    Raises:
        UsageError: the same file twice.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise UsageError(f"--against {paths[-1]} is the same file; give the scores of another run")
    full = [path.absolute().parts for path in paths]
    kept = next(n for n in count(1) if len({parts[-n:] for parts in full}) == len(full))
    return ["/".join(parts[-kept:]) for parts in full]


def read_run(path: Path, papers: Sequence[Passage], name: str) -> Run:
    """Read `predict`'s scores (`.jsonl`), or an answer.json, which has no probabilities.

    Args:
        path: the file.
        papers: the answered papers; every question must have an answer (in an answer.json it may be
            "-", for none), and no others may.
        name: name in the report.

    Raises:
        DataError: the file does not belong to these papers, or is incomplete.
    """
    if path.suffix != ".jsonl":
        letters = read_answers(path, papers, unanswered=True)
        found = [letter_index(x) for x in letters]
        return Run(name, letters, [NOT_ANSWERED if i is None else i for i in found], None)
    file = read_letters(path)
    rows = rows_of(file, papers).tolist()
    chances = [file.chances_QK[row, : file.num_options_Q[row]].tolist() for row in rows]
    chosen = [chance.index(max(chance)) for chance in chances]
    return Run(name, [file.answers[row] for row in rows], chosen, chances)
