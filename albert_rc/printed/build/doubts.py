"""Reports of possibly misread words and lines of a picture, by paper."""

from __future__ import annotations

import re

from albert_rc.printed.lines import Line, PrintedText, shortened
from albert_rc.printed.papers import Import, Paper, Trouble

CORRECT = "write the text with --text, correct it, and import it"
AGAIN = "take the picture again, from above and in good light, or import the text"


def report_doubts(found: Import, text: PrintedText, keep: bool) -> None:
    """Report words and lines that may have been misread; papers with any of them are incomplete.

    Args:
        found: the file's papers.
        text: the text read from the file.
        keep: only add notes about doubtful words; unreadable lines are still problems.
    """
    found.doubts = [doubt for line in text.lines for doubt in line.doubts]
    texts = [(paper, _text_of(paper)) for paper in found.papers]
    for line in (line for line in text.lines if line.doubts):
        owners = [paper for paper, content in texts if _may_hold(content, line)]
        for doubt in line.doubts:
            around = "" if doubt.text == line.text.strip() else f" in {shortened(line.text, 100)!r}"
            reason = f"{doubt.text!r}{around} may have been misread"
            if keep or not owners:
                found.doubt_notes.append(f"{reason} ({doubt.place})")
                continue
            for paper in owners:
                paper.troubles.append(Trouble((), doubt.place, reason, CORRECT))
    found.doubts += text.unread
    for doubt in text.unread:
        trouble = Trouble((), doubt.place, "a line could not be read", AGAIN)
        for paper in found.papers:
            paper.troubles.append(trouble)
        if not found.papers:
            found.troubles.append(trouble)


def _text_of(paper: Paper) -> str:
    options = [option for options in paper.options for option in options]
    return " ".join([paper.article, *paper.questions, *options])


def _may_hold(content: str, line: Line) -> bool:
    """Whether a line may belong to a paper, judged by its words."""
    if re.fullmatch(r"\W*\d{0,3}\W*", line.text):  # a page's number
        return False
    own = set(re.findall(r"[A-Za-z]{3,}", line.text))
    return sum(word in content for word in own) >= len(own) / 2
