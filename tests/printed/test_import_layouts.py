"""Printed papers, one layout after the other: each is placed whole, or refused by number."""

import re

import pytest
from exam import (
    ARTICLE,
    CHINESE,
    CLOZE,
    KEY,
    LISTS,
    OPTIONS,
    QUESTIONS,
    RACE,
    STORY,
    TEXT,
    bring,
    styled,
)  # fmt: skip

WIDE = str.maketrans("0123456789ABCD.()", "０１２３４５６７８９ＡＢＣＤ．（）")
WHOLE = {
    "underlined numbers, a row of options": STORY + LISTS + KEY,
    "numbers in brackets": styled("({})") + LISTS + KEY,
    "numbers in square brackets": styled("[{}]") + LISTS + KEY,
    "bare numbers": styled("{}") + LISTS + KEY,
    "a number with its line behind it": styled("{}.____") + LISTS + KEY,
    "brackets on a line": styled("___( {} )___") + LISTS + KEY,
    "full-width signs and Chinese around": CHINESE
    + styled("（{}）").replace("36", "３６").replace("37", "３７").replace("38", "３８")
    + LISTS.translate(WIDE)
    + "\n参考答案\n３６～３８　ＤＤＡ\n",
    "options in two columns": STORY
    + "36. A. made         B. lost\n    C. sold         D. found\n"
    + "37. A. hear         B. cook\n    C. hate         D. own\n"
    + "38. A. worried      B. proud\n    C. lazy         D. hungry\n"
    + KEY,
    "one option a line, small letters, round signs": STORY
    + "".join(
        f"{n})\n" + "".join(f"  {mark}) {o}\n" for mark, o in zip("abcd", options, strict=True))
        for n, options in enumerate(OPTIONS, 36)
    )
    + "\nKey\n36 d 37 d 38 a\n",
    "two numbers side by side": STORY
    + "36. A. made      37. A. hear      38. A. worried\n"
    + "    B. lost          B. cook          B. proud\n"
    + "    C. sold          C. hate          C. lazy\n"
    + "    D. found         D. own           D. hungry\n"
    + KEY,
    "marks without white space": STORY
    + "36.A、made B、lost C、sold D、found\n37.A、hear B、cook C、hate D、own\n"
    + "38.A、worried B、proud C、lazy D、hungry\n答案：36.D 37.D 38.A\n",
    "page numbers and years": (STORY + LISTS + KEY)
    .replace("36. A. made", "\n              - 3 -\n\n36. A. made")
    .replace("38. A.", "\nPage 4 of 8\n\n38. A."),
    "a key as a table": STORY + LISTS + "\nAnswer Key\nNo.\t36\t37\t38\nAnswer\tD\tD\tA\n",
    "options over two lines": STORY + LISTS.replace("C. sold", "\n    C. sold") + KEY,
    "French instructions": "Lisez le texte et choisissez la bonne réponse (A, B, C ou D).\n\n"
    + STORY
    + LISTS
    + "\nCorrigé\n36: D, 37: D, 38: A\n",
    "the passage unbroken": "\n".join(
        " ".join(part.split()) for part in STORY.replace("\n    ", "\0").split("\0")
    )
    + "\n"
    + LISTS
    + KEY,
}


@pytest.mark.parametrize("name", WHOLE)
def test_cloze_layouts_are_placed_whole(tmp_path, name):
    papers, refused, _ = bring(tmp_path, WHOLE[name])
    assert refused == []
    assert papers == [CLOZE]


