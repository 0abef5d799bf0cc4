"""Scoring of a store: a probability per option, and the competition's answer file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.answering.banks import (
    Bank,
    best_options,
    best_with,
    in_banks,
    shown_scores,
    solve,
)
from albert_rc.answering.lookup import Recalled, with_recall
from albert_rc.answering.request import TOKEN_BUDGET
from albert_rc.batch import Batch
from albert_rc.errors import NotFiniteError
from albert_rc.io.json import as_json, six_digits
from albert_rc.io.messages import counted
from albert_rc.model.encoder import evaluating
from albert_rc.model.heads import ReadingModel
from albert_rc.papers.schema import letter
from albert_rc.runtime.devices import Processes, device_of
from albert_rc.scoring.abstain import Unsure, write_answers
from albert_rc.stores.batches import Collator, batches_by_length
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

ITEMS_BUDGET = 64

Answers = dict[str, list[str] | str | float]


def mean_of_readings(scored_QK: Tensor, second_QK: Tensor, again_Q: Tensor) -> Tensor:
    """Scores in which some questions have the mean of two readings, normalised.

    Args:
        scored_QK: log-probabilities of the options in the first reading.
        second_QK: those of the second reading, of the questions `again_Q` only.
        again_Q: indices of the questions that were read twice.
    """
    result = scored_QK.clone()
    both_QK = (scored_QK[again_Q].double() + second_QK.double()) / 2
    result[again_Q] = both_QK.log_softmax(-1).to(result.dtype)
    return result


def score(
    model: ReadingModel,
    tokenizer: Tokenizer,
    store: Store,
    processes: Processes,
    *,
    token_budget: int = TOKEN_BUDGET,
    progress: Callable[[int], None] | None = None,
    items: Tensor | None = None,
) -> Tensor:
    """Log-probabilities of every option of every question of a store; or the predicted numbers.

    Args:
        model: on the processes' device; `model.encoder.compute` sets the precision.
        tokenizer: the model's.
        store: the store to answer; each rank takes its share of the batches.
        processes: the ranks that share the work.
        token_budget: tokens of a batch.
        progress: called with the number of questions answered, batch by batch.
        items: the only questions to answer, of multiple choice or a table; all by default.

    Returns:
        [Q, K] in nats, on the CPU, in the order of the store or of `items`, the same on every rank;
        -inf if a question has fewer than K options.

    Raises:
        NotFiniteError: the scores contain NaN.
        RuntimeError: some question was not scored exactly once (a bug).
    """
    num_options = store.num_options
    rows = num_options if store.kind == "choice" else 1
    asked = torch.arange(store.num_items) if items is None else items
    lengths = (store.lengths * rows)[asked]
    batches = [
        asked[batch].tolist() for batch in batches_by_length(lengths, token_budget, ITEMS_BUDGET)
    ]
    width = int(num_options.max())
    scored_QK = torch.zeros(store.num_questions, width)
    times_Q = torch.zeros(store.num_questions)
    collate = Collator(store, tokenizer)
    with evaluating(model, model.encoder):
        tasks = map(collate, processes.share(batches))
        for batch, logits_QK in processes.each(_logits, model, tasks):
            found_QK = logits_QK if store.is_numeric else logits_QK.log_softmax(-1)
            scored_QK[batch.question_Q, : batch.num_options] = found_QK
            times_Q[batch.question_Q] += 1
            if progress is not None:
                progress(batch.num_questions)
    absent_QK = torch.arange(width) >= num_options[:, None]
    scored_QK.masked_fill_(absent_QK, 0.0)  # -inf does not survive a sum over ranks
    scored_QK, times_Q = processes.summed(scored_QK, times_Q)
    if items is not None:
        scored_QK, times_Q, absent_QK = scored_QK[items], times_Q[items], absent_QK[items]
    if not bool((times_Q == 1).all()):
        raise RuntimeError(f"{int((times_Q != 1).sum())} questions were not scored exactly once")
    if not are_numbers(scored_QK.abs() if store.is_numeric else scored_QK):
        raise not_finite()
    return scored_QK.masked_fill_(absent_QK, float("-inf"))


def are_numbers(scores: Tensor) -> bool:
    """Whether no score is NaN or infinite; minus infinity is allowed, as it marks absent ones."""
    return not bool((scores.isnan() | scores.isposinf()).any())


def not_finite() -> NotFiniteError:
    """The error for scores that are not `are_numbers`; names the likely causes."""
    return NotFiniteError(
        "the model's scores are NaN or infinite: its weights are damaged (copy them again, or "
        "train again), or too large for fp16 (give --precision fp32)"
    )


def _logits(model: ReadingModel, batch: Batch) -> Tensor:
    """[Q, K] logits of a batch's options, on the CPU."""
    logits_QK: Tensor = model(batch.to(device_of(model))).logits_QK
    return logits_QK.float().cpu()


