"""ELE without the training papers that overlap with a dev or test paper, and the proof of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from albert_rc.corpus.shards import Corpus
from albert_rc.errors import DataError
from albert_rc.papers.formats import read_collection, read_split
from albert_rc.papers.overlap import OverlapIndex
from albert_rc.text.tokenizer import Tokenizer


def kept_apart(places: Iterable[Path]) -> OverlapIndex:
    """The papers that no text may overlap with."""
    papers = [split for place in places for split in read_collection(place)]
    return OverlapIndex([passage for split in papers for passage in split.passages])


def papers_apart(ele: Path, apart: OverlapIndex, folder: Path) -> Path:
    """Copy ELE without the training papers that overlap."""
    for split in ("train", "dev", "test"):
        target = folder / split
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        left_out = 0
        for passage in read_split(ele / split).passages:
            if split == "train" and apart.touches(passage.filled()):
                left_out += 1
            else:
                shutil.copyfile(ele / split / passage.id, target / passage.id)
        print(f"ele/{split}: {left_out} papers left out")
    return folder


def require_apart(
    apart: OverlapIndex, tokenizer: Tokenizer, ele: Path, corpora: Mapping[str, Path]
) -> None:
    """Look at everything that is trained on, as the model will read it.

    Raises:
        DataError: some of it overlaps with a dev or test paper.
    """
    papers = read_split(ele / "train").passages
    found = [passage.id for passage in papers if apart.touches(passage.filled())]
    print(f"{len(papers):,} training papers, {len(found)} overlap")
    for name, folder in corpora.items():
        corpus = Corpus(folder / "train")
        texts = (tokenizer.to_text(torch.cat(corpus.pair(i)).tolist()) for i in range(len(corpus)))
        odd = [text[:80] for text in texts if apart.touches(text)]
        print(f"{name}: {len(corpus):,} sequences, {len(odd)} overlap")
        found += odd
    if found:
        raise DataError(f"{len(found)} overlap with dev or test papers; the first: {found[0]}")
