"""Questions made of running text: which sentence, or which word, belongs here?

    python -m experiments.models.sentence_choices SOURCES WORK [--gaps 14000] [--blanks 12000]
        [--dialogues 6000] [--seed 0]

WORK is that of reader.py, after `questions`. Each question has a passage of about a hundred words
with `...` in place of a sentence; the sentence before it as its question; and four options:

- the sentence itself and others of the same text (--gaps);
- the sentence of an exam paper with each of the options of one of its blanks (--blanks), of which
  the question is the part before the blank;
- what a speaker says in one of DREAM's training dialogues, and what else speakers of that name say,
  there or elsewhere (--dialogues).

They become the store WORK/sentences, of which 900 questions are kept apart as its dev papers. A
model for questions can learn from it before DREAM, after natural language inference:

    albert-rc train --data WORK/sentences --model WORK/runs/inference --out WORK/runs/sentences
        --epochs 1 --learning-rate 1e-4 --batch-size 16 --set warmup=0.06 --set eval_steps=300
"""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Passage, letter
from experiments.models.made_papers import SENTENCE
from experiments.models.reader import readable, texts
from experiments.shared.command import command
from experiments.shared.scripts import parser_of

WORDS = 110
"""Words of a passage, at most."""
OPTIONS = 4
PLACES = ("race-layout/train", "onestop", "squad/xquad.en.json")
HELD_OUT = 900
GAP = "..."


@dataclass(frozen=True)
class Question:
    """A passage, the words before the gap, and the options, the right one first."""

    passage: str
    before: str
    options: list[str]

    def paper(self, draw: random.Random) -> dict[str, Any]:
        """In RACE's form, with the options in random order."""
        order = draw.sample(range(len(self.options)), len(self.options))
        return {
            "article": self.passage,
            "questions": [self.before],
            "options": [[self.options[index] for index in order]],
            "answers": [letter(order.index(0))],
        }


def sentences(text: str) -> list[str]:
    """The sentences of a text, without line ends."""
    found = (part.strip() for part in SENTENCE.split(" ".join(text.split())))
    return [part for part in found if part]


def around(parts: Sequence[str], place: int) -> tuple[int, int]:
    """The range of sentences around one that has at most `WORDS` words without it."""
    first, last, words = place, place + 1, 0
    while True:
        before = len(parts[first - 1].split()) if first > 0 else WORDS + 1
        after = len(parts[last].split()) if last < len(parts) else WORDS + 1
        if before + words <= WORDS and (place - first <= last - place or after + words > WORDS):
            first, words = first - 1, words + before
        elif after + words <= WORDS:
            last, words = last + 1, words + after
        else:
            return first, last


def with_gap(parts: Sequence[str], place: int, first: int, last: int) -> str:
    """The passage from the first to before the last sentence, with a gap in place of one."""
    lines = (" ".join(parts[first:place]), GAP, " ".join(parts[place + 1 : last]))
    return "\n".join(line for line in lines if line)


