"""What `import` leaves out: text, questions and answers are never lost without a word."""

import pytest
from exam import BREAD, CLOZE, LISTS, QUESTIONS, RACE, STORY, TEXT, bring

from albert_rc.importing.run import import_papers

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
    papers, refused, _ = bring(tmp_path, f"{TEXT}\n{QUESTIONS}41. Write a title.\n")
    assert refused == [41]
    assert papers == [{**RACE, "answers": []}]


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


@pytest.mark.parametrize("heading", ["Part 2", "Date: July 5 to July 12"])
def test_sentences_above_a_heading_are_not_dropped_in_silence(tmp_path, heading):
    papers, _, imports = bring(tmp_path, f"{FILLER}\n\n{heading}\n\n{TEXT}\n{QUESTIONS}{ANSWERS}")
    assert papers == []
    assert ["is parted from the passage by a heading" in line for line in said(imports)] == [True]
    # A title above one is no text.
    papers, _, imports = bring(tmp_path, f"Our Bread\n\n{heading}\n\n{TEXT}\n{QUESTIONS}{ANSWERS}")
    assert (papers, said(imports)) == ([RACE], [])


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


def test_the_head_of_an_answer_sheet_is_no_answer(tmp_path):
    papers, refused, imports = bring(tmp_path, f"{STORY}{LISTS}\nA B C D\n")
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
