"""Assembly of papers from text and lists: every number is placed, or its problem is reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from albert_rc.io.messages import counted
from albert_rc.printed.build.joining import join_blocks
from albert_rc.printed.lines import Line, shortened, words
from albert_rc.printed.papers import Import, Paper, Trouble, letters_of, spans
from albert_rc.printed.recognise.blanks import Placement, candidates, lone_blanks, place, unnumbered
from albert_rc.printed.recognise.blocks import Block, LeftOut, Outline
from albert_rc.printed.recognise.checks import lost_questions, number_troubles, stem_of
from albert_rc.printed.recognise.marked import (
    take_answer_behind,
    take_letters_behind,
    without_ticks,
)
from albert_rc.printed.recognise.matching import give_headings
from albert_rc.printed.recognise.options import Item, cut, usual_count
from albert_rc.printed.recognise.passages import (
    SENTENCE,
    Paragraph,
    article,
    as_gap,
    choice_parts,
    cloze_parts,
    is_announced,
    split_paragraphs,
    text_lines,
)
from albert_rc.printed.recognise.prose import has_english, is_field, join_lines

AROUND = ("before the passage", "no questions", "no blank in it")
"""Reasons for leaving out text that could be part of a passage."""
INTRODUCTION = 30
"""Maximum number of words of a line about the exam as a whole."""
_LIST = re.compile(r"(?:^|\s)[Aa]\W{0,2}\s.{1,80}?\s[Bb]\W{0,2}\s")
"""Pattern of text that resembles options."""
_LEADERS = re.compile(r"\s*(?:\.{4,}|…{2,})$")
"""Dots between two columns of options."""
_NUMBERED = re.compile(r"[(\[]?[0-9]{1,4}\s*[.、)\]]\s*[(\[]?A\b")


def assemble(outline: Outline, source: str) -> Import:
    """Make papers, still without answers, from a file's outline.

    Args:
        outline: result of `read_outline`; blocks that belong together are joined in place.
        source: the file's name, for messages.
    """
    found = Import(source, [], [], list(outline.left_out), [])
    join_blocks(outline, found)
    everything = [item for block in outline.blocks for item in block.items]
    numbered = [item for item in everything if item.number is not None]
    bare = usual_count([item for item in numbered if not item.stem])
    asked = usual_count([item for item in numbered if item.stem])
    for item in everything:
        if item.number is not None:
            take_answer_behind(item)
        cut(item, None if item.number is None else asked if item.stem else bare)
    before = None
    known = frozenset(item.number for item in numbered if item.number is not None)
    for block in outline.blocks:
        _Assembler(block, outline, found, before, known).run()
        if block.items or block.answers:
            own = [item.number for item in block.items if item.number is not None]
            before = max(own, default=None) if own and not block.answers else None
    give_headings(found, outline)
    return found


class _Assembler:
    def __init__(
        self,
        block: Block,
        outline: Outline,
        found: Import,
        before: int | None,
        known: frozenset[int],
    ) -> None:
        self.block = block
        self.before = before
        """The last number of the list above, if the text continues from it."""
        self.known = known
        """All numbers of the file that have options."""
        self.outline = outline
        self.found = found
        self.paragraphs = split_paragraphs(block.text, outline.width)
        self.candidates = candidates(text_lines(self.paragraphs))
        self.prose = {p.lines[0][1].place: p for p in self.paragraphs if p.is_prose}
        self.troubles: list[Trouble] = []
        self.notes: list[str] = []

    def run(self) -> None:
        block = self.block
        if not block.items:
            self._without_items()
            return
        self.troubles += number_troubles(block.items, self.candidates)
        self.troubles += lost_questions(self._text(), block.items, self.before, self.known)
        self._text_between()
        bank = [item for item in block.items if item.number is None]
        numbered = [item for item in block.items if item.number is not None]
        blanks = [item for item in numbered if not stem_of(item)]
        asked = [item for item in numbered if stem_of(item)]
        first = len(self.found.papers)
        if bank and numbered:
            for item in bank:
                self._trouble(
                    (),
                    item.place,
                    "a list of options has no number",
                    "write its number before the A",
                )
        elif bank:
            self._bank(bank)
        if blanks:
            self._cloze(blanks)
        if asked:
            self._choice(asked, bool(blanks))
        papers = self.found.papers[first:]
        block.papers = len(papers)
        for trouble in self.troubles:
            owners = [paper for paper in papers if set(trouble.numbers) & set(paper.numbers)]
            for paper in owners or papers[:1]:
                paper.troubles.append(trouble)
                break
            else:
                self.found.troubles.append(trouble)
        if self.troubles:
            # Numbers in a block with a problem may have shifted: none of its papers is complete.
            for paper in papers:
                if paper.whole:
                    paper.troubles.append(
                        Trouble(
                            (),
                            paper.place,
                            "its options are in one list with those above",
                            "correct that list",
                        )
                    )

    def _trouble(self, numbers: Sequence[int], place_: str, reason: str, way_out: str) -> None:
        self.troubles.append(Trouble(tuple(numbers), place_, reason, way_out))

    def _text_between(self) -> None:
        for line, numbers in self.block.between:
            self._trouble(
                numbers,
                line.place,
                f"{shortened(line.text, 40)!r} between the questions may be the passage of "
                f"{spans(numbers)}, or the heading of another section",
                "if it is a passage, write `Passage` on a line above it; if it is a heading, "
                f"remove {spans(numbers)}; if it is neither, delete it",
            )

    def _prose(self) -> list[Paragraph]:
        """The passage itself, without headings and fields to fill in."""
        return [p for p in self.paragraphs if p.role == "text" and not is_field(p.shadow)]

    def _text(self) -> list[Line]:
        return [line for _, line in text_lines(self.paragraphs)]

    def _without_items(self) -> None:
        lost = lost_questions(self._text(), (), self.before, self.known)
        if any(_LIST.search(line.shadow) for line in self._text()):
            self.found.troubles += lost
        else:  # to be answered in words, and nothing that was read depends on it
            self.found.notes += [str(trouble) for trouble in lost]
        for blank in lone_blanks(self.candidates):
            below = self._options_of(blank.number)
            self.found.troubles.append(
                Trouble(
                    (blank.number,),
                    blank.place,
                    f"blank {blank.number} has no options",
                    f"if {below} has them, write them as A. ... B. ..., with {blank.number}. before"
                    if below
                    else "add them under the passage, or remove the passage",
                )
            )
        self.found.left_out += [
            p.left_out(p.role if p.role != "text" else "no questions") for p in self.paragraphs
        ]

    def _options_of(self, number: int) -> str:
        """The place of a line that may hold a blank's options in a form that is not read."""
        begins = re.compile(rf"[^0-9A-Za-z]*(?:A\s*)?{number}(?![0-9])\W*[A-Za-z]")
        places = (line.place for line in self._text() if begins.match(line.shadow))
        return next(places, "")

    def _options(self, item: Item) -> list[str]:
        texts = []
        for pieces in item.options:
            parts = [piece.text for piece in pieces]
            text = join_lines(parts, self.outline.vocabulary, self.notes)
            texts.append(_LEADERS.sub("", text))
        # Marks that separate options are not part of them.
        for sign in (";", "；", ",", "，", "/", "／", "|"):
            if len(texts) > 1 and all(text.endswith(sign) for text in texts[:-1]):
                texts = [text.removesuffix(sign).rstrip() for text in texts]
        texts, item.ticks = without_ticks(texts)
        if item.ticks and item.number is None:
            self.notes.append(f"ticks at {', '.join(item.ticks)} of its list were removed")
        for number, text in enumerate(texts):
            if not text and not item.trouble:
                self._trouble(
                    () if item.number is None else (item.number,),
                    item.place,
                    f"{item.number or 'a list'}: option {chr(65 + number)} is empty",
                    "write the option there",
                )
        return texts

    def _cloze(self, items: Sequence[Item]) -> None:
        by_number = {item.number: item for item in reversed(items) if item.number is not None}
        numbers = sorted(by_number)
        options = {number: self._options(by_number[number]) for number in numbers}
        marked = any(c.style == "line" and c.number in options for c in self.candidates)
        lines = [] if marked else unnumbered(text_lines(self._prose()), numbers)
        if len(lines) == len(numbers):
            self.notes.append(f"blanks without numbers were read as {spans(numbers)}, in order")
            placement = Placement({line.number: line for line in lines}, {}, [])
        else:
            placement = place(self.candidates, numbers)
            if lines and not placement.placed:
                self._trouble(
                    numbers,
                    lines[0].place,
                    f"{len(lines)} blanks without numbers for {len(numbers)} lists of options",
                    f"number the blanks as __{numbers[0]}__, or write as many lists",
                )
            else:
                self._report(placement)
        self._write_cloze(placement, options)

    def _report(self, placement: Placement) -> None:
        for number, (where, reason) in sorted(placement.problems.items()):
            ways = {
                "twice": f"keep only one of them, or mark the blank as __{number}__",
                "times": f"mark the blank as __{number}__",
            }
            way_out = next((way for sign, way in ways.items() if sign in reason), None)
            if way_out is None and reason.startswith("the options"):
                way_out = f"write __{number}__ where it belongs, or remove the options"
            elif way_out is None and reason.endswith("no options"):
                way_out = "add them to the list"
            self._trouble((number,), where, reason, way_out or "correct it there")
        for candidate in placement.passed_over:
            line = self.block.text[candidate.line_number].text
            around = line[max(0, candidate.start - 12) : candidate.end + 12].strip()
            self.notes.append(
                f"{candidate.number} in {around!r} ({candidate.place}) was read as text"
            )

    def _parts(
        self, of: Callable[..., list[list[Paragraph]]], *known: set[int]
    ) -> list[list[Paragraph]]:
        """The passages of a block; text that is in none of them is reported."""
        left_out: list[LeftOut] = []
        parts = of(self.paragraphs, *known, left_out)
        self._leave_out(left_out)
        return parts

    def _leave_out(self, lines: Sequence[LeftOut]) -> None:
        """Leave out text around a passage; report sentences there, as they may belong to it."""
        self.found.left_out += lines
        for line in lines:
            if line.why == "foreign" and has_english(line.text):
                reason = (
                    f"English text among other letters was left out: {shortened(line.text, 40)!r}"
                )
                self._trouble((), line.place, reason, "put the other letters in brackets")
            paragraph = self.prose.get(line.place)
            if paragraph is None or line.why not in AROUND:
                continue
            if line.why == "no blank in it" and all(p.role == "text" for p in self.paragraphs):
                continue  # nothing separates it: that its blanks were not found is reported
            reason = (
                f"{shortened(line.text, 40)!r} is separated from the passage by a heading or an "
                "instruction"
            )
            if self._introduces(paragraph):
                self.notes.append(reason)
                continue
            way_out = "if it belongs to the passage, delete what separates them; if not, delete it"
            self._trouble((), line.place, reason, way_out)

    def _introduces(self, paragraph: Paragraph) -> bool:
        """Whether a line is about the exam as a whole: short, at the top, before `Part I`."""
        at = self.paragraphs.index(paragraph)
        following = next((p for p in self.paragraphs[at:] if p.role != "text"), None)
        first = self.outline.blocks[0] is self.block
        short = sum(len(words(p.shadow)) for p in self.paragraphs[: at + 1]) < INTRODUCTION
        return first and short and following is not None and not is_field(following.shadow)

    def _write_cloze(self, placement: Placement, options: dict[int, list[str]]) -> None:
        lines = {candidate.line_number for candidate in placement.placed.values()}
        parts = self._parts(cloze_parts, lines)
        if len(parts) > 1:
            self.notes.append(
                f"one list of options for {len(parts)} texts with a heading or an instruction "
                "between them"
            )
        placed = sorted(placement.placed.items())
        owned: set[int] = set()
        for part in parts:
            inside = {number for paragraph in part for number, _ in paragraph.lines}
            mine = [number for number, c in placed if c.line_number in inside]
            owned.update(mine)
            blanks = [placement.placed[number] for number in mine]
            text = article(part, blanks, self.outline.vocabulary, self.notes)
            paper = Paper(
                "cloze",
                mine,
                text,
                [""] * len(mine),
                [options[n] for n in mine],
                part[0].lines[0][1].place,
                notes=self.notes,
            )
            self._check_underscores(paper)
            self.found.papers.append(paper)
        if not parts:
            rest = sorted(options)
            self.found.papers.append(
                Paper("cloze", rest, "", [], [], self.block.items[0].place, notes=self.notes)
            )

    def _check_underscores(self, paper: Paper) -> None:
        runs = re.findall(r"[_＿]+", paper.article)
        if len(runs) > len(paper.numbers) and not self.troubles:
            extra = len(runs) - len(paper.numbers)
            self._trouble(
                (),
                paper.place,
                f"{counted(extra, 'underscore')} without a number in the text of "
                f"{spans(paper.numbers)}",
                "number them, or remove them",
            )

    def _bank(self, bank: Sequence[Item]) -> None:
        if len(bank) > 1:
            places = ", ".join(item.place for item in bank)
            self._trouble(
                (),
                places,
                f"{len(bank)} lists of options have no number",
                "write each list's number before its A",
            )
        found = lone_blanks(self.candidates)
        numbers = sorted({c.number for c in found})
        if not numbers:
            self._trouble(
                (),
                bank[0].place,
                "a list of options has no number, and the text above it has no blanks",
                "number the blanks, or the list",
            )
            self.found.left_out += [
                p.left_out(p.role if p.role != "text" else "no blanks") for p in self.paragraphs
            ]
            return
        if numbers[0] == 0 and len(numbers) > 1:
            self._trouble(
                (0,), "", "blank 0 is an example", "write its answer in place of the blank"
            )
        for number in range(numbers[0], min(numbers[-1], numbers[0] + 50)):
            if number not in numbers:
                self._trouble(
                    (number,),
                    "",
                    f"{number} is missing between {numbers[0]} and {numbers[-1]}: it has no blank",
                    "write it where it belongs",
                )
        placement = place(self.candidates, numbers)
        self._report(placement)
        shared = self._options(bank[0])
        if any(map(_NUMBERED.match, shared)):
            self._trouble(
                numbers,
                bank[0].place,
                "the list of options has numbers in it, so it may be the lists of several blanks",
                "write each list's number before its A",
            )
        self.notes.append(
            f"one list of options, {letters_of(max(1, len(shared)))}, for all of its blanks"
        )
        self._write_cloze(placement, {number: list(shared) for number in numbers})

    def _check_length(self, numbers: Sequence[int], text: str, part: Sequence[Paragraph]) -> None:
        """Refuse a few words as a passage, unless a heading says that they are one."""
        place_ = part[0].lines[0][1].place
        known = any(trouble.place == place_ for trouble in self.troubles)
        if known or len(words(text)) >= SENTENCE or is_announced(part, self.paragraphs):
            return
        self._trouble(
            numbers,
            place_,
            f"{spans(numbers)}: {shortened(text, 40)!r} above the questions may be an instruction "
            "or a heading, and not their passage",
            "write `Passage` on a line above it if it is one; if not, put a passage above the "
            "questions, or remove them",
        )

    def _choice(self, items: Sequence[Item], has_cloze: bool) -> None:
        items = sorted(items, key=lambda item: item.number or 0)
        numbers = [item.number for item in items if item.number is not None]
        parts = [] if has_cloze else self._parts(choice_parts)
        text = ""
        if parts and parts[-1]:
            text = article(parts[-1], [], self.outline.vocabulary, self.notes)
            self._check_length(numbers, text, parts[-1])
        else:
            why = "the text above them has blanks" if has_cloze else "there is no text above them"
            self._trouble(
                numbers,
                items[0].place,
                f"{spans(numbers)}: questions without a passage: {why}",
                "put a passage above them, or remove them",
            )
        for blank in lone_blanks(self.candidates) if not has_cloze else []:
            self._trouble(
                (blank.number,),
                blank.place,
                f"blank {blank.number} has no options",
                "add them under the passage, or remove it",
            )
        for part in parts[:-1]:
            self._leave_out([p.left_out("no questions") for p in part])
        questions = [
            join_lines([p.text for p in item.stem], self.outline.vocabulary, self.notes)
            for item in items
        ]
        questions = [as_gap(question) for question in take_letters_behind(items, questions)]
        place_ = parts[-1][0].lines[0][1].place if text else items[0].place
        self.found.papers.append(
            Paper(
                "choice",
                numbers,
                text,
                questions,
                [self._options(item) for item in items],
                place_,
                notes=self.notes,
            )
        )
