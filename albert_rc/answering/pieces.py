"""Rescoring of options of several words, with one [MASK] per piece.

By default a blank is one [MASK], and an option of several pieces gets the mean of their logits
there. For single words that is better, since models are trained that way. But the words of a phrase
are all predicted at one position. Here the blanks that have such options are read again with a
position for each piece, once for each length of their options, together with the text around them;
the two readings are averaged. docs/recipes.md gives the gain.
"""

# S tokens that are read, P pieces of options, Q questions, K options of one, V vocabulary

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from albert_rc.answering.score import ITEMS_BUDGET, mean_of_readings
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
AROUND = 64
"""Tokens around a blank that is read again, with the special ones: a blank is decided by what is
near it, and this window takes a third of the time of a whole one."""
READ_PIECES = 4096
"""Number of pieces of options whose logits are computed together."""


@dataclass(frozen=True)
class WiderBlank:
    """A blank with several [MASK] tokens, and the options that have as many pieces."""

    question: int
    tokens: list[int]
    """The blank with the text around it, and the special tokens."""
    first: int
    """Position of the first [MASK]; the others follow."""
    options: dict[int, list[int]]
    """The pieces of these options, by the option's number."""

    @property
    def width(self) -> int:
        """Number of [MASK] tokens."""
        return len(next(iter(self.options.values())))


def readings(
    store: Store, tokenizer: Tokenizer, longest: int, around: int = AROUND
) -> list[WiderBlank]:
    """The blanks to read again, those with an option of several words, in the store's order.

    A blank is left out if one of its options fits no window of `longest` tokens: its options could
    not be compared with each other; see `too_long`.

    Args:
        store: cloze papers.
        tokenizer: the tokenizer that it was made with.
        longest: tokens of the model's window.
        around: tokens of the text around a blank, with the special ones.
    """
    tensors = store.tensors
    token, edge = tensors["token"].tolist(), tensors["token_offset"].tolist()
    blank, blank_edge = tensors["blank_position"].tolist(), tensors["blank_offset"].tolist()
    piece, piece_edge = tensors["piece"].tolist(), tensors["piece_offset"].tolist()
    option_edge = tensors["option_offset"].tolist()
    begins = _begins_spoken_word(tokenizer)
    found: list[WiderBlank] = []
    for window in range(len(edge) - 1):
        text = token[edge[window] : edge[window + 1]]
        for question in range(blank_edge[window], blank_edge[window + 1]):
            options = [
                piece[piece_edge[option] : piece_edge[option + 1]]
                for option in range(option_edge[question], option_edge[question + 1])
            ]
            several = any(sum(begins[index] for index in option) > 1 for option in options)
            if not several or max(map(len, options)) > longest - EDGES:
                continue
            for width in sorted(set(map(len, options))):
                filling, most = [tokenizer.mask_id] * width, min(longest, around + width)
                tokens, first = _around(text, blank[question], filling, most)
                same = {n: option for n, option in enumerate(options) if len(option) == width}
                found.append(WiderBlank(question, tokens, first, same))
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
    again: Sequence[WiderBlank],
    scored_QK: Tensor,
    processes: Processes,
    *,
    token_budget: int,
    progress: Callable[[int], None] | None = None,
) -> Tensor:
    """Scores after rereading the questions that have an option of several words.

    In the second reading an option's score is the mean log-probability of its pieces over the
    vocabulary, normalised over the options. The log-probabilities of the two readings are averaged;
    the other questions keep their scores.

    Args:
        model: a cloze model on the processes' device.
        again: result of `readings` for the store being answered.
        scored_QK: result of `score` for the same store.
        processes: the ranks that share the work.
        token_budget: tokens of a batch.
        progress: called with the number of blanks read, batch by batch.

    Returns:
        [Q, K] log-probabilities of the options, the same on every rank.
    """
    second_QK = torch.zeros(scored_QK.shape, dtype=torch.float64)
    lengths = torch.tensor([len(reading.tokens) for reading in again], dtype=torch.int64)
    batches = list(batches_by_length(lengths, token_budget, ITEMS_BUDGET)) if again else []
    with evaluating(model, model.encoder):
        tasks = ([again[i] for i in items] for items in processes.share(batches))
        for some, means in processes.each(_means, model, tasks):
            places = [(reading.question, option) for reading in some for option in reading.options]
            for (question, option), mean in zip(places, means, strict=True):
                second_QK[question, option] = mean
            if progress is not None:
                progress(len(some))
    (second_QK,) = processes.summed(second_QK)
    again_Q = torch.tensor(sorted({reading.question for reading in again}), dtype=torch.int64)
    # Questions with fewer than K options have -inf there, which the second reading lacks.
    second_QK = second_QK.masked_fill(scored_QK.isinf(), float("-inf"))
    return mean_of_readings(scored_QK, second_QK[again_Q].log_softmax(-1), again_Q)


def _means(model: ReadingModel, readings: list[WiderBlank]) -> list[float]:
    """The mean log-probability of the pieces of each option of some blanks, in order."""
    head = model.head
    assert isinstance(head, ClozeHead)
    hidden_SD = model.hidden(_tokens(readings).to(device_of(model)))
    vector_SE = head.transform(hidden_SD).float()
    word_VE, offset_V = model.words.float(), head.bias
    rows: list[int] = []
    pieces: list[int] = []
    sizes: list[int] = []
    first = 0
    for reading in readings:
        for option in reading.options.values():
            rows += range(first, first + reading.width)
            pieces += option
            sizes.append(reading.width)
        first += reading.width
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
    return [float(part.mean()) for part in log_P.split(sizes)]


def _tokens(readings: list[WiderBlank]) -> Tokens:
    """Concatenate the blanks' texts into the encoder's input."""
    lengths = tuple(len(reading.tokens) for reading in readings)
    start = 0
    read: list[int] = []
    for reading in readings:
        place = start + reading.first
        read += range(place, place + reading.width)
        start += len(reading.tokens)
    return Tokens(
        token_T=torch.tensor([token for reading in readings for token in reading.tokens]),
        place_T=torch.cat([torch.arange(length) for length in lengths]),
        lengths=lengths,
        read_S=torch.tensor(read),
        reads=tuple(reading.width for reading in readings),
    )


def _begins_spoken_word(tokenizer: Tokenizer) -> list[bool]:
    """Whether each piece of the vocabulary begins a word that is not punctuation."""
    pieces = tokenizer.pieces(range(tokenizer.size))
    begins: list[bool] = begins_word(tokenizer).tolist()
    return [
        first and any(char.isalnum() for char in piece)
        for first, piece in zip(begins, pieces, strict=True)
    ]


def _around(text: list[int], place: int, filling: list[int], most: int) -> tuple[list[int], int]:
    """The text around a blank, with tokens in its place, and the position where they begin.

    Of a longer text, about as much is kept before the blank as after it, up to `most` tokens in
    all, inside [CLS] and [SEP].
    """
    before, after = text[1:place], text[place + 1 : -1]
    room = most - EDGES - len(filling)
    left = min(len(before), max(room // 2, room - len(after)))
    before, after = before[len(before) - left :], after[: room - left]
    return [text[0], *before, *filling, *after, text[-1]], 1 + left
