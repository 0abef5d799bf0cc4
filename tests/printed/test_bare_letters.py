"""Papers of Cambridge's form: letters without full stops, and an example with number 0."""

import re

import pytest
from exam import CLOZE, KEY, LISTS, QUESTIONS, RACE, STORY, TEXT, as_word, bring, styled, understood

from albert_rc.printed.lines import make_lines
from albert_rc.printed.read.signs import repair_signs
from albert_rc.printed.run import import_papers

BARE = re.sub(r"([0-9]{2}|[A-D])\.", r"\1", LISTS)
EXAMPLE = "Example:\n0  A found   B saw   C noticed   D looked\n"
INSTRUCTION = (
    "For questions 36-38, read the text below and decide which answer (A, B, C or D) best fits "
    "each gap. There is an example at the beginning (0).\n\n"
)
WITH_EXAMPLE = styled("({}) ........").replace("Tom was", "Tom (0) ........")


@pytest.mark.parametrize(
    "lists",
    [
        BARE,
        re.sub(" +", " ", BARE),
        BARE.replace(" A ", "\tA\t").replace("  B ", "\tB\t"),
        re.sub(r" +C ", "\n    C ", BARE),
        re.sub(r" +([A-D]) ", r"\n\1 ", BARE),
        re.sub(r" +([A-D]) ", r"\n   \1   ", BARE),
        "36  A made      37  A hear      38  A worried\n"
        "    B lost          B cook          B proud\n"
        "    C sold          C hate          C lazy\n"
        "    D found         D own           D hungry\n",
    ],
    ids=["a row", "spaces", "tabs", "two columns", "one a line", "apart", "side by side"],
)
def test_letters_without_full_stops(tmp_path, lists):
    papers, refused, imports = bring(tmp_path, STORY + lists + KEY)
    assert refused == []
    assert papers == [CLOZE]
    assert "3 lists of options" in imports[0].notes[-1]


def test_questions_whose_numbers_have_no_full_stops_either(tmp_path):
    bare = re.sub(r"(?m)(^39|^40|\b[A-D])\.", r"\1", QUESTIONS)
    papers, refused, _ = bring(tmp_path, TEXT + bare + "\nAnswers\n39-40 BA\n")
    assert refused == []
    assert papers == [RACE]


@pytest.mark.parametrize("dots", ["\n........ a brown", "\n........\na brown", "\n……… a brown"])
def test_dots_of_a_blank_on_the_next_line(tmp_path, dots):
    story = styled("({}) ........").replace("(36) ........ a brown", f"(36){dots}")
    (paper,), refused, _ = bring(tmp_path, story + LISTS + KEY)
    assert refused == []
    assert paper["article"].split() == CLOZE["article"].split()


def test_numbers_alone_above_options_that_have_full_stops(tmp_path):
    lists = re.sub(r"(?m)^([0-9]{2})\.", r"\1\n", LISTS)
    papers, refused, imports = bring(tmp_path, STORY + lists + KEY)
    assert (papers, refused) == ([CLOZE], [])
    assert not imports[0].all_troubles()


def test_options_in_the_cells_of_a_table(tmp_path):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    for line in STORY.splitlines():
        document.add_paragraph(line)
    table = document.add_table(rows=3, cols=9)
    for row, line in zip(table.rows, BARE.splitlines(), strict=True):
        for cell, text in zip(row.cells, line.split(), strict=True):
            cell.text = text
    document.add_paragraph("Key: 36-38 DDA")
    document.save(tmp_path / "exam.docx")
    papers, refused, _ = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert [paper["options"] for paper in papers] == [CLOZE["options"]]


SENTENCES = """\
A  He was late again.
B  The driver knew him by his name and by the colour of
his bag.
C  It was raining.
D  The bus was empty.
E  Nobody had seen it.
"""


def test_sentences_for_all_blanks(tmp_path):
    text = f"{STORY}\n{SENTENCES}\nKey: 36 E 37 A 38 C\n"
    papers, refused, _ = bring(tmp_path, text)
    assert refused == []
    assert [len(options) for options in papers[0]["options"]] == [5, 5, 5]
    assert papers[0]["options"][0][1].endswith("the colour of his bag.")
    assert papers[0]["answers"] == ["E", "A", "C"]


