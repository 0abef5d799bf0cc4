"""The part of a passage that is read with a question: the one that shares most with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert_rc.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np


def excerpt_start(
    passage: Sequence[int] | np.ndarray,
    tails: Sequence[Sequence[int]],
    length: int,
    tokenizer: Tokenizer,
) -> int:
    """Where the excerpt of a passage begins that shares most with a question.

    An excerpt begins at a sentence, or `length` tokens before the passage's end. It is the one
    whose different tokens have the largest sum of log(T / times in the passage), as in tf-idf,
    times the number of options that they occur with: a token of the question counts for every
    option. The first of equally good ones is chosen.

    Args:
        passage: its T tokens.
        tails: the tokens of `question option`, per option.
        length: number of tokens of the excerpt.
        tokenizer: the tokenizer that made them.
    """
    last = len(passage) - length
    if last <= 0:
        return 0
    import numpy as np

    text_T = np.asarray(passage)
    times = Counter(token for tail in tails for token in set(tail))
    place_P = np.flatnonzero(np.isin(text_T, list(times)))
    place_P = place_P[text_T[place_P].argsort(kind="stable")]  # each token's places together
    token_W, first_W, count_W = np.unique(text_T[place_P], return_index=True, return_counts=True)
    asked_W = np.array([times[token] for token in token_W.tolist()])
    weight_P = np.repeat(asked_W * np.log(len(text_T) / count_W), count_W)
    # A token counts once in an excerpt: its place P in those that begin after the place before.
    begin_P = np.concatenate([[-1], place_P])[:-1] + 1
    begin_P[first_W] = 0
    begin_P = np.maximum(begin_P, place_P - length + 1)
    change_T = np.zeros(len(text_T) + 1)
    np.add.at(change_T, begin_P, weight_P)
    np.subtract.at(change_T, place_P + 1, weight_P)
    ended_X = np.flatnonzero(np.isin(text_T[:last], tokenizer.sentence_ends))
    start_S = np.unique(np.concatenate([[0], ended_X + 1, [last]]))
    # Rounded, so that the order of summation does not choose among equally good ones.
    score_S = change_T.cumsum()[start_S].round(6)
    return int(start_S[score_S.argmax()])
