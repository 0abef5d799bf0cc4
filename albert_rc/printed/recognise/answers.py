"""Assignment of answers: by number if numbers are unique, by place or order if they restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from albert_rc.papers.schema import letter, letter_index
from albert_rc.printed.papers import Paper, Trouble, spans
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.labels import Label, labels_in, labels_in_all, tells
from albert_rc.printed.recognise.matching import match_parts, matching_papers


def assign(
    papers: Sequence[Paper],
    answers: Sequence[key.KeyEntry],
    followed: Sequence[tuple[int, Sequence[key.KeyEntry]]] = (),
) -> list[Trouble]:
    """Give each paper its answers.

    Args:
        papers: the papers, in the order of the file.
        answers: the whole key, in its order.
        followed: parts of the key that directly follow passages, each with the number of papers
            above it.

    Returns:
        Problems that belong to no paper; those of a paper are added to its troubles.
    """
    if not answers:
        return []
    numbers = Counter(number for paper in papers for number in paper.numbers)
    if max(numbers.values(), default=1) == 1 and _agrees(answers, numbers):
        return _by_number(papers, answers, set(numbers))
    ends = [0, *(end for end, _ in followed)]
    if len(followed) > 1 and all(before < end for before, end in pairwise(ends)):
        return _by_place(papers, followed)
    return _by_order(papers, answers)


def _agrees(answers: Sequence[key.KeyEntry], numbers: Counter[int]) -> bool:
    """Whether the key has the papers' numbers, and does not restart from 1 for each of them.

    Answers that are printed twice, the second time with explanations, do not count as restarting.
    """
    parts = key.groups(answers)
    if len(parts) == 1:
        return True
    if any(answer.number not in numbers for answer in answers):
        return False
    if any(set(numbers) <= {answer.number for answer in part} for part in parts):
        return True
    if not any(part[0].number == 1 for part in parts[1:]):
        return True
    letters: dict[int, set[str]] = {number: set() for number in numbers}
    for answer in answers:
        letters[answer.number].add(answer.letter)
    labelled = any(tells(label) for part in parts[1:] for label in part[0].labels)
    return not labelled and all(len(given) == 1 for given in letters.values())


def _by_number(
    papers: Sequence[Paper], answers: Sequence[key.KeyEntry], numbers: set[int]
) -> list[Trouble]:
    for part in key.groups(_naming(answers), by_label=True):
        _check_label(papers, part)
    for paper in papers:
        give(paper, [a for a in answers if a.number in set(paper.numbers)])
    named = {n for paper in papers for trouble in paper.troubles for n in trouble.numbers}
    lost = [answer for answer in answers if answer.number not in numbers | named]
    return [
        Trouble(
            (answer.number,),
            answer.place,
            f"the key's number {answer.number} has no question",
            "remove it from the key, or check why its question was not found",
        )
        for answer in lost
    ]


def _check_label(papers: Sequence[Paper], part: Sequence[key.KeyEntry]) -> None:
    """Refuse a part that begins at 1 under the label of a passage with other numbers.

    It probably counts anew, and would give its answers to the first passage.
    """
    if part[0].number != 1:
        return
    named = matching_papers(papers, _labels(part))
    owners = [at for at, p in enumerate(papers) if {a.number for a in part} & set(p.numbers)]
    if not named or not owners or named & set(owners):
        return
    paper = papers[owners[0]]
    paper.troubles.append(
        Trouble(
            tuple(paper.numbers),
            part[0].place,
            f"the key's {spans([answer.number for answer in part])} is labelled {_named(part)}, "
            f"which is the passage with {spans(papers[min(named)].numbers)}",
            "number the key like the questions",
        )
    )


def _by_place(
    papers: Sequence[Paper], followed: Sequence[tuple[int, Sequence[key.KeyEntry]]]
) -> list[Trouble]:
    """Keys directly after their passages: each is for the papers since the one before."""
    troubles: list[Trouble] = []
    start = 0
    for end, answers in followed:
        mine = papers[start:end]
        start = end
        every = [number for paper in mine for number in paper.numbers]
        numbers = set(every)
        counts_anew = len(mine) == 1 and not numbers & {answer.number for answer in answers}
        if counts_anew or len(numbers) < len(every):
            troubles += _by_order(mine, answers)
        elif len(mine) == 1 and match_parts(mine, [_labels(answers)]) is None:
            _forbid(mine, [answers])
        else:
            troubles += _by_number(mine, answers, numbers)
    return troubles


def _labels(part: Sequence[key.KeyEntry]) -> list[Label]:
    return labels_in_all(part[0].labels)


def _by_order(papers: Sequence[Paper], answers: Sequence[key.KeyEntry]) -> list[Trouble]:
    """A key that restarts for each passage: its parts must fit the passages' numbers of blanks.

    Parts are in the order of the passages, or have the labels of these.
    """
    wanted = [len(paper.numbers) for paper in papers]
    parts = key.groups(answers)
    if sorted(map(len, parts)) != sorted(wanted):
        parts = key.groups(_naming(answers), by_label=True)
    labels = [_labels(part) for part in parts]
    sizes = [len(part) for part in parts]
    chosen = match_parts(papers, labels) if sorted(sizes) == sorted(wanted) else None
    if chosen is None and sizes == wanted:
        _forbid(papers, parts)
        return []
    if chosen is None or [wanted[at] for at in chosen] != sizes:
        for paper in papers:
            paper.troubles.append(
                Trouble(
                    tuple(paper.numbers),
                    paper.place,
                    f"{spans(paper.numbers)}: the numbers of the key start again, and its parts of "
                    f"{', '.join(map(str, sizes))} answers do not fit the passages",
                    "number the key like the questions",
                )
            )
        return []
    for at, (number, part) in enumerate(zip(chosen, parts, strict=True)):
        paper = papers[number]
        shift = paper.numbers[0] - part[0].number
        if number != at:
            paper.notes.append(
                f"the key's part {_named(part)} was read as {spans(paper.numbers)} of this "
                "passage, by its label"
            )
        if shift:
            paper.notes.append(
                f"the key's {part[0].number}-{part[-1].number} was read as {spans(paper.numbers)}"
            )
        give(paper, part, shift)
    return []


def _forbid(papers: Sequence[Paper], parts: Sequence[Sequence[key.KeyEntry]]) -> None:
    """Refuse a key whose labels neither match the passages' nor allow their order."""
    named = "; ".join(map(_named, parts))
    for paper in papers:
        paper.troubles.append(
            Trouble(
                tuple(paper.numbers),
                paper.place,
                f"{spans(paper.numbers)}: the key's parts are labelled {named}, which does not "
                "fit the passages in their order",
                "label them like the passages, or number the key like the questions",
            )
        )