def test_the_word_i_is_no_option(tmp_path):
    more = "F  She sat down.\nG  When the bus came,\nI was asleep.\nH  It was late.\n"
    text = f"{STORY}\n{SENTENCES}{more}\nKey: 36 E 37 A 38 H\n"
    papers, _, imports = bring(tmp_path, text)
    assert papers == []
    said = [str(trouble) for trouble in imports[0].all_troubles()]
    assert any("may continue with 'I was asleep.'" in one for one in said)


def test_a_list_of_fifteen_words(tmp_path):
    words = [f"word{n}" for n in range(15)]
    box = "\n".join(
        "   ".join(f"{letter}  {word}" for letter, word in pairs)
        for pairs in batches(list(zip("ABCDEFGHIJKLMNO", words, strict=True)), 5)
    )
    papers, refused, _ = bring(tmp_path, f"{STORY}\n{box}\n\nKey: 36 O 37 A 38 H\n")
    assert refused == []
    assert papers[0]["options"] == [words] * 3


def batches(values, size):
    return [values[start : start + size] for start in range(0, len(values), size)]


READING = (
    TEXT
    + re.sub(r"(?m)(^39|^40|\b[A-D])\.", r"\1", QUESTIONS)
    + """\
41 What is a loaf?
A A kind of bread.
B A kind of oven.
C A bag.
D A table.
"""
)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("D bread is dry\n", "\n", "begins a list of another length"),
        ("D A table.\n", "", "begins a list of another length"),
        ("C In a bag.", "C .5", "begins a list of another length"),
        ("B In a warm oven.", "B In a warm\n1995 oven.", ""),
        ("40 Where should a loaf", "40 Where in\n1995 should a loaf", "should have options"),
        ("40 Where", "4 Where", "has number 4 after 39"),
        ("A A kind of bread.\nB A kind of oven.\nC A bag.\nD A table.\n", "", "should have opt"),
        (
            "41 What is a loaf?",
            "41 What is a loaf?\n\n\nA\n\nlong\nline\nor\nfive\n",
            "should have",
        ),
        ("D On a table.", "D On a table.\nE In a box.\n", ""),
        ("D A table.", "D A table.\nwhich is wrapped\nE In a box.\n", ""),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, old, new, said):
    assert old in READING
    assert len(bring(tmp_path, READING)[0][0]["questions"]) == 3
    papers, _, imports = bring(tmp_path, READING.replace(old, new))
    assert papers == []
    assert any(said in str(trouble) for trouble in imports[0].all_troubles())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("D  The bus was empty.", "\n- 3 -\n\nHilltop\nSchool\n2026\nD  The bus was empty."),
        ("C  It was raining.\n", ""),
        ("E  Nobody", "F  Nobody"),
    ],
)
def test_sentences_that_are_cut_are_refused(tmp_path, old, new):
    assert old in SENTENCES
    text = f"{STORY}\n{SENTENCES}F  It was late.\n".replace(old, new)
    papers, _, imports = bring(tmp_path, text)
    assert papers == []
    assert imports[0].all_troubles()


def test_papers_with_marks_stay_as_they_are(tmp_path):
    points = "There are two ways.\n1  The small one\nA  friends\nB  food\nC  music\n"
    points += "2  The large one\nA  a hall\nB  a band\nC  a cook\n"
    lines = make_lines((points + TEXT + QUESTIONS).splitlines())
    assert repair_signs(lines) == (lines, [], [])


@pytest.mark.parametrize(
    "text",
    [
        "1 A 2 B 3 C 4 D\n5 A 6 B 7 C 8 D",
        "1  A  2  B  3  C  4  D\n5  A  6  B  7  C  8  D",
        "1  A   B   C   D\n2  A   B   C   D",
        "12  A man came in.\nB  went out.",
        "A  Hello.\nB  Hello.\nC  Hello.\nA  Goodbye.\nB  Goodbye.\nC  Goodbye.",
        "1  A led   B brought   C carried   D drove",
        "1990 was the year of A B and C.\n1991 was the year of A B and C.",
    ],
)
def test_letters_that_begin_no_options_stay(text):
    lines = make_lines(text.splitlines())
    assert repair_signs(lines) == (lines, [], [])


