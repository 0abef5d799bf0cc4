"""Glosses: translations in brackets after a word, as in papers for learners."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from albert_rc.printed.lines import OTHER_LETTERS, Line, shadow_of

_INSIDE = r"[^()（）\[\]［］]{0,60}"
_GLOSS = re.compile(rf"[ \t\u3000]*[(（\[［]{_INSIDE}[{OTHER_LETTERS}]{_INSIDE}[)）\]］]")
_OF_THE_EXAM = re.compile("[0-9]|小题|满分|分钟|答案|解析|选项|第.节|部分")
"""Words in brackets that belong to headings and keys, and are not glosses."""
_ENDS_IN_WORD = re.compile(r"[A-Za-zÀ-ÿ_][\"'’”,]?\s*$")
_LEADING = re.compile(r"\s*([.,;:!?]+)\s*")
SHOWN = 5


def set_glosses_aside(lines: Sequence[Line], keep: bool = False) -> tuple[list[Line], list[str]]:
    """Remove glosses, so that lines are recognised as English.

    Args:
        lines: a paper's lines.
        keep: leave glosses in the text, and hide them only from the recognition of lines.

    Returns:
        The lines, and a note on the glosses if there are any.
    """
    found: list[str] = []
    result: list[Line] = []
    for line in lines:
        above = result[-1].shadow if result and not line.whole else ""
        without, began = _without(line, above, keep, found)
        left = _LEADING.match(without.shadow)
        if left and began and above and not keep:  # the sentence ends in the line above
            before, end = result[-1], left.end()
            # It was the gloss that did not fit into that line, not the text that now follows.
            width = before.width + 2 * (len(line.text) - len(without.text))
            result[-1] = replace(
                before, text=before.text + left[1], shadow=before.shadow + left[1], width=width
            )
            without = replace(without, text=without.text[end:], shadow=without.shadow[end:])
        result.append(without)
    if not found:
        return result, []
    shown = ", ".join(dict.fromkeys(gloss.strip() for gloss in found[:SHOWN]))
    more = ", ..." if len(found) > SHOWN else ""
    what = "kept in the text" if keep else "removed; --glosses keep leaves them in the text"
    number = "1 gloss" if len(found) == 1 else f"{len(found)} glosses"
    return result, [f"{number} ({shown}{more}) {what}"]


def _without(line: Line, above: str, keep: bool, found: list[str]) -> tuple[Line, bool]:
    """The line without its glosses, which are added to `found`, and whether one began it."""
    text, shadow, done, began = "", "", 0, False
    for match in _GLOSS.finditer(line.text):
        before = line.shadow[: match.start()]
        word = before if before.strip() else above
        narrow = shadow_of(match[0])
        follows = bool(_ENDS_IN_WORD.search(word))
        if not follows or _OF_THE_EXAM.search(narrow) or not _is_running(line, match, above):
            continue
        found.append(match[0])
        began |= not before.strip()
        # Full-width brackets include white space.
        space = " " if line.shadow[match.end() : match.end() + 1].isalnum() else ""
        text += line.text[done : match.start()] + (match[0] if keep else space)
        # Replaced by letters: white space would look like a gap between columns.
        hidden = re.sub(rf"[{OTHER_LETTERS}]", "x", narrow) if keep else space
        shadow += line.shadow[done : match.start()] + hidden
        done = match.end()
    if not done:
        return line, False
    text, shadow = text + line.text[done:], shadow + line.shadow[done:]
    return replace(line, text=text, shadow=shadow), began


def _is_running(line: Line, match: re.Match[str], above: str) -> bool:
    """Whether brackets are in a sentence or after an option, and not alone on a line."""
    rest = line.shadow[: match.start()] + line.shadow[match.end() :]
    return bool(re.search("[A-Za-z]{2}", rest)) or (bool(above) and not rest.strip())
