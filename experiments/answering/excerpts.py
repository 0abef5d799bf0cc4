"""Questions about long passages, read with the excerpt of the passage that shares most with them.

    python -m experiments.answering.excerpts MODEL OUT.json PAPERS [PAPERS ...]

PAPERS is a file or folder of multiple choice with answers; MODEL is not trained. Two tables:

- Windows that are too short for many passages: the beginning of the passage, as most programs cut
  it, and the excerpt that `preprocess` keeps, on the questions whose passages do not fit.
- `predict --option-score excerpt`: the whole passage, excerpts in windows of several lengths, and
  the mean of both, on all questions, with the gain over the whole passage alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albert_rc.answering.excerpts import averaged, with_excerpts
from albert_rc.answering.quality import quality
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_good
from albert_rc.runtime.devices import Processes
from albert_rc.scoring.accuracy import gain
from albert_rc.stores.store import Store, make_store
from experiments.shared.scripts import parser_of

ALONE = Processes(torch.device("cpu"))
BUDGET = 4096
WINDOWS = (128, 256, 512)
EXCERPTS = (64, 80, 96, 112, 128)


def right(store: Store, scored_QK: Tensor) -> Tensor:
    """Whether each question is answered rightly, [Q]."""
    return scored_QK.argmax(-1) == store.tensors["answer"].long()


def share(right_Q: Tensor) -> float:
    """Of the questions that are right."""
    return round(float(right_Q.double().mean()), 5)


def compare(papers: Any, loaded: Any) -> dict[str, Any]:
    """Both tables for some papers."""
    model, tokenizer = loaded.model, loaded.tokenizer

    def read(store: Store, **how: Any) -> Tensor:
        return score(model, tokenizer, store, ALONE, token_budget=BUDGET, **how)

    whole = make_store(papers, tokenizer, model.config.max_length)
    owners = whole.passage_of_question.tolist()
    whole_QK = read(whole)
    usual_Q = right(whole, whole_QK)
    windows, excerpts = [], []
    for length in WINDOWS:
        store = make_store(papers, tokenizer, length)
        tensors = store.tensors
        cut_Q = tensors["kept"] < tensors["token_offset"].diff()[owners]
        items = cut_Q.nonzero()[:, 0]
        begun = Store(tensors | {"start": tensors["start"] * 0}, store.meta)
        answer_Q = tensors["answer"].long()[items]
        row = {"window": length, "questions": len(items), "512": share(usual_Q[items])}
        for name, each in (("beginning", begun), ("excerpt", store)):
            row[name] = share(read(each, items=items).argmax(-1) == answer_Q)
        windows.append(row)
    for length in EXCERPTS:
        part, again_Q = with_excerpts(whole, tokenizer, length)
        both_QK = averaged(model, tokenizer, part, again_Q, whole_QK, ALONE, token_budget=BUDGET)
        part_QK, both_Q = read(part), right(whole, both_QK)
        gained = gain(both_Q.tolist(), usual_Q.tolist(), owners)
        excerpts.append(
            {
                "window": length,
                "read_again": len(again_Q),
                "alone": share(right(whole, part_QK)),
                "with_whole": share(both_Q),
                "loss": round(quality(whole, both_QK).loss, 4),
                **gained.as_json(),
            }
        )
        print(excerpts[-1], gained, flush=True)
    return {
        "questions": whole.num_questions,
        "whole": {"accuracy": share(usual_Q), "loss": round(quality(whole, whole_QK).loss, 4)},
        "windows": windows,
        "excerpts": excerpts,
    }


def main() -> None:
    """Measure, and write the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("papers", type=Path, nargs="+")
    arguments = parser.parse_args()
    loaded = load_model(arguments.model, "choice")
    found = {path.parts[-2]: compare(read_good(path), loaded) for path in arguments.papers}
    write_json(arguments.out, found)
    for name, tables in found.items():
        print(f"\n{name}: {tables['questions']} questions, whole: {tables['whole']}\n")
        for table in (tables["windows"], tables["excerpts"]):
            print(f"| {' | '.join(table[0])} |\n|{'---|' * len(table[0])}")
            for row in table:
                print(f"| {' | '.join(str(value) for value in row.values())} |")


if __name__ == "__main__":
    main()
