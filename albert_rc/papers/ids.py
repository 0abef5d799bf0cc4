"""Compact records of a split's papers while they are streamed: ids, places, problems."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from albert_rc.io.files import natural_key
from albert_rc.io.messages import counted, first_of, quoted
from albert_rc.papers.files import Sources
from albert_rc.papers.raw import Chunk, paper_place
from albert_rc.papers.schema import Problem


class PaperRecord(NamedTuple):
    """The record of one paper of a chunk, checked on its own."""

    source: int
    """Index of its `Raw` in the chunk."""
    number: int
    """Number of the line or item; 0 if the file is a single paper."""
    id: str | None
    """None if the paper is not JSON."""
    level: str | None
    good: bool
    """Whether the paper has no error."""
    problems: tuple[Problem, ...]
    keys: tuple[str, ...] = ()
    """Ids of its questions, in formats whose answers use them."""


class Register:
    """The papers of one split, in the order of the files."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        """Ids of the papers that are kept."""
        self.levels: list[str | None] = []
        self.problems: list[Problem] = []
        self.num_rejected = 0
        # The paper that has each id, and its place as numbers: a dictionary of places would take
        # more memory than everything else.
        self._numbers: dict[str, int] = {}
        self._file_of = array("i")
        self._number_of = array("q")
        self._files: list[str] = []
        # Ids of questions, and the paper of each.
        self._asked: dict[str, int] = {}

    @classmethod
    def of(cls, sources: Sources, suffixes: Sequence[str]) -> Register:
        """A register for files, with problems for missing and skipped files."""
        register = cls()
        # A name that is not UTF-8 could not be written to rejects.jsonl.
        shown = str(sources.path).encode("utf-8", "backslashreplace").decode()
        passed_over = (
            f"{counted(sources.num_printed, 'Word or PDF file')} skipped; `albert-rc import` "
            "converts printed papers to JSON"
        )
        if not len(sources):
            ends = " or ".join(suffixes)
            said = f"the folder is empty, or has no {ends} file; put papers there"
            stores = sorted(
                path.name for ending in ("*.pt", "*.shards") for path in sources.path.glob(ending)
            )
            if stores:
                said = (
                    f"a folder of stores ({', '.join(stores)}), not of raw papers; give the raw "
                    "papers, or for `predict --data` one of the stores"
                )
            elif sources.num_printed:
                said = f"no {', '.join(suffixes)} file in it, and {passed_over}"
            register.problems.append(Problem(shown, said))
        elif sources.num_printed:
            register.problems.append(Problem(shown, passed_over, "warning"))
        if len(sources) and sources.others:
            ends = ", ".join(suffixes)
            others = counted(len(sources.others), "file")
            names = ", ".join(first_of(sources.others, 3))
            said = (
                f"{others} skipped ({names}); file names of papers must end in {ends} (or, if "
                "compressed, then in .gz or .zst)"
            )
            register.problems.append(Problem(shown, said, "warning"))
        return register

    def add(self, chunk: Chunk, record: PaperRecord) -> bool:
        """Record a paper.

        Returns:
            Whether it is kept: it has no error, and its id is unique.
        """
        place = chunk[record.source].place
        self.problems += record.problems
        good = record.good
        if record.id is not None:
            holder = self._numbers.setdefault(record.id, len(self._numbers))
            if holder < len(self._file_of):
                good = False
                said = f"the id {quoted(record.id)} is already used by {self._place_of(holder)}"
                self._refuse(place, record, said)
            else:
                self._note_place(place, record.number)
                good = self._note_keys(place, record, holder) and good
        if good and record.id is not None:
            self.ids.append(record.id)
            self.levels.append(None if record.level is None else sys.intern(record.level))
        else:
            self.num_rejected += 1
        return good

    def _note_place(self, place: str, number: int) -> None:
        if not self._files or self._files[-1] != place:
            self._files.append(place)
        self._file_of.append(len(self._files) - 1)
        self._number_of.append(number)

    def _note_keys(self, place: str, record: PaperRecord, holder: int) -> bool:
        """Whether the ids of the paper's questions are unique, as answers refer to them."""
        own: set[str] = set()
        for key in record.keys:
            asked_in = self._asked.setdefault(key, holder)
            if asked_in == holder and key not in own:
                own.add(key)
                continue
            where = (
                "used twice" if asked_in == holder else f"also used in {self._place_of(asked_in)}"
            )
            self._refuse(place, record, f"the question id {quoted(key)} is {where}")
            return False
        return True

    def _place_of(self, holder: int) -> str:
        return paper_place(self._files[self._file_of[holder]], self._number_of[holder])

    def _refuse(self, place: str, record: PaperRecord, said: str) -> None:
        self.problems.append(
            Problem(paper_place(place, record.number), f"{said}; give each its own id")
        )

    def finish(self) -> Sequence[int]:
        """Sort ids and levels into natural order; no papers can be added afterwards.

        Returns:
            Previous index of each kept paper; a range if all were in order.
        """
        self._numbers, self._asked, self._files = {}, {}, []
        self._file_of, self._number_of = array("i"), array("q")
        if all(a <= b for a, b in pairwise(map(natural_key, self.ids))):
            return range(len(self.ids))
        keys = [natural_key(paper_id) for paper_id in self.ids]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self.ids = [self.ids[i] for i in order]
        self.levels = [self.levels[i] for i in order]
        return order
