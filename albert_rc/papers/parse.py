"""Parsing of one paper's JSON into a Passage; all of its problems are reported.

Each `parse_*` takes the JSON value of one paper, its id and a `Problems`; it returns the passage,
or None after reporting at least one error.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from albert_rc.io.messages import LONGEST, counted, first_of, kind_of, quoted, shortened
from albert_rc.papers.schema import Passage, Problem, Question, Severity, letter, letter_index
from albert_rc.papers.words import is_whole, is_word

MAX_OPTIONS = 702  # A to ZZ
MAX_PROBLEMS = 100
"""Maximum number of problems reported per paper; more mean another convention, not mistakes."""
_RUN = re.compile(r"_+")
_LONGEST = 40  # letters of a word
_MISSING = object()


@dataclass
class Problems:
    """Collects the problems of one paper."""

    file: str
    strict: bool = False
    """Whether something that can only be read by guessing is an error."""
    problems: list[Problem] = field(default_factory=list)
    failed: bool = False
    """Whether an error was reported."""
    _counts: dict[Severity, int] = field(default_factory=dict)

    def error(self, message: str) -> None:
        """Report something that makes the paper unusable."""
        self.failed = True
        self._add(message, "error")

    def warning(self, message: str) -> None:
        """Report something unusual that leaves the paper usable."""
        self._add(message, "warning")

    def guess(self, message: str, read_as: str) -> None:
        """Report a mistake whose meaning is clear: a warning, or an error if strict."""
        if self.strict:
            self.error(message)
        else:
            self.warning(f"{message}; read as {read_as}")

    def _add(self, message: str, severity: Severity) -> None:
        number = self._counts[severity] = self._counts.get(severity, 0) + 1
        if number <= MAX_PROBLEMS:
            self.problems.append(Problem(self.file, shortened(message, LONGEST), severity))
        elif number == MAX_PROBLEMS + 1:
            said = f"more than {MAX_PROBLEMS} {severity}s in this paper; fix these first"
            self.problems.append(Problem(self.file, said, severity))


_OTHER_NAMES = {
    "article": ("text", "passage", "context", "content", "story"),
    "questions": ("question", "queries"),
    "options": ("choices", "candidates", "option"),
    "answers": ("answer", "Answers", "Answer", "key", "keys", "solution", "solutions", "correct"),
}
"""Other names for the fields."""


def _other_name(raw: dict[str, Any], key: str) -> str | None:
    """The name that a missing field probably has."""
    return next((name for name in _OTHER_NAMES.get(key, ()) if name in raw), None)


def _missing(raw: dict[str, Any], key: str) -> str:
    """The message for a missing field, with a solution."""
    said = f'the field "{key}" is missing'
    if other := _other_name(raw, key):
        return f'{said}; rename "{other}" to it'
    if key == "questions" and "options" in raw:
        return (
            f"{said}, as in a cloze paper; put papers with blanks and papers with questions into "
            "separate folders"
        )
    return f"{said}; add it"


def _text(raw: dict[str, Any], key: str, report: Problems) -> str | None:
    value = raw.get(key, _MISSING)
    if value is _MISSING:
        report.error(_missing(raw, key))
    elif not isinstance(value, str):
        report.error(f'"{key}" is {kind_of(value)}; it must be text')
    elif not value.strip():
        report.error(f'"{key}" is empty; a paper needs a text')
    else:
        return value
    return None


def _list(raw: dict[str, Any], key: str, report: Problems) -> list[Any] | None:
    value = raw.get(key, _MISSING)
    if value is _MISSING:
        report.error(_missing(raw, key))
    elif not isinstance(value, list):
        report.error(f'"{key}" is {kind_of(value)}; it must be a list')
    else:
        return value
    return None


def _answers(raw: dict[str, Any], report: Problems) -> list[Any] | None:
    """The list of answers, or None if the paper has none (a test paper)."""
    value = raw.get("answers")
    if "answers" not in raw and (other := _other_name(raw, "answers")):
        report.warning(
            f'the field "answers" is missing, and "{other}" is not read; if it holds the right '
            'answers, rename it to "answers"'
        )
    if value is None or value == []:
        return None
    if not isinstance(value, list):
        report.error(f'"answers" is {kind_of(value)}; it must be a list of letters')
        return None
    return value


def _options(value: Any, where: str, report: Problems) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        report.error(f"{where}: the options are {kind_of(value)}; they must be a list of texts")
        return None
    wrong = [letter(i) for i, option in enumerate(value) if not isinstance(option, str)]
    if wrong:
        named = ", ".join(first_of(wrong, 10))
        report.error(f"{where}: option {named} is not text; put it in quotes")
        return None
    if len(value) < 2:
        report.error(f"{where}: {counted(len(value), 'option')}; at least 2 are needed")
        return None
    if len(value) > MAX_OPTIONS:
        report.error(f"{where}: {len(value):,} options; at most {MAX_OPTIONS} are supported")
        return None
    stripped = [option.strip() for option in value]
    first: dict[str, int] = {}
    for i, option in enumerate(stripped):
        twin = first.setdefault(option, i)
        if not option:
            report.warning(f"{where}: option {letter(i)} is empty")
        elif twin < i:
            report.warning(
                f"{where}: options {letter(twin)} and {letter(i)} are both {quoted(option)}; "
                f"{letter(twin)} is the answer if they score best"
            )
    return tuple(stripped)


def _answer(value: Any, options: Sequence[str], where: str, report: Problems) -> int | None:
    num_options = len(options)
    given = value.strip() if isinstance(value, str) else ""
    index = letter_index(given)
    if index is None and given.isascii() and given not in options:
        index = letter_index(given.upper())
    if index is None:
        write = f"write A to {letter(num_options - 1)}"
        if given in options:
            right = letter(options.index(given))
            write = f"it is option {right}, so write {right}"
        report.error(f"{where}: the answer {quoted(value)} is not a letter; {write}")
        return None
    if index >= num_options:
        report.error(
            f"{where}: the answer is {given}, but the last of its {num_options} options is "
            f"{letter(num_options - 1)}; give one of the options"
        )
    return index


def find_blanks(
    article: str, options: list[Any] | None, report: Problems
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Find the blanks: each is a separate `_`, next to white space or punctuation.

    A blank attached to a letter (`_ing`, `un_`) or a run (`____`) is an error, since it suggests
    another convention, with which all later answers would be shifted. But if it is attached to a
    word (`introductory _course`), and its options are words too, only a space is missing, which is
    inserted. A number attached to a blank (`_31`), as in some real papers, is a warning.

    Args:
        article: the text.
        options: the options of each blank, possibly invalid.
        report: collects the problems.

    Returns:
        The text, and the first and past-last character of each blank.
    """
    parts: list[str] = []
    blanks: list[tuple[int, int]] = []
    length = done = 0
    for number, match in enumerate(_RUN.finditer(article), 1):
        start, end = match.span()
        before, after = article[start - 1 : start], article[end : end + 1]
        around = shortened(article[max(0, start - 12) : end + 12].replace("\n", " "))
        where = f"blank {number} (character {start + 1}, ...{around}...)"
        space_before = space_after = ""
        if end - start > 1:
            report.error(f"{where}: {end - start} underscores in a row; write a blank as one _")
        elif _is_letter(before) or _is_letter(after):
            said = f"{where}: the blank is attached to a word; put a space between them"
            left = _letters(article[max(0, start - _LONGEST) : start][::-1])[::-1]
            right = _letters(article[end : end + _LONGEST])
            if is_whole(left, right) and _are_words(options, number - 1):
                report.guess(said, " ".join(filter(None, (left, "_", right))))
                space_before, space_after = " " * bool(left), " " * bool(right)
            else:
                report.error(said)
        elif before.isdigit() or after.isdigit():
            report.warning(
                f"{where}: a number is attached to the blank; it is read as text next to it"
            )
        parts += [article[done:start], space_before, "_", space_after]
        length += start - done + len(space_before)
        blanks.append((length, length + 1))
        length, done = length + 1 + len(space_after), end
    return "".join((*parts, article[done:])), tuple(blanks)


