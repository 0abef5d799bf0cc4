"""Stores: encoded papers as flat integer tensors and offsets, in one .pt file each.

A store of cloze papers holds windows, blanks and options; one of multiple choice holds passages,
questions and, per option, the tail `question option`. Batches consist of a store's items: item
i is a window, or a question with all its options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from albert_rc.errors import DataError
from albert_rc.io.files import sha256
from albert_rc.io.pt import TensorStream, load_tensors, save_tensors
from albert_rc.papers.schema import Kind, PaperSet
from albert_rc.stores.check import what_is_wrong
from albert_rc.stores.encode import UnfitError
from albert_rc.stores.pack import COLUMNS, pack
from albert_rc.stores.writer import Columns, StoreMeta, store_meta, store_summary
from albert_rc.text.tokenizer import Tokenizer

_LARGE = 2**26  # bytes; larger stores stay on disk and are memory-mapped
_PASSAGES = 500  # encoded at a time: intermediate lists of ids take 20 times the tensors' memory


@dataclass
class Store:
    """The tensors of one split, with metadata about their source.

    `tensors` of a cloze store (S windows, Q blanks, O options):
        token, token_offset [S + 1], window_passage [S], blank_position [Q], blank_offset [S + 1],
        piece, piece_offset [O + 1], option_offset [Q + 1], answer [Q].
    Of a choice store (N passages, Q questions, O options):
        token, token_offset [N + 1], question_passage [Q], start, kept [Q] (of the passage),
        piece (the tails), piece_offset [O + 1], option_offset [Q + 1], answer [Q].
    Of a label store (Q rows of a table):
        token, token_offset [Q + 1], second [Q], answer [Q].
    Of a span store (N passages of T tokens, Q questions, W windows, G right answers):
        token, begin, end [T], token_offset [N + 1], text (UTF-8), text_offset [N + 1],
        question_passage [Q], key (UTF-8), key_offset [Q + 1], piece, piece_offset [Q + 1],
        window_start, window_length [W], window_offset [Q + 1], gold_begin, gold_end [G],
        gold_offset [Q + 1], first, last, answer [Q].
    """

    tensors: dict[str, Tensor]
    meta: StoreMeta

    @property
    def kind(self) -> Kind:
        """`cloze`, `choice`, `label` or `span`."""
        return self.meta["kind"]

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
        """[Q] number of options of each question; 1 for regression."""
        if self.kind == "label":
            return torch.full((self.num_questions,), max(1, len(self.labels)))
        return self.tensors["option_offset"].diff()

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes of a label task; empty for regression."""
        return tuple(self.meta.get("labels", ()))

    @property
    def is_numeric(self) -> bool:
        """Whether the task is regression."""
        return self.kind == "label" and not self.labels

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the task's metrics."""
        return tuple(self.meta.get("metrics", ("accuracy",)))

    @property
    def score_name(self) -> str:
        """Name of the score that selects the best weights: the mean of the metrics, or F1."""
        if self.kind == "span":
            return "F1"
        if len(self.metrics) == 1:
            return self.metrics[0]
        return f"mean of {' and '.join(self.metrics)}"

    @property
    def lengths(self) -> Tensor:
        """Tokens of each item's (longest) sequence, special tokens included."""
        tensors = self.tensors
        if self.kind == "span":
            asked_W = tensors["piece_offset"].diff()[self.question_of_window]
            whole: Tensor = tensors["window_length"] + asked_W + self.meta["num_specials"]
            return whole
        if self.kind != "choice":
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
    def tokens(self) -> Tensor:
        """Tokens of each item, summed over its sequences; an upper bound."""
        return self.lengths * self.num_options if self.kind == "choice" else self.lengths

    @property
    def passage_of_question(self) -> Tensor:
        """[Q] index of each question's passage in `meta["ids"]`."""
        if self.kind in ("choice", "span"):
            return self.tensors["question_passage"]
        if self.kind == "label":
            return torch.arange(self.num_questions)
        counts = self.tensors["blank_offset"].diff().long()
        return self.tensors["window_passage"].repeat_interleave(counts)

    @property
    def number_in_passage(self) -> Tensor:
        """[Q] number of each question in its passage, from 1."""
        seen = [0] * len(self.meta["ids"])
        numbers = []
        for passage in self.passage_of_question.tolist():
            seen[passage] += 1
            numbers.append(seen[passage])
        return torch.tensor(numbers, dtype=torch.int64)

    @property
    def question_of_window(self) -> Tensor:
        """[W] index of the question of each window of a span store."""
        counts = self.tensors["window_offset"].diff().long()
        return torch.arange(self.num_questions).repeat_interleave(counts)

    @property
    def has_answers(self) -> bool:
        """Whether any answer is known."""
        return bool((self.tensors["answer"] >= 0).any())

    @property
    def identity(self) -> dict[str, str | int]:
        """The split, its papers and their encoding, to recognise them again."""
        meta = self.meta
        return {
            "split": meta["split"],
            "source_hash": meta["source_hash"],
            "vocabulary": meta["vocabulary"],
            "max_length": meta["max_length"],
            # Which papers were kept, and how they were read.
            "source_format": meta.get("source_format"),
            "papers": sha256("\n".join(map(str, meta["ids"])).encode())[:16],
        }

    def save(self, path: Path) -> None:
        """Write to `path`; wrap it in `atomic_path` or `write_together`."""
        save_tensors(path, self.tensors, self.meta)

    def summary(self) -> str:
        """Content and truncation, as a line."""
        return store_summary(
            self.kind, len(self.meta["ids"]), self.num_questions, self.num_items, self.meta
        )


