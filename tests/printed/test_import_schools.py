"""Papers as schools print them: headers in the text, notices, margins, other marks, odd keys."""

import pytest
from exam import BREAD, CLOZE, KEY, LISTS, QUESTIONS, RACE, STORY, TEXT, bring, understood

from albert_rc.printed.run import import_papers

KEYED = "\nAnswers\n39-40 BA\n"
LINES = TEXT.splitlines()


def flat(papers):
    return [{**paper, "article": " ".join(paper["article"].split())} for paper in papers]


def said(imports):
    return [str(trouble) for found in imports for trouble in found.all_troubles()]


@pytest.mark.parametrize("header", ["Grade 9 English Test     Page 3 of 8", "Unit 4     Page 12"])
@pytest.mark.parametrize("between", ["\n{}\n\n", "{}\n", "\f{}\n"])
def test_a_running_header_within_a_passage_is_left_out(tmp_path, header, between):
    text = f"{LINES[0]}\n{LINES[1]}\n{between.format(header)}{LINES[2]}\n\n{QUESTIONS}{KEYED}"
    papers, _, imports = bring(tmp_path, text)
    assert (flat(papers), said(imports)) == ([RACE], [])
    assert [line.text.strip() for line in imports[0].left_out][:1] == [header]


def test_headers_of_pages_that_form_feeds_divide(tmp_path):
    header = "Green Hill School - English"
    first, second = (f"{header}\n\n{part}" for part in (STORY + LISTS, TEXT + QUESTIONS))
    papers, _, imports = bring(tmp_path, f"{first}\f{second}")
    bare = [{**CLOZE}, {**RACE, "answers": []}]
    del bare[0]["answers"]
    assert (flat(papers), said(imports)) == (flat(bare), [])
    assert any(f"'{header}', at the top of 2 pages" in note for note in imports[0].notes)


def test_text_that_is_cut_off_above_a_heading_is_not_dropped_in_silence(tmp_path):
    cut = "Every morning at half past six she knocked at my door with two eggs and a loaf, because "
    text = (
        f"{TEXT}{cut}she thought that I was too thin and that\n\nPart 2\n\n{TEXT}{QUESTIONS}{KEYED}"
    )
    papers, _, imports = bring(tmp_path, text)
    assert papers == []
    assert all("is separated from the passage by a heading" in line for line in said(imports))


@pytest.mark.parametrize(
    "turn",
    [
        "Mortia: Captain? Computer ... (BEEP BEEP). Locate Captain Duroset.",
        "Frau Weber: Guten Morgen, Herr Braun, wie geht es Ihnen heute?",
    ],
)
def test_what_is_said_in_a_dialogue_is_its_text_in_any_language(tmp_path, turn):
    turns = [
        "Captain Lee: Good morning. Is there anything that I should know about the ship today?",
        "Computer: Nothing, captain. All of us slept well, and there is bread in the kitchen.",
        turn,
        "Captain Lee: Then let us have breakfast together, and look at the map after that.",
    ]
    papers, _, imports = bring(tmp_path, "\n\n".join(turns) + f"\n\n{QUESTIONS}{KEYED}")
    assert said(imports) == []
    assert flat(papers) == [{**RACE, "article": " ".join(turns)}]
    # Without a dialogue around it, it is not the text's.
    papers, _, imports = bring(tmp_path, f"{TEXT}\n{turn}\n\n{QUESTIONS}{KEYED}")
    assert all(turn not in paper["article"] for paper in flat(papers))
    assert [line.text for line in imports[0].left_out if line.why == "foreign"] == [turn]


