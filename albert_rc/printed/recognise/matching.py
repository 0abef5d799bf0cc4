"""Matching of passages and parts of a key by their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from albert_rc.printed.lines import shadow_of
from albert_rc.printed.papers import Import, Paper
from albert_rc.printed.recognise.blocks import Outline
from albert_rc.printed.recognise.labels import HEADING, KINDS, Label, labels_in_all, title_of

HEADINGS = ("heading", "instruction", "in the key", "before the passage")
"""Kinds of lines that may hold a passage's label."""
_GENERAL = re.compile(
    r"(?i)\b(?:points?|marks?|scores?|total|each|pts|vocabulary|grammar|listening|writing|"
    r"use of english)\b|[分题]"
)
"""Words in labels of keys that do not name a passage."""


def give_headings(found: Import, outline: Outline) -> None:
    """Assign to each paper the headings between the previous paper and its text."""
    headings = [line for line in found.left_out if line.why in HEADINGS]
    start = -1
    for paper in found.papers:
        at = outline.order.get(paper.place, -1)
        above = [e for e in headings if start < outline.order.get(e.place, -1) <= at]
        # An instruction's beginning may be a heading, and so may a title that was kept as text.
        first = paper.article.split("\n", 1)[0]
        paper.headings = [shadow_of(e.text)[:HEADING] for e in above]
        paper.headings += [shadow_of(first)] if len(first) < HEADING and "_" not in first else []
        start = max(start, at)


def match_parts(papers: Sequence[Paper], parts: Sequence[Sequence[Label]]) -> list[int] | None:
    """The paper for each part of a key, or None if labels rule out every assignment.

    If labels agree with the order, or parts have none, parts are assigned in order.

    Args:
        papers: the papers, in the order of the file.
        parts: the labels of each part of the key, in its order; as many parts as papers.
    """
    order = list(range(len(parts)))
    names = [labels_in_all(paper.headings) for paper in papers]
    possible = [_possible(labels, papers, names) for labels in parts]
    fits = all(at in mine for at, mine in enumerate(possible) if mine is not None)
    if fits and not _contradicts(parts, possible, names):
        return None if _is_strange(parts, possible) else order
    outer = _within(names)
    for found in (possible, [_possible(labels, papers, outer) for labels in _within(parts)]):
        chosen = [min(mine) for mine in found if mine is not None and len(mine) == 1]
        if sorted(chosen) == order:
            return chosen
    if any(mine is not None for mine in possible):
        return None
    # The papers have no such labels: the second passage is Passage 2.
    numbered = [[label for label in labels if label.number] for labels in parts]
    if any(len(labels) != 1 for labels in numbered) or len({x[0].word for x in numbered}) > 1:
        return None
    chosen = [(labels[0].number or 0) - 1 for labels in numbered]
    own = ({label.number for label in labels if label.number} for labels in names)
    told = all(not numbers or at in numbers for at, numbers in enumerate(own, 1))
    return chosen if sorted(chosen) == order and told else None


def matching_papers(papers: Sequence[Paper], labels: Sequence[Label]) -> set[int] | None:
    """The papers whose headings have all labels of a part of a key; None if no heading has any."""
    return _possible(labels, papers, [labels_in_all(paper.headings) for paper in papers])


def _is_strange(parts: Sequence[Sequence[Label]], possible: Sequence[set[int] | None]) -> bool:
    """Whether parts are distinguished by titles that no passage has."""
    titles = {
        label.word
        for labels, mine in zip(parts, possible, strict=True)
        for label in labels
        if mine is None and label.number is None and not _GENERAL.search(label.word)
    }
    return len(titles) > 1


def _within(parts: Sequence[Sequence[Label]]) -> list[list[Label]]:
    """Labels with those of the sections above them, as in `Section A, Passage 2`."""
    above: dict[str, Label] = {}
    found = []
    for labels in parts:
        for label in labels:
            if label.number is not None:
                _enter(above, label)
        found.append([*above.values(), *(label for label in labels if label.number is None)])
    return found


def _enter(above: dict[str, Label], label: Label) -> None:
    """Continue with a label, which ends the labels below the previous one with the same word."""
    if label.word in above:
        for word in list(above)[list(above).index(label.word) + 1 :]:
            del above[word]
    above[label.word] = label


def _possible(
    labels: Sequence[Label], papers: Sequence[Paper], names: Sequence[Sequence[Label]]
) -> set[int] | None:
    """`matching_papers`, with the labels of the papers' headings."""
    found: set[int] | None = None
    for label in labels:
        mine = {at for at, own in enumerate(names) if label in own}
        if label.number is None:
            # A title may have been kept as the beginning of its passage.
            mine = mine or {
                at
                for at, paper in enumerate(papers)
                if paper.kind == label.word
                or f"{title_of(paper.article[:200])} ".startswith(f"{label.word} ")
            }
        else:
            mine = mine or {
                at
                for at, own in enumerate(names)
                if any(
                    o.number == label.number
                    and not (o.word and label.word)
                    and not o.is_other_level(label)
                    for o in own
                )
            }
        if mine:
            found = mine if found is None else found & mine
    return found


def _contradicts(
    parts: Sequence[Sequence[Label]],
    possible: Sequence[set[int] | None],
    names: Sequence[Sequence[Label]],
) -> bool:
    """Whether labels that occur in no heading contradict the order.

    They do if they are not ascending (for each word separately, and restarting below an ascending
    label), if only some parts have them and not at the matching position, or if the paper at that
    position has another number.
    """
    above: dict[str, Label] = {}
    named = any(label.number or label.word in KINDS for label in parts[0])
    for at, labels in enumerate(parts):
        for label in labels:
            number = label.number
            if number is None:
                continue
            before = above[label.word].number if label.word in above else None
            if before is not None and number <= before and possible[at] is None:
                return True
            _enter(above, label)
            others = {
                name.number
                for name in names[at]
                if name.word == label.word and not name.is_other_level(label)
            }
            if others and number not in others:
                return True
            if possible[at] is None and not named and number != at + 1:
                return True
    return False
