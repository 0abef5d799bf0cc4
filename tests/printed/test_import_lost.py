"""What `import` leaves out: text, questions and answers are never lost without a word."""

import re

import pytest
from exam import BREAD, CLOZE, KEY, LISTS, QUESTIONS, RACE, STORY, TEXT, bring

from albert_rc.printed.run import import_papers

FILLER = "The baker in our street sells more than two hundred loaves on every day of the week."
ANSWERS = "\nAnswers\n39-40 BA\n"


def said(imports):
    return [str(trouble) for found in imports for trouble in found.all_troubles()]


@pytest.mark.parametrize("question", ["What is bread?\nA Food B Drink", "Is it stale? (T/F)"])
def test_first_questions_that_cannot_be_read_are_no_text(tmp_path, question):
    text = f"{TEXT}\n37. Who baked it?\n38. {question}\n{QUESTIONS}"
    papers, refused, _ = bring(tmp_path, text)
    assert (papers, refused) == ([], [37, 38])


def test_a_question_in_the_middle_does_not_become_a_passage(tmp_path):
    text = f"{TEXT}\n{QUESTIONS.replace('40.', '41.').replace('41.', '40. Why? (write)%41.', 1)}"
    papers, refused, _ = bring(tmp_path, text.replace("%", "\n"))
    assert refused == [40]
    assert [paper["article"] for paper in papers] == [BREAD]
    assert [len(paper["questions"]) for paper in papers] == [1]


def test_a_last_question_is_named_and_the_others_are_whole(tmp_path):
    unread = ("What did she do?\nA Ate  B Slept  C Sang", [41])
    for question, lost in (unread, ("Write a title.", [])):
        papers, refused, imports = bring(tmp_path, f"{TEXT}\n{QUESTIONS}41. {question}\n")
        assert refused == lost
        assert papers == [{**RACE, "answers": []}]
        assert any("41 begins a line" in note for note in imports[0].notes) == (not lost)


@pytest.mark.parametrize("key", ["Answers: A B C", "Key: A, B, C", "39-41 A/C A B C"])
def test_a_key_of_a_b_c_is_no_instruction(tmp_path, key):
    papers, _, imports = bring(tmp_path, f"{TEXT}\n{QUESTIONS}\n{key}\n")
    assert any("looks like a key" in line for line in said(imports))
    assert all("A" not in paper["answers"] for paper in papers)


@pytest.mark.parametrize("heading", ["38. Reading comprehension", "38. Cloze (10 points)"])
def test_numbers_of_sections_are_no_questions(tmp_path, heading):
    papers, refused, _ = bring(tmp_path, f"{heading}\n\n{TEXT}\n{QUESTIONS}{ANSWERS}")
    assert (refused, [paper["answers"] for paper in papers]) == ([], [["B", "A"]])


def test_a_numbered_list_in_a_later_passage_is_text(tmp_path):
    steps = "36. Wash the bread.\n37. Cut it.\n38. Eat it."
    text = f"{STORY}{LISTS}\nPassage 2\n{TEXT}\n{steps}\n\n{QUESTIONS}"
    papers, refused, _ = bring(tmp_path, text)
    assert (refused, len(papers)) == ([], 2)
    assert steps.replace("\n", " ") in papers[1]["article"].replace("\n", " ")


@pytest.mark.parametrize("said", ["Answer: {}", "【答案】{}\n【解析】细节题。", "{number}. {}"])
@pytest.mark.parametrize("label", ["Passage 2\n", "", "Directions: Read the text and answer.\n"])
def test_a_passage_right_below_an_answer_is_no_explanation(tmp_path, said, label):
    first = QUESTIONS.replace("39.", "36.").replace("40.", "37.").rstrip("\n").split("\n37.")
    text = "\n37.".join([f"{first[0]}\n{said.format('B', number=36)}", first[1]])
    text = f"{TEXT}\n{text}\n{said.format('A', number=37)}\n{label}{TEXT}{QUESTIONS}"
    papers, _, imports = bring(tmp_path, text)
    whole = all(paper.whole for paper in imports[0].papers)
    assert [len(paper["questions"]) for paper in papers] == [2, 2] or not whole
    if label:
        assert [paper["answers"] for paper in papers] == [["B", "A"], []]


