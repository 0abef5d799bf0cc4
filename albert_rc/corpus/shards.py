"""Memory-mapped shards of pretraining sequences, from `pretrain data`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from albert_rc.corpus.cut import Count
from albert_rc.errors import DataError, UsageError
from albert_rc.io.files import sha256
from albert_rc.io.messages import counted
from albert_rc.io.pt import load_tensors
from albert_rc.io.shards import all_shards, shard_count
from albert_rc.text.tokenizer import Tokenizer

_SHARDS = "shard-*-of-*.pt"


class Corpus:
    """All sequences in a folder that `pretrain data` wrote; item i is a pair of segments.

    Attributes:
        lengths: tokens of each sequence, without special ones.

    Raises:
        DataError: no shards, missing shards, or incompatible ones.
    """

    def __init__(self, folder: Path) -> None:
        remake = "make them with `albert-rc pretrain data`"
        paths = all_shards(folder, remake)
        self.folder = folder
        loaded = [load_tensors(path) for path in paths]
        self.meta = loaded[0][1]
        for path, (_, meta) in zip(paths, loaded, strict=True):
            for key in ("kind", "vocabulary", "max_length", "settings", "plan"):
                if meta.get(key) != self.meta.get(key) or meta.get("kind") != "corpus":
                    what = {"settings": "settings or excluded papers", "plan": "text"}.get(key, key)
                    raise DataError(f"{path}: made with different {what} than {paths[0]}; {remake}")
        self._tokens = [tensors["token"] for tensors, _ in loaded]
        self.count = sum((Count(**meta["count"]) for _, meta in loaded), Count())
        self.lengths = torch.cat([tensors["length"] for tensors, _ in loaded])
        self.middles = torch.cat([tensors["middle"] for tensors, _ in loaded])
        sizes = torch.tensor([len(tensors["length"]) for tensors, _ in loaded])
        self.shard = torch.arange(len(sizes)).repeat_interleave(sizes)
        self.documents = torch.cat([tensors["document"] for tensors, _ in loaded])
        starts = [tensors["length"].long().cumsum(0) - tensors["length"] for tensors, _ in loaded]
        self._starts = torch.cat(starts)
        self.hash = sha256("".join(meta["made_of"] for _, meta in loaded).encode())

    @property
    def tokens(self) -> Tensor:
        """Tokens of each sequence, special ones included."""
        return self.lengths + 3

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(torch.stack([self.shard, self.documents.long()]).unique(dim=1)[0])

    def __len__(self) -> int:
        return len(self.lengths)

    def pair(self, item: int) -> tuple[Tensor, Tensor]:
        """The ids of both segments of a sequence."""
        start, length = int(self._starts[item]), int(self.lengths[item])
        middle = int(self.middles[item])
        ids = self._tokens[int(self.shard[item])][start : start + length].long()
        return ids[:middle], ids[middle:]

    def same_document(self, one: int, other: int) -> bool:
        """Whether two sequences are from the same document."""
        shards = int(self.shard[one]), int(self.shard[other])
        return shards[0] == shards[1] and bool(self.documents[one] == self.documents[other])


def require_same_plan(out: Path, total: int, dev: bool) -> None:
    """Refuse to write shards next to another corpus's, which would make both unreadable.

    They are not removed: another process may be writing them.

    Args:
        out: folder of train/ and dev/.
        total: number of shards to make.
        dev: whether documents are held out.

    Raises:
        UsageError: names the files to remove.
    """
    parts = [out / "train", out / "dev"]
    for part in parts:
        for path in sorted(part.glob(_SHARDS)):
            if shard_count(path) != total:
                raise UsageError(
                    f"--out {out}: {path} already exists and belongs to another corpus (this one "
                    f"has {counted(total, 'shard')}); remove {' and '.join(map(str, parts))}, or "
                    "give another --out"
                )
            if part.name == "dev" and not dev:
                raise UsageError(
                    f"--dev 0: {path} already exists, and its documents would become training "
                    f"data; remove {part}, or give another --out"
                )


def check_corpus(corpus: Corpus, tokenizer: Tokenizer, max_length: int) -> None:
    """Refuse a corpus that is empty, of another vocabulary, or whose sequences are too long.

    Raises:
        DataError: explains how to remake it.
    """
    remake = f"make it again: albert-rc pretrain data TEXT --model {tokenizer.folder}"
    if not len(corpus):
        raise DataError(f"{corpus.folder} has no sequences to train on; with more text, {remake}")
    if corpus.meta["vocabulary"] != tokenizer.fingerprint:
        raise DataError(
            f"{corpus.folder}: made with a different vocabulary than the model's; {remake}"
        )
    longest = corpus.meta["max_length"]
    if longest > max_length:
        raise DataError(
            f"{corpus.folder}: has sequences of {longest} tokens, but the model takes "
            f"{max_length}; {remake} --max-length {max_length}"
        )
