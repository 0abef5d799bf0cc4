"""How often `--recall` is right on papers that its thresholds were not chosen on: in folds.

    python -m experiments.answering.recall_folds TRAIN.pt OUT.json [--folds 5]

The training papers are cut into parts; what each part asks is looked up in the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from albert_rc.answering.lookup import Memory
from albert_rc.io.json import write_json
from albert_rc.scoring.accuracy import accuracy
from albert_rc.stores.store import load_store
from albert_rc.stores.subset import chosen_papers
from experiments.shared.scripts import parser_of


def main() -> None:
    """Look every part up in the others, and count."""
    parser = parser_of(__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--folds", type=int, default=5)
    arguments = parser.parse_args()
    store = load_store(arguments.train)
    papers = len(store.meta["ids"])
    order = torch.randperm(papers, generator=torch.Generator().manual_seed(0)).tolist()
    right: list[bool] = []
    owners: list[str] = []
    by_context: dict[int, list[bool]] = {}
    asked = 0
    for fold in range(arguments.folds):
        out = set(order[fold :: arguments.folds])
        rest = chosen_papers(store, [i for i in range(papers) if i not in out], "rest")
        part = chosen_papers(store, sorted(out), "part")
        recalled = Memory(rest).recall(part)
        asked += len(recalled.option_Q)
        answer_Q = part.tensors["answer"]
        paper_Q = part.passage_of_question
        for question in (recalled.option_Q >= 0).nonzero()[:, 0].tolist():
            good = bool(recalled.option_Q[question] == answer_Q[question])
            right.append(good)
            owners.append(part.meta["ids"][paper_Q[question]])
            by_context.setdefault(int(recalled.context_Q[question]), []).append(good)
    total = accuracy(right, owners)
    found: dict[str, Any] = {
        "blanks": asked,
        "recalled": len(right),
        "share": round(len(right) / asked, 5),
        "right": total.as_json(),
        "by_context": {
            str(tokens): {"recalled": len(some), "right": round(sum(some) / len(some), 4)}
            for tokens, some in sorted(by_context.items())
        },
    }
    write_json(arguments.out, found)
    print(f"{found['recalled']:,} of {asked:,} blanks recalled, {total} right")


if __name__ == "__main__":
    main()
