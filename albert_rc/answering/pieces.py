"""Rescoring of options of several word pieces, with one [MASK] per piece.

By default a blank is one [MASK], and an option of several pieces gets the mean of their logits
there. That costs nothing extra, but predicts all pieces at one position. Here the window is read
again with a position for each piece: `masks` masks all of them at once, one forward pass for each
option length of the blank; `pll` fills the option in and masks one piece after the other, the
pseudo-log-likelihood of Salazar et al. (2020, section 2), one forward pass for each piece.
"""

# S tokens that are read, Q questions, K options of one, V vocabulary

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from albert_rc.batch import Tokens
from albert_rc.errors import UsageError
from albert_rc.model.encoder import evaluating
from albert_rc.model.heads import ClozeHead, ReadingModel
from albert_rc.runtime.devices import Processes, device_of
from albert_rc.stores.batches import batches_by_length
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

WAYS = ("masks", "pll")
EDGES = 2
"""Number of special tokens of a window: [CLS] and [SEP]."""


@dataclass(frozen=True)
class WiderWindow:
    """A window with a widened blank, and the pieces to score there."""

    tokens: list[int]
    places: list[int]
    """Positions of the [MASK] tokens that are read."""
    wanted: list[tuple[int, int, list[int]]]
    """Question, option, and the option's piece at each of `places`."""


def readings(
    model: ReadingModel, tokenizer: Tokenizer, store: Store, way: str
) -> list[WiderWindow]:
    """The windows to read again: those of blanks with an option of several pieces.

    A blank is left out if one of its options fits no window: its options could not be compared
    with each other; see `too_long`.

    Raises:
        UsageError: unknown method, or another kind of questions.
    """
    require_way(model, store, way)
    return list(_readings(store, tokenizer, way, model.config.max_length))


def too_long(store: Store, longest: int) -> list[str]:
    """Messages for the blanks with an option that fits no window, which are not read again.

    Args:
        store: cloze papers.
        longest: length of the model's window in tokens.
    """
    tensors = store.tensors
    length_O = tensors["piece_offset"].diff()
    found, number, last = [], 0, -1
    edges = tensors["option_offset"].tolist()
    for question, passage in enumerate(store.passage_of_question.tolist()):
        number, last = (number + 1 if passage == last else 1), passage
        pieces = int(length_O[edges[question] : edges[question + 1]].max())
        if pieces + EDGES > longest:
            paper = store.meta["ids"][passage]
            found.append(f"{paper}, blank {number}: an option of {pieces:,} pieces")
    return found


