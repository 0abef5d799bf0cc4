"""Options of several words, read a second time with a [MASK] for each of their pieces.

    python -m experiments.answering.phrases MODEL OUT.json PAPERS

PAPERS is a file or folder of cloze papers with answers; MODEL is not trained. For several numbers
of tokens around the blank: the second reading alone, and the mean of both, which is what `predict
--option-score masks` does; with the gain over one reading, and the seconds that the second takes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from albert_rc.answering.pieces import readings, rescored
from albert_rc.answering.quality import quality
from albert_rc.answering.score import score
from albert_rc.checkpoints.load import load_model
from albert_rc.io.json import write_json
from albert_rc.papers.formats import read_good
from albert_rc.scoring.accuracy import gain
from albert_rc.stores.store import make_store
from experiments.answering.excerpts import ALONE, BUDGET, right, share
from experiments.shared.scripts import parser_of

AROUND = (32, 64, 96, 128, 192, 512)


def compare(papers: Any, loaded: Any) -> dict[str, Any]:
    """The table for some papers."""
    model, tokenizer = loaded.model, loaded.tokenizer
    longest = model.config.max_length
    store = make_store(papers, tokenizer, longest)
    owners = store.passage_of_question.tolist()
    started = time.perf_counter()
    once_QK = score(model, tokenizer, store, ALONE, token_budget=BUDGET)
    seconds = round(time.perf_counter() - started, 1)
    usual_Q = right(store, once_QK)
    again = sorted({reading.question for reading in readings(store, tokenizer, longest)})
    rows = []
    for around in AROUND:
        wider = readings(store, tokenizer, longest, around)
        started = time.perf_counter()
        both_QK = rescored(model, wider, once_QK, ALONE, token_budget=BUDGET)
        taken = time.perf_counter() - started
        # both = (once + second) / 2 + a constant for each question
        second_QK = torch.where(both_QK.isinf(), both_QK, 2 * both_QK - once_QK)
        both_Q, second_Q = right(store, both_QK), right(store, second_QK)
        rows.append(
            {
                "around": around,
                "seconds": round(taken, 1),
                "second_of_these": share(second_Q[again]),
                "both_of_these": share(both_Q[again]),
                "both_of_all": share(both_Q),
                "loss": round(quality(store, both_QK).loss, 4),
                **gain(both_Q.tolist(), usual_Q.tolist(), owners).as_json(),
            }
        )
        print(rows[-1], flush=True)
    return {
        "questions": store.num_questions,
        "with_options_of_several_words": len(again),
        "once": {
            "seconds": seconds,
            "of_these": share(usual_Q[again]),
            "of_all": share(usual_Q),
            "loss": round(quality(store, once_QK).loss, 4),
        },
        "twice": rows,
    }


def main() -> None:
    """Measure, and write the table."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("papers", type=Path)
    arguments = parser.parse_args()
    loaded = load_model(arguments.model, "cloze")
    found = compare(read_good(arguments.papers), loaded)
    write_json(arguments.out, found)
    print({key: value for key, value in found.items() if key != "twice"})


if __name__ == "__main__":
    main()