@pytest.mark.parametrize(
    "gloss",
    [
        "Words: appointment 约会; kitchen 厨房; loaf 一条面包; bread 面包; village 村庄; egg 鸡蛋",
        "Fahrkarte: Kärtchen, das man kauft, um mit dem Zug zu fahren",
    ],
)
def test_a_glossary_is_not_said_by_anybody(tmp_path, gloss):
    head = "From: lucy@mail.com\n\nTo: tom@mail.com\n\nDate: 12 May"
    for text in (f"{head}\n\n{TEXT}", TEXT):
        papers, _, imports = bring(tmp_path, f"{text}\n{gloss}\n\n{QUESTIONS}{KEYED}")
        assert all(gloss not in paper["article"] for paper in flat(papers))
        assert gloss in [line.text for line in imports[0].left_out]


def test_dates_and_times_of_an_email_are_its_text(tmp_path):
    head = ["From: lucy@mail.com", "Date: 12 May", "Time: 4:15 p.m.", "Subject: Bread"]
    papers, _, imports = bring(tmp_path, "\n".join(head) + f"\n\n{TEXT}{QUESTIONS}{KEYED}")
    assert said(imports) == []
    assert flat(papers) == [{**RACE, "article": f"{' '.join(head)} {BREAD}"}]


@pytest.mark.parametrize(
    "field",
    [
        *("Date: ________", "Time: 90 minutes", "Name: Tom Hill   Class: 3"),
        *("Time allowed: 2 hours", "Student: Li Lei", "Candidate: ________."),
    ],
)
def test_fields_about_the_exam_are_not(tmp_path, field):
    papers, _, imports = bring(tmp_path, f"{field}\n\n{TEXT}{QUESTIONS}{KEYED}")
    assert (flat(papers), said(imports)) == ([RACE], [])
    assert imports[0].left_out[0].why == "heading"


@pytest.mark.parametrize("speaker", ["Student", "Candidate"])
def test_what_a_student_says_in_a_dialogue_is_text(tmp_path, speaker):
    said_last = f"{speaker}: Thank you. I will bring it back on Friday."
    dialogue = f"Teacher: {BREAD}\n{said_last}\n"
    papers, _, imports = bring(tmp_path, f"{dialogue}{QUESTIONS}{KEYED}")
    assert said(imports) == []
    assert [paper["article"].split() for paper in flat(papers)] == [dialogue.split()]


def test_letters_in_the_text_are_no_instruction(tmp_path):
    sentence = "Visitors can choose between Tours A, B and C."
    papers, _, imports = bring(tmp_path, f"{sentence}\n{TEXT}{QUESTIONS}{KEYED}")
    assert said(imports) == []
    assert flat(papers) == [{**RACE, "article": f"{sentence} {BREAD}"}]
    for instruction in ("Mark A, B or C.", "Choose the best answer from A, B, C and D."):
        papers, _, imports = bring(tmp_path, f"{instruction}\n{TEXT}{QUESTIONS}{KEYED}")
        assert (flat(papers), said(imports)) == ([RACE], [])


def test_directions_that_begin_with_what_follows_are_instructions(tmp_path):
    directions = (
        "Directions: There are 2 passages in this section. Each passage is followed by some "
        "questions. For each of them there are four choices marked A), B), C) and D). You should "
        "decide on the best choice and mark the corresponding letter on the Answer Sheet."
    )
    for passage in ("\nPassage One\n", "\nPassage One\nQuestions 39 to 40 are on this passage.\n"):
        text = f"Section C\n{directions}{passage}{TEXT}{QUESTIONS}{KEYED}"
        papers, _, imports = bring(tmp_path, text)
        assert (flat(papers), said(imports)) == ([RACE], [])


@pytest.mark.parametrize("place", ["(   ) ", "( B ) ", "____ "])
def test_a_question_behind_a_place_for_its_answer_is_not_taken_for_text(tmp_path, place):
    questions = QUESTIONS.replace("39. ", f"{place}39. ").replace("40. ", f"{place}40. ")
    unread = f"{place}38. Who baked it?\nA Tom  B Ann  C Bob\n"
    papers, refused, _ = bring(tmp_path, f"{TEXT}\n{unread}{questions}")
    assert papers == []
    assert 38 in refused


