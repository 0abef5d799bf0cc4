"""DREAM's training questions again, with other wrong options, so that options alone say less.

    python -m experiments.models.more_options SOURCES WORK [--copies 2] [--seed 0] [--teacher MODEL]

WORK is that of reader.py, after `questions`. Every copy of a question has its dialogue and its
right answer; of its two wrong options, one is the right answer to a similar question about another
dialogue, and one the same, an answer from the same dialogue, or the wrong option it had. The
questions themselves and their copies become the store WORK/more-choice, whose dev papers are those
of WORK/choice. Options that were right elsewhere keep a model from learning which options are
usually right; some are right here as well, so a teacher's probabilities should be learned beside
the answers: WORK/more-choice-scores.jsonl has those of MODEL, if given (of the package's model for
questions, or better WORK/runs/teacher-choice of `reader.py teach-questions`), and
`language_model_teacher.py WORK/text/more-choice/train` makes those of a language model, from which
nothing was gained. To learn from them:

    albert-rc train --data WORK/more-choice --model WORK/runs/inference --out WORK/runs/more-choice
        --teacher WORK/more-choice-scores.jsonl --set teacher_weight=0.5 --epochs 1
        --learning-rate 1e-4 --batch-size 16 --set warmup=0.06 --eval-steps 191

With another --seed other wrong options are drawn, and -SEED is added to all these names.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from albert_rc.stores.shards import split_path
from experiments.models.reader import race_paper, write_scores
from experiments.shared.command import command
from experiments.shared.scripts import parser_of

NEIGHBOURS = 30
"""Number of similar questions whose answers are drawn."""
SHARD = 1000
"""Papers of a shard of the store."""
FORM, LENGTH = 0.4, 0.3
"""What the form of an answer counts, and a difference of 1 in the logarithm of its words, beside a
cosine of at most 1."""


@dataclass(frozen=True)
class Question:
    """One of DREAM's."""

    dialogue: int
    text: str
    options: list[str]
    answer: str


def similar(questions: list[Question], count: int) -> np.ndarray:
    """The most similar questions about other dialogues, best first, [Q, count].

    Similarity is the cosine of the questions' words and pairs of words, each weighted by the
    logarithm of its inverse frequency; and answers written alike count, as a capital or a full stop
    where the right answer has none, or another length, would give the wrong ones away.
    """
    parts = [_parts(question.text) for question in questions]
    found = Counter(part for each in parts for part in each)
    place = {part: index for index, part in enumerate(found)}
    rows, columns, values = [], [], []
    for row, each in enumerate(parts):
        weights = [log(1 + len(parts) / found[part]) for part in each]
        norm = sum(weight**2 for weight in weights) ** 0.5
        rows += [row] * len(each)
        columns += [place[part] for part in each]
        values += [weight / norm for weight in weights]
    matrix_QP = csr_matrix((values, (rows, columns)), shape=(len(parts), len(place)))
    dialogue_Q = np.array([question.dialogue for question in questions])
    answers = [question.answer for question in questions]
    form_Q = np.array([2 * text[:1].isupper() + text.endswith(".") for text in answers])
    length_Q = np.log([1 + len(text.split()) for text in answers])
    nearest = np.empty((len(questions), count), int)
    for row in range(len(questions)):
        alike_Q = (matrix_QP @ matrix_QP[row].T).toarray()[:, 0]
        alike_Q += FORM * (form_Q == form_Q[row]) - LENGTH * abs(length_Q - length_Q[row])
        alike_Q[dialogue_Q == dialogue_Q[row]] = -np.inf
        nearest[row] = np.argsort(-alike_Q, kind="stable")[:count]
    return nearest


def _parts(text: str) -> list[str]:
    words = text.lower().replace("?", " ?").split()
    return sorted({*words, *map(" ".join, pairwise(words))})


def other_options(
    question: Question, near: list[Question], same: list[Question], draw: random.Random
) -> list[str]:
    """Three options in a new order; the right answer is one of them."""
    elsewhere = [other.answer for other in near]
    here = [other.answer for other in same]
    wrong = [option for option in question.options if option != question.answer]
    used = [question.answer]
    for source in (elsewhere, draw.choice([elsewhere, here, wrong])):
        for pool in (source, elsewhere):
            free = [option for option in pool if _new(option, used)]
            if free:
                used.append(draw.choice(free))
                break
    draw.shuffle(used)
    return used


def _new(option: str, used: list[str]) -> bool:
    return option.lower().strip(" .") not in {other.lower().strip(" .") for other in used}


def write(sources: Path, folder: Path, copies: int, seed: int = 0) -> None:
    """The questions and their copies as papers in RACE's form."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "train").mkdir(parents=True)
    dialogues = json.loads((sources / "dream/train.json").read_text("utf-8"))
    questions = [
        Question(number, asked["question"], asked["choice"], asked["answer"])
        for number, (_, all_asked, _) in enumerate(dialogues)
        for asked in all_asked
    ]
    nearest = similar(questions, NEIGHBOURS)
    per_dialogue: dict[int, list[int]] = {}
    for index, question in enumerate(questions):
        per_dialogue.setdefault(question.dialogue, []).append(index)
    draw = random.Random(seed)

    def asked_again(number: int, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        own = per_dialogue.get(number, [])
        chosen = [
            other_options(
                questions[index],
                [questions[other] for other in nearest[index]],
                [questions[other] for other in own if other != index],
                draw,
            )
            for index in own
        ]
        return [one | {"choice": options} for one, options in zip(asked, chosen, strict=True)]

    for copy in range(copies + 1):
        for number, (lines, asked, name) in enumerate(dialogues):
            if copy:
                paper = race_paper(lines, asked_again(number, asked))
            else:
                paper = race_paper(lines, asked)
            path = folder / "train" / f"{name}-{copy}.json"
            path.write_text(json.dumps(paper), "utf-8")


def main() -> None:
    """Make the store, and the teacher's scores."""
    parser = parser_of(__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--copies", type=int, default=2, help="of every question (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument("--teacher", help="model whose probabilities are kept")
    arguments = parser.parse_args()
    work: Path = arguments.work
    name = f"more-choice-{arguments.seed}" if arguments.seed else "more-choice"
    papers, store = work / "text" / name, work / name
    write(arguments.sources, papers, arguments.copies, arguments.seed)
    # In shards, so that a large teacher's scores can go on where they were stopped.
    command(
        "preprocess", papers, "--model", work / "start", "--out", store, "--format", "race",
        "--set", f"shard_papers={SHARD}",
    )  # fmt: skip
    shutil.copy(work / "choice" / "dev.pt", store / "dev.pt")
    if arguments.teacher:
        train = split_path(store, "train")
        write_scores(train, arguments.teacher, work / f"{name}-scores.jsonl")


if __name__ == "__main__":
    main()
