"""Options in columns that are read downwards, as word banks are often printed."""

import pytest
from exam import CLOZE, KEY, OPTIONS, STORY, bring, understood

from albert_rc.printed.run import import_papers

WORDS = (
    "made found arrived worried consuming hear own including hungry direct staple raw proud "
    "reached surprising"
).split()
ANSWERS = "\nAnswers\n36-38 BFD\n"


def bank(rows, words=WORDS):
    """Words with their letters in columns of some rows, each word under the one before it."""
    marked = [f"{chr(65 + index)}) {word}" for index, word in enumerate(words)]
    lines = ["".join(f"{cell:<20}" for cell in marked[row::rows]) for row in range(rows)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


@pytest.mark.parametrize("rows", [3, 4, 5, 8, 15])
def test_a_word_bank_of_any_number_of_columns(tmp_path, rows):
    papers, refused, _ = bring(tmp_path, STORY + "\n" + bank(rows) + ANSWERS)
    assert refused == []
    assert papers == [CLOZE | {"options": [WORDS] * 3, "answers": ["B", "F", "D"]}]


def test_a_last_row_of_the_right_column_alone(tmp_path):
    words = WORDS[:5]
    text = "A) made      C) arrived\nB) found     D) worried\n             E) consuming\n"
    papers, refused, _ = bring(tmp_path, STORY + "\n" + text)
    assert refused == []
    assert papers[0]["options"] == [words] * 3


def test_lists_of_four_in_two_columns(tmp_path):
    lists = "".join(
        f"{number}. A. {a:<20}C. {c}\n    B. {b:<20}D. {d}\n"
        for number, (a, b, c, d) in enumerate(OPTIONS, 36)
    )
    papers, refused, _ = bring(tmp_path, STORY + lists + KEY)
    assert refused == []
    assert papers == [CLOZE]


REFUSED = {
    "a line that may go on with any above it": ("L) raw", "L) raw\n                    again"),
    "a letter twice": ("G) own", "H) own"),
    "a letter missing": ("G) own", ""),
    "letters that change places": ("C) arrived          H) incl", "H) arrived          C) incl"),
    "columns without wide spaces": ("made             F) hear", "made F) hear"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_other_columns_are_refused(tmp_path, name):
    before, after = REFUSED[name]
    text = STORY + "\n" + bank(5)
    assert before in text
    papers, _, (found,) = bring(tmp_path, text.replace(before, after))
    assert papers == []
    assert found.all_troubles()


def test_a_word_bank_of_a_table_in_word(tmp_path):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    for line in STORY.splitlines():
        document.add_paragraph(line)
    table = document.add_table(5, 3)
    for index, word in enumerate(WORDS):
        table.cell(index % 5, index // 5).text = f"{chr(65 + index)}) {word}"
    document.add_paragraph("Answers: 36-38 BFD")
    path = tmp_path / "exam.docx"
    document.save(path)
    papers, refused, _ = understood(import_papers([path]))
    assert refused == []
    assert papers[0]["options"] == [WORDS] * 3
