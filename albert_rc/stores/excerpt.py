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
    asked_W = np.fromiter(times, np.int64, len(times))
    before_TW = np.zeros((len(text_T) + 1, len(asked_W)), np.int32)
    np.cumsum(text_T[:, None] == asked_W, axis=0, out=before_TW[1:])
    weight_W = np.fromiter(times.values(), np.float64, len(times))
    weight_W *= np.log(len(text_T) / before_TW[-1].clip(min=1))
    ended_X = np.flatnonzero(np.isin(text_T[:last], tokenizer.sentence_ends))
    start_S = np.unique(np.concatenate([[0], ended_X + 1, [last]]))
    present_SW = before_TW[start_S + length] > before_TW[start_S]
    # Rounded, so that the order of summation does not choose among equally good ones.
    score_S = np.where(present_SW, weight_W, 0.0).sum(1).round(6)
    return int(start_S[score_S.argmax()])