def _letters(text: str) -> str:
    """The letters that a text begins with."""
    return "".join(takewhile(_is_letter, text))


def _is_letter(text: str) -> bool:
    """Whether a character is a letter, or an accent that is combined with one."""
    return text.isalpha() or (text != "" and unicodedata.combining(text) > 0)


def _are_words(options: list[Any] | None, index: int) -> bool:
    """Whether most options of a blank are whole words, not parts of words."""
    found = options[index] if options is not None and index < len(options) else None
    texts = [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
    whole = sum(all(map(is_word, re.findall("[A-Za-z]+", text))) for text in texts)
    return 2 * whole >= len(texts) > 0


def _counts(
    names: tuple[str, str, str], counts: tuple[int, int, int | None], report: Problems
) -> bool:
    """Check that the numbers of blanks, option lists and answers agree."""
    (blank, option, answer), (num_blanks, num_options, num_answers) = names, counts
    good = True
    if num_options != num_blanks:
        first, verb = min(num_blanks, num_options) + 1, "has none"
        lone = f"{blank} {first}" if num_options < num_blanks else f"{option} {first}"
        if num_options > num_blanks:
            verb = "belongs to none"
        report.error(
            f"{counted(num_blanks, blank)} but {counted(num_options, option)}; {lone} {verb}; "
            "add what is missing or remove what is superfluous"
        )
        good = False
    if num_answers is not None and num_answers != num_options:
        report.error(
            f"{counted(num_options, option)} but {counted(num_answers, answer)}; give one answer "
            'for each, or leave "answers" out'
        )
        good = False
    return good


def _questions(
    where: str, texts: list[str], options: list[Any], answers: list[Any] | None, report: Problems
) -> tuple[Question, ...]:
    questions = []
    for i, (text, raw_options) in enumerate(zip(texts, options, strict=True)):
        place = f"{where} {i + 1}"
        checked = _options(raw_options, place, report)
        answer = None
        if answers is not None and checked is not None and i < len(answers):
            answer = _answer(answers[i], checked, place, report)
        if checked is not None:
            questions.append(Question(checked, answer, text))
    return tuple(questions)


def parse_cloze(raw: Any, paper_id: str, level: str | None, report: Problems) -> Passage | None:
    """Parse ELE's and CLOTH's `{"article": "a _ b", "options": [[...]], "answers": [...]}`."""
    if not isinstance(raw, dict):
        report.error(f"the paper is {kind_of(raw)}; it must be an object with article and options")
        return None
    article = _text(raw, "article", report)
    options = _list(raw, "options", report)
    answers = _answers(raw, report)
    blanks: tuple[tuple[int, int], ...] = ()
    if article is not None:
        article, blanks = find_blanks(article, options, report)
    if options is None:
        return None
    if article is not None and not blanks:
        said = 'write each blank as " _ "'
        if "questions" in raw:
            said = "papers with questions must be given separately from cloze papers"
        report.error(f"the article has no blanks; {said}")
    names = ("blank", "option list", "answer")
    num_answers = None if answers is None else len(answers)
    counts = (len(blanks), len(options), num_answers)
    if blanks:
        _counts(names, counts, report)
    # Options are checked even if the counts differ, so that one run reports every problem.
    questions = _questions("blank", [""] * len(options), options, answers, report)
    if report.failed or article is None:
        return None
    return Passage(paper_id, article, questions, "cloze", blanks, level)


def parse_race(raw: Any, paper_id: str, level: str | None, report: Problems) -> Passage | None:
    """Parse RACE's `{"article", "questions", "options", "answers", "id"}`; the id is kept."""
    if not isinstance(raw, dict):
        report.error(f"the paper is {kind_of(raw)}; it must be an object with article, questions")
        return None
    article = _text(raw, "article", report)
    texts = _list(raw, "questions", report)
    options = _list(raw, "options", report)
    answers = _answers(raw, report)
    if article is None or texts is None or options is None:
        return None
    for i, text in enumerate(texts, 1):
        if not isinstance(text, str):
            report.error(f"question {i} is {kind_of(text)}; it must be text")
        elif not text.strip():
            report.error(f"question {i} is empty; add its text")
    if not texts:
        report.error('"questions" is empty; a paper needs a question')
    names = ("question", "option list", "answer")
    num_answers = None if answers is None else len(answers)
    if not _counts(names, (len(texts), len(options), num_answers), report):
        texts = [""] * len(options)
    questions = _questions("question", texts, options, answers, report)
    if report.failed:
        return None
    return Passage(paper_id, article, questions, "choice", (), level)


def parse_dream(raw: Any, paper_id: str, level: str | None, report: Problems) -> Passage | None:
    """Parse DREAM's `[turns, [{"question", "choice", "answer"}], id]`; answers are texts."""
    if not isinstance(raw, list) or len(raw) < 2:
        report.error(f"the dialogue is {kind_of(raw)}; it must be [turns, questions, id]")
        return None
    turns, items = raw[0], raw[1]
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) for t in turns):
        report.error("the turns of the dialogue must be a list of texts")
    if not isinstance(items, list) or not items:
        report.error("the dialogue has no questions; its second element must be a list of them")
    if report.failed:
        return None
    if not any(turn.strip() for turn in turns):
        report.error("the turns of the dialogue are empty; a paper needs a text")
    questions = [
        question
        for number, item in enumerate(items, 1)
        if (question := _dream_question(item, f"question {number}", report)) is not None
    ]
    if report.failed:
        return None
    return Passage(paper_id, "\n".join(turns), tuple(questions), "choice", (), level)


def _dream_question(item: Any, where: str, report: Problems) -> Question | None:
    if not isinstance(item, dict):
        report.error(f"{where} is {kind_of(item)}; it must be an object")
        return None
    text = item.get("question")
    if not isinstance(text, str) or not text.strip():
        report.error(f'{where}: "question" is missing, empty or not text; add it')
    if not isinstance(item.get("choice"), list):
        report.error(f'{where}: "choice" is missing or not a list; it must be a list of texts')
        return None
    options = _options(item["choice"], where, report)
    answer = item.get("answer")
    if options is None or not isinstance(text, str):
        return None
    index = None
    if answer is not None:
        if isinstance(answer, str) and answer.strip() in options:
            index = options.index(answer.strip())
        else:
            report.error(f"{where}: the answer {quoted(answer)} is not one of the choices")
    return Question(options, index, text)