MARGIN = [
    "     The term was first used by a reporter in the year 1935 to des-",
    "Line cribe the dry plains of the United States. Between 1930 and",
    "     1936, strong winds lifted the topsoil from nearly half of the",
    "     farmland. Farmers had removed the deep-rooted grasses that had",
    "(5)  held the earth in place, and when the rains failed, nothing was",
    "     left to keep it there. Some storms carried the dust as far as",
    "     New York, 2,000 miles away. By 1940, many of the people who had",
    "     lived there had left the plains. Most of them moved west, and",
    "     found work on fruit farms, but wages were low, and there were",
    "(10) few houses that they could have paid for.",
]


def test_line_numbers_in_the_margin_are_left_out(tmp_path):
    text = "\n".join(MARGIN)
    papers, _, imports = bring(tmp_path, f"{text}\n\n{QUESTIONS}{KEYED}")
    assert said(imports) == []
    article = papers[0]["article"]
    assert "1935 to describe the dry plains" in article
    assert "grasses that had held the earth" in article
    assert "there were few houses" in article
    assert any("2 line numbers in the margin (5, 10; line 5)" in n for n in imports[0].notes)
    # At the right, and a single one.
    lines = [line[5:] for line in MARGIN[:8]]
    lines[4] += "   5"
    papers, _, imports = bring(tmp_path, "\n".join(lines) + f"\n\n{QUESTIONS}{KEYED}")
    assert "nothing was left to keep" in papers[0]["article"]


def test_numbers_of_the_text_are_no_line_numbers(tmp_path):
    lines = [line[5:] for line in MARGIN[:8]]
    lines[4] = "5 years ago there was " + lines[4]
    papers, _, _ = bring(tmp_path, "\n".join(lines) + f"\n\n{QUESTIONS}{KEYED}")
    assert "that had 5 years ago" in papers[0]["article"]
    listed = "\n".join(f"{number} eggs, {number} cups of milk" for number in range(1, 12))
    papers, _, _ = bring(tmp_path, f"{TEXT}{listed}\n\n{QUESTIONS}{KEYED}")
    assert "5 eggs, 5 cups of milk" in papers[0]["article"]
    assert "10 eggs, 10 cups" in papers[0]["article"]


def circled(text):
    for letter, mark in zip("ABCD", "①②③④", strict=True):
        text = text.replace(f"{letter}. ", f"{mark} ")
    return text


@pytest.mark.parametrize("tight", [False, True])
def test_options_with_circled_numbers(tmp_path, tight):
    lists = circled(LISTS).replace("① ", "①" if tight else "① ")
    key = "\n정답: 36 ④  37 ④  38 ①\n"
    papers, _, imports = bring(tmp_path, f"{STORY}\n{lists}{key}")
    assert (papers, said(imports)) == ([CLOZE], [])
    assert any("options marked ①②③④ (from line" in note for note in imports[0].notes)
    papers, _, _ = bring(tmp_path, f"{TEXT}\n{circled(QUESTIONS)}", key="39 ②\n40 ①\n")
    assert flat(papers) == [RACE]


def test_a_circled_number_in_the_text_is_not_guessed_at(tmp_path):
    text = STORY.replace("brown bag", "① brown bag")
    papers, _, imports = bring(tmp_path, f"{text}\n{circled(LISTS)}")
    assert papers == []
    assert any("has such a mark within the text" in line for line in said(imports))


def test_options_with_digits_and_kana(tmp_path):
    digits, kana = LISTS, QUESTIONS
    for number in (36, 37, 38):
        digits = digits.replace(f"{number}. ", f"({number})  ")
    for letter, digit, sign in zip("ABCD", "1234", "アイウエ", strict=True):
        digits = digits.replace(f"{letter}. ", f"{digit} ")
        kana = kana.replace(f"{letter}. ", f"{sign}　")
    story = STORY
    for number in (36, 37, 38):
        story = story.replace(f"__{number}__", f"( {number} )")
    papers, _, imports = bring(tmp_path, f"{story}\n{digits}\n解答  (36) 4  (37) 4  (38) 1\n")
    assert (papers, said(imports)) == ([CLOZE], [])
    kana = kana.replace("39. ", "問39　").replace("40. ", "問40　")
    papers, _, imports = bring(tmp_path, f"{TEXT}\n{kana}\n")
    assert (flat(papers), said(imports)) == ([{**RACE, "answers": []}], [])