REFUSED = {
    "a blank without options": (STORY + LISTS.replace("37.", "73.") + KEY, {37, 73}),
    "options without a blank": (STORY.replace("__37__", "want") + LISTS + KEY, {37}),
    "a blank that stands twice": (STORY.replace("some keys", "some __37__") + LISTS + KEY, {37}),
    "options that stand twice": (STORY + LISTS.replace("38.", "37.") + KEY, {37, 38}),
    "an answer that is missing": (STORY + LISTS + "\nAnswers\n36-37 DD\n", {38}),
    "an answer that is no option": (STORY + LISTS + "\nAnswers\n36-38 DDE\n", {38}),
    "a range of another length": (STORY + LISTS + "\nAnswers\n36-38 DD\n", {36, 37, 38}),
    "an answer that stands twice": (STORY + LISTS + "\nAnswers\n36-38 DDA 37. B\n", {37}),
    "an option that is missing": (STORY + LISTS.replace("D. own", "") + KEY, {37}),
    "two cuts of a list": (
        STORY + LISTS.replace("A. hear     B. cook   C. hate  D", "A. B. Fox B. cook C. hate D"),
        {37},
    ),
    "options that go on in columns": (
        STORY + LISTS.replace("\n37", "\n       quickly     forever\n37") + KEY,
        {36},
    ),
    "a header inside a list": (
        STORY + LISTS.replace("   C. hate", "\nHilltop School\n   C. hate") + KEY,
        {37},
    ),
    "two bare numbers": (styled("{}").replace("a purse", "37 coins") + LISTS + KEY, {37}),
    "a bare number out of order": (
        styled("{}").replace(" 36 ", " X ").replace(" 38,", " 36,").replace(" X ", " 38 ") + LISTS,
        {36, 37, 38},
    ),
    "a text to fill in without options": (STORY.replace("__36__", "__36__ (find)"), {36, 37, 38}),
    "an underscore without a number": (
        STORY.replace("some keys", "some ____") + LISTS + KEY, set(),
    ),
    "questions without a passage": (QUESTIONS, {39, 40}),
    "an answer without a question": (STORY + LISTS + "\nAnswers\n36-39 DDAB\n", {39}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_placed_is_refused_by_number(tmp_path, name):
    text, numbers = REFUSED[name]
    papers, refused, imports = bring(tmp_path, text)
    assert set(refused) == numbers
    assert imports[0].all_troubles()
    if name != "an answer without a question":  # that is wrong with the key alone
        assert papers == []


def without_answers(paper):
    return {name: value for name, value in paper.items() if name != "answers"}


def test_several_passages_and_a_key_in_another_file(tmp_path):
    text = f"Section A\n\n{STORY}\n{LISTS}\nSection B\n\n{TEXT}\n{QUESTIONS}"
    papers, refused, _ = bring(tmp_path, text, key="Cloze: 36-38 DDA\nReading: 39. B  40. A\n")
    assert refused == []
    assert papers == [CLOZE, RACE]
    papers, refused, _ = bring(tmp_path, text)
    assert refused == []
    assert papers == [without_answers(CLOZE), RACE | {"answers": []}]


def restarted(text, shift):
    for number in range(36, 41):
        text = text.replace(f"{number}. ", f"{number - shift}. ").replace(
            f"__{number}__", f"__{number - shift}__"
        )
    return text


def test_numbers_that_begin_again(tmp_path):
    first, second = restarted(STORY + LISTS, 35), restarted(QUESTIONS, 38)
    text = f"Passage 1\n{first}\nPassage 2\n{TEXT}{second}\n"
    at_end = f"{text}\nAnswer Key\nPassage 1: 1-3 DDA\nPassage 2: 1-2 BA\n"
    papers, refused, _ = bring(tmp_path, at_end)
    assert refused == []
    assert papers == [CLOZE, RACE]
    beside = f"Passage 1\n{first}\n1-3 DDA\n\nPassage 2\n{TEXT}{second}\n1-2 BA\n"
    papers, refused, _ = bring(tmp_path, beside)
    assert refused == []
    assert papers == [CLOZE, RACE]
    papers, refused, _ = bring(tmp_path, f"{text}\nAnswer Key\n1-3 DDA\n1-4 BAAA\n")
    assert papers == []
    assert refused == [1, 2, 3]


def test_a_key_that_begins_again_though_the_numbers_go_on(tmp_path):
    text = f"Passage 1\n{STORY}{LISTS}\nPassage 2\n{TEXT}{QUESTIONS}\nKeys\n1-3 DDA\n1-2 BA\n"
    papers, refused, imports = bring(tmp_path, text)
    assert refused == []
    assert papers == [CLOZE, RACE]
    assert any("1-2 was read as 39-40" in note for note in imports[0].papers[1].notes)


def test_two_passages_above_one_list(tmp_path):
    second = STORY.replace("Tom", "Ann")
    for number in (36, 37, 38):
        second = second.replace(f"__{number}__", f"__{number + 3}__")
    more = ""
    for line, number in zip(LISTS.splitlines(), (39, 40, 41), strict=True):
        more += f"{number}{line[2:]}\n"
    text = f"Passage 1\n{STORY}\nPassage 2\n{second}\n{LISTS}{more}\nAnswers\n36-41 DDADDA\n"
    papers, refused, _ = bring(tmp_path, text)
    assert refused == []
    assert papers == [CLOZE, CLOZE | {"article": ARTICLE.replace("Tom", "Ann")}]


def test_seven_sentences_for_five_blanks(tmp_path):
    text = """\
根据短文内容，从短文后的选项中选出能填入空白处的最佳选项。选项中有两项为多余选项。
    Sleep is not a waste of time. __36__ Most need eight hours. __37__
    Turn off your telephone an hour before bed. __38__ Your eyes will thank you.
A. It is when the body fixes itself.
B. Some, however, need more.
C. Read a book instead.
D. Dreams are strange.
E. Coffee is popular.

36-38 ABC
"""
    papers, refused, imports = bring(tmp_path, text)
    shared = ["It is when the body fixes itself.", "Some, however, need more."]
    shared += ["Read a book instead.", "Dreams are strange.", "Coffee is popular."]
    assert refused == []
    assert papers == [
        {
            "article": "Sleep is not a waste of time. _ Most need eight hours. _\n"
            "Turn off your telephone an hour before bed. _ Your eyes will thank you.",
            "options": [shared] * 3,
            "answers": ["A", "B", "C"],
        }
    ]
    assert any("one list of options, A-E" in note for note in imports[0].papers[0].notes)


def test_numbers_of_the_text_are_no_blanks(tmp_path):
    added = "a purse from 1936\nwith 36 coins, 37% of $38 and 3.6 (36) kg"
    told = STORY.replace("a purse", added)
    papers, refused, imports = bring(tmp_path, told + LISTS + KEY)
    assert refused == []
    article = ARTICLE.replace("a purse", " ".join(added.split()))
    assert papers == [CLOZE | {"article": article}]
    assert sum("was read as text" in note for note in imports[0].papers[0].notes) == 2


def test_a_bare_number_is_told_by_its_place(tmp_path):
    text = styled("{}").replace("some keys", "36 keys")  # between 37 and 38
    papers, refused, _ = bring(tmp_path, text + LISTS + KEY)
    assert refused == []
    assert papers == [CLOZE | {"article": ARTICLE.replace("some keys", "36 keys")}]


def test_hyphens_at_the_end_of_lines(tmp_path):
    text = STORY.replace("brown bag\nunder", "brown hand-\nbag under").replace(
        "a letter", "a hand\u00adbag"
    )
    papers, refused, imports = bring(tmp_path, text + LISTS + KEY)
    assert refused == []
    article = ARTICLE.replace("brown bag", "brown handbag").replace("a letter", "a handbag")
    assert papers == [CLOZE | {"article": article}]
    assert imports[0].papers[0].notes == []
    text = STORY.replace("brown bag\nunder", "brown hand-\nbag under")
    papers, _, imports = bring(tmp_path, text + LISTS + KEY)
    assert imports[0].papers[0].notes == ["hand- at the end of a line was read as handbag"]


@pytest.mark.parametrize("printed", ["({}) ........", "{} ............", "({})…………"])
def test_dots_behind_the_number_of_a_blank_are_its_own(tmp_path, printed):
    """As Cambridge's papers print them."""
    text = re.sub(r"__(\d+)__", lambda match: printed.format(match[1]), STORY)
    papers, refused, _ = bring(tmp_path, text + LISTS)
    assert (refused, papers[0]["article"]) == ([], ARTICLE)


@pytest.mark.parametrize(
    "line",
    [
        "You should spend about 20 minutes on Questions 39-40, which are based on Passage 1 below.",
        "Part A. Read the passage and choose the best answer.",
        "Exercise 3. Read the text and choose the correct answers.",
        "Task 2: Read the text and choose the correct answer A, B or C.",
        "Write the correct letter, A-D, for each of the questions.",
        "Comprehension Questions",
        "Multiple Choice",
    ],
)
def test_instructions_and_headings_above_a_passage_are_left_out(tmp_path, line):
    papers, refused, _ = bring(tmp_path, f"{line}\n{TEXT}\n{QUESTIONS}")
    assert (refused, len(papers)) == ([], 1)
    assert line not in papers[0]["article"]
