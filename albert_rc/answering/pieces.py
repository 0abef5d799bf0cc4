"""Rescoring of options of several words, with one [MASK] per piece.

By default a blank is one [MASK], and an option of several pieces gets the mean of their logits
there. That costs nothing extra, and for single words it is better, since models are trained that
way. But the words of a phrase are all predicted at one position. Here the windows with such blanks
are read again with a position for each piece: once for each length that the options of a blank
have, all blanks of a window together. docs/recipes.md gives the gain.
"""

# S tokens that are read, Q questions, K options of one, V vocabulary

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from albert_rc.answering.score import ITEMS_BUDGET
from albert_rc.batch import Tokens
from albert_rc.model.encoder import evaluating
from albert_rc.model.heads import ClozeHead, ReadingModel
from albert_rc.model.word_loss import block_rows
from albert_rc.runtime.devices import Processes, device_of
from albert_rc.stores.batches import batches_by_length
from albert_rc.stores.masking import begins_word
from albert_rc.stores.store import Store
from albert_rc.text.tokenizer import Tokenizer

EDGES = 2
"""Number of special tokens of a window: [CLS] and [SEP]."""
READ_PIECES = 4096
"""Number of pieces of options whose logits are computed together."""


@dataclass(frozen=True)
class Wanted:
    """An option whose pieces are read in a window."""

    question: int
    option: int
    pieces: list[int]
    first: int
    """Index in the window's `places` of its first piece; the others follow."""


@dataclass(frozen=True)
class WiderWindow:
    """A window with widened blanks, and the options to score there."""

    tokens: list[int]
    places: list[int]
    """Positions of the [MASK] tokens that are read, in order."""
    wanted: list[Wanted]


@dataclass(frozen=True, eq=False)  # hashed by identity
class _Blank:
    """A blank to be read again: its question, its position in the window, its options' pieces."""

    question: int
    place: int
    options: list[list[int]]

    @property
    def lengths(self) -> list[int]:
        """The options' numbers of pieces, each once."""
        return sorted(set(map(len, self.options)))


def readings(store: Store, tokenizer: Tokenizer, longest: int) -> list[WiderWindow]:
    """The windows to read again, of at most `longest` tokens, for options of several words.

    A blank is left out if one of its options fits no window: its options could not be compared
    with each other; see `too_long`.
    """
    tensors = store.tensors
    token, edge = tensors["token"].tolist(), tensors["token_offset"].tolist()
    blank, blank_edge = tensors["blank_position"].tolist(), tensors["blank_offset"].tolist()
    piece, piece_edge = tensors["piece"].tolist(), tensors["piece_offset"].tolist()
    option_edge = tensors["option_offset"].tolist()
    begins = _begins_spoken_word(tokenizer)
    found: list[WiderWindow] = []
    for window in range(len(edge) - 1):
        text = token[edge[window] : edge[window + 1]]
        again = []
        for question in range(blank_edge[window], blank_edge[window + 1]):
            options = [
                piece[piece_edge[option] : piece_edge[option + 1]]
                for option in range(option_edge[question], option_edge[question + 1])
            ]
            several = any(sum(begins[index] for index in option) > 1 for option in options)
            if several and max(map(len, options)) <= longest - EDGES:
                again.append(_Blank(question, blank[question], options))
        found += _of_window(text, again, tokenizer.mask_id, longest)
    return found


