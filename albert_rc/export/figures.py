"""Metrics of an exported model on papers with known answers."""

# Q questions, K options of one

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from albert_rc.answering.again import second_reading, way_of
from albert_rc.answering.banks import best_options
from albert_rc.answering.quality import quality
from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.answering.score import score
from albert_rc.answering.spans import find_spans, golds
from albert_rc.checkpoints.load import Loaded
from albert_rc.export.records import Row
from albert_rc.model.heads import ReadingModel
from albert_rc.papers.schema import PaperSet
from albert_rc.runtime.devices import Processes
from albert_rc.scoring.accuracy import accuracy, mean_interval
from albert_rc.scoring.glue_squad import squad1_match, squad2_match
from albert_rc.scoring.tasks import Measured
from albert_rc.stores.store import Store, make_store


def measure(loaded: Loaded[Any], papers: PaperSet | None) -> tuple[list[Row], str]:
    """Evaluate a model's answers, in fp32.

    Args:
        loaded: an exported model.
        papers: papers of its kind; None for no evaluation.

    Returns:
        Names and values; and a description of the papers. Empty if no answer is known. The answers
        are those of `predict`, with a second reading if the model has one; then there is also the
        accuracy of a single one, which is what other programs compute.
    """
    if papers is None:
        return [], ""
    model, tokenizer = loaded.model, loaded.tokenizer
    store = make_store(papers, tokenizer, model.config.max_length)
    if not store.has_answers:
        return [], ""
    alone = Processes(torch.device("cpu"))
    where = f"`{papers.name}` ({papers.format}), SHA-256 of the papers {papers.source_hash}"
    if store.kind == "span":
        # With the threshold that `predict` uses, not the best one for these papers.
        spans = find_spans(model, tokenizer, store, alone)
        return _span_rows(store, [each.answer(model.null_threshold) for each in spans]), where
    if not isinstance(model, ReadingModel):
        return [], ""
    once_QK = score(model, tokenizer, store, alone)
    way, scored_QK = way_of(model, None), once_QK
    if way is not None:
        again = second_reading(model, tokenizer, store, way)
        scored_QK = again.rescore(once_QK, alone, token_budget=TOKEN_BUDGET)
    of_store = quality(store, scored_QK)
    rows = [(name, f"{value:.4f}") for name, value in of_store.metrics.items()]
    if not store.is_numeric:
        rows = [row for row in rows if row[0] != "accuracy"]
        rows.insert(0, ("accuracy, 95% interval over papers", _accuracy(store, scored_QK)))
    if way is not None:
        rows.insert(1, ("accuracy if all questions are read once", _accuracy(store, once_QK)))
    loss = "squared error" if store.is_numeric else "loss without a temperature, nats"
    rows += [(loss, f"{of_store.loss:.4f}"), ("questions", f"{of_store.questions:,}")]
    return rows, where


def _span_rows(store: Store, answers: list[str]) -> list[Row]:
    passages = store.passage_of_question.tolist()
    known = [
        (answer, right, passage)
        for answer, right, passage in zip(answers, golds(store), passages, strict=True)
        if right is not None
    ]
    match = squad1_match if all(right for _, right, _ in known) else squad2_match
    found = [match(answer, right) for answer, right, _ in known]
    rows = []
    for name, values in (
        ("exact match", [each.exact for each in found]),
        ("F1", [each.f1 for each in found]),
    ):
        interval = mean_interval(values, [passage for *_, passage in known])
        measured = Measured(name, sum(values) / len(values), *interval)
        rows.append((f"{name}, 95% interval over passages", str(measured)))
    return [*rows, ("questions", f"{len(known):,}")]


def _accuracy(store: Store, scored_QK: Tensor) -> str:
    """With its interval, as a text."""
    answer_Q = store.tensors["answer"].long()
    known = (answer_Q >= 0).nonzero()[:, 0]
    best_Q = torch.from_numpy(best_options(store, scored_QK))
    right = (best_Q == answer_Q)[known].tolist()
    return str(accuracy(right, store.passage_of_question[known].tolist()))
