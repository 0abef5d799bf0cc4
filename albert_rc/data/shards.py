"""Stores: encoded papers as flat integer tensors and offsets, in one .pt file each.

A store of cloze papers holds windows, blanks and options; one of multiple choice holds passages,
questions and, per option, the tail `question option`. Item i of a store is what a batch is made
of: a window, or a question with all its options.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc import __version__
from albert_rc.data.encode import encode_choice, encode_cloze
from albert_rc.data.schema import Kind, PaperSet, question_keys
from albert_rc.errors import DataError
from albert_rc.files import load_tensors, save_tensors
from albert_rc.tokenizer import Tokenizer


def _offsets(lengths: Iterable[int]) -> Tensor:
    counts = torch.tensor([0, *lengths], dtype=torch.int64)
    return counts.cumsum(0).to(torch.int32)


def _ids(values: Iterable[int], vocab_size: int) -> Tensor:
    dtype = torch.int16 if vocab_size <= 2**15 else torch.int32
    return torch.tensor(list(values), dtype=dtype)


@dataclass
class Store:
    """The tensors of one split, with what they were made of.

    `tensors` of a cloze store (S windows, Q blanks, O options):
        token, token_offset [S + 1], window_passage [S], blank_position [Q], blank_offset [S + 1],
        piece, piece_offset [O + 1], option_offset [Q + 1], answer [Q].
    Of a choice store (N passages, Q questions, O options):
        token, token_offset [N + 1], question_passage [Q], kept [Q], piece (the tails),
        piece_offset [O + 1], option_offset [Q + 1], answer [Q].
    """

    tensors: dict[str, Tensor]
    meta: dict[str, Any]

    @property
    def kind(self) -> Kind:
        """`cloze` or `choice`."""
        kind: Kind = self.meta["kind"]
        return kind

    @property
    def num_items(self) -> int:
        """Windows, or questions."""
        return self.lengths.shape[0]

    @property
    def num_questions(self) -> int:
        """Blanks, or questions."""
        return self.tensors["answer"].shape[0]

    @property
    def num_options(self) -> Tensor:
        """[Q] options of each question."""
        return self.tensors["option_offset"].diff()

    @property
    def lengths(self) -> Tensor:
        """Tokens of each item's (longest) sequence, special tokens included."""
        tensors = self.tensors
        if self.kind == "cloze":
            width: Tensor = tensors["token_offset"].diff()
            return width
        tail = torch.segment_reduce(
            tensors["piece_offset"].diff().float(),
            "max",
            offsets=tensors["option_offset"].long(),
        )
        total: Tensor = tensors["kept"] + tail.int() + self.meta["num_specials"]
        return total

    @property
    def passage_of_question(self) -> Tensor:
        """[Q] index of each question's passage in `meta["ids"]`."""
        if self.kind == "choice":
            return self.tensors["question_passage"]
        counts = self.tensors["blank_offset"].diff().long()
        return self.tensors["window_passage"].repeat_interleave(counts)

    @property
    def has_answers(self) -> bool:
        """Whether any answer is known."""
        return bool((self.tensors["answer"] >= 0).any())

    def save(self, path: Path) -> None:
        """Write to `path`; wrap it in `atomic_path` or `write_together`."""
        save_tensors(path, self.tensors, self.meta)

    def summary(self) -> str:
        """What is inside, and what was cut, as a line."""
        meta = self.meta
        things = "blanks" if self.kind == "cloze" else "questions"
        line = f"{len(meta['ids']):,} papers, {self.num_questions:,} {things}"
        if self.kind == "cloze":
            return f"{line}, {self.num_items:,} windows ({meta['num_long']} papers need several)"
        share = meta["tokens_cut"] / max(1, meta["tokens_before"])
        return (
            f"{line}; {meta['num_cut']:,} questions see a cut passage "
            f"({meta['tokens_cut']:,} tokens, {share:.2%})"
        )