def too_long(store: Store, longest: int) -> list[str]:
    """Messages for blanks that are not read again: an option fits no window of `longest` tokens."""
    tensors = store.tensors
    length_O = tensors["piece_offset"].diff()
    found = []
    edges, number_Q = tensors["option_offset"].tolist(), store.number_in_passage
    for question, passage in enumerate(store.passage_of_question.tolist()):
        pieces = int(length_O[edges[question] : edges[question + 1]].max())
        if pieces + EDGES > longest:
            paper = store.meta["ids"][passage]
            found.append(f"{paper}, blank {number_Q[question]}: an option of {pieces:,} pieces")
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
    """Scores after rereading the questions that have an option of several words.

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
    batches = list(batches_by_length(lengths, token_budget, ITEMS_BUDGET)) if again else []
    with evaluating(model, model.encoder):
        tasks = ([again[i] for i in items] for items in processes.share(batches))
        for some, sums in processes.each(_sums, model, tasks):
            wanted = [target for reading in some for target in reading.wanted]
            for target, total in zip(wanted, sums, strict=True):
                total_QK[target.question, target.option] += total
                pieces_QK[target.question, target.option] += len(target.pieces)
            if progress is not None:
                progress(len(some))
    total_QK, pieces_QK = processes.summed(total_QK, pieces_QK)
    again_Q = (pieces_QK > 0).any(-1)
    mean_QK = torch.where(pieces_QK > 0, total_QK / pieces_QK, float("-inf"))
    result = scored_QK.clone()
    result[again_Q] = mean_QK[again_Q].log_softmax(-1).to(result.dtype)
    return result


def _sums(model: ReadingModel, windows: list[WiderWindow]) -> list[float]:
    """Sums of the log-probabilities of the pieces scored in some windows, in order."""
    head = model.head
    assert isinstance(head, ClozeHead)
    hidden_SD = model.hidden(_tokens(windows).to(device_of(model)))
    vector_SE = head.transform(hidden_SD).float()
    word_VE, offset_V = model.words.float(), head.bias
    rows: list[int] = []
    pieces: list[int] = []
    sizes: list[int] = []
    first = 0
    for window in windows:
        for target in window.wanted:
            rows += range(first + target.first, first + target.first + len(target.pieces))
            pieces += target.pieces
            sizes.append(len(target.pieces))
        first += len(window.places)
    row_P = torch.tensor(rows, device=vector_SE.device)
    piece_P = torch.tensor(pieces, device=vector_SE.device)
    # Logits of all pieces of the vocabulary are needed only for their sum, so a block at a time.
    step = block_rows(len(word_VE), vector_SE.device.type)
    total_S = torch.cat(
        [(part @ word_VE.T + offset_V).logsumexp(-1) for part in vector_SE.split(step)]
    )
    logit_P = torch.cat(
        [
            (vector_SE[row] * word_VE[piece]).sum(-1) + offset_V[piece]
            for row, piece in zip(row_P.split(READ_PIECES), piece_P.split(READ_PIECES), strict=True)
        ]
    )
    log_P = (logit_P - total_S[row_P]).cpu().double()
    return [float(part.sum()) for part in log_P.split(sizes)]


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


def _begins_spoken_word(tokenizer: Tokenizer) -> list[bool]:
    """Whether each piece of the vocabulary begins a word that is not punctuation."""
    pieces = tokenizer.pieces(range(tokenizer.size))
    begins: list[bool] = begins_word(tokenizer).tolist()
    return [
        first and any(char.isalnum() for char in piece)
        for first, piece in zip(begins, pieces, strict=True)
    ]


def _of_window(
    text: list[int], blanks: list[_Blank], mask: int, longest: int
) -> Iterator[WiderWindow]:
    """The windows to read for a window's blanks, which are widened together if they fit.

    The first has each blank as wide as the shortest of its options, the next as wide as the next
    longer one, and so on; a blank with fewer lengths stays one [MASK] from then on.
    """
    for turn in range(max((len(blank.lengths) for blank in blanks), default=0)):
        widths = {blank: blank.lengths[turn] for blank in blanks if turn < len(blank.lengths)}
        if len(text) + sum(widths.values()) - len(widths) <= longest:
            yield _wider(text, widths, mask)
            continue
        for blank, width in widths.items():
            tokens, first = _widened(text, blank.place, [mask] * width, longest)
            yield WiderWindow(tokens, list(range(first, first + width)), _at(blank, width, 0))


def _wider(text: list[int], widths: dict[_Blank, int], mask: int) -> WiderWindow:
    """A window whose blanks have these widths."""
    tokens: list[int] = []
    places: list[int] = []
    wanted: list[Wanted] = []
    last = 0
    for blank, width in sorted(widths.items(), key=lambda item: item[0].place):
        tokens += text[last : blank.place]
        wanted += _at(blank, width, len(places))
        places += range(len(tokens), len(tokens) + width)
        tokens += [mask] * width
        last = blank.place + 1
    return WiderWindow([*tokens, *text[last:]], places, wanted)


def _at(blank: _Blank, width: int, first: int) -> list[Wanted]:
    """The options of this width, read at the window's places from this index on."""
    return [
        Wanted(blank.question, number, option, first)
        for number, option in enumerate(blank.options)
        if len(option) == width
    ]


def _widened(
    text: list[int], place: int, filling: list[int], longest: int
) -> tuple[list[int], int]:
    """A window with tokens in place of a blank, and the position where they begin.

    If it becomes too long, it is truncated at the end farther from the blank, inside [CLS] and
    [SEP], and at the other end if that is not enough.
    """
    before, after = text[:place], text[place + 1 :]
    over = max(0, len(before) + len(filling) + len(after) - longest)
    start = min(over, len(before) - 1) if len(before) > len(after) else 0
    end = min(over - start, len(after) - 1)
    start = max(start, over - end)
    before, after = [before[0], *before[1 + start :]], [*after[: len(after) - 1 - end], after[-1]]
    return [*before, *filling, *after], len(before)
