"""Span answers: the best spans over all windows of a question."""

# B windows of a batch, L read tokens of the longest window, K spans kept

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.answering.score import ITEMS_BUDGET, are_numbers, not_finite
from albert_rc.batch import SpanBatch
from albert_rc.io.atomic import write_files
from albert_rc.io.json import json_lines, to_json
from albert_rc.model.encoder import evaluating
from albert_rc.model.span_head import SpanModel
from albert_rc.runtime.devices import Processes, device_of
from albert_rc.stores.batches import batches_by_length
from albert_rc.stores.span_batches import SpanCollator
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

BEST = 20
"""Number of starts, ends and spans considered in each window."""
LONGEST = 30
"""Maximum length of an answer in tokens."""


@dataclass(frozen=True)
class Found:
    """A model's prediction for a question."""

    key: str
    null_score: float
    """Score of no answer: the lowest over all windows."""
    spans: list[tuple[float, int, int]]
    """Score, first character and the one after the last; best first."""
    texts: list[str]

    @property
    def null_odds(self) -> float:
        """Score of no answer minus the score of the best span."""
        return self.null_score - self.spans[0][0] if self.spans else float("inf")

    def answer(self, null_threshold: float | None) -> str:
        """The answer; empty if `null_odds` exceeds the threshold."""
        if not self.texts or (null_threshold is not None and self.null_odds > null_threshold):
            return ""
        return self.texts[0]


def find_spans(
    model: SpanModel,
    tokenizer: Tokenizer,
    store: Store,
    processes: Processes,
    *,
    token_budget: int = TOKEN_BUDGET,
    progress: Callable[[int], None] | None = None,
) -> list[Found]:
    """The best spans of every question.

    Args:
        model: on the processes' device.
        tokenizer: the model's.
        store: the store to answer; each rank takes its share of the windows.
        processes: the ranks that share the work.
        token_budget: tokens of a batch.
        progress: called with the number of windows read, batch by batch.

    Returns:
        Predictions in the store's order, the same on every rank.

    Raises:
        NotFiniteError: the scores contain NaN or infinity; on every rank.
    """
    collate = SpanCollator(store, tokenizer)
    batches = list(batches_by_length(store.lengths, token_budget, ITEMS_BUDGET))
    central = _central(store)
    mine: list[tuple[int, float, list[tuple[float, int, int]]]] = []
    finite = True
    with evaluating(model, model.encoder):
        tasks = ((collate(items), central[items]) for items in processes.share(batches))
        for (batch, _), (best, numbers) in processes.each(_read, model, tasks):
            finite &= numbers
            mine += zip(batch.window_B.tolist(), *best, strict=True)
            if progress is not None:
                progress(len(batch.lengths))
    if processes.any(not finite):
        raise not_finite()
    return _merged(store, collate.question_W, processes.gather(mine))


def _read(
    model: SpanModel, task: tuple[SpanBatch, Tensor]
) -> tuple[tuple[list[float], list[list[tuple[float, int, int]]]], bool]:
    """The best spans of a batch's windows, and whether the scores are numbers."""
    batch, central_B2 = task
    logits_BL2 = model(batch.to(device_of(model))).logits_BL2.float().cpu()
    return _best(logits_BL2, central_B2), are_numbers(logits_BL2)


def _central(store: Store) -> Tensor:
    """[W, 2] range (from 1, past the last) of the passage tokens that each window alone answers.

    If windows overlap, a token belongs to the one in which its shorter side of context is
    longest (Devlin et al. 2019, in their code).
    """
    tensors = store.tensors
    start_W, length_W = tensors["window_start"].long(), tensors["window_length"].long()
    low_W, high_W = torch.ones_like(start_W), length_W + 1
    follows_W = store.question_of_window[1:] == store.question_of_window[:-1]
    # Two neighbouring windows are divided at the middle of their overlap.
    seam_W = (start_W[1:] + (start_W + length_W)[:-1]) // 2
    low_W[1:] = torch.where(follows_W, seam_W - start_W[1:] + 1, low_W[1:])
    high_W[:-1] = torch.where(follows_W, seam_W - start_W[:-1] + 1, high_W[:-1])
    return torch.stack([low_W, high_W], 1)