def test_labels_behind_explained_answers_count(tmp_path):
    text = f"Passage 1\n{TEXT}\n{QUESTIONS}\nPassage 2\n{TEXT}\n{QUESTIONS}"
    text = text.replace("39.", "1.").replace("40.", "2.")
    key = (
        "Answers\nPassage 2\n1. C. He says so in the text.\n2. D. It is there that they kept it."
        "\nPassage 1\n1. A. They say so.\n2. B. Said in line 3."
    )
    papers, refused, _ = bring(tmp_path, f"{text}\n{key}\n")
    assert refused == []
    assert ["".join(paper["answers"]) for paper in papers] == ["AB", "CD"]


def test_headings_of_numbers_above_letters_are_no_key(tmp_path):
    papers, refused, imports = bring(tmp_path, f"Questions 39-40\nA\n{TEXT}\n{QUESTIONS}")
    assert (refused, said(imports)) == ([], [])
    assert len(papers) == 1


def test_numbered_paragraphs_are_text(tmp_path):
    lines = [f"{number}. {FILLER}" for number in (1, 2, 3)]
    text = "\n\n".join(lines)
    papers, refused, _ = bring(tmp_path, f"{text}\n\n{QUESTIONS}{ANSWERS}")
    assert refused == []
    assert papers[0]["article"] == "\n".join(lines)


@pytest.mark.parametrize(
    "between", ["（注：loaf 一条面包）", "Mais non, mes amis, dit Pierre, tout content."]
)
def test_a_line_in_another_language_parts_no_passage(tmp_path, between):
    for text, article in (
        (f"{FILLER}\n\n{between}\n\n{TEXT}\n", f"{FILLER} {BREAD}"),
        (f"{TEXT}\n{between}\n\n", BREAD),
    ):
        papers, refused, imports = bring(tmp_path, f"{text}{QUESTIONS}{ANSWERS}")
        assert refused == []
        assert [p["article"].replace("\n", " ") for p in papers] == [article]
        assert papers == [{**RACE, "article": papers[0]["article"]}]
        assert [line.why for line in imports[0].left_out][:1] == ["foreign"]


@pytest.mark.parametrize("heading", ["Part 2", "Name: ____"])
def test_sentences_above_a_heading_are_not_dropped_in_silence(tmp_path, heading):
    text = f"{FILLER}\n{FILLER}\n\n{heading}\n\n{TEXT}\n{QUESTIONS}{ANSWERS}"
    papers, _, imports = bring(tmp_path, text)
    assert papers == []
    assert said(imports)
    assert all("is separated from the passage by a heading" in line for line in said(imports))
    # A title above one is no text.
    papers, _, imports = bring(tmp_path, f"Our Bread\n\n{heading}\n\n{TEXT}\n{QUESTIONS}{ANSWERS}")
    assert (papers, said(imports)) == ([RACE], [])


def test_a_sentence_on_the_exam_is_no_text(tmp_path):
    text = f"{FILLER}\n\nPart I\n\n{TEXT}\n{QUESTIONS}{ANSWERS}"
    papers, _, imports = bring(tmp_path, text)
    assert said(imports) == []
    assert papers[0]["article"].replace("\n", " ") == BREAD
    assert any("is separated from the passage" in note for note in imports[0].papers[0].notes)


def test_a_gloss_in_a_passage_of_short_lines(tmp_path):
    poem = "\n".join(["The rain came down upon the town", "and nobody was out"] * 7)
    text = f"{poem}\n\n*town 城镇\n\nGood night.\n\n{QUESTIONS}{ANSWERS}"
    papers, refused, _ = bring(tmp_path, text)
    assert refused == []
    assert papers[0]["article"].startswith("The rain")
    assert papers[0]["article"].endswith("Good night.")