def reading_of(model: ReadingModel, max_length: int) -> dict[str, Any]:
    """The inference settings that a model's probabilities depend on, as JSON.

    fp32, bf16 and fp16 differ only by rounding, which does not affect a temperature fitted to
    thousands of answers; int8 does.

    Args:
        model: set to the precision and attention of inference.
        max_length: the window in tokens.
    """
    compute = model.encoder.compute
    found: dict[str, Any] = {
        "task": model.task,
        "attention": compute.attention,
        "option_score": model.option_score,
        "int8": compute.precision == "int8",
        "max_length": max_length,
    }
    if compute.attention == "lsh":
        found["lsh"] = asdict(compute.lsh)
    return as_json(found)


def answers_of(
    store: Store, scored_QK: Tensor, reuse: bool = False, solved: list[Bank] | None = None
) -> Answers:
    """The answers in the competition's format.

    Cloze: paper id to a list of letters. Multiple choice: question id to a letter. A table: row to
    a label or a number. See `score_lines` for `reuse` and `solved`.
    """
    if store.is_numeric:
        values = [round(value, 4) for value in scored_QK[:, 0].tolist()]
        return dict(zip(store.meta["ids"], values, strict=True))
    if solved is None:
        solved = solve(store, scored_QK, reuse)
    best = best_with(scored_QK, solved).tolist()
    if store.kind == "label":
        return dict(zip(store.meta["ids"], (store.labels[i] for i in best), strict=True))
    letters = [letter(i) for i in best]
    if store.kind == "choice":
        return dict(zip(store.meta["question_keys"], letters, strict=True))
    answers: Answers = {paper_id: [] for paper_id in store.meta["ids"]}
    for passage, chosen in zip(store.passage_of_question.tolist(), letters, strict=True):
        paper = answers[store.meta["ids"][passage]]
        assert isinstance(paper, list)
        paper.append(chosen)
    return answers


def final_scores(
    scored_QK: Tensor,
    temperature: float = 1.0,
    recalled: Recalled | None = None,
    once_Q: Tensor | None = None,
) -> Tensor:
    """Log-probabilities after temperature and recall, [Q, K] in nats.

    Args:
        scored_QK: result of `score`.
        temperature: divisor of the logits.
        recalled: options found in other papers for the blanks.
        once_Q: questions to which the temperature does not apply, [Q], bool; see `in_banks`. It is
            fitted on options that were chosen to be close, and a bank's are not: with it, their
            probabilities are too low (`experiments/answering/word_banks.py`).
    """
    if temperature != 1:
        tempered_QK = (scored_QK.double() / temperature).log_softmax(-1)
        if once_Q is not None:
            tempered_QK[once_Q] = scored_QK[once_Q].double()
        scored_QK = tempered_QK
    return scored_QK if recalled is None else with_recall(scored_QK, recalled)


def describe(
    store: Store,
    recalled: Recalled,
    scored_QK: Tensor,
    temperature: float = 1.0,
    reuse: bool = False,
) -> str:
    """The number of recalled blanks, and of answers that this changed, as a sentence."""
    final_QK = final_scores(scored_QK, temperature, recalled, in_banks(store, reuse))
    before_Q, after_Q = (best_options(store, each, reuse) for each in (scored_QK, final_QK))
    total, changed = len(scored_QK), int((before_Q != after_Q).sum())
    return (
        f"recalled from training papers: {recalled.known:,} of {total:,} blanks "
        f"({recalled.known / max(1, total):.1%}); {counted(changed, 'answer')} changed"
    )


