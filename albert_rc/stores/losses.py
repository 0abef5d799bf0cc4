"""What a model cannot see of a store's papers: the ends of long passages, and equal options."""

from __future__ import annotations

import torch
from torch import Tensor

from albert_rc.io.messages import counted, shortened
from albert_rc.papers.schema import letter
from albert_rc.stores.store import Store

_SHOWN = 3
"""Number of questions named in a message."""
_ODD = 0x9E3779B97F4A7C15 - 2**64
"""An odd number as the base of a polynomial modulo 2^64 (Steele et al. 2014, SplitMix)."""


def losses(store: Store) -> list[str]:
    """Sentences about what the model cannot see, for the user."""
    said = []
    cut, lost = store.meta.get("num_cut", 0), store.meta.get("tokens_cut", 0)
    if cut:
        longer = "row is" if store.kind == "label" else "question has a passage that is"
        longer_many = "rows are" if store.kind == "label" else "questions have passages that are"
        said.append(
            f"{cut:,} {longer if cut == 1 else longer_many} longer than the window; the last "
            f"{counted(lost, 'token')} are not read"
        )
    found = twins(store)
    if found:
        numbers, owners = store.number_in_passage, store.passage_of_question
        names = [
            f"{shortened(store.meta['ids'][int(owners[q])])} question {int(numbers[q])} "
            f"({letter(one)} and {letter(other)})"
            for q, one, other in found[:_SHOWN]
        ]
        left = len(found) - len(names)
        more = [f"and {left:,} more"] if left else []
        said.append(
            f"{counted(len(found), 'question')} with options that are the same for the model, "
            f"which cannot choose between them: {', '.join([*names, *more])}"
        )
    return said


def twins(store: Store) -> list[tuple[int, int, int]]:
    """Questions with two options of the same pieces.

    Options may differ in what a vocabulary does not keep, such as capitals and accents.

    Returns:
        The question's index, and the first two equal options of each such question.
    """
    if store.kind not in ("cloze", "choice"):
        return []
    pieces, begin_O = store.tensors["piece"], store.tensors["piece_offset"].long()
    option_offset = store.tensors["option_offset"].long()
    sums_O = _fingerprints(pieces, begin_O)
    question_O = torch.arange(len(option_offset) - 1).repeat_interleave(option_offset.diff())
    _, group_O, counts = torch.stack([question_O, sums_O], 1).unique(
        dim=0, return_inverse=True, return_counts=True
    )
    found: dict[int, tuple[int, int, int]] = {}
    first: dict[int, int] = {}
    for option in (counts[group_O] > 1).nonzero()[:, 0].tolist():
        twin, question = first.setdefault(int(group_O[option]), option), int(question_O[option])
        one, other = (pieces[begin_O[o] : begin_O[o + 1]] for o in (twin, option))
        if twin < option and question not in found and torch.equal(one, other):
            start = int(option_offset[question])
            found[question] = (question, twin - start, option - start)
    return list(found.values())


def _fingerprints(pieces: Tensor, begin_O: Tensor) -> Tensor:
    """[O] a number for the pieces of each option; equal pieces have equal numbers."""
    lengths = begin_O.diff()
    place = torch.arange(len(pieces)) - begin_O[:-1].repeat_interleave(lengths)
    powers = torch.full((int(lengths.max()) if len(lengths) else 1,), _ODD).cumprod(0)
    values = (pieces.long() + 1) * powers[place]
    owner = torch.arange(len(lengths)).repeat_interleave(lengths)
    return torch.zeros(len(lengths), dtype=torch.int64).index_add_(0, owner, values)