def gaps(text: str, draw: random.Random) -> Iterator[Question]:
    """A fifth of the sentences of a text."""
    parts = sentences(text)
    for place in draw.sample(range(len(parts)), min(len(parts), 1 + len(parts) // 5)):
        right = parts[place]
        first, last = around(parts, place)
        others = [
            part
            for number, part in enumerate(parts)
            if not first <= number < last and part != right and _about_as_long(part, right)
        ]
        if not 4 <= len(right.split()) <= 35 or last - first < 4 or len(others) < OPTIONS - 1:
            continue
        before = parts[place - 1] if place > first else GAP
        wrong = draw.sample(others, OPTIONS - 1)
        yield Question(with_gap(parts, place, first, last), before, [right, *wrong])


def _about_as_long(one: str, other: str) -> bool:
    return 0.5 <= len(one.split()) / len(other.split()) <= 2


def blanks(passage: Passage, draw: random.Random) -> Iterator[Question]:
    """The sentences of some blanks of an exam paper, with each of their options."""
    head, *rest = passage.segments()
    places = []
    for question, part in zip(passage.questions, rest, strict=True):
        options = [option.strip() for option in question.options]
        right = options[question.answer or 0]
        places.append((len(head), len(head) + len(right), options, right))
        head += right + part
    for start, end, options, right in draw.sample(places, min(5, len(places))):
        begins = max((match.end() for match in SENTENCE.finditer(head, 0, start)), default=0)
        found = SENTENCE.search(head, end)
        ends = found.start() if found else len(head)
        lead, tail = (" ".join(part.split()) for part in (head[begins:start], head[end:ends]))
        different = len({option.lower() for option in options}) == len(options)
        if not different or len(f"{lead} {tail}".split()) > 50:
            continue
        above = sentences(head[:begins])
        parts = [*above, GAP, *sentences(head[ends:])]
        space = "" if tail[:1] in ".,;:!?" else " "
        wrong = [option for option in options if option != right]
        yield Question(
            with_gap(parts, len(above), *around(parts, len(above))),
            lead or GAP,
            [f"{option}{space}{tail}" for option in (right, *wrong)],
        )


def dialogues(path: Path, draw: random.Random) -> Iterator[Question]:
    """Up to three lines of each of DREAM's dialogues."""
    talks: list[list[str]] = [lines for lines, _, _ in json.loads(path.read_text("utf-8"))]
    said = defaultdict(list)
    for talk in talks:
        for line in talk:
            said[_speaker(line)].append(line)
    for talk in talks:
        for place in draw.sample(range(len(talk)), min(3, len(talk))):
            right = talk[place]
            first, last = around(talk, place)
            if not 4 <= len(right.split()) <= 40 or last - first < 2:
                continue
            outside = [*talk[:first], *talk[last:]]
            here = {x for x in outside if x != right and _speaker(x) == _speaker(right)}
            wrong = draw.sample(sorted(here), min(2, len(here)))
            elsewhere = said[_speaker(right)]
            for line in draw.sample(elsewhere, min(300, len(elsewhere))):
                if len(wrong) == OPTIONS - 1:
                    break
                if line not in talk and line not in wrong and _about_as_long(line, right):
                    wrong.append(line)
            if len(wrong) == OPTIONS - 1:
                before = talk[place - 1] if place > first else GAP
                yield Question(with_gap(talk, place, first, last), before, [right, *wrong])


def _speaker(line: str) -> str:
    return line.partition(":")[0]


def main() -> None:
    """Write the questions, and make their store."""
    parser = parser_of(__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("work", type=Path, help="the folder of reader.py")
    parser.add_argument("--gaps", type=int, default=14000, help="default: 14000")
    parser.add_argument("--blanks", type=int, default=12000, help="default: 12000")
    parser.add_argument("--dialogues", type=int, default=6000, help="default: 6000")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    arguments = parser.parse_args()
    sources, work = arguments.sources, arguments.work
    draw = random.Random(arguments.seed)
    papers = work / "text/ele/train"
    places = [papers, *(readable(sources / place, work / "text") for place in PLACES)]
    made = {
        "gaps": [question for text in texts(places) for question in gaps(text, draw)],
        "blanks": [
            question
            for passage in read_split(papers).passages
            for question in blanks(passage, draw)
        ],
        "dialogues": list(dialogues(sources / "dream/train.json", draw)),
    }
    chosen: list[Question] = []
    for name, found in made.items():
        count = min(len(found), getattr(arguments, name))
        print(f"{name}: {count:,} of {len(found):,}")
        chosen += draw.sample(found, count)
    draw.shuffle(chosen)
    folder = work / "text" / "sentences"
    shutil.rmtree(folder, ignore_errors=True)
    for split, part in (("dev", chosen[:HELD_OUT]), ("train", chosen[HELD_OUT:])):
        (folder / split).mkdir(parents=True)
        for number, question in enumerate(part):
            paper = json.dumps(question.paper(draw))
            (folder / split / f"{number}.json").write_text(paper, "utf-8")
    command(
        "preprocess", folder, "--model", work / "start", "--out", work / "sentences",
        "--format", "race", "--max-length", 256,
    )  # fmt: skip


if __name__ == "__main__":
    main()
