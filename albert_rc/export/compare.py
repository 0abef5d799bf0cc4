"""Comparison of an exported model in other libraries with our own model."""

# B sequences, L tokens of the longest, Q questions, K options, V vocabulary, S read tokens,
# X compared rows of logits

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from albert_rc.batch import Batch, Tokens
from albert_rc.errors import CheckpointError
from albert_rc.model.encoder import evaluating
from albert_rc.model.heads import ClozeHead, HeadedModel, ReadingModel
from albert_rc.model.span_head import SpanModel
from albert_rc.stores.batches import Collator
from albert_rc.stores.span_batches import SpanCollator
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

TOLERANCE = 1e-4
"""Maximum difference of a logit, as a share of the largest one (or of 1, if that is more)."""
SIZES = (1, 4, 2, 3)
"""Sizes of the batches, in turn: with one size, errors at others would be missed. Small, since
other libraries compute a logit for each piece at each position: 250 MB for 4 long sequences with
ALBERT's vocabulary."""

Runner = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Runs a model on padded batches: `input_ids` and so on to `logits`, or `start_logits` and
`end_logits`."""


@dataclass
class Agreement:
    """Agreement of another implementation with ours."""

    batches: int = 0
    questions: int = 0
    """Number of questions; of windows for spans."""
    shortest: int = 10**9
    """Tokens of the shortest sequence."""
    longest: int = 0
    largest: float = 0.0
    """Largest difference of two logits, as a share of the largest logit (or of 1)."""

    def as_json(self) -> dict[str, Any]:
        """The value for `--json`."""
        return {**vars(self), "largest": float(f"{self.largest:.3g}"), "tolerance": TOLERANCE}

    def __str__(self) -> str:
        return (
            f"{self.questions:,} answers agree in {self.batches} batches of {self.shortest} to "
            f"{self.longest} tokens, logits differ by at most {self.largest:.1e} of the largest "
            f"(allowed: {TOLERANCE:g})"
        )


def require_alike(
    model: HeadedModel, tokenizer: Tokenizer, stores: list[Store], theirs: Runner, who: str
) -> Agreement:
    """Run another implementation on the same stores, and compare every logit that we read.

    Args:
        model: ours, on the CPU, computing in fp32 with dense attention.
        tokenizer: the model's.
        stores: the stores to answer, in batches of different sizes.
        theirs: the other implementation.
        who: its name in messages.

    Raises:
        CheckpointError: an answer differs, or a logit differs by more than `TOLERANCE`.
    """
    found = Agreement()
    with evaluating(model, model.encoder):
        for store in stores:
            for batch in _batches(store, tokenizer):
                ours_XV, answer_Q = _ours(model, batch)
                given = padded(batch, model.config.pad_id, model.config.num_segments > 1)
                if model.task == "choice":
                    given = _by_question(given, batch)
                theirs_XV = _read(theirs(given), batch, model)
                _compare(found, ours_XV, theirs_XV, who, batch)
                _same(answer_Q, _answers(model, batch, theirs_XV), who, batch)
    return found


def _batches(store: Store, tokenizer: Tokenizer) -> Iterator[Any]:
    spans = store.kind == "span"
    collate: Any = SpanCollator(store, tokenizer) if spans else Collator(store, tokenizer)
    sizes, start = cycle(SIZES), 0
    options = None if spans else store.num_options.tolist()
    while start < store.num_items:
        last = min(start + next(sizes), store.num_items)
        if store.kind == "choice" and options is not None:
            # Hugging Face's tensor of choices needs the same number for all questions.
            last = next((i for i in range(start, last) if options[i] != options[start]), last)
        yield collate(range(start, last))
        start = last


def padded(batch: Tokens, pad_id: int, with_segments: bool) -> dict[str, Tensor]:
    """A batch in the format of other libraries: [B, L] each, padded at the end."""
    shape = len(batch.lengths), max(batch.lengths)
    row_T, place_T = _rows(batch), batch.place_T
    ids_BL = torch.full(shape, pad_id)
    ids_BL[row_T, place_T] = batch.token_T
    mask_BL = torch.zeros(shape, dtype=torch.int64)
    mask_BL[row_T, place_T] = 1
    given = {"input_ids": ids_BL, "attention_mask": mask_BL}
    if with_segments:
        given["token_type_ids"] = torch.zeros(shape, dtype=torch.int64)
        if batch.segment_T is not None:
            given["token_type_ids"][row_T, place_T] = batch.segment_T
    return given


def _rows(batch: Tokens) -> Tensor:
    """The sequence that each token belongs to, [T]."""
    return torch.arange(len(batch.lengths)).repeat_interleave(torch.tensor(batch.lengths))


def _by_question(given: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
    return {
        name: rows_OL.view(batch.num_questions, batch.num_options, -1)
        for name, rows_OL in given.items()
    }


def _ours(model: HeadedModel, batch: Any) -> tuple[Tensor, Tensor]:
    """Our logits to compare, and our answers."""
    if isinstance(model, SpanModel):
        logits_S2: Tensor = model.head.span(model.hidden(batch)).float()
        return logits_S2, _marks(logits_S2, batch)
    if not isinstance(model.head, ClozeHead):
        logits_QK: Tensor = model(batch).logits_QK
        return logits_QK, logits_QK.argmax(-1)
    blank_QE = model.head.transform(model.hidden(batch)[batch.blank_index_Q])
    logit_QV = blank_QE.float() @ model.words.T.float() + model.head.bias
    answer_QX = model(batch).logits_QK if isinstance(model, ReadingModel) else logit_QV
    return logit_QV, answer_QX.argmax(-1)


def _read(given: Mapping[str, Tensor], batch: Any, model: HeadedModel) -> Tensor:
    """The logits of another implementation that correspond to ours."""
    row_S, place_S = _rows(batch)[batch.read_S], batch.place_T[batch.read_S]
    if "start_logits" in given:
        both = [given[name][row_S, place_S] for name in ("start_logits", "end_logits")]
        return torch.stack(both, -1).float()
    logits = given["logits"].float()
    if not isinstance(model.head, ClozeHead):
        return logits
    blank_Q = batch.blank_index_Q
    return logits[row_S[blank_Q], place_S[blank_Q]]


def _answers(model: HeadedModel, batch: Any, theirs_XV: Tensor) -> Tensor:
    """The answers from another implementation's logits."""
    if isinstance(model, SpanModel):
        return _marks(theirs_XV, batch)
    if isinstance(model, ReadingModel) and isinstance(model.head, ClozeHead):
        logit_P = theirs_XV[batch.question_of_pieces, batch.piece_P]
        vector_PE = model.words[batch.piece_P].float()
        logits_QK: Tensor = batch.by_question(model.head.of_options(batch, logit_P, vector_PE))
        return logits_QK.argmax(-1)
    return theirs_XV.argmax(-1)  # always 0 in regression, whose logits are compared


