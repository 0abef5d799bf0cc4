"""Sections without a passage: their questions are never given to the passage above."""

import re

import pytest
from exam import CLOZE, KEY, LISTS, QUESTIONS, RACE, STORY, TEXT, bring

from albert_rc.printed.recognise.prose import role_of

GRAMMAR = """\
41. She ____ to school every day.
A. go  B. goes  C. going  D. gone
42. They ____ playing now.
A. is  B. are  C. am  D. be
"""
HEADINGS = [
    "II. Choose the best word.",
    "II. Complete the sentences.",
    "Complete the sentences.",
    "Grammar",
    "Grammar and vocabulary (10 marks)",
    "Multiple choice (10 marks)",
    "Part 2: Use of English. Complete the sentences with the right form.",
    "Part III Listen to the recording and choose. (10 points)",
    "Listen to the recording and choose.",
    "Listening. You will hear each dialogue twice.",
    "Underline the correct form.",
    "Vocabulary and grammar. Tick the right box.",
    "三、单项选择",
]


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_section_ends_the_passage_above(tmp_path, heading):
    text = f"{TEXT}\n{QUESTIONS}\n{heading}\n{GRAMMAR}\nAnswers\n39-42 BABB\n"
    papers, refused, imports = bring(tmp_path, text)
    assert (papers, refused) == ([RACE], [41, 42])
    (trouble,) = imports[0].all_troubles()
    assert "41-42: questions without a passage" in str(trouble)


@pytest.mark.parametrize("heading", HEADINGS)
def test_the_instruction_of_a_section_is_no_passage(tmp_path, heading):
    papers, refused, _ = bring(tmp_path, f"{heading}\n{GRAMMAR}")
    assert (papers, refused) == ([], [41, 42])
    text = f"{STORY}{LISTS}\n{heading}\n{GRAMMAR}{KEY}"
    papers, refused, _ = bring(tmp_path, text)
    assert (papers, refused) == ([CLOZE], [41, 42])


@pytest.mark.parametrize(
    "line",
    ["Do these quickly!", "Grammar test for Class 9, Spring term, Teacher: Mrs Smith.", "Go"],
)
def test_a_few_words_are_a_passage_only_if_a_heading_says_so(tmp_path, line):
    papers, refused, imports = bring(tmp_path, f"{line}\n{QUESTIONS}")
    assert (papers, refused) == ([], [39, 40])
    (trouble,) = imports[0].all_troubles()
    assert "may be an instruction or a heading" in str(trouble)
    assert "(line 1)" in str(trouble)
    for heading in ("Passage", "Text 2", "A", "Sign 1", "Passage 1\nRead it and choose A, B or C."):
        papers, refused, _ = bring(tmp_path, f"{heading}\n{line}\n{QUESTIONS}")
        assert (refused, [paper["article"] for paper in papers]) == ([], [line])


@pytest.mark.parametrize("printed", ["{}", "({})", "（{}）", "{}篇"])
@pytest.mark.parametrize("numerals", ["一二", ("I", "II")])
def test_sections_and_the_passages_in_them_are_numbered_apart(tmp_path, printed, numerals):
    """Section 一 is not passage A, and `(A)` above a passage is no option."""
    first, second = (f"{numeral}、" for numeral in numerals)
    more = QUESTIONS.replace("39.", "41.").replace("40.", "42.")
    story, lists = (re.sub(r"3(?=[678])|(?<=3)[678]", _from_one, part) for part in (STORY, LISTS))
    passages = "\n".join(
        f"{printed.format(letter)}\n{TEXT}\n{asked}"
        for letter, asked in (("A", QUESTIONS), ("B", more))
    )
    text = (
        f"{first}完形填空\n{story}{lists}\n{second}阅读理解\n{passages}\n"
        f"参考答案\n{first}1-3 DDA\n{second}39-40 BA  41-42 AB\n"
    )
    papers, refused, imports = bring(tmp_path, text)
    assert (refused, imports[0].all_troubles()) == ([], [])
    assert papers == [CLOZE, RACE, {**RACE, "answers": ["A", "B"]}]


def _from_one(match):
    return {"3": "", "6": "1", "7": "2", "8": "3"}[match[0]]


@pytest.mark.parametrize("lacking", [False, True])
def test_a_letter_above_its_option_is_no_label(tmp_path, lacking):
    """Such options are not read, but the last of them is not a passage either."""
    sentences = (
        "He went home early that day.",
        "He stayed in the town until the evening.",
        "He took the bus to the sea.",
        "He slept under the old trees.",
    )
    options = "".join(
        f"({letter})\n{sentence}\n"
        for letter, sentence in zip("ABCD", sentences, strict=True)
        if not (lacking and letter == "C")
    )
    other = QUESTIONS.replace("40.", "41.").replace("39.", "40.")
    papers, refused, _ = bring(tmp_path, f"{TEXT}\n39. What did he do?\n{options}{other}")
    assert (papers, refused) == ([], [39, 40, 41])


@pytest.mark.parametrize(
    "advice",
    [
        "Choose the right words",
        "Choose the right words. People will like you for it.",
        "Use the right words when you speak to old people.",
        "Listen to the rain.",
        "Writing to a friend",
        "Tests",
    ],
)
def test_advice_in_an_article_is_its_text(advice):
    assert role_of(advice) == "text"