@pytest.mark.parametrize(
    "key",
    [
        "Answers\n39. water\n40. in a freezer",
        "(Answers: water; a freezer)",
        "Correct answers are 39 b and 40 a.",
    ],
)
def test_a_key_that_cannot_be_read_is_neither_lost_nor_text(tmp_path, key):
    papers, _, imports = bring(tmp_path, f"{TEXT}\n{QUESTIONS}\n{key}\n")
    assert said(imports)
    other = TEXT.replace("bread", "cake") + QUESTIONS.replace("39", "41").replace("40", "42")
    papers, _, imports = bring(tmp_path, f"{TEXT}\n{QUESTIONS}\n{key}\n\n{other}")
    assert said(imports)
    assert not any("nswers" in paper["article"] for paper in papers)


def test_a_key_in_small_letters_with_words(tmp_path):
    papers, _, imports = bring(
        tmp_path, f"{TEXT}\n{QUESTIONS}\nAnswers\n39. b) water\n40. a) in a freezer\n"
    )
    assert (flat(papers), said(imports)) == ([RACE], [])


def test_right_or_wrong_with_letters_in_the_instruction(tmp_path):
    text = (
        "Are sentences 39-40 'Right' (A) or 'Wrong' (B)?\n"
        "If there is not enough information, choose 'Doesn't say' (C).\n\n"
        f"{TEXT}\n39  Bread dries out.\n   A  Right     B  Wrong     C  Doesn't say\n"
        "40  Bags keep it soft.\n   A  Right     B  Wrong     C  Doesn't say\n"
    )
    papers, _, imports = bring(tmp_path, text)
    assert said(imports) == []
    assert flat(papers)[0]["article"] == BREAD
    assert papers[0]["options"] == [["Right", "Wrong", "Doesn't say"]] * 2


def test_slashes_between_options_are_not_part_of_them(tmp_path):
    lists = "36. a) made / b) lost / c) sold / d) found\n"
    lists += "37. a) hear / b) cook / c) hate / d) own\n"
    lists += "38. a) worried / b) proud / c) lazy / d) hungry\n"
    assert bring(tmp_path, f"{STORY}\n{lists}{KEY}")[0] == [CLOZE]


def test_a_short_right_column_with_indented_options(tmp_path):
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    path = tmp_path / "columns.pdf"
    page = canvas.Canvas(str(path), pagesize=(595, 842))
    left = [*LINES, *(f"{chr(97 + n)} line of the text that is as long as this" for n in range(18))]
    for row, line in enumerate(left):
        page.drawString(50, 780 - 16 * row, line.strip()[:44])
    rows = [
        (306, "39. What is it about?"),
        *(
            (318, f"{x}. {w} bread")
            for x, w in zip("ABCD", ("Old", "New", "Dry", "Wet"), strict=True)
        ),
    ]
    rows += [
        (306, "40. Where is it kept?"),
        *(
            (318, f"{x}. {w}")
            for x, w in zip(
                "ABCD", ("In a bag.", "Outside.", "Inside.", "On a table."), strict=True
            )
        ),
    ]
    for row, (x, line) in enumerate(rows):
        page.drawString(x, 780 - 16 * row, line)
    page.save()
    papers, _, imports = understood(import_papers([path], None))
    assert said(imports) == []
    assert papers[0]["options"][1] == ["In a bag.", "Outside.", "Inside.", "On a table."]
    assert "39" not in papers[0]["article"]
