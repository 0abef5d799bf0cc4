"""Lookup of blanks whose context occurs word for word in training papers (recall).

A tenth of real exam passages appeared in earlier papers with other words blanked out; the filled-in
training paper then gives the answer. That is knowledge of the papers, not of the language, so it is
off by default and reported separately from the model's own predictions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albert_rc.errors import UsageError
from albert_rc.papers.grams import hashed_grams
from albert_rc.stores.store import Store

Ids = NDArray[np.int64]

GRAM = 4
"""Number of tokens directly next to a blank that form the lookup key; the rest is compared
later."""
CONTEXT = 6
"""Number of tokens around a blank, both sides together, that must match."""
FARTHEST = 64
MOST_PLACES = 200  # per n-gram: "one of the" occurs everywhere and says little
EVIDENCE = (2.9, 3.9, 4.7, 4.9, 5.3)
"""Log-odds in nats added to a recalled option for `CONTEXT` matching tokens around it, one more,
and so on; the last value also applies to all longer matches. Each is about log(3 p / (1 - p)), with
p the share of recalled options that were right on ELE's training papers, each looked up in four
fifths of the others (`experiments/answering/recall_folds.py`).
"""
_EDGE, _HIDDEN = -1, -2


@dataclass(frozen=True)
class Recalled:
    """The options found in other papers for a store's blanks."""

    option_Q: Tensor
    """[Q] index of the option found there; -1 if none, or several, were found."""
    context_Q: Tensor
    """[Q] number of matching tokens around the blank."""

    @property
    def known(self) -> int:
        """Number of recalled blanks."""
        return int((self.option_Q >= 0).sum())


class Memory:
    """Training papers with their blanks filled in, indexed for lookup by context.

    Raises:
        UsageError: the papers are of another kind.
    """

    def __init__(self, store: Store) -> None:
        _require_cloze(store, "--recall")
        self.vocabulary = store.meta["vocabulary"]
        edge = np.array([_EDGE])
        parts = []
        for window in _windows(store):
            parts += [edge, _filled(window)]
        self._text: Ids = np.concatenate([*parts, edge])
        grams = hashed_grams(self._text, GRAM)
        self._order = np.argsort(grams, kind="stable")
        self._grams = grams[self._order]

    def recall(self, store: Store) -> Recalled:
        """Look up the context of every blank.

        Args:
            store: cloze papers of the same vocabulary.

        Raises:
            UsageError: the papers are of another kind, or were preprocessed with another
                vocabulary.
        """
        _require_cloze(store, "--recall")
        if store.meta["vocabulary"] != self.vocabulary:
            raise UsageError(
                "--recall: the training papers were preprocessed with a different vocabulary; "
                "make both stores with the same --model"
            )
        option, context = [], []
        for window in _windows(store):
            for blank in range(len(window.places)):
                found = self._look_up(window, blank)
                option.append(found[0])
                context.append(found[1])
        return Recalled(torch.tensor(option), torch.tensor(context))

    def _look_up(self, window: _Window, blank: int) -> tuple[int, int]:
        """The only option found in this context, and the number of matching tokens."""
        text, place = window.tokens, window.places[blank]
        left, right = text[:place][::-1], text[place + 1 :]
        beside = list(self._places(left, right))
        best: dict[int, int] = {}
        for number, pieces in enumerate(window.options[blank]):
            for edge, begins in beside:
                start = edge if begins else edge - len(pieces)
                end = start + len(pieces)
                if start < 1 or not np.array_equal(self._text[start:end], pieces):
                    continue
                before = _same(left, self._text[max(0, start - FARTHEST) : start][::-1])
                after = _same(right, self._text[end : end + FARTHEST])
                if before + after >= CONTEXT:
                    best[number] = max(best.get(number, 0), before + after)
        if not best:
            return -1, 0
        longest = max(best.values())
        chosen = [number for number, length in best.items() if length == longest]
        return (chosen[0], longest) if len(chosen) == 1 else (-1, 0)

    def _places(self, left: Ids, right: Ids) -> Iterator[tuple[int, bool]]:
        """Positions in the text where an option might begin or end, and which of the two it is."""
        for beside, shift, begins in ((left[:GRAM][::-1], GRAM, True), (right[:GRAM], 0, False)):
            if len(beside) < GRAM or (beside < 0).any():
                continue
            gram = hashed_grams(beside, GRAM)[0]
            first, last = np.searchsorted(self._grams, [gram, gram + np.uint64(1)])
            for place in self._order[first : min(last, first + MOST_PLACES)].tolist():
                yield place + shift, begins


def with_recall(scored_QK: Tensor, recalled: Recalled) -> Tensor:
    """Log-probabilities with recalled options added as evidence.

    Args:
        scored_QK: the model's natural log-probabilities; -inf beyond a question's last option.
        recalled: for the same blanks.
    """
    known_Q = recalled.option_Q >= 0
    gain_QK = torch.zeros_like(scored_QK)
    step_Q = (recalled.context_Q[known_Q] - CONTEXT).clamp(0, len(EVIDENCE) - 1)
    evidence_Q = torch.tensor(EVIDENCE, dtype=gain_QK.dtype)[step_Q]
    gain_QK[known_Q, recalled.option_Q[known_Q]] = evidence_Q
    return (scored_QK + gain_QK).log_softmax(-1)


@dataclass(frozen=True)
class _Window:
    """A stretch of text, its blanks and their options."""

    tokens: Ids
    """Token ids, `_HIDDEN` at blanks."""
    places: list[int]
    options: list[list[Ids]]
    answers: list[int]


def _windows(store: Store) -> Iterator[_Window]:
    columns = {
        name: store.tensors[name].numpy().astype(np.int64)
        for name in ("token", "token_offset", "blank_position", "blank_offset", "answer")
    }
    pieces, edges = (
        store.tensors[name].numpy().astype(np.int64) for name in ("piece", "piece_offset")
    )
    options = np.split(pieces, edges[1:-1])
    owners = store.tensors["option_offset"].tolist()
    for window in range(len(columns["token_offset"]) - 1):
        first, last = columns["token_offset"][window : window + 2]
        begin, end = columns["blank_offset"][window : window + 2].tolist()
        tokens = columns["token"][first:last].copy()
        places = columns["blank_position"][begin:end].tolist()
        # Blanks that another window answers are hidden here too.
        tokens[np.isin(tokens, tokens[places])] = _HIDDEN
        yield _Window(
            tokens=tokens,
            places=places,
            options=[options[owners[q] : owners[q + 1]] for q in range(begin, end)],
            answers=columns["answer"][begin:end].tolist(),
        )


def _filled(window: _Window) -> Ids:
    """The text with the right options in its blanks; blanks without one stay hidden."""
    parts: list[Ids] = []
    start = 0
    for place, options, answer in zip(window.places, window.options, window.answers, strict=True):
        parts.append(window.tokens[start:place])
        parts.append(options[answer] if answer >= 0 else np.array([_HIDDEN]))
        start = place + 1
    return np.concatenate([*parts, window.tokens[start:]])


def _same(one: Ids, other: Ids) -> int:
    """Length of two texts' common prefix in tokens; a hidden token equals nothing."""
    length = min(len(one), len(other), FARTHEST)
    differ = (one[:length] != other[:length]) | (one[:length] < 0)
    return int(differ.argmax()) if differ.any() else length


def _require_cloze(store: Store, flag: str) -> None:
    if store.kind != "cloze":
        raise UsageError(f"{flag} is for cloze papers, not for {store.kind} papers; leave it out")