def test_texts_that_share_a_list_are_said_to_be_parted(tmp_path):
    first, second = STORY[: STORY.index("    He")], STORY[STORY.index("    He") :]
    _, _, imports = bring(tmp_path, f"{first}\nPassage 2\n\n{second}\n{LISTS}")
    for paper in imports[0].papers:
        assert any("one list of options for 2 texts" in note for note in paper.notes)


@pytest.mark.parametrize(
    "line", ["Passage One: DDA", "DDA", "Answer: D and then another D", "答案 D，D，A"]
)
def test_what_looks_like_an_answer_is_placed_or_refused(tmp_path, line):
    papers, _, imports = bring(tmp_path, f"{STORY}{LISTS}\n{line}\n")
    assert said(imports)
    assert all("answers" not in paper for paper in papers)


@pytest.mark.parametrize("line", ["A B C D", "School: ABC BE", "Test Paper Type AB"])
def test_letters_that_are_no_answers(tmp_path, line):
    papers, refused, imports = bring(tmp_path, f"{STORY}{LISTS}\n{line}\n")
    assert (refused, said(imports)) == ([], [])
    assert len(papers) == 1


def test_an_answer_given_again_below_the_key(tmp_path):
    papers, refused, _ = bring(tmp_path, f"{STORY}{LISTS}\n36-38 DDA\n37. B\n")
    assert (papers, refused) == ([], [37])
    papers, refused, _ = bring(tmp_path, f"{STORY}{LISTS}\n36-38 DDA\n37. D\n")
    assert (papers, refused) == ([CLOZE], [])


def test_parts_of_a_key_that_are_called_after_their_files(tmp_path):
    key = tmp_path / "answers.txt"
    for name, article in (("exam1", STORY), ("exam2", STORY.replace("Tom", "Ann"))):
        (tmp_path / f"{name}.txt").write_text(article + LISTS)
    paths = [tmp_path / "exam1.txt", tmp_path / "exam2.txt"]
    for text in ("exam2: 1-3 AAA\nexam1: 1-3 BBB", "exam2.txt\n1-3 AAA\nexam1.txt\n1-3 BBB"):
        key.write_text(text)
        *imports, _ = import_papers(paths, key)
        assert [paper.answers for found in imports for paper in found.papers] == [
            list("BBB"),
            list("AAA"),
        ]
    key.write_text("The Wolf: 1-3 AAA\nThe Lamb: 1-3 BBB")
    imports = import_papers(paths, key)
    assert all("which does not fit the passages" in line for line in said(imports))
    assert not any(paper.whole for found in imports for paper in found.papers)


@pytest.mark.parametrize("blank", ["______", "__"])
@pytest.mark.parametrize("head", ["", "Name: ________  Class: ________\n\n"])
def test_blanks_without_numbers_are_numbered_in_their_order(tmp_path, blank, head):
    text = head + re.sub(r"__[0-9]+__", blank, STORY) + "\n" + LISTS + KEY
    papers, refused, imports = bring(tmp_path, text)
    assert (papers, refused) == ([CLOZE], [])
    assert "blanks without numbers were read as 36-38, in order" in imports[0].papers[0].notes


@pytest.mark.parametrize(
    ("text", "blanks"),
    [
        (re.sub(r"__[0-9]+__", "____", STORY, count=2).replace("__38__", "happy"), 2),
        (re.sub(r"__[0-9]+__", "____", STORY).replace("Nobody", "____ nobody"), 4),
    ],
)
def test_blanks_without_numbers_that_are_not_as_many_as_lists_are_refused(tmp_path, text, blanks):
    papers, refused, imports = bring(tmp_path, f"{text}\n{LISTS}")
    assert (papers, refused) == ([], [36, 37, 38])
    assert f"{blanks} blanks without numbers for 3 lists of options" in "\n".join(said(imports))


def test_a_number_among_blanks_without_numbers_is_refused(tmp_path):
    text = STORY.replace("__36__", "____").replace("__38__", "____")
    papers, refused, _ = bring(tmp_path, f"{text}\n{LISTS}")
    assert (papers, refused) == ([], [36, 38])