def rescored(
    model: ReadingModel,
    again: Sequence[WiderWindow],
    scored_QK: Tensor,
    processes: Processes,
    *,
    token_budget: int,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Scores after rereading the questions that have an option of several pieces.

    An option's score is the mean log-probability of its pieces over the vocabulary; the other
    questions keep their scores.

    Args:
        model: a cloze model on the processes' device.
        again: result of `readings` for the store being answered.
        scored_QK: result of `score` for the same store.
        processes: the ranks that share the work.
        token_budget: tokens of a batch.
        progress: called with the number of windows read, batch by batch.

    Returns:
        [Q, K] log-probabilities of the options, the same on every rank.
    """
    total_QK = torch.zeros(scored_QK.shape, dtype=torch.float64)
    pieces_QK = torch.zeros(scored_QK.shape, dtype=torch.float64)
    lengths = torch.tensor([len(reading.tokens) for reading in again], dtype=torch.int64)
    batches = list(batches_by_length(lengths, token_budget, 64)) if again else []
    with evaluating(model, model.encoder):
        tasks = ([again[i] for i in items] for items in processes.share(batches))
        for some, sums in processes.each(_sums, model, tasks):
            wanted = [target for reading in some for target in reading.wanted]
            for (question, option, pieces), total in zip(wanted, sums, strict=True):
                total_QK[question, option] += total
                pieces_QK[question, option] += len(pieces)
            if progress is not None:
                progress(len(some))
    on_device = [total_QK.to(processes.device), pieces_QK.to(processes.device)]
    processes.sum(*on_device)
    total_QK, pieces_QK = (tensor.cpu() for tensor in on_device)
    again_Q = (pieces_QK > 0).any(-1)
    mean_QK = torch.where(pieces_QK > 0, total_QK / pieces_QK, float("-inf"))
    result = scored_QK.clone()
    result[again_Q] = mean_QK[again_Q].log_softmax(-1).to(result.dtype)
    return result


def require_way(model: ReadingModel, store: Store, way: str) -> None:
    """Refuse a store that this method cannot rescore.

    Raises:
        UsageError: unknown method, or another kind of questions.
    """
    if way not in WAYS:
        raise UsageError(f"--option-score {way}: choose from {', '.join(WAYS)}")
    if store.kind != "cloze" or not isinstance(model.head, ClozeHead):
        raise UsageError(f"--option-score {way} is for cloze papers")


def _sums(model: ReadingModel, windows: list[WiderWindow]) -> list[float]:
    """Sums of the log-probabilities of the pieces wanted of some windows, in their order."""
    head = model.head
    assert isinstance(head, ClozeHead)
    hidden_SD = model.hidden(_tokens(windows).to(device_of(model)))
    logits_SV = head.transform(hidden_SD).float() @ model.words.float().T + head.bias
    log_SV = logits_SV.log_softmax(-1).cpu()
    row, sums = 0, []
    for window in windows:
        for _, _, pieces in window.wanted:
            places = torch.arange(row, row + len(pieces))
            sums.append(float(log_SV[places, torch.tensor(pieces)].double().sum()))
        row += len(window.places)
    return sums


def _tokens(readings: list[WiderWindow]) -> Tokens:
    """Concatenate windows into the encoder's input."""
    lengths = tuple(len(reading.tokens) for reading in readings)
    first = 0
    read: list[int] = []
    for reading in readings:
        read += [first + place for place in reading.places]
        first += len(reading.tokens)
    return Tokens(
        token_T=torch.tensor([token for reading in readings for token in reading.tokens]),
        place_T=torch.cat([torch.arange(length) for length in lengths]),
        lengths=lengths,
        read_S=torch.tensor(read),
        reads=tuple(len(reading.places) for reading in readings),
    )


def _readings(store: Store, tokenizer: Tokenizer, way: str, longest: int) -> Iterator[WiderWindow]:
    tensors = store.tensors
    token, edge = tensors["token"].tolist(), tensors["token_offset"].tolist()
    blank, blank_edge = tensors["blank_position"].tolist(), tensors["blank_offset"].tolist()
    piece, piece_edge = tensors["piece"].tolist(), tensors["piece_offset"].tolist()
    option_edge = tensors["option_offset"].tolist()
    for window in range(len(edge) - 1):
        text = token[edge[window] : edge[window + 1]]
        for question in range(blank_edge[window], blank_edge[window + 1]):
            options = [
                piece[piece_edge[option] : piece_edge[option + 1]]
                for option in range(option_edge[question], option_edge[question + 1])
            ]
            if 1 < max(map(len, options)) <= longest - EDGES:
                yield from _of_blank(
                    text, blank[question], question, options, tokenizer.mask_id, way, longest
                )


def _of_blank(
    text: list[int],
    place: int,
    question: int,
    options: list[list[int]],
    mask: int,
    way: str,
    longest: int,
) -> Iterator[WiderWindow]:
    """The windows to read for a blank with options of several pieces."""
    if way == "masks":
        for length in sorted(set(map(len, options))):
            tokens, first = _widened(text, place, [mask] * length, longest)
            wanted = [
                (question, number, option)
                for number, option in enumerate(options)
                if len(option) == length
            ]
            yield WiderWindow(tokens, list(range(first, first + length)), wanted)
        return
    for number, option in enumerate(options):
        for hidden, target in enumerate(option):
            filled = [*option[:hidden], mask, *option[hidden + 1 :]]
            tokens, first = _widened(text, place, filled, longest)
            yield WiderWindow(tokens, [first + hidden], [(question, number, [target])])


def _widened(
    text: list[int], place: int, filling: list[int], longest: int
) -> tuple[list[int], int]:
    """A window with tokens in place of a blank, and the position where they begin.

    If it becomes too long, it is truncated at the end farther from the blank, inside [CLS] and
    [SEP], and at the other end where that is not enough.
    """
    before, after = text[:place], text[place + 1 :]
    over = max(0, len(before) + len(filling) + len(after) - longest)
    start = min(over, len(before) - 1) if len(before) > len(after) else 0
    end = min(over - start, len(after) - 1)
    start = max(start, over - end)
    before, after = [before[0], *before[1 + start :]], [*after[: len(after) - 1 - end], after[-1]]
    return [*before, *filling, *after], len(before)
