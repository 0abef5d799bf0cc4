"""What each change to the encoding or scoring costs in dev accuracy, all else equal.

    python -m experiments.answering.one_at_a_time RAW MODEL OUT.json [--steps 60]

RAW is a collection of cloze papers, MODEL a trained cloze run. Each variant is tried twice:
`predict`, where the very same weights read dev papers with the change, and `retrain`, where these
weights are first trained on for a few steps with it, by the same settings and seed.

The faults are those of the published ASC20-21 entry: blank positions taken before [CLS] was
prepended; a stray word-start piece before every blank; long passages cut without overlap (256
tokens here, so that it happens often enough to be seen).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import write_json
from albert_rc.model.config import Compute
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import PaperSet
from albert_rc.papers.splits import find_splits
from albert_rc.runtime.devices import processes
from albert_rc.runtime.heap import keep_freed_memory
from albert_rc.scoring.accuracy import accuracy, compare
from albert_rc.stores import encode
from albert_rc.stores import store as shards
from albert_rc.stores.store import Store, make_store
from albert_rc.text.tokenizer import Tokenizer
from albert_rc.training.config import TrainConfig
from albert_rc.training.loop import Trainer
from albert_rc.training.objectives.reading import Reading
from experiments.shared.scripts import parser_of

WINDOW = 470  # leaves room for a stray piece before each of 25 or so blanks


def plain(papers: PaperSet, tokenizer: Tokenizer) -> Store:
    """As albert-rc does it."""
    return make_store(papers, tokenizer, WINDOW)


def off_by_one(papers: PaperSet, tokenizer: Tokenizer) -> Store:
    """The head reads the token left of each [MASK]."""
    store = plain(papers, tokenizer)
    store.tensors["blank_position"] -= 1
    return store


def stray_pieces(papers: PaperSet, tokenizer: Tokenizer) -> Store:
    """A lone word-start piece before each [MASK], and signs after it that begin words."""
    stray = tokenizer.encode(["- x"])[0]
    lone = next(i for i in stray if tokenizer.pieces([i]) == ["▁"])
    original = encode.encode_segments

    def with_stray(parts: Sequence[tuple[str, bool]], vocabulary: Tokenizer) -> list[list[int]]:
        ids = original([(text, False) for text, _ in parts], vocabulary)
        return [[*segment, lone] for segment in ids]

    encode.encode_segments = with_stray  # type: ignore[assignment]
    try:
        return make_store(papers, tokenizer, 512)
    finally:
        encode.encode_segments = original


def cut_context(papers: PaperSet, tokenizer: Tokenizer) -> Store:
    """Passages cut into pieces of 256 tokens that know nothing of each other."""
    original = encode.windows

    def apart(length: int, budget: int, overlap: float = 0.0) -> list[int]:
        return list(range(0, max(1, length), budget))

    encode.windows = apart
    try:
        return shards.make_store(papers, tokenizer, 256)
    finally:
        encode.windows = original


ENCODINGS: dict[str, tuple[Callable[[PaperSet, Tokenizer], Store], str | None]] = {
    "none": (plain, None),
    "position off by one": (off_by_one, None),
    "stray pieces": (stray_pieces, None),
    "cut context": (cut_context, None),
    "option score: mean": (plain, "mean"),
    "option score: first": (plain, "first"),
    "option score: salience": (plain, "salience"),
}


def main() -> None:
    """Run every variant and write the table."""
    parser = parser_of(__doc__)
    parser.add_argument("raw", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    keep_freed_memory()
    splits = find_splits(arguments.raw)
    train, dev = (read_split(splits[name], name) for name in ("train", "dev"))
    owners = [p.id for p in dev.passages for _ in p.questions]
    gold = [str(q.answer) for p in dev.passages for q in p.questions]
    several = [any(" " in o.strip() for o in q.options) for p in dev.passages for q in p.questions]
    settings = TrainConfig(
        learning_rate=arguments.learning_rate,
        max_steps=arguments.steps,
        mask_rate=0.25,
        precision="bf16",
        seed=arguments.seed,
    )
    table: list[dict[str, object]] = []
    first: dict[str, list[str]] = {}
    with processes("cpu") as group:
        for name, (encoding, option_score) in ENCODINGS.items():
            loaded = load_model(arguments.model, "cloze", option_score=option_score)
            loaded.model.encoder.compute = Compute(precision="bf16")
            store = encoding(dev, loaded.tokenizer)
            row: dict[str, object] = {"change": name}
            for stage in ("predict", "retrain"):
                if stage == "retrain":
                    learned = encoding(train, loaded.tokenizer)
                    # The same number of papers a step, in however many windows they come.
                    size = round(arguments.batch_size * learned.num_items / len(train.passages))
                    with tempfile.TemporaryDirectory() as folder:
                        recipe = replace(settings, batch_size=size)
                        objective = Reading(loaded.model, loaded.tokenizer, learned, None, recipe)
                        Trainer(objective, recipe, Path(folder), group).run()
                scored = score(loaded.model, loaded.tokenizer, store, group)
                chosen = [str(i) for i in scored.argmax(-1).tolist()]
                right = [a == g for a, g in zip(chosen, gold, strict=True)]
                found = accuracy(right, owners)
                first.setdefault(stage, chosen)
                against = compare(first[stage], chosen, list(gold))
                wordy = [r for r, s in zip(right, several, strict=True) if s]
                row[stage] = {
                    **found.as_json(),
                    "several_words": round(sum(wordy) / max(1, len(wordy)), 6),
                    "mcnemar_p_against_none": against.p_value,
                }
            table.append(row)
            print(row, flush=True)
    given = {name: str(value) for name, value in vars(arguments).items()} | {"raw": "", "model": ""}
    write_json(arguments.out, {"settings": given, "torch": torch.__version__, "rows": table})


if __name__ == "__main__":
    main()