def test_a_letter_within_an_option_is_no_mark(tmp_path):
    lists = BARE.replace("made", "Vitamin C").replace("cook", "A")
    papers, refused, _ = bring(tmp_path, STORY + lists + KEY)
    assert refused == []
    assert papers[0]["options"][0] == ["Vitamin C", "lost", "sold", "found"]
    assert papers[0]["options"][1] == ["hear", "A", "hate", "own"]


@pytest.mark.parametrize(
    ("example", "word"),
    [
        (EXAMPLE, "..."),
        (EXAMPLE + "0  A B C D\n", "..."),
        (EXAMPLE + "Answer: B\n", "saw"),
        (EXAMPLE + "0 D\n", "looked"),
    ],
)
def test_an_example_is_no_question(tmp_path, example, word):
    text = f"{INSTRUCTION}{example}\n{WITH_EXAMPLE}{BARE}{KEY}"
    papers, refused, imports = bring(tmp_path, text)
    assert refused == []
    assert papers[0]["article"] == CLOZE["article"].replace("Tom was", f"Tom {word}")
    assert papers[0]["options"] == CLOZE["options"]
    left = [line.text for line in imports[0].left_out if line.why == "example"]
    assert left == [line.strip() for line in repaired(example)]
    assert any("blank 0 (line" in note for note in imports[0].notes)


@pytest.mark.parametrize("blank", ["(0) ....A....", "(0) found", "(0) ...found...", "(0)__found__"])
def test_an_example_with_its_answer_in_the_blank(tmp_path, blank):
    story = WITH_EXAMPLE.replace("(0) ........", blank)
    papers, refused, _ = bring(tmp_path, f"{INSTRUCTION}{EXAMPLE}\n{story}{BARE}{KEY}")
    assert refused == []
    assert papers[0]["article"] == CLOZE["article"].replace("Tom was", "Tom found")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("   D looked", "\n   D looked"),
        ("D looked\n", "D looked  Answer: D\n"),
        ("D looked\n", "D looked\nThe answer is D.\n"),
        ("Tom (0) ........", "Tom (0) cold"),
        ("bag\nunder", "bag (0) ........\nunder"),
    ],
)
def test_an_unclear_example_is_refused(tmp_path, old, new):
    text = f"{INSTRUCTION}{EXAMPLE}\n{WITH_EXAMPLE}{BARE}{KEY}"
    assert old in text
    _, refused, _ = bring(tmp_path, text.replace(old, new))
    assert 0 in refused


@pytest.mark.parametrize("apart", [False, True])
def test_a_key_may_have_the_example_as_well(tmp_path, apart):
    text, key = f"{INSTRUCTION}{EXAMPLE}\n{WITH_EXAMPLE}{BARE}", "\nKey: 0 A 36 D 37 D 38 A\n"
    papers, refused, imports = bring(
        tmp_path, text if apart else text + key, key=key if apart else None
    )
    assert refused == []
    assert papers[0]["answers"] == CLOZE["answers"]
    assert any("the key's answer to 0" in note for one in imports for note in one.notes)


def test_a_tick_is_the_answer_of_an_example(tmp_path):
    example = "0. A. found   B. saw   √C. noticed   D. looked\n"
    papers, refused, _ = bring(tmp_path, f"{INSTRUCTION}{example}\n{WITH_EXAMPLE}{LISTS}{KEY}")
    assert refused == []
    assert papers[0]["article"] == CLOZE["article"].replace("Tom was", "Tom noticed")


def repaired(example):
    lines, *_ = repair_signs(make_lines((example + BARE).splitlines()))
    return [line.text for line in lines[:-3]]


def test_an_example_whose_options_are_missing_is_refused_by_its_number(tmp_path):
    text = WITH_EXAMPLE + BARE
    for number, printed in enumerate(("36", "37", "38"), 1):
        text = text.replace(printed, str(number))
    papers, refused, _ = bring(tmp_path, text)
    assert (papers, refused) == ([], [0])


def test_in_word_as_well(tmp_path):
    text = tmp_path / "exam.txt"
    text.write_text(EXAMPLE + "\n" + WITH_EXAMPLE + BARE + KEY)
    as_word(text, tmp_path / "exam.docx")
    papers, refused, _ = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert papers[0]["options"] == CLOZE["options"]