def _pieces(options: Sequence[Sequence[Sequence[int]]], vocab_size: int) -> dict[str, Tensor]:
    flat = [pieces for question in options for pieces in question]
    return {
        "piece": _ids(chain.from_iterable(flat), vocab_size),
        "piece_offset": _offsets(map(len, flat)),
        "option_offset": _offsets(map(len, options)),
    }


def make_store(papers: PaperSet, tokenizer: Tokenizer, max_length: int) -> Store:
    """Encode a split.

    Args:
        papers: checked papers.
        tokenizer: the vocabulary of the model that will read the store.
        max_length: window in tokens, special tokens included.

    Raises:
        DataError: a multiple-choice question that is longer than the window by itself.
    """
    meta: dict[str, Any] = {
        "kind": papers.kind,
        "split": papers.name,
        "source_format": papers.format,
        "source_hash": papers.source_hash,
        "vocabulary": tokenizer.fingerprint,
        "vocab_size": tokenizer.size,
        "max_length": max_length,
        "made_with": f"albert-rc {__version__}",
        "ids": [passage.id for passage in papers.passages],
        "levels": [passage.level for passage in papers.passages],
    }
    size = tokenizer.size
    if papers.kind == "cloze":
        cloze = encode_cloze(papers.passages, tokenizer, max_length)
        meta["num_long"] = cloze.num_long
        tensors = {
            "token": _ids(chain.from_iterable(cloze.window_tokens), size),
            "token_offset": _offsets(map(len, cloze.window_tokens)),
            "window_passage": torch.tensor(cloze.window_passage, dtype=torch.int32),
            "blank_position": torch.tensor(
                list(chain.from_iterable(cloze.window_blanks)), dtype=torch.int32
            ),
            "blank_offset": _offsets(map(len, cloze.window_blanks)),
            "answer": torch.tensor(cloze.answers, dtype=torch.int16),
            **_pieces(cloze.option_pieces, size),
        }
        return Store(tensors, meta)
    choice = encode_choice(papers.passages, tokenizer, max_length)
    meta["num_specials"] = 2 + tokenizer.separators_in_pair
    meta["num_cut"] = choice.num_cut
    meta["tokens_cut"] = choice.tokens_cut
    meta["tokens_before"] = choice.tokens_cut + sum(choice.question_kept)
    meta["question_keys"] = [key for p in papers.passages for key in question_keys(p)]
    tensors = {
        "token": _ids(chain.from_iterable(choice.passage_tokens), size),
        "token_offset": _offsets(map(len, choice.passage_tokens)),
        "question_passage": torch.tensor(choice.question_passage, dtype=torch.int32),
        "kept": torch.tensor(choice.question_kept, dtype=torch.int32),
        "answer": torch.tensor(choice.answers, dtype=torch.int16),
        **_pieces(choice.tails, size),
    }
    return Store(tensors, meta)


def load_store(path: Path) -> Store:
    """Open a store, memory-mapped.

    Raises:
        DataError: missing, torn, or not a store.
    """
    tensors, meta = load_tensors(path)
    expected = {"token", "token_offset", "piece", "piece_offset", "option_offset", "answer"}
    if not expected <= tensors.keys() or "kind" not in meta:
        raise DataError(f"{path}: parts are missing; make it again with `albert-rc preprocess`")
    return Store(tensors, meta)


def check_store(store: Store, path: Path, tokenizer: Tokenizer, max_length: int) -> None:
    """Refuse a store that another vocabulary or a longer window than the model's was used for.

    Args:
        store: an opened store.
        path: its place, for the message.
        tokenizer: the model's vocabulary.
        max_length: the longest sequence that the model takes.

    Raises:
        DataError: says how to remake the store.
    """
    remake = f"make it again: albert-rc preprocess RAW --model {tokenizer.folder}"
    if store.meta["vocabulary"] != tokenizer.fingerprint:
        raise DataError(f"{path}: made with another vocabulary than the model's; {remake}")
    if store.meta["max_length"] > max_length:
        raise DataError(
            f"{path}: made for windows of {store.meta['max_length']} tokens, but the model takes "
            f"{max_length}; {remake} --max-length {max_length}"
        )