def _naming(answers: Sequence[key.KeyEntry]) -> list[key.KeyEntry]:
    """Answers without uninformative labels such as `Answers:`."""
    return [a if labels_in_all(a.labels) else replace(a, labels=()) for a in answers]


def _named(part: Sequence[key.KeyEntry]) -> str:
    telling = [label.rstrip(" :.") for label in part[0].labels if labels_in(label)]
    return ", ".join(telling) or "(no label)"


def give(paper: Paper, answers: Sequence[key.KeyEntry], shift: int = 0) -> None:
    """Give a paper its answers; problems with them are added to its troubles.

    `shift` is the difference between the paper's numbers and the key's.
    """
    given: dict[int, key.KeyEntry] = {}
    for answer in answers:
        number = answer.number + shift
        other = given.setdefault(number, answer)
        if other.letter != answer.letter:
            paper.troubles.append(
                Trouble(
                    (number,),
                    answer.place,
                    f"{number} occurs twice in the key, as {other.letter} and {answer.letter}",
                    "keep only one",
                )
            )
    if not given:
        return
    right = []
    for number, options in zip(paper.numbers, paper.options, strict=False):
        found = given.get(number)
        if found is None:
            paper.troubles.append(
                Trouble((number,), "", f"the key for {number} is missing", "add it, or give no key")
            )
            continue
        index = letter_index(found.letter)
        if options and (index is None or index >= len(options)):
            paper.troubles.append(
                Trouble(
                    (number,),
                    found.place,
                    f"the key's answer to {number} is {found.letter}, but its last option is "
                    f"{letter(len(options) - 1)}",
                    "correct the key or the options",
                )
            )
        right.append(found.letter)
    paper.answers = right
    paper.answered_at = {number: answer.place for number, answer in given.items()}


def must_agree(
    paper: Paper, others: Iterable[tuple[int, str, str]], said: str, known_from: str
) -> None:
    """Report answers of a paper that contradict another source; the paper must have them all.

    Args:
        paper: the paper; problems are added to its troubles.
        others: number, letter and place of each answer in the other source.
        said: the other source, for messages.
        known_from: the source of the paper's answers, for messages.
    """
    if paper.answers is None or len(paper.answers) < len(paper.numbers):
        return  # missing answers are already reported
    known = dict(zip(paper.numbers, paper.answers, strict=True))
    places = paper.answered_at
    for number, other, place in others:
        if known[number] != other:
            paper.troubles.append(
                Trouble(
                    (number,),
                    "; ".join(filter(None, (place, places.get(number)))),
                    f"{number} is {other} {said}, but {known[number]} {known_from}",
                    "keep only one of them",
                )
            )
