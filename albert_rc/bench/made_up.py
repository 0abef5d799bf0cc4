"""Synthetic passages and sequences: random tokens, with realistic lengths."""

# N items, T tokens of all of them, Q blanks of all passages

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from torch import Tensor

from albert_rc.corpus.cut import LEAST, Count, Cut
from albert_rc.corpus.shards import Corpus
from albert_rc.io.pt import save_tensors
from albert_rc.io.shards import shard_name
from albert_rc.runtime.seeds import mix
from albert_rc.stores.store import Store
from albert_rc.stores.writer import StoreMeta
from albert_rc.text.tokenizer import HuggingFaceTokenizer, Tokenizer

BLANKS = 20  # per passage
OPTIONS = 4  # per blank
SPECIAL = 5  # number of ids before the words'
SHORTEST = 32
MEAN, SPREAD = 0.75, 0.14
"""Mean and standard deviation of passages' lengths, as shares of the longest. Those of ELE's exam
papers, in windows of at most 512 tokens, are 384 and 73."""


def drawn_lengths(work: str, number: int, length: int | None, longest: int, seed: int) -> Tensor:
    """Tokens of each item, special ones included, [N].

    Args:
        work: one of `job.WORKS`.
        number: number of items.
        length: length of all items. By default passages vary as exam papers do, and one sequence
            in ten is shorter than the others, as `pretrain data` cuts them.
        longest: maximum length of an item, where they vary.
        seed: random seed of the lengths.
    """
    if length is not None:
        return torch.full((number,), length)
    generator = torch.Generator().manual_seed(mix(seed, number))
    if work == "pretrain":
        is_short_N = torch.rand(number, generator=generator) < Cut.short
        short_N = torch.randint(min(LEAST, longest), longest + 1, (number,), generator=generator)
        return torch.where(is_short_N, short_N, longest)
    drawn_N = longest * (MEAN + SPREAD * torch.randn(number, generator=generator))
    return drawn_N.round().long().clamp(min(SHORTEST, longest), longest)


def _drawn_ids(shape: int, vocab_size: int, generator: torch.Generator) -> Tensor:
    """Random ids of words, in the integer type that `preprocess` uses."""
    dtype = torch.int16 if vocab_size <= 2**15 else torch.int32
    return torch.randint(SPECIAL, vocab_size, (shape,), generator=generator).to(dtype)


def made_up_store(length_N: Tensor, vocab_size: int, seed: int) -> Store:
    """Passages of random ids with evenly spread blanks of four one-piece options.

    Args:
        length_N: tokens of each passage, at least 3.
        vocab_size: pieces of the vocabulary.
        seed: random seed of the ids.
    """
    generator = torch.Generator().manual_seed(seed)
    passages = len(length_N)
    blanks = min(BLANKS, int(length_N.min()) - 2)
    part_Q = torch.linspace(0, 1, blanks).repeat(passages)
    places_Q = 1 + (part_Q * (length_N - 3).repeat_interleave(blanks)).round().int()
    options = OPTIONS * blanks * passages
    ends_N = length_N.cumsum(0).int()
    answer_Q = torch.randint(0, OPTIONS, (blanks * passages,), generator=generator)
    tensors = {
        "token": _drawn_ids(int(ends_N[-1]), vocab_size, generator),
        "token_offset": torch.cat([ends_N.new_zeros(1), ends_N]),
        "window_passage": torch.arange(passages, dtype=torch.int32),
        "blank_position": places_Q,
        "blank_offset": torch.arange(passages + 1, dtype=torch.int32) * blanks,
        "answer": answer_Q.short(),
        "piece": _drawn_ids(options, vocab_size, generator),
        "piece_offset": torch.arange(options + 1, dtype=torch.int32),
        "option_offset": torch.arange(blanks * passages + 1, dtype=torch.int32) * OPTIONS,
    }
    meta: StoreMeta = {
        "kind": "cloze",
        "split": "random",
        "source_format": "cloze",
        "source_hash": "",
        "made_with": "",
        "ids": [str(i) for i in range(passages)],
        "levels": [None] * passages,
        "vocabulary": "",
        "vocab_size": vocab_size,
        "max_length": int(length_N.max()),
        "num_long": 0,
    }
    return Store(tensors, meta)


def made_up_corpus(folder: Path, length_N: Tensor, vocab_size: int, seed: int) -> Corpus:
    """Pretraining sequences of random ids, each in a separate document.

    Args:
        folder: output folder.
        length_N: tokens of each sequence with [CLS] and one [SEP], at least 4.
        vocab_size: pieces of the vocabulary.
        seed: random seed of the ids.
    """
    generator = torch.Generator().manual_seed(seed)
    inner_N = (length_N - 2).int()
    tokens = int(inner_N.sum())
    tensors = {
        "token": _drawn_ids(tokens, vocab_size, generator),
        "length": inner_N,
        "middle": inner_N // 2,
        "document": torch.arange(len(inner_N), dtype=torch.int32),
    }
    meta = {
        "kind": "corpus",
        "made_of": f"random ids of seed {seed}",
        "vocabulary": "",
        "vocab_size": vocab_size,
        "max_length": int(length_N.max()),
        "count": asdict(Count(documents=len(inner_N), sequences=len(inner_N), tokens=tokens)),
    }
    save_tensors(folder / shard_name(0, 1), tensors, meta)
    return Corpus(folder)


def made_up_backend(size: int) -> Backend:
    """A vocabulary of `size` pieces, each a whole word, for us and for transformers."""
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = [f"word{number}" for number in range(size - len(special))]
    pieces = {piece: index for index, piece in enumerate((*special, *words))}
    return Backend(WordLevel(pieces, unk_token="[UNK]"))


def made_up_vocabulary(size: int) -> Tokenizer:
    """`made_up_backend` as one of our tokenizers."""
    return HuggingFaceTokenizer(Path(), made_up_backend(size))