def _best(
    logits_BL2: Tensor, central_B2: Tensor
) -> tuple[list[float], list[list[tuple[float, int, int]]]]:
    """For each window the score of no answer, and the best spans as token positions."""
    count = logits_BL2.shape[1]
    place_L = torch.arange(count)
    mine_BL = (place_L >= central_B2[:, :1]) & (place_L < central_B2[:, 1:])
    begin_BL = logits_BL2[..., 0].masked_fill(~mine_BL, -torch.inf)
    end_BL = logits_BL2[..., 1].masked_fill(place_L == 0, -torch.inf)
    kept = min(BEST, count)
    begin_BK, first_BK = begin_BL.topk(kept)
    end_BK, last_BK = end_BL.topk(kept)
    score_BKK = begin_BK[:, :, None] + end_BK[:, None, :]
    length_BKK = last_BK[:, None, :] - first_BK[:, :, None] + 1
    score_BKK = score_BKK.masked_fill((length_BKK < 1) | (length_BKK > LONGEST), -torch.inf)
    best_BK, index_BK = score_BKK.flatten(1).topk(min(BEST, kept * kept))
    first_BK = first_BK.gather(1, index_BK // kept)
    last_BK = last_BK.gather(1, index_BK % kept)
    spans = [
        [span for span in zip(*row, strict=True) if span[0] > -torch.inf]
        for row in zip(best_BK.tolist(), first_BK.tolist(), last_BK.tolist(), strict=True)
    ]
    return logits_BL2[:, 0].sum(-1).tolist(), spans


def _merged(
    store: Store, question_W: Tensor, parts: list[tuple[int, float, list[tuple[float, int, int]]]]
) -> list[Found]:
    tensors = store.tensors
    null = [float("inf")] * store.num_questions
    spans: list[list[tuple[float, int, int]]] = [[] for _ in null]
    starts, questions = tensors["window_start"].tolist(), question_W.tolist()
    for window, null_score, found in parts:
        question = questions[window]
        null[question] = min(null[question], null_score)
        # Positions count from 1 after [CLS].
        spans[question] += [
            (score, starts[window] + first - 1, starts[window] + last - 1)
            for score, first, last in found
        ]
    texts = _strings(tensors["text"], tensors["text_offset"])
    keys = _strings(tensors["key"], tensors["key_offset"])
    passages = tensors["question_passage"].tolist()
    offsets = tensors["token_offset"].tolist()
    results = []
    for question, key in enumerate(keys):
        passage = passages[question]
        offset = offsets[passage]
        best: dict[str, tuple[float, int, int]] = {}
        for score, first, last in sorted(spans[question], reverse=True):
            begin, end = int(tensors["begin"][offset + first]), int(tensors["end"][offset + last])
            # A word-start marker alone, as SentencePiece has before a quote, is white space.
            answer = texts[passage][begin:end]
            begin += len(answer) - len(answer.lstrip())
            if not (answer := answer.strip()):
                continue
            best.setdefault(answer, (score, begin, begin + len(answer)))
            if len(best) == BEST:
                break
        results.append(Found(key, null[question], list(best.values()), list(best)))
    return results


def _strings(byte_X: Tensor, offset_Y: Tensor) -> list[str]:
    content, edges = byte_X.numpy().tobytes(), offset_Y.tolist()
    return [content[a:b].decode(errors="replace") for a, b in pairwise(edges)]


def golds(store: Store) -> list[list[str] | None]:
    """The right answers of each question: an empty list for no answer, None if unknown."""
    tensors = store.tensors
    texts = _strings(tensors["text"], tensors["text_offset"])
    edges, passages = tensors["gold_offset"].tolist(), tensors["question_passage"].tolist()
    spans = list(zip(tensors["gold_begin"].tolist(), tensors["gold_end"].tolist(), strict=True))
    return [
        None if answer < 0 else [texts[passage][a:b] for a, b in spans[edges[q] : edges[q + 1]]]
        for q, (answer, passage) in enumerate(
            zip(tensors["answer"].tolist(), passages, strict=True)
        )
    ]


def write_spans(
    found: list[Found], null_threshold: float | None, path: Path, scores: Path | None
) -> None:
    """Write answer.json (id to text) and, if requested, a JSON line per question: both or none."""
    answers = {question.key: question.answer(null_threshold) for question in found}
    contents = {path: to_json(answers)}
    if scores is not None:
        contents[scores] = json_lines(_line(each, null_threshold) for each in found)
    write_files(contents)


def _line(question: Found, null_threshold: float | None) -> dict[str, Any]:
    scores = torch.tensor([question.null_score, *(score for score, _, _ in question.spans)])
    chances = scores.softmax(0).tolist()
    best = [
        {"text": text, "begin": begin, "end": end, "probability": round(chance, 6)}
        for text, (_, begin, end), chance in zip(
            question.texts, question.spans, chances[1:], strict=True
        )
    ]
    return {
        "id": question.key,
        "answer": question.answer(null_threshold),
        "null_odds": round(question.null_odds, 6),
        "no_answer": round(chances[0], 6),
        "best": best,
    }
