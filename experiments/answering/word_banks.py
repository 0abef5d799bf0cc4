"""What it gains to answer a word bank as a whole: cloze papers turned into papers with one list.

    python -m experiments.answering.word_banks PAPERS MODEL WORK OUT.json [--blanks 10] [--words 15]
        [--sentences] [--masks] [--papers 400]

PAPERS is a folder of cloze papers with answers. Of each paper the first blanks with different right
words stay, the others are filled in; all get one list, in alphabetical order: their right words,
and wrong options of the paper up to --words. With --sentences, whole sentences of the filled-in
papers are taken out instead, at most every second one, and the list is of these. They are answered
twice: each option at most once (the default of `predict`), and `--set reuse=true`, each blank
alone.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from albert_rc.io.json import parse_json, write_json
from albert_rc.papers.formats import read_good
from albert_rc.papers.schema import Passage, letter
from albert_rc.scoring.align import in_order_of, right_options
from albert_rc.scoring.confidence import measure
from albert_rc.scoring.score_file import read_scores
from experiments.shared.command import command
from experiments.shared.scripts import parser_of


def bank_of(passage: Passage, blanks: int, words: int) -> dict[str, Any] | None:
    """The paper with one list for its first blanks; None if it has too few words for that."""
    right = [question.options[question.answer or 0].strip() for question in passage.questions]
    kept: dict[str, int] = {}
    for number, word in enumerate(right):
        if len(kept) < blanks:
            kept.setdefault(word, number)
    wrong = {option.strip() for question in passage.questions for option in question.options}
    wrong -= set(right)
    if len(kept) < blanks or len(wrong) < words - blanks:
        return None
    drawn = random.Random(passage.id).sample(sorted(wrong), words - blanks)
    options = sorted([*kept, *drawn], key=str.lower)
    parts = passage.segments()
    article = parts[0]
    for number, (word, part) in enumerate(zip(right, parts[1:], strict=True)):
        article += ("_" if number in kept.values() else word) + part
    answers = [letter(options.index(word)) for word in kept]
    return {"article": article, "options": [options] * blanks, "answers": answers}


def gaps_of(passage: Passage, blanks: int, sentences: int) -> dict[str, Any] | None:
    """The paper with sentences to put into gaps; None if it has too few for that."""
    parts = re.split(r"(?<=[.!?])\s+", passage.filled())
    draw = random.Random(passage.id)
    chosen: list[int] = []
    for index in draw.sample(range(1, max(1, len(parts) - 1)), max(0, len(parts) - 2)):
        usual = 6 <= len(parts[index].split()) <= 25 and not re.search('["“”_]', parts[index])
        if usual and all(abs(index - other) > 1 for other in chosen) and len(chosen) < sentences:
            chosen.append(index)
    if len(chosen) < sentences:
        return None
    gaps, others = sorted(chosen[:blanks]), set(chosen[blanks:])
    options = draw.sample([parts[index] for index in chosen], sentences)
    article = " ".join(
        "_" if index in gaps else part for index, part in enumerate(parts) if index not in others
    )
    answers = [letter(options.index(parts[index])) for index in gaps]
    return {"article": article, "options": [options] * blanks, "answers": answers}


def main() -> None:
    """Make the papers, answer them twice, and write the figures."""
    parser = parser_of(__doc__)
    parser.add_argument("papers", type=Path)
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--blanks", type=int, default=10, help="of a paper (default: 10)")
    parser.add_argument("--words", type=int, default=15, help="of its list (default: 15)")
    parser.add_argument("--sentences", action="store_true", help="instead of words")
    parser.add_argument("--papers", dest="most", type=int, default=400, help="default: 400")
    parser.add_argument("--masks", action="store_true", help="predict --option-score masks")
    arguments = parser.parse_args()
    folder: Path = arguments.work / "papers"
    folder.mkdir(parents=True, exist_ok=True)
    make = gaps_of if arguments.sentences else bank_of
    made = 0
    for passage in read_good(arguments.papers).passages:
        paper = make(passage, arguments.blanks, arguments.words)
        if paper is not None and made < arguments.most:
            write_json(folder / passage.id, paper)
            made += 1
    papers = read_good(folder)
    found: dict[str, Any] = {
        "blanks": arguments.blanks,
        "sentences" if arguments.sentences else "words": arguments.words,
        "option_score": "masks" if arguments.masks else "once",
    }
    way = ["--option-score", found["option_score"]]
    for name, more in (("each once", []), ("each blank alone", ["--set", "reuse=true"])):
        scores = arguments.work / f"{name}.jsonl"
        command(
            "predict", "--data", folder, "--model", arguments.model,
            "--out", arguments.work / "answer.json", "--scores", scores, *way, *more,
        )  # fmt: skip
        measured = parse_json(command("evaluate", scores, folder, "--json").encode())
        file = in_order_of(read_scores(scores), papers)
        figures = measure(file.chances_QK, right_options(file, papers))
        different = len(set(zip(file.papers, file.answers, strict=True)))
        found[name] = {
            "papers": len(set(file.papers)),
            "questions": len(file.answers),
            "accuracy": measured["accuracy"],
            "interval": [measured["low"], measured["high"]],
            "used again": len(file.answers) - different,
            "log_loss": round(figures.nll, 4),
            "calibration_error": round(figures.ece, 4),
        }
    write_json(arguments.out, found)
    print(found)


if __name__ == "__main__":
    main()