def _marks(logits_S2: Tensor, batch: Tokens) -> Tensor:
    """The likeliest first and last token of each window, [B, 2]."""
    parts = logits_S2.split(list(batch.reads))
    return torch.stack([part.argmax(0) for part in parts])


def _compare(found: Agreement, ours_XV: Tensor, theirs_XV: Tensor, who: str, batch: Tokens) -> None:
    if ours_XV.shape != theirs_XV.shape:
        raise CheckpointError(
            f"{who} gives logits of shape {list(theirs_XV.shape)}, albert-rc of "
            f"{list(ours_XV.shape)}"
        )
    scale = max(1.0, float(ours_XV.abs().max()))
    apart = float((ours_XV - theirs_XV).abs().max()) / scale
    found.batches += 1
    found.questions += getattr(batch, "num_questions", len(batch.lengths))
    found.shortest = min(found.shortest, *batch.lengths)
    found.longest = max(found.longest, *batch.lengths)
    found.largest = max(found.largest, apart)
    if not apart <= TOLERANCE:  # also true for NaN
        raise CheckpointError(
            f"{who} differs from albert-rc: in a batch of {len(batch.lengths)} sequences of up to "
            f"{max(batch.lengths)} tokens, logits differ by {apart:.2g} of the largest (allowed: "
            f"{TOLERANCE:g}); nothing was written"
        )


def _same(ours_Q: Tensor, theirs_Q: Tensor, who: str, batch: Tokens) -> None:
    if not torch.equal(ours_Q, theirs_Q):
        count = int((ours_Q != theirs_Q).sum())
        raise CheckpointError(
            f"{who} differs from albert-rc: in a batch of {len(batch.lengths)} sequences of up to "
            f"{max(batch.lengths)} tokens, {count} of {ours_Q.numel()} answers differ, although "
            "the logits agree; nothing was written"
        )
