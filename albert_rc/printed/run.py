"""The steps of an import, from printed papers and a key to papers with notes and problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from albert_rc.io.files import natural_key
from albert_rc.io.messages import counted
from albert_rc.printed.bounds import bounded
from albert_rc.printed.build.assemble import assemble
from albert_rc.printed.build.doubts import report_doubts
from albert_rc.printed.build.write import check_readable, name_papers, require_own_names
from albert_rc.printed.extract import read_printed, require_printed
from albert_rc.printed.lines import shadow_of
from albert_rc.printed.papers import Import, Paper, Trouble, spans
from albert_rc.printed.read.example import without_example
from albert_rc.printed.read.glosses import set_glosses_aside
from albert_rc.printed.read.line_numbers import without_line_numbers
from albert_rc.printed.read.other_marks import key_with_letters, with_letters
from albert_rc.printed.read.signs import repair_signs
from albert_rc.printed.recognise import key
from albert_rc.printed.recognise.answers import assign, must_agree
from albert_rc.printed.recognise.blocks import Outline
from albert_rc.printed.recognise.marked import collect_marks, use_marks
from albert_rc.printed.recognise.outline import read_outline
from albert_rc.printed.recognise.unread import key_in_text, lost_answers


def import_papers(
    paths: Sequence[Path],
    key_path: Path | None = None,
    keep_glosses: bool = False,
    keep_unsure: bool = False,
) -> list[Import]:
    """Read printed papers.

    Args:
        paths: papers as text, Word documents, PDF, pictures, or folders of pictures.
        key_path: file with the answers to all of them, if they are separate.
        keep_glosses: leave translations in brackets in the text.
        keep_unsure: accept words of a picture that may have been misread; notes list them.

    Raises:
        UsageError: an unsupported file type, or two papers with the same name.
        DataError: a file cannot be read, or not within the limits of time and memory.
    """
    _check_first(paths, key_path)
    imports = []
    examples = False
    for path in paths:
        with bounded(path):
            found, has_example = _read_papers(path, key_path, keep_glosses, keep_unsure)
        examples |= has_example
        imports.append(found)
    if key_path is not None:
        with bounded(key_path):
            text = read_printed(key_path)
            outline = read_outline(key_with_letters(text.lines), only_key=True)
            of_example = _without_zero(outline, examples)
        of = f"{key_path.name}, "
        answers = [
            replace(answer, place=of + answer.place)
            for block in outline.blocks
            for answer in block.answers
        ]
        papers = [paper for found in imports for paper in found.papers]
        own = [(paper.answers, paper.answered_at) for paper in papers]
        if len(paths) > 1:  # the key may use its name as a label
            for found in imports:
                for paper in found.papers:
                    paper.headings.append(shadow_of(Path(found.source).stem))
        said = f"a key with {counted(len(answers), 'answer')}"
        notes = [said, *text.notes, *of_example]
        rest = Import(str(key_path), [], assign(papers, answers), outline.left_out, notes)
        for paper, (before, places) in zip(papers, own, strict=True):
            if before is not None and len(before) == len(paper.numbers):
                at = [places[number] for number in paper.numbers]
                others = zip(paper.numbers, before, at, strict=True)
                must_agree(paper, others, "in the paper's own key", f"in {key_path}")
        report_doubts(rest, text, keep_unsure)
        _blame_key(outline, papers, rest, of)
        rest.troubles += lost_answers(outline.left_out, _unanswered(papers))
        if not answers:
            rest.troubles.append(
                Trouble((), "", "it contains no answers", "write them as `36-40 ABCDA`")
            )
        imports.append(rest)
    for found in imports:
        use_marks(found.papers)
    name_papers(imports)
    for found in imports:
        for paper in found.papers:
            if paper.whole:
                check_readable(paper)
    return imports


def _read_papers(
    path: Path, key_path: Path | None, keep_glosses: bool, keep_unsure: bool
) -> tuple[Import, bool]:
    """The papers of a file, and whether it has an example that a key may answer."""
    text = read_printed(path)
    lines, of_margin = without_line_numbers(text.lines)
    lines, of_glosses = set_glosses_aside(lines, keep_glosses)
    lines, of_marks, odd = with_letters(lines)
    lines, of_signs, unclear = repair_signs(lines)
    lines, example, of_example = without_example(lines)
    outline = read_outline(lines)
    of_example += _without_zero(outline, bool(example))
    found = assemble(outline, str(path))
    found.text = [line.text for line in text.lines]
    found.notes += text.notes + of_margin + of_glosses + of_marks + of_signs + of_example
    found.left_out += example
    found.troubles += odd + unclear
    report_doubts(found, text, keep_unsure)
    _answer(found, outline, key_path)
    for paper in found.papers:
        paper.troubles += key_in_text(paper.article, paper.place)
    unanswered = set() if key_path is not None else _unanswered(found.papers)
    found.troubles += lost_answers(found.left_out, unanswered)
    found.left_out.sort(key=lambda line: natural_key(line.place))
    return found, bool(example)


def _without_zero(outline: Outline, examples: bool) -> list[str]:
    """Leave out a key's answers to examples, if there are any; the notes on that."""
    notes = []
    for block in outline.blocks if examples else ():
        notes += [
            f"the key's answer to 0 ({entry.place}), an example, was not used"
            for entry in block.answers
            if entry.number == 0
        ]
        block.answers = [entry for entry in block.answers if entry.number != 0]
    return notes


