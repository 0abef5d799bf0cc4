"""Sample papers for verifying an export, with lengths and options typical of exams.

They are the project's own (data/sample), so that the package may include them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from albert_rc.errors import UsageError
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Kind, PaperSet, Passage, Question
from albert_rc.stores.encode import question_with_option
from albert_rc.stores.store import Store, make_fitting_store
from albert_rc.text.tokenizer import Tokenizer

PAPERS = Path(__file__).parent / "papers"
WINDOWS = (64, 512)
"""Maximum lengths of short and long sequences in tokens, as far as the model allows."""


def sample_papers(kind: Kind, labels: Sequence[str] = ()) -> PaperSet:
    """Sample papers of a kind.

    Args:
        kind: kind of the model's papers.
        labels: for `label`, the classes; empty for regression.
    """
    if kind == "cloze":
        return read_split(PAPERS / "cloze.jsonl")
    papers = read_split(PAPERS / "race.jsonl")
    if kind == "choice":
        return papers
    make = _rows if kind == "label" else _asked
    passages = [made for passage in papers.passages for made in make(passage, tuple(labels))]
    return replace(papers, kind=kind, passages=passages, labels=tuple(labels))


def _rows(passage: Passage, labels: tuple[str, ...]) -> list[Passage]:
    """Sentences of a passage, alone and in pairs, to classify."""
    sentences = re.split(r"(?<=[.!?])\s+", passage.text)[:6]
    pairs = [(one, "") for one in sentences] + list(pairwise(sentences))
    pairs.append((passage.text, sentences[0]))
    return [
        Passage(f"{passage.id} {n}", one, (Question(labels, None, two),), "label")
        for n, (one, two) in enumerate(pairs)
    ]


def _asked(passage: Passage, labels: tuple[str, ...]) -> list[Passage]:
    """A passage with questions for span answers."""
    questions = tuple(
        Question((), None, question_with_option(question.text, ""), id=f"{passage.id} {n}")
        for n, question in enumerate(passage.questions)
    )
    return [Passage(passage.id, passage.text, questions, "span")]


def sample_stores(papers: PaperSet, tokenizer: Tokenizer, max_length: int) -> list[Store]:
    """Stores of the papers for windows of different lengths."""
    # A question with its option is never truncated, and some of the sample's exceed 64.
    windows = [2 * w if papers.kind == "choice" else w for w in WINDOWS]
    return [_store(papers, tokenizer, min(w, max_length)) for w in windows]


def _store(papers: PaperSet, tokenizer: Tokenizer, window: int) -> Store:
    """A store of the papers whose questions fit into a window.

    Raises:
        UsageError: none of them.
    """
    store, fitting, _ = make_fitting_store(papers, tokenizer, window)
    if not fitting.passages:
        raise UsageError(
            f"the model reads only {window} tokens, too few for the questions that an export is "
            "checked with"
        )
    return store
