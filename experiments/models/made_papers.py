"""Cloze papers made of running text, with the options that real papers give for its words.

    python -m experiments.models.made_papers SOURCES WORK [--copies 2] [--novels 20000] [--out made]
        [--seed 0]

SOURCES is that of reader.py, and WORK what its `prepare` left there. A word becomes a blank if some
paper for training offers it as an option; its options are those of such a blank, the word among
them. So every set of four that teachers thought of is met in many other sentences. None of the
papers overlaps with a dev or test paper. `WORK/made/train.jsonl` holds them, and `WORK/made-store`
their store with ELE's dev.pt next to it, as `reader.py slice` and `teach` read them. What is there
already is not made again: remove it, or give another --out, if the options have changed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from albert_rc.io.atomic import atomic_path
from albert_rc.papers.formats import read_split
from experiments.models.reader import FAR, NEAR, apart_from, readable, texts
from experiments.shared.command import command
from experiments.shared.scripts import parser_of

WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")
SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))\s+")
WORDS = (180, 340)
"""Words of a paper, as papers for training have them."""
GAP = 6
"""Words between two blanks, at least."""
BLANKS = 18
LONGEST = 3
"""Words of an option."""
Options = tuple[str, ...]


def option_sets(papers: Path) -> dict[str, list[Options]]:
    """For every option of the papers, in small letters: the sets that hold it."""
    found: defaultdict[str, list[Options]] = defaultdict(list)
    for passage in read_split(papers).passages:
        for question in passage.questions:
            options = tuple(" ".join(option.split()) for option in question.options)
            keys = {option.lower() for option in options}
            if len(keys) < len(options):
                continue
            for key in keys:
                if len(key.split()) <= LONGEST and WORD.match(key):
                    found[key].append(options)
    return dict(found)


def passages(text: str) -> Iterator[str]:
    """The text in pieces as long as papers, at the ends of sentences; what is left is left out."""
    held: list[str] = []
    size = 0
    for sentence in SENTENCE.split(" ".join(text.split()).replace("_", " ")):
        words = sentence.count(" ") + 1
        if size + words > WORDS[1]:
            if size >= WORDS[0]:
                yield " ".join(held)
            held, size = [], 0
        if words < WORDS[0]:
            held.append(sentence)
            size += words
    if size >= WORDS[0]:
        yield " ".join(held)


def places(text: str, sets: dict[str, list[Options]]) -> list[tuple[int, int, str]]:
    """Where an option of some paper stands: from, to, the option in small letters."""
    words = [match.span() for match in WORD.finditer(text)]
    found = []
    for first in range(len(words)):
        for last in range(first, min(first + LONGEST, len(words))):
            key = text[words[first][0] : words[last][1]].lower()
            if key in sets:
                found.append((words[first][0], words[last][1], key))
    return found


def make_paper(
    text: str, sets: dict[str, list[Options]], weights: dict[str, float], chance: random.Random
) -> dict[str, object] | None:
    """A paper with about `BLANKS` blanks, or None if it would have fewer than half of them."""
    # Sampling without replacement by exponential keys (Efraimidis and Spirakis, 2006).
    ordered = sorted(places(text, sets), key=lambda p: -(chance.random() ** (1 / weights[p[2]])))
    taken: list[tuple[int, int, str]] = []
    for begin, end, key in ordered:
        apart = (text[min(end, e) : max(begin, b)] for b, e, _ in taken)
        if all(between.count(" ") > GAP for between in apart):
            taken.append((begin, end, key))
            if len(taken) == BLANKS:
                break
    if len(taken) < BLANKS // 2:
        return None
    article, options, answers, at = "", [], [], 0
    for begin, end, key in sorted(taken):
        choice = list(chance.choice(sets[key]))
        chance.shuffle(choice)
        article += text[at:begin] + " _ "
        at = end
        options.append(choice)
        answers.append("ABCDEFGH"[[option.lower() for option in choice].index(key)])
    return {"article": article + text[at:], "options": options, "answers": answers}


def make_papers(given: argparse.Namespace, target: Path) -> None:
    """Make papers of all texts."""
    chance = random.Random(given.seed)
    apart = apart_from(given.sources)
    sets = option_sets(given.work / "text" / "ele" / "train")
    near = [p for name in NEAR for t in texts([readable(given.sources / name, given.work / "text")])
            for p in passages(t)]  # fmt: skip
    far = [p for name in FAR for t in texts([given.sources / name]) for p in passages(t)]
    chance.shuffle(far)
    near, before = [p for p in near if not apart.touches(p)], len(near)
    print(
        f"{len(sets):,} options, {len(near):,} passages near exams, {before - len(near)} left out"
    )
    seen = Counter(key for text in near for _, _, key in places(text, sets))
    weights = {key: len(found) / (seen[key] + 5) for key, found in sets.items()}
    novels = (text for text in far if not apart.touches(text))
    made = (
        paper
        for text in chain(near * given.copies, islice(novels, given.novels))
        if (paper := make_paper(text, sets, weights, chance))
    )
    with atomic_path(target) as temporary, temporary.open("w", encoding="utf-8") as file:
        count = sum(file.write(json.dumps(paper, ensure_ascii=False) + "\n") > 0 for paper in made)
    print(f"{target}: {count:,} papers")


def main() -> None:
    """Make the papers and their store, if they are not there yet."""
    parser = parser_of(__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument(
        "--copies", type=int, default=2, help="papers of each passage near exams (default: 2)"
    )
    parser.add_argument(
        "--novels", type=int, default=20000, help="papers of novels (default: 20000)"
    )
    parser.add_argument("--out", default="made", help="folder in WORK (default: made)")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    given = parser.parse_args()
    papers, store = given.work / given.out, given.work / f"{given.out}-store"
    if not (papers / "train.jsonl").is_file():
        make_papers(given, papers / "train.jsonl")
    if not (store / "dev.pt").is_file():
        command("preprocess", papers, "--model", given.work / "start", "--out", store)
        shutil.copyfile(given.work / "ele" / "dev.pt", store / "dev.pt")


if __name__ == "__main__":
    main()
