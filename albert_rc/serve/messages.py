"""Messages about an upload: the first ones of each level, and the number of the others.

A few megabytes of JSON can contain a million papers with a problem in each. A response with all
messages would be many times as long as the upload.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from albert_rc.io.messages import LONGEST, counted, shortened

MOST = 100
"""Maximum number of messages of one level."""
IN_ALL = 50_000
"""Maximum number of characters of all messages of one level."""
PICTURES, LONGEST_PICTURE = 60, 60_000
"""Maximum number of pictures in all messages, and of characters of one picture."""
LONGEST_ID, LONGEST_NAME = 255, 120
"""Maximum number of characters of a paper's id, as that of a file's name on the usual file systems;
and of one that is shortened because it is longer."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message about an upload."""

    level: str
    """`refused`: not answered; `check`: a word of a picture that may have been misread; `warning`;
    `note`; `left out`: text that does not belong to any passage."""
    text: str
    paper: str = ""
    """Id of the paper concerned; empty if the message is about the whole upload."""
    picture: str = ""
    """Picture of the line concerned, as JPEG in base64; empty if there is none."""

    def as_json(self) -> dict[str, str]:
        """The value for a client."""
        said = {"level": self.level, "paper": self.paper, "text": self.text}
        return said | {"picture": self.picture} if self.picture else said


def bounded(paper: str) -> str:
    """A paper's id for a message: unchanged, unless it is longer than any file's name."""
    return paper if len(paper) <= LONGEST_ID else shortened(paper, LONGEST_NAME)


class Messages:
    """Collects messages, and keeps only the first of each level, in bounded memory."""

    def __init__(self) -> None:
        self._kept: list[Message] = []
        self._numbers: Counter[str] = Counter()
        self._sizes: Counter[str] = Counter()
        self._left: Counter[str] = Counter()
        self._pictures = 0

    def add(self, level: str, text: str, paper: str = "", picture: str = "") -> None:
        """Keep a message, or only count it if its level is full."""
        if self._numbers[level] < MOST and self._sizes[level] < IN_ALL:
            if len(picture) > LONGEST_PICTURE or self._pictures >= PICTURES:
                picture = ""
            self._pictures += bool(picture)
            message = Message(level, shortened(text, LONGEST), bounded(paper), picture)
            self._kept.append(message)
            self._numbers[level] += 1
            self._sizes[level] += len(message.text) + len(message.paper)
        else:
            self._left[level] += 1

    def all(self, refused: int = 0) -> list[Message]:
        """The kept messages, and for each level a message with the number of the others.

        Args:
            refused: number of refused papers, stated if not all messages about them are kept.
        """
        found = list(self._kept)
        for level, left in self._left.items():
            said = f"... and {left:,} more"
            if level == "refused" and refused:
                said += f"; {counted(refused, 'paper')} refused in all"
            found.append(Message(level, said))
        return found