def _unanswered(papers: Sequence[Paper]) -> set[int]:
    """Numbers of the papers that have no key."""
    return {number for paper in papers if paper.answers is None for number in paper.numbers}


def _check_first(paths: Sequence[Path], key_path: Path | None) -> None:
    """Check all that can be checked before reading, because recognising pictures takes long."""
    for path in paths:
        require_printed(path)
    if key_path is not None:
        require_printed(key_path, "key")
    require_own_names(paths)


def _answer(found: Import, outline: Outline, key_path: Path | None) -> None:
    """Give papers the answers from their own file.

    These are not used if some of them are unreadable and there is a separate key, since the message
    proposes a separate key as the solution.
    """
    answers: list[key.KeyEntry] = []
    followed: list[tuple[int, Sequence[key.KeyEntry]]] = []
    papers = 0
    for block in outline.blocks:
        collect_marks(found.papers[papers : papers + block.papers], block.items)
        papers += block.papers
        answers += block.answers
        if block.answers:
            followed.append((papers, block.answers))
    unread = [p.place for block in outline.blocks for p in block.key_problems if p.way_out]
    if unread and key_path is not None:
        found.notes.append(
            f"its own key cannot be read ({', '.join(unread)}); {key_path} was used instead"
        )
        return
    found.troubles += assign(found.papers, answers, followed)
    _blame_key(outline, found.papers, found)


def _blame_key(outline: Outline, papers: Sequence[Paper], found: Import, of: str = "") -> None:
    """Report unreadable entries of the key to the papers that they are for.

    `of` begins the places in a key of another file.
    """
    for problem in (problem for block in outline.blocks for problem in block.key_problems):
        way_out = problem.way_out or "correct the key there"
        if not found.papers:  # the key's own file
            way_out = way_out.split(", or give it")[0]
        trouble = Trouble(problem.numbers, of + problem.place, problem.reason, way_out)
        owners = [paper for paper in papers if set(paper.numbers) & set(problem.numbers)]
        for paper in owners:
            paper.troubles.append(trouble)
        if not owners and problem.in_words and papers:
            # The question asks for words, so it has no options and belongs to no passage.
            named = spans(list(problem.numbers))
            found.notes.append(
                f"the key's answer to {named} ({trouble.place}) is not a letter, and {named} has "
                "no options: not used"
            )
        elif not owners:
            found.troubles.append(trouble)
