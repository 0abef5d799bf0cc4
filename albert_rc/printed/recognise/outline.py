"""The outline of a file: text, lists of options and answers, decided line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from albert_rc.printed.lines import Line, Piece, column_width, shortened, vocabulary, words, wraps
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.blocks import Block, LeftOut, Outline, without_page_marks
from albert_rc.printed.recognise.lookahead import (
    Head,
    begins_key,
    explained_at,
    explanation_at,
    heads_in,
    label_at,
    list_ahead,
    odd_key,
    question_ahead,
    single_answers,
)
from albert_rc.printed.recognise.options import (
    ANSWER_PLACE,
    START,
    Item,
    Mark,
    answer_before,
    first_mark,
    in_columns,
    marks_in,
)
from albert_rc.printed.recognise.prose import begins_section, role_of
from albert_rc.printed.recognise.unread import WAY_OUT, letters_below, problem_at, unread_key

_QUESTION = re.compile(rf"\s*{ANSWER_PLACE}[(\[]?\s*[0-9]{{1,4}}\s*[.)\]、]")
_ANSWER = re.compile(r"\s*[(\[]?([0-9]{1,4})\s*[.)\]、:]\s*([^_]+)")
MOST_WORDS = 6  # of an answer that is written out
AHEAD = 3
PASSAGE_LINES = 200
LABEL = 60  # maximum length of a line that may be the label of a part of the key


def read_outline(lines: Sequence[Line], only_key: bool = False) -> Outline:
    """Decide what each line of a file is; `only_key` if it is nothing but an answer key."""
    return _Reader(lines, only_key).read()


class _Reader:
    def __init__(self, lines: Sequence[Line], only_key: bool) -> None:
        self.width = column_width([line for line in lines if _is_running(line)])
        self.vocabulary = vocabulary(lines)
        self.lines, self.left_out = without_page_marks(lines)
        self.blocks = [Block()]
        self.row: list[Item] = []
        """The open items: the last one, or several side by side."""
        self.in_key = self.only_key = only_key
        self.key_end = -1
        """The line after the last one with answers."""
        self.labels: list[str] = []
        """Lines of the key since its last answers, which are labels of the next ones."""
        self.answered = False
        """Whether the last thing read was an answer, so that its explanation may follow."""
        self.keyed = False
        """Whether it was a line of several answers: only Chinese explanations are clear then."""
        self.explained: Line | None = None
        """The last line of an explanation, if it may continue."""

    def read(self) -> Outline:
        position = 0
        while position < len(self.lines):
            position += self._take(position)
        blocks = [
            block
            for block in self.blocks
            if block.text or block.items or block.answers or block.key_problems
        ]
        order = {line.place: at for at, line in reversed(list(enumerate(self.lines)))}
        return Outline(blocks, self.left_out, self.width, self.vocabulary, order)

    def _take(self, at: int) -> int:  # noqa: PLR0911 - one case, one answer
        """Read the line at a position; returns the number of lines used."""
        line = self.lines[at]
        if begins_key(self.lines, at):
            self.in_key = True
            self.labels.append(line.shadow)
            self.row = []
            self.left_out.append(LeftOut(line.place, line.text.strip(), "heading of a key"))
            return 1
        if key.is_answer_sheet(line):
            self.left_out.append(LeftOut(line.place, line.text.strip(), "answer sheet"))
            self.row = []
            return 1
        heads = self._heads(line)
        if heads and self._is_answered(at):
            heads = []
        taken = 0 if heads else self._take_key(at)
        if taken:
            self.row = []
            return taken
        if not heads and self._take_under(line):
            return 1
        taken = 0 if heads else self._take_unread(at)
        if taken:
            return taken
        if not heads and self._take_explanation(line):
            return 1
        if heads:
            self._open(line, heads)
            return 1
        question = self._question_ahead(at)
        if question:
            self._take_question(at, question)
            return question[0] - at + 1
        mark = first_mark(line)
        if mark is not None and self._is_label(at, mark):
            self._take_text(line)
            return 1
        if mark is not None and self._take_marked(at, mark):
            return 1
        if self.row and self._goes_on(at):
            self._go_on(line)
            return 1
        self._take_text(line)
        return 1

    # Keys

    def _is_answered(self, at: int) -> bool:
        """Whether a number with an A after it begins a key's line, and no list of options."""
        if self.in_key and explained_at(self.lines, at):
            return True
        return key.is_key(self.lines[at]) or bool(single_answers(self.lines, at))

    def _take_key(self, at: int) -> int:
        line = self.lines[at]
        found = key.read_key_line(line)
        if found is not None and (run := single_answers(self.lines, at)):
            for answers in run:
                self._add_answers(answers, [])
            self.key_end = at + len(run)
            return len(run)
        taken = 1
        if found is None and at + 1 < len(self.lines):
            found = key.read_key_table(line, self.lines[at + 1])
            found = found or key.read_broken(line, self.lines[at + 1])
            if found is not None and found[1] and not (found[0] or self.in_key):
                found = None  # a heading, `Questions 1-3`, above another, `A`
            taken = 2
        if found is None:
            return self._take_odd_key(at)
        answers, problems = found
        count = len(answers) + sum(len(problem.numbers) for problem in problems)
        why = line if len(answers) == 1 and key.WHY.search(line.shadow) else None
        if count < 2 and not (self.in_key or self._follows_key(at, answers)):
            items = self.blocks[-1].items
            if not items or not answers or items[-1].number != answers[0].number:
                return 0
            self._answer_below(items[-1], answers[0].letter, why)
            return taken
        self.answered, self.keyed, self.explained = len(answers) == 1, True, why
        self._add_answers(answers, problems)
        self.key_end = at + taken
        return taken

    def _follows_key(self, at: int, answers: Sequence[key.KeyEntry]) -> bool:
        """Whether a single answer under a line of a key continues its numbers.

        It may also repeat one of them, which is then a duplicate.
        """
        before = self.blocks[-1].answers
        if at != self.key_end or not before or not answers:
            return False
        again = any(answer.number == answers[0].number for answer in before)
        return again or answers[0].number == before[-1].number + 1

    def _take_odd_key(self, at: int) -> int:
        """Read a key in a form recognised only under a heading: see `lookahead`."""
        if not self.in_key:
            return 0
        found, taken = odd_key(self.lines, at, self.labels)
        if found:
            self._add_answers(found, [])
            self.answered = True
            self.explained = self.lines[at] if explanation_at(self.lines, at) else None
            self.key_end = at + taken
        return taken

    def _take_under(self, line: Line) -> bool:
        """Read `Answer: B` under a question as its answer."""
        found = None if self.in_key else key.read_under(line)
        items = self.blocks[-1].items
        if found is None or not items or items[-1].number is None or len(self.row) > 1:
            return False
        letter, explained = found
        self._answer_below(items[-1], letter, line if explained else None)
        return True

    def _answer_below(self, item: Item, letter: str, explained: Line | None) -> None:
        item.below += letter
        self.row = []
        self.answered, self.explained = True, explained

    def _take_explanation(self, line: Line) -> bool:
        """Leave out the explanation of the answer before it, which may span several lines."""
        begins = key.WHY.match(line.shadow) is not None and (self.in_key or self.answered)
        if key.EXPLAINS.match(line.shadow.lstrip()):
            begins = begins or self.in_key or self.answered or self.keyed
        if not begins and not (self.explained and self._goes_on_explaining(self.explained, line)):
            self.answered, self.keyed, self.explained = False, False, None
            return False
        self.answered, self.explained = True, line
        self.left_out.append(LeftOut(line.place, line.text.strip(), "explanation"))
        return True

    def _goes_on_explaining(self, before: Line, line: Line) -> bool:
        role = role_of(line.shadow)
        if key.EXPLAINS.search(line.shadow) or (role == "foreign" and not begins_section(line)):
            return True
        if line.gap or line.whole or first_mark(line) or _QUESTION.match(line.shadow):
            return False
        broken = line.shadow.lstrip()[:1].islower() or wraps(before, line, self.width)
        return role == "foreign" or (role == "text" and broken)

    def _add_answers(self, answers: list[key.KeyEntry], problems: Sequence[key.KeyProblem]) -> None:
        block = self.blocks[-1]
        if not self.in_key and block.text and not block.items and not block.answers:
            # A key without a heading: the text above it was taken for the next passage.
            self.labels.append(block.text[-1].shadow)
        block.answers += key.labelled(answers, *(x for x in self.labels if len(x) < LABEL))
        self.labels = []
        block.key_problems += problems

    def _take_unread(self, at: int) -> int:
        """Set apart an unreadable line that looks like a key, so that it is not read as text."""
        line = self.lines[at]
        run = letters_below(self.lines, at) if self.in_key else 0
        problem = problem_at(line) if run else unread_key(line, self.in_key)
        if problem is None and (number := self._written_out(at)) is not None:
            problem = problem_at(line, [number])
        if problem is None:
            return 0
        self.blocks[-1].key_problems.append(problem)
        self.left_out.append(LeftOut(line.place, line.text.strip(), "looks like a key"))
        self.labels = []
        self.row = []
        return run or 1

    def _written_out(self, at: int) -> int | None:
        """The number of an answer in words, `2. next year`, to a question above the key."""
        match = _ANSWER.fullmatch(self.lines[at].shadow) if self.in_key else None
        if match is None or len(words(match[2])) > MOST_WORDS or self._question_ahead(at):
            return None
        number = int(match[1])
        asked = (item.number for block in self.blocks for item in block.items)
        return number if number in asked else None

    # Items

    def _heads(self, line: Line) -> list[Head]:
        return [] if self.only_key else heads_in(line)

    def _open(self, line: Line, heads: Sequence[Head]) -> None:
        if line.shadow[: heads[0].start].strip():
            if self.row:
                self._append(Piece(line, 0, heads[0].start))
            else:
                self._take_text(line)
                return
        self._leave_key()
        ends = [*(head.start for head in heads[1:]), len(line.text)]
        row = []
        for head, end in zip(heads, ends, strict=True):
            body = [Piece(line, head.body, end)]
            row.append(Item(head.number, line.place, body=body, answer=head.answer))
        self.blocks[-1].items += row
        self.row = row

    def _question_ahead(self, at: int) -> tuple[int, Mark] | None:
        match = START.match(self.lines[at].shadow)
        if self.only_key or match is None or not match["sep"]:
            return None
        return (
            None if self._is_in_text(int(match["number"]) - 1) else question_ahead(self.lines, at)
        )

    def _is_in_text(self, number: int) -> bool:
        """Whether a number is a blank of the current text, which has no items yet."""
        block = self.blocks[-1]
        if block.items:
            return False
        pattern = re.compile(rf"(?:[_(\[]\s*{number}\s*[_)\].]|(?<![0-9]){number}\s*\.?\s*_)")
        return any(pattern.search(line.shadow) for line in block.text[-PASSAGE_LINES:])

    def _take_question(self, at: int, question: tuple[int, Mark]) -> None:
        last, mark = question
        match = START.match(self.lines[at].shadow)
        assert match is not None
        self._leave_key()
        item = Item(int(match["number"]), self.lines[at].place, answer=answer_before(match))
        for number in range(at, last + 1):
            line = self.lines[number]
            start = match.end() if number == at else 0
            end = mark.start if number == last else len(line.text)
            item.stem.append(Piece(line, start, end))
            if number > at and end > 0 and (line.gap or line.turns) and line.text[:end].strip():
                item.trouble = (
                    f"its question may continue with {_beginning(line)}, or end before it"
                )
        line = self.lines[last]
        item.body.append(Piece(line, mark.start, len(line.text)))
        self.blocks[-1].items.append(item)
        self.row = [item]

    def _is_label(self, at: int, mark: Mark) -> bool:
        """Whether a letter in brackets, `(B)`, is the label of the passage below it.

        An option on the line below its letter continues its list.
        """
        if self.row and mark.index >= len({other.index for other in _marks(self.row[-1])}):
            return False
        return label_at(self.lines, at)

    def _take_marked(self, at: int, mark: Mark) -> bool:
        line = self.lines[at]
        if self.only_key:
            return False
        if self.row and mark.index:
            self._spread(line)
            return True
        if mark.index or not list_ahead(self.lines[at : at + 2 * AHEAD]):
            return False
        self._leave_key()
        if not self.row and self.blocks[-1].items and self.blocks[-1].items[-1].number is not None:
            self.blocks.append(Block())
        item = Item(None, line.place, body=[Piece(line, mark.start, len(line.text))])
        self.blocks[-1].items.append(item)
        self.row = [item]
        return True

    def _spread(self, line: Line) -> None:
        """Add a line that begins with a mark to the open item, or its parts to several in a row."""
        marks = marks_in(Piece(line, 0, len(line.text)))
        cuts = [marks[0]]
        for before, mark in pairwise(marks):
            if mark.index <= before.index:
                cuts.append(mark)
        if len(self.row) == 1 or len(cuts) != len(self.row):
            self._append(Piece(line, 0, len(line.text)))
            return
        ends = [*(mark.start for mark in cuts[1:]), len(line.text)]
        for item, mark, end in zip(self.row, cuts, ends, strict=True):
            item.columns = True
            item.body.append(Piece(line, mark.start, end))

    def _append(self, piece: Piece) -> None:
        self.row[-1].body.append(piece)

    def _goes_on(self, at: int) -> bool:  # noqa: PLR0911 - one case, one answer
        """Whether a line without a mark belongs to the option before it."""
        line, item = self.lines[at], self.row[-1]
        if item.body[-1].line.whole and line.whole and not _marks(item):
            return False
        wanted = len({mark.index for mark in _marks(item)})
        for other in self.lines[at + 1 : at + 1 + AHEAD]:
            mark = first_mark(other)
            if mark is not None and mark.index == wanted:
                if not (line.shadow.lstrip()[:1].islower() or self._fills(item, line)):
                    # The header of a page may be in between.
                    item.trouble = (
                        f"an option may continue with {_beginning(line)}, or end before it"
                    )
                return True
            if mark is not None or self._heads(other):
                break
        inside = marks_in(Piece(line, 0, len(line.text)))
        if inside and inside[0].index == wanted and len(self.row) == 1:
            return True
        if not self._fills(item, line) or role_of(line.shadow) != "text":
            return False
        if line.shadow.lstrip()[:1].islower():
            return True
        following = self.lines[at + 1 : at + AHEAD]
        if any(self._heads(other) or _numbered(other, item.number) for other in following):
            return True
        item.trouble = f"its last option may continue with {_beginning(line)}, or end before it"
        return False

    def _fills(self, item: Item, line: Line) -> bool:
        """Whether the line above is full, so that the option was broken there."""
        return wraps(item.body[-1].line, line, self.width)

    def _go_on(self, line: Line) -> None:
        """Add a line without a mark to the option before it, if that is the only one nearby."""
        if len(self.row) > 1 or in_columns(self.row[0].body[-1].line):
            for item in self.row:
                item.trouble = f"{_beginning(line)} may belong to any option of the line above it"
        self._append(Piece(line, 0, len(line.text)))

    # Text

    def _leave_key(self) -> None:
        self.labels = []
        self.answered, self.explained = False, None
        if self.in_key or self.blocks[-1].answers:
            self.in_key = self.only_key
            if not self.only_key and (self.blocks[-1].answers or self.blocks[-1].key_problems):
                self.blocks.append(Block())

    def _take_text(self, line: Line) -> None:
        self.row = []
        if self.in_key:
            prose = len(words(line)) >= 8 and role_of(line.shadow) == "text"
            if self.only_key or not prose:
                numbers = re.match(r"\s*[(\[]?\s*([0-9]{1,4})\s*[.、)\]:-]", line.shadow)
                if numbers:
                    problem = key.KeyProblem(
                        (int(numbers[1]),),
                        line.place,
                        f"the answer to {numbers[1]} in the key is not a letter",
                        "" if self.only_key else WAY_OUT,
                        in_words=True,
                    )
                    self.blocks[-1].key_problems.append(problem)
                else:
                    self.left_out.append(LeftOut(line.place, line.text.strip(), "in the key"))
                    self.labels.append(line.shadow)
                return
        self._leave_key()
        if self.blocks[-1].items:
            self.blocks.append(Block())
        self.blocks[-1].text.append(line)


def _beginning(line: Line) -> str:
    return repr(shortened(line.text, 30))


def _is_running(line: Line) -> bool:
    """Whether a line may belong to a passage, and not to options, a question or a key."""
    return not (marks_in(_all(line)) or _QUESTION.match(line.shadow) or key.read_key_line(line))


def _all(line: Line) -> Piece:
    return Piece(line, 0, len(line.text))


def _marks(item: Item) -> list[Mark]:
    return [mark for piece in item.body for mark in marks_in(piece)]


def _numbered(line: Line, number: int | None) -> bool:
    match = START.match(line.shadow)
    return match is not None and number is not None and int(match["number"]) == number + 1
