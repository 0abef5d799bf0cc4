"""Joining of blocks that were separated by mistake."""

from __future__ import annotations

import re

from albert_rc.printed.lines import Line, shortened, words
from albert_rc.printed.papers import Import
from albert_rc.printed.recognise.blanks import Candidate, candidates, lone_blanks
from albert_rc.printed.recognise.blocks import Block, LeftOut, Outline
from albert_rc.printed.recognise.checks import beginnings
from albert_rc.printed.recognise.options import Item
from albert_rc.printed.recognise.passages import split_paragraphs, text_lines
from albert_rc.printed.recognise.prose import role_of

STRAY = 20
"""Number of words from which text between two lists is a passage for certain."""
_NOTE = re.compile(r"\s*[(\[*※]")
"""Beginning of a note, such as the translation of a word."""


def join_blocks(outline: Outline, found: Import) -> None:
    """Join what belongs together.

    That is, lists of options separated by a page header, or by the unreadable options of a blank;
    and a list with the passage that follows it.
    """
    blocks: list[Block] = []
    for block in outline.blocks:
        last = blocks[-1] if blocks else None
        if last is not None and _is_interrupted(last, block, outline):
            first = block.text[0] if block.text else None
            unread = _numbers_between(last.items[-1], block.items[0])
            if not unread and first is not None:
                _doubt(last, first, block)
            found.left_out += [
                LeftOut(
                    e.place, e.text.strip(), "unreadable options" if unread else "between options"
                )
                for e in block.text
            ]
            last.items += block.items
            last.answers += block.answers
            last.key_problems += block.key_problems
        elif (
            last is not None
            and _is_bank(last)
            and not block.items
            and not _blanks_of(last, outline)
        ):
            found.left_out += [
                LeftOut(e.place, e.text.strip(), "before the options") for e in last.text
            ]
            last.text = block.text
            last.answers += block.answers
            last.key_problems += block.key_problems
        else:
            blocks.append(block)
    outline.blocks = blocks


def _doubt(last: Block, first: Line, block: Block) -> None:
    """Refuse a list with text in it that may belong to an option, or to the numbers below it.

    A few words between questions may be a notice or a message that the next questions are about,
    the heading of a section without a passage, or the header of a page. Blanks are in the passage
    above, so their options cannot be about anything else.
    """
    if not (first.gap or first.turns or first.whole):
        last.items[-1].trouble = f"{shortened(first.text, 30)!r} may continue with its options"
    if last.items[-1].stem and not _is_note(first):
        below = [item.number for item in block.items if item.number is not None]
        last.between.append((first, below))


def _is_note(line: Line) -> bool:
    return role_of(line.shadow) == "foreign" and _NOTE.match(line.shadow) is not None


def _is_bank(block: Block) -> bool:
    return len(block.items) == 1 and block.items[0].number is None


def _blanks_of(block: Block, outline: Outline) -> list[Candidate]:
    found = split_paragraphs(block.text, outline.width)
    return lone_blanks(candidates(text_lines(found)))


def _is_interrupted(last: Block, block: Block, outline: Outline) -> bool:
    if not (last.items and block.items) or last.answers:
        return False
    before, after = last.items[-1], block.items[0]
    if before.number is None or after.number is None or after.number <= before.number:
        return False
    unread = _numbers_between(before, after)  # whose options are the block's text
    if not beginnings(block.text).keys() >= set(unread):
        return False
    if bool(before.stem) != bool(after.stem) or (unread and before.stem):
        return False
    found = split_paragraphs(block.text, outline.width)
    if any(paragraph.role in ("heading", "instruction") for paragraph in found):
        return False
    numbers = {item.number for item in block.items}
    return sum(len(words(line)) for line in block.text) < STRAY and not any(
        c.number in numbers for c in candidates(enumerate(block.text))
    )


def _numbers_between(before: Item, after: Item) -> range:
    return range((before.number or 0) + 1, after.number or 0)