def score_lines(
    store: Store,
    scored_QK: Tensor,
    temperature: float = 1.0,
    recalled: Recalled | None = None,
    way: str | None = None,
    reuse: bool = False,
    solved: list[Bank] | None = None,
) -> list[dict[str, Any]]:
    """One record per question: paper, number of the question (from 1), letter, probabilities.

    Args:
        store: the store that was answered.
        scored_QK: result of `score`.
        temperature: divisor of the logits, except in passages answered as a whole; it changes
            probabilities, and answers only where something was recalled.
        recalled: options found in other papers for the blanks; `read` is then the answer of the
            model alone.
        way: how some questions were read again, if they were.
        reuse: whether an option may be the answer to several blanks of a passage whose blanks all
            have the same options; if not, these passages are answered as a whole (`banks`).
        solved: the result of `solve` for these scores, if it is there already.
    """
    lines = []
    numbers = store.number_in_passage.tolist()
    options = store.num_options.tolist()
    if solved is None:
        solved = solve(store, scored_QK, reuse)
    # The best of the undivided scores: dividing could turn a near tie into a tie.
    read = best = best_with(scored_QK, solved)
    once_Q, shown_QK = in_banks(store, reuse), scored_QK
    if not store.is_numeric:
        shown_QK = final_scores(scored_QK, temperature, recalled, once_Q)
    if recalled is not None:
        solved = solve(store, shown_QK, reuse)
        best = best_with(shown_QK, solved)
    shown_QK = shown_scores(shown_QK, solved, best)
    keys = store.meta["question_keys"] if store.kind == "choice" else None
    for question, passage in enumerate(store.passage_of_question.tolist()):
        line = {"paper": store.meta["ids"][passage], "number": numbers[question]}
        if keys is not None:
            line["id"] = keys[question]
        chances = shown_QK[question, : options[question]].exp().tolist()
        if store.is_numeric:
            line["answer"] = round(float(shown_QK[question, 0]), 6)
        else:
            chosen = int(best[question])
            line["answer"] = store.labels[chosen] if store.labels else letter(chosen)
            line["probabilities"] = [six_digits(chance) for chance in chances]
            once = bool(once_Q[question])
            if temperature != 1 and not once:
                line["temperature"] = round(temperature, 6)
            if way is not None:
                line["option_score"] = way
            if once:
                line["each_once"] = True
        if recalled is not None and recalled.option_Q[question] >= 0:
            line["read"] = letter(int(read[question]))
        lines.append(line)
    return lines


def write_predictions(
    store: Store,
    scored_QK: Tensor,
    path: Path,
    scores: Path | None,
    *,
    temperature: float = 1.0,
    abstain: float | None = None,
    recalled: Recalled | None = None,
    way: str | None = None,
    weights: str | None = None,
    reading: Mapping[str, Any] | None = None,
    reuse: bool = False,
) -> Unsure | None:
    """Write answer.json and the requested files next to it, all or none.

    Args:
        store: the store that was answered.
        scored_QK: result of `score`.
        path: path of answer.json.
        scores: path of the score file, a JSON line per question.
        temperature: divisor of the logits before the softmax.
        abstain: list the answers whose probability is below this, next to answer.json.
        recalled: options found in other papers for the blanks.
        way: how some questions were read again, if they were.
        weights: identifier of the weights, for the score file's first line.
        reading: inference settings for the same line; see `reading_of`.
        reuse: whether an option may answer several blanks; see `score_lines`.

    Returns:
        The answers below `abstain`, for review; None without it.
    """
    # With recall, other probabilities decide.
    solved = solve(store, scored_QK, reuse) if recalled is None else None
    final_QK = scored_QK
    if recalled is not None:
        final_QK = final_scores(scored_QK, temperature, recalled, in_banks(store, reuse))
    lines = []
    if scores is not None or abstain is not None:
        lines = score_lines(store, scored_QK, temperature, recalled, way, reuse, solved)
        if weights is not None:
            lines[0]["weights"] = weights
        if reading is not None:
            lines[0]["reading"] = reading
    answers = answers_of(store, final_QK, reuse, solved)
    return write_answers(answers, path, lines, scores, abstain, store.labels)