def make_store(papers: PaperSet, tokenizer: Tokenizer, max_length: int) -> Store:
    """Encode a split.

    Args:
        papers: checked papers.
        tokenizer: the tokenizer of the model that will read the store.
        max_length: window in tokens, special tokens included.

    Raises:
        UnfitError: a multiple-choice question alone exceeds the window.
    """
    columns = Columns(papers.kind, tokenizer.size, BytesIO)
    for start in range(0, len(papers.passages), _PASSAGES):
        part = papers.passages[start : start + _PASSAGES]
        columns.add(pack(papers.kind, part, tokenizer, max_length))
    chosen = columns.select(range(len(columns)))
    tensors = {name: _whole(stream) for name, stream in chosen.tensors().items()}
    return Store(tensors, store_meta(papers, chosen, tokenizer, max_length))


def make_fitting_store(
    papers: PaperSet, tokenizer: Tokenizer, max_length: int
) -> tuple[Store, PaperSet, list[UnfitError]]:
    """Encode the papers of a split whose questions fit into the window.

    Args:
        papers: checked papers.
        tokenizer: the tokenizer of the model that will read the store.
        max_length: window in tokens, special tokens included.

    Returns:
        The store, its papers, and an error for each of the others.
    """
    try:
        return make_store(papers, tokenizer, max_length), papers, []
    except UnfitError:
        fitting, unfit = [], []
    for passage in papers.passages:
        try:
            pack(papers.kind, [passage], tokenizer, max_length)
            fitting.append(passage)
        except UnfitError as error:
            unfit.append(error)
    papers = replace(papers, passages=fitting)
    return make_store(papers, tokenizer, max_length), papers, unfit


def _whole(stream: TensorStream) -> Tensor:
    dtype = getattr(torch, stream.dtype)
    content = bytearray().join(stream.blocks())
    return torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)


def load_store(path: Path) -> Store:
    """Open a store, memory-mapped.

    Raises:
        DataError: missing, truncated, or not a store.
    """
    tensors, meta = load_tensors(path, mapped_from=_LARGE)
    kind = meta.get("kind")
    remake = "make it again with `albert-rc preprocess`"
    if not isinstance(kind, str) or kind not in COLUMNS:
        raise DataError(f"{path}: not a store of papers; {remake}")
    if not COLUMNS[kind].keys() <= tensors.keys():
        raise DataError(f"{path}: parts are missing; {remake}")
    wrong = what_is_wrong(kind, tensors, meta)
    if wrong is not None:
        raise DataError(f"{path}: damaged, {wrong}; {remake}")
    return Store(tensors, cast(StoreMeta, meta))


def check_store(
    store: Store, path: Path, tokenizer: Tokenizer, max_length: int, limited: bool = False
) -> None:
    """Refuse a store made with a different vocabulary or a longer window than the model's.

    Args:
        store: opened from the path.
        path: for errors.
        tokenizer: the model's.
        max_length: longest window allowed, in tokens.
        limited: whether this is the limit of --max-length, not the model's.

    Raises:
        DataError: says how to remake the store.
    """
    remake = f"make it again: albert-rc preprocess RAW --model {tokenizer.folder}"
    if store.meta["vocabulary"] != tokenizer.fingerprint:
        raise DataError(f"{path}: made with a different vocabulary than the model's; {remake}")
    if store.meta["vocab_size"] > tokenizer.size:
        raise DataError(f"{path}: made for a larger vocabulary than the model's; {remake}")
    if store.meta["max_length"] > max_length and limited:
        raise DataError(
            f"{path}: made for windows of {store.meta['max_length']} tokens, but --max-length is "
            f"{max_length}; leave --max-length out, or {remake} --max-length {max_length}"
        )
    if store.meta["max_length"] > max_length:
        raise DataError(
            f"{path}: made for windows of {store.meta['max_length']} tokens, but the model takes "
            f"{max_length}; {remake} --max-length {max_length}, or train the model for longer "
            f"windows: albert-rc train --max-length {store.meta['max_length']}"
        )