def test_one_list_that_cannot_be_read_is_one_problem(tmp_path):
    """The blanks below it used to be reported, too: without options here, without blanks there."""
    numbers = [int(n) for n in re.findall(r"(?m)^ *(\d+)\.", LISTS)]
    number = numbers[len(numbers) // 2]
    broken = re.sub(rf"(?m)^( *{number}\. *)A\.", r"\1Z.", LISTS)
    assert broken != LISTS
    papers, refused, (found,) = bring(tmp_path, STORY + broken)
    assert (papers, refused) == ([], [number])
    (paper,) = found.papers
    assert paper.numbers == [each for each in numbers if each != number]
    (line,) = [line for line in found.left_out if line.why == "unreadable options"]
    assert line.text.startswith(f"{number}. Z.")


def test_an_order_to_choose(tmp_path):
    """The question has a list of its own, with small letters, above the options."""
    asked = "40. What is the right order?\n{}\nA. a-b-c  B. b-a-c\nC. c-b-a  D. b-c-a\n"
    first = QUESTIONS.split("40.")[0]
    for listed in ("a. It dries.\nb. It is baked.\nc. It is cut.", "a. Dry. b. Baked. c. Cut."):
        papers, refused, _ = bring(tmp_path, f"{TEXT}\n{first}{asked.format(listed)}")
        assert refused == []
        assert papers[0]["questions"][1].startswith("What is the right order? a. ")
        assert papers[0]["options"][1] == ["a-b-c", "b-a-c", "c-b-a", "b-c-a"]


@pytest.mark.parametrize(
    "line",
    [
        "Directions: Choose the best word.",
        "Instructions: Complete the following conversation.",
        "The following passage is followed by three questions.",
    ],
)
def test_short_instructions_are_no_sentences_of_the_passage(tmp_path, line):
    papers, refused, _ = bring(tmp_path, f"{line}\n{STORY}\n{LISTS}{KEY}")
    assert (papers, refused) == ([CLOZE], [])


def test_what_is_to_be_written_is_no_blank(tmp_path):
    letter = "Dear Tom,\nI am in Class 3. ______________\n______________________\nYours, Li Hua\n"
    papers, refused, _ = bring(tmp_path, f"{STORY}\n{LISTS}{KEY}\nWriting\n{letter}")
    assert (papers, refused) == ([CLOZE], [])


def test_dots_between_columns_are_no_words(tmp_path):
    lists = LISTS.replace("made     B.", "made ........ B.")
    papers, refused, _ = bring(tmp_path, f"{STORY}\n{lists}{KEY}")
    assert (papers, refused) == ([CLOZE], [])


def test_lists_within_a_list(tmp_path):
    """A list with small letters above, as if its options were lists themselves."""
    bank = "A. 36. A. made B. lost\nB. 37. A. hear B. cook\nC. 38. A. worried B. proud\n"
    papers, refused, imports = bring(tmp_path, f"{STORY}\n{bank}")
    assert papers == []
    assert refused == [36, 37, 38] or said(imports)


def test_options_that_cannot_be_read_are_named(tmp_path):
    lists = "36. A-made B-lost C-sold\n37. A-hear B-cook C-hate\n38. A-sad B-proud C-lazy\n"
    papers, refused, imports = bring(tmp_path, f"{STORY}\n{lists}")
    assert (papers, refused) == ([], [36, 37, 38])
    lines = said(imports)
    assert any(
        "if line 6 has them, write them as A. ... B. ..., with 36. before" in x for x in lines
    )
    assert not any("separated from the passage" in line for line in lines)


def test_a_number_twice_in_a_line_is_named_once(tmp_path):
    text = STORY.replace("a brown bag", "a __36__ bag")
    _, refused, imports = bring(tmp_path, f"{text}\n{LISTS}")
    assert refused == [36]
    (line,) = (x for x in said(imports) if "occurs twice" in x)
    assert line.count("line 1") == 1
    assert line.endswith("keep only one of them, or mark the blank as __36__")


def test_an_instruction_in_one_paragraph_with_its_passage(tmp_path):
    """As in some of ELE's papers; the passage is not left out with the instruction."""
    said_first = "Directions: For each blank in the following passage choose A, B, C or D."
    text = " ".join(STORY.split())
    papers, refused, _ = bring(tmp_path, f"{said_first} {text}\n{LISTS}{KEY}")
    assert refused == []
    assert papers[0]["article"].endswith(" ".join(CLOZE["article"].split()))


@pytest.mark.parametrize("word", ["Because", "Reason and feeling:", "Explained simply,"])
def test_a_passage_below_a_key_is_no_explanation(tmp_path, word):
    text = TEXT.replace("It is widely", f"{word} it is widely", 1)
    papers, refused, _ = bring(
        tmp_path, f"{STORY}\n{LISTS}36-38 DDA\n{text}\n{QUESTIONS}39-40 BA\n"
    )
    assert (papers[:1], refused) == ([CLOZE], [])
    assert papers[1]["article"].startswith(word)


def test_answers_in_words_to_questions_without_options_are_noted(tmp_path):
    grammar = "Grammar\nFill in the correct form of the verb.\n41. She ______ (go) to school.\n"
    text = f"{STORY}\n{LISTS}{TEXT}\n{QUESTIONS}\n{grammar}"
    key = "36-38 DDA\n39-40 BA\n41. goes\n"
    for papers, refused, imports in (
        bring(tmp_path, f"{text}Answer Key\n{key}"),
        bring(tmp_path, text, key=key),
    ):
        assert (len(papers), refused) == (2, [])
        notes = [note for found in imports for note in found.notes]
        assert any("the key's answer to 41 (" in note and "not used" in note for note in notes)
    unread = key.replace("36-38 DDA", "36-37 DD").replace("41. goes", "38. sad\n41. goes")
    assert 38 in bring(tmp_path, f"{text}Answer Key\n{unread}")[1]


@pytest.mark.parametrize(
    "between",
    [
        "Please keep off the grass.",
        "The library opens at 9 a.m. and closes at 5 p.m. It is closed on Mondays.",
        "Hilltop School",
    ],
)
def test_a_short_text_between_questions_is_no_stray_line(tmp_path, between):
    """Its questions were given to the passage above, and nothing was said."""
    text = f"{TEXT}\n{QUESTIONS.replace('40.', f'%{between}%%40.')}{ANSWERS}".replace("%", "\n")
    papers, refused, imports = bring(tmp_path, text)
    assert (papers, refused) == ([], [40])
    (line,) = said(imports)
    assert between[:30] in line
    assert "may be the passage of 40" in line
    assert "(line 9)" in line
    marked = text.replace(between, f"Passage\n{between}")  # as the message proposes
    papers, refused, _ = bring(tmp_path, marked)
    assert (refused, [paper["article"] for paper in papers]) == ([], [BREAD, between])
    papers, refused, _ = bring(tmp_path, text.replace(f"{between}\n", ""))
    assert (papers, refused) == ([RACE], [])


def test_a_problem_of_a_list_without_a_number_has_a_subject(tmp_path):
    _, _, imports = bring(tmp_path, f"{STORY}A. made\nC. sold\n37. A. hear B. cook\n")
    assert any(
        line.startswith("a list of options without a number: option B is missing (line 5)")
        for line in said(imports)
    )


def test_a_note_on_a_word_between_questions_is_no_passage(tmp_path):
    text = f"{TEXT}\n{QUESTIONS.replace('40.', '%*oven 烤箱%%40.')}{ANSWERS}".replace("%", "\n")
    papers, refused, _ = bring(tmp_path, text)
    assert (papers, refused) == ([RACE], [])


def test_a_line_between_the_options_of_blanks_is_listed(tmp_path):
    """Blanks are in the passage above, so nothing else can be meant."""
    papers, refused, imports = bring(
        tmp_path, f"{STORY}\n{LISTS.replace('38.', '%Hilltop School%%38.')}{KEY}".replace("%", "\n")
    )
    assert (papers, refused) == ([CLOZE], [])
    assert [line.text for line in imports[0].left_out][:1] == ["Hilltop School"]
