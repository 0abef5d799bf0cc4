"""What a person has to know about an upload: the first of it, and how much more there was.

A few megabytes of JSON can hold a million papers with something wrong in each. An answer that
said all of it would be many times as long as what was sent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from albert_rc.io.messages import LONGEST, counted, shortened

MOST = 100
"""Messages of one level that are told."""
IN_ALL = 50_000
"""Characters of all messages of one level."""
PICTURES, LONGEST_PICTURE = 60, 60_000
"""Pictures of all messages, and characters of one."""
LONGEST_NAME = 120
"""Characters of a paper's id."""


@dataclass(frozen=True, slots=True)
class Message:
    """Something that a person has to know about what was sent."""

    level: str
    """`refused`: it is not among the answers; `check`: a word of a picture that may have been read
    wrong; `warning`; `note`; `left out`: text that belongs to no passage."""
    text: str
    paper: str = ""
    """The id of the paper that it is about; empty for the whole."""
    picture: str = ""
    """What it is about, as a JPEG in base64; empty if there is no picture."""

    def as_json(self) -> dict[str, str]:
        """For a client."""
        said = {"level": self.level, "paper": self.paper, "text": self.text}
        return said | {"picture": self.picture} if self.picture else said


class Messages:
    """Collects messages, and keeps the first of each level in memory that does not grow."""

    def __init__(self) -> None:
        self._kept: list[Message] = []
        self._numbers: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._pictures = 0

    def add(self, level: str, text: str, paper: str = "", picture: str = "") -> None:
        """Keep a message, or count it where there are enough of its level."""
        if self._numbers[level] < MOST and self._sizes[level] < IN_ALL:
            if len(picture) > LONGEST_PICTURE or self._pictures >= PICTURES:
                picture = ""
            self._pictures += bool(picture)
            message = Message(
                level, shortened(text, LONGEST), shortened(paper, LONGEST_NAME), picture
            )
            self._kept.append(message)
            self._numbers[level] += 1
            self._sizes[level] += len(message.text) + len(message.paper)
        else:
            self._left[level] += 1

    def all(self, refused: int = 0) -> list[Message]:
        """What was kept, and for each level one message that counts the rest.

        Args:
            refused: papers, to be counted where not everything is said about them.
        """
        found = list(self._kept)
        for level, left in self._left.items():
            said = f"... and {left:,} more"
            if level == "refused" and refused:
                said += f"; {counted(refused, 'paper')} refused in all"
            found.append(Message(level, said))
        return found
