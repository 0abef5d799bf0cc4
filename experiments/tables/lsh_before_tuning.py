"""What hashing costs a pretrained model before any fine-tuning: hidden words of held-out text.

    python -m experiments.tables.lsh_before_tuning CORPUS MODEL OUT.json [--sequences 300]

CORPUS is what `pretrain data` wrote, MODEL a pretrained checkpoint. Every row reads the same
sequences with the same words hidden; only the attention differs.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from albert_rc.checkpoints.load import load_model
from albert_rc.corpus.batches import PretrainCollator
from albert_rc.corpus.mask_config import MaskConfig
from albert_rc.corpus.shards import Corpus
from albert_rc.io.json import write_json
from albert_rc.model.config import Compute, LshConfig
from experiments.shared.scripts import parser_of

ROWS: dict[str, dict[str, Any]] = {
    "dense": {},
    "faithful, 4 rounds": {"shared": True, "rounds": 4},
    "faithful, 8 rounds": {"shared": True, "rounds": 8},
    "ours, 2 rounds": {"rounds": 2},
    "ours, 4 rounds": {"rounds": 4},
    "ours, 4 rounds, rotations": {"rounds": 4, "hash": "rotations"},
    "ours, 4 rounds, rotations, 2 probes": {"rounds": 4, "hash": "rotations", "probes": 2},
    "ours, 4 rounds, no local round": {"rounds": 4, "local": False},
    "ours, 4 rounds, no landmarks": {"rounds": 4, "landmarks": ()},
    "ours, 4 rounds, rotations, no local round, no landmarks": {
        "rounds": 4, "hash": "rotations", "local": False, "landmarks": (),
    },
    "neighbours only (1 round, no landmarks)": {"rounds": 1, "landmarks": ()},
}  # fmt: skip


def main() -> None:
    """Measure every row."""
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sequences", type=int, default=300)
    parser.add_argument("--chunk", type=int, default=16)
    arguments = parser.parse_args()
    loaded = load_model(arguments.model, "pretraining", with_pairs=False)
    model, tokenizer = loaded.model.eval(), loaded.tokenizer
    corpus = Corpus(arguments.corpus / "dev")
    longest = corpus.lengths.argsort(descending=True, stable=True)[: arguments.sequences].tolist()
    collate = PretrainCollator(corpus, tokenizer, MaskConfig(), "none", seed=0)
    batches = [collate(longest[i : i + 16]) for i in range(0, len(longest), 16)]
    special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
    base = LshConfig(chunk=arguments.chunk, landmarks=special)
    table = []
    for name, settings in ROWS.items():
        lsh = replace(base, **settings)
        model.encoder.compute = Compute(attention="lsh" if settings else "dense", lsh=lsh)
        right = words = loss = 0.0
        with torch.inference_mode(), model.encoder.unchanged():
            for batch in batches:
                output = model(batch)
                right += float(output.masked_correct)
                loss += float(output.masked_loss_sum)
                words += len(batch.masked_token_M)
        row = {"attention": name, "words": right / words, "loss": loss / words}
        print(f"{name:<60} words {row['words']:.2%}, loss {row['loss']:.4f}", flush=True)
        table.append(row | {"settings": asdict(lsh) if settings else None})
    length = float(corpus.tokens[longest].float().mean())
    write_json(arguments.out, {"mean_tokens": length, "words": words, "rows": table})


if __name__ == "__main__":
    main()
