"""Words and lines of a picture that may have been read wrong, said of the papers they stand in."""

from __future__ import annotations

import re

from albert_rc.printed.build.papers import Import, Paper, Trouble
from albert_rc.printed.lines import PrintedText

CORRECT = "correct the text, which --text writes, and import that"
AGAIN = "take the picture again, from above and in light, or give the text"


def report_doubts(found: Import, text: PrintedText, keep: bool) -> None:
    """Report what may have been read wrong: no paper with any of it is whole.

    Args:
        found: the file's papers.
        text: what was read of the file.
        keep: only note doubtful words; lines that could not be read still count.
    """
    found.doubts = [doubt for line in text.lines for doubt in line.doubts]
    for doubt in found.doubts:
        reason = f"{doubt.text!r} may have been read wrong"
        owners = [paper for paper in found.papers if _holds(paper, doubt.text)]
        if keep or not owners:
            found.notes.append(f"{reason} ({doubt.place})")
        else:
            for paper in owners:
                paper.troubles.append(Trouble((), doubt.place, reason, CORRECT))
    found.doubts += text.unread
    for doubt in text.unread:
        trouble = Trouble((), doubt.place, "a line could not be read", AGAIN)
        for paper in found.papers:
            paper.troubles.append(trouble)
        if not found.papers:
            found.troubles.append(trouble)


def _holds(paper: Paper, word: str) -> bool:
    """Whether a word may be one of the paper's: a blank's number, a mark, or part of its text."""
    parts = re.findall(r"\w+", word.replace("_", " "))
    if not parts or all(part.isdigit() or len(part) == 1 for part in parts):
        return True
    options = [option for own in paper.options for option in own]
    everything = " ".join([paper.article, *paper.questions, *options])
    return any(part in everything for part in parts)
