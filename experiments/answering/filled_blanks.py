"""Whether a model reads a blank better where its neighbours are filled in.

    python -m experiments.answering.filled_blanks PAPERS MODEL

PAPERS is a folder of cloze papers with answers, a blank is `_`. Asks MODEL all blanks at once; then
again with half of them filled in rightly; then again with its own answers filled in where it was
surer than a threshold, which is what answering the easy blanks first would do.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from albert_rc import load_model
from albert_rc.answering.api import answer
from albert_rc.io.json import read_json
from experiments.shared.scripts import parser_of

THRESHOLDS = (0.9, 0.7, 0.5)
Paper = dict[str, Any]


def filled(paper: Paper, words: dict[int, str]) -> Paper:
    """A paper with some blanks, by their index, filled in and no longer asked."""
    parts = paper["article"].split("_")
    text = [parts[0]]
    for index, part in enumerate(parts[1:]):
        text += [words.get(index, "_"), part]
    rest = [index for index in range(len(paper["options"])) if index not in words]
    return {
        "article": "".join(text),
        "options": [paper["options"][index] for index in rest],
        "answers": [paper["answers"][index] for index in rest],
    }


def main() -> None:
    """Ask three times, and compare."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model")
    arguments = parser.parse_args()
    papers = [read_json(path) for path in sorted(arguments.papers.glob("*.json"))]
    papers = [p for p in papers if p["article"].count("_") == len(p["options"])]
    loaded = load_model(arguments.model, "cloze")

    def ask(asked: list[Paper]) -> list[list[tuple[str, float]]]:
        some = [paper for paper in asked if paper["options"]]
        found = iter(answer(some, loaded))
        return [
            [(a.letter, a.probability) for a in next(found).answers] if paper["options"] else []
            for paper in asked
        ]

    once = ask(papers)
    total = sum(map(len, once))

    def compare(said: str, words: list[dict[int, str]]) -> None:
        again = ask([filled(p, w) for p, w in zip(papers, words, strict=True)])
        before = after = count = 0
        for paper, one, two, known in zip(papers, once, again, words, strict=True):
            rest = [index for index in range(len(one)) if index not in known]
            for index, (letter, _) in zip(rest, two, strict=True):
                right = paper["answers"][index]
                before += one[index][0] == right
                after += letter == right
                count += 1
        row = {"filled": said, "blanks": count, "before": before / count, "after": after / count}
        print(json.dumps(row | {"gain over all": (after - before) / total}), flush=True)

    def word(paper: Paper, index: int, letter: str) -> str:
        return str(paper["options"][index]["ABCDEFGH".index(letter)])

    chance = random.Random(0)
    half = [
        {i: word(p, i, p["answers"][i]) for i in range(len(p["options"])) if chance.random() < 0.5}
        for p in papers
    ]
    compare("half of the blanks, rightly", half)
    for threshold in THRESHOLDS:
        sure = [
            {i: word(p, i, letter) for i, (letter, p_i) in enumerate(one) if p_i > threshold}
            for p, one in zip(papers, once, strict=True)
        ]
        compare(f"own answers above {threshold}", sure)


if __name__ == "__main__":
    main()
