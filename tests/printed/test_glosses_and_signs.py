"""Papers for learners: glosses in the text, and signs of options that are missing or unusual."""

import pytest
from exam import ARTICLE, CLOZE, KEY, LISTS, OPTIONS, STORY, bring

from albert_rc.printed.lines import make_lines
from albert_rc.printed.read.glosses import set_glosses_aside
from albert_rc.printed.read.signs import repair_signs
from albert_rc.printed.run import import_papers

GLOSSED = (
    STORY.replace(
        "Last Friday Tom was on the bus", "Last Friday（上周五）Tom was on the bus (公交车)"
    )
    .replace("under his seat", "（他的座位下）under his seat")
    .replace("a purse", "a purse（钱包；手提包）")
)


def notes_of(imports):
    return [note for found in imports for note in found.notes]


def test_glosses_are_taken_out_and_said(tmp_path):
    path = tmp_path / "exam.txt"
    path.write_text(GLOSSED + LISTS + KEY)
    (found,) = import_papers([path])
    (paper,) = found.papers
    assert paper.whole
    assert paper.content() == CLOZE
    assert any(
        note.startswith(
            "4 glosses (（上周五）, (公交车), （他的座位下）, （钱包；手提包）) removed"
        )
        for note in found.notes
    )
    assert not found.left_out or all("Answers" in line.text for line in found.left_out)


def test_what_ends_a_sentence_behind_a_gloss_goes_to_the_line_above():
    lines, _ = set_glosses_aside(make_lines(["He took a seat", "（座位）. Nobody saw it."]))
    assert [line.text for line in lines] == ["He took a seat.", "Nobody saw it."]


def test_signs_that_begin_a_line_stay_there_if_its_gloss_is_elsewhere():
    """Only behind a gloss that begins the line they belong to the line above."""
    begun = "...the old man（老人） went __1__ and sat."
    lines, _ = set_glosses_aside(make_lines([begun]))
    assert [line.text for line in lines] == ["...the old man went __1__ and sat."]
    lines, _ = set_glosses_aside(make_lines(["12. A. down  B. up", "...Then（然后） he left."]))
    assert [line.text for line in lines] == ["12. A. down  B. up", "...Then he left."]


def test_glosses_can_be_kept(tmp_path):
    path = tmp_path / "exam.txt"
    path.write_text(GLOSSED + LISTS + KEY)
    (found,) = import_papers([path], keep_glosses=True)
    article = found.papers[0].article
    for gloss in ("（上周五）", "(公交车)", "（他的座位下）", "（钱包；手提包）"):
        assert gloss in article
        article = article.replace(gloss, "")
    assert "".join(article.split()) == "".join(ARTICLE.split())
    assert found.papers[0].whole


@pytest.mark.parametrize(
    "text",
    [
        "第二节 完形填空（共20小题）",
        "Section A (共10小题；每小题1分)",
        "（B）36. 解析",
        "（约会）",
        "36. A. made (made it)  B. lost",
    ],
)
def test_other_brackets_are_left_alone(text):
    lines = make_lines([text])
    assert set_glosses_aside(lines) == (lines, [])


def test_english_that_is_lost_among_other_letters_is_said(tmp_path):
    line = "He saw that it was 他看见那是一个旧房子没有人住在那里很多年了\n"
    text = STORY.replace("    He opened it", f"\n{line}\n    He opened it")
    _, _, (found,) = bring(tmp_path, text + LISTS + KEY)
    said = [str(trouble) for trouble in found.all_troubles()]
    assert any("English text among other letters was left out" in trouble for trouble in said)


LISTED = {
    "a full stop is missing": LISTS.replace("37. A. hear", "37. A hear"),
    "in the middle": LISTS.replace("C. sold", "C sold"),
    "behind a bracket": LISTS.replace("A. ", "A) ").replace("B. cook", "B cook"),
    "colons": LISTS.replace(". ", ": ").replace("6:", "6.").replace("7:", "7.").replace("8:", "8."),
    "full width": LISTS.translate({c: c + 0xFEE0 for c in b"0123456789ABCD."}),
    "round": LISTS.translate({ord(c): f"（{c}）" for c in "ABCD"}).replace("）.", "）"),
    "no letters": "\n".join(
        f"{number}.  " + "      ".join(options) for number, options in enumerate(OPTIONS, 36)
    ),
    "tabs": "\n".join(
        f"{number}.\t" + "\t".join(options) for number, options in enumerate(OPTIONS, 36)
    ),
}


@pytest.mark.parametrize("name", LISTED)
def test_signs_that_are_missing_or_unusual(tmp_path, name):
    papers, refused, imports = bring(tmp_path, f"{STORY}{LISTED[name]}\n{KEY}")
    assert papers == [CLOZE], refused
    repaired = [note for note in notes_of(imports) if "was read as option" in note]
    assert len(repaired) == (
        name in ("a full stop is missing", "in the middle", "behind a bracket")
    )
    assert any("have no letters" in n for n in notes_of(imports)) == (
        name in ("no letters", "tabs")
    )


@pytest.mark.parametrize("first", [9, 18, 998, 1041])
def test_numbers_that_are_circled_or_large(tmp_path, first):
    def sign(number):
        return chr(0x245F + number) if number <= 20 else f"({number})"

    text, lists = STORY, LISTS
    for place, old in enumerate((36, 37, 38)):
        text = text.replace(f"__{old}__", sign(first + place))
        lists = lists.replace(f"{old}. ", f"{sign(first + place)} ")
    key = f"\nAnswers\n{first}-{first + 2} DDA\n"
    papers, refused, _ = bring(tmp_path, text + lists + key)
    assert papers == [CLOZE], refused


@pytest.mark.parametrize(
    "text",
    [
        "21. A: Where are you? B: I am here.",
        "1. one  2. two  3. three",
        "36. A. made  B. lost  C. sold  D. found",
        "He got an A in maths and a B. in art",
    ],
)
def test_lines_that_say_something_else_stay_as_they_are(text):
    lines = make_lines([text])
    assert repair_signs(lines) == (lines, [], [])


def test_few_rows_without_letters_are_no_options():
    lines = make_lines(["1.  happy   sad   old", "2.  red   blue   green"])
    assert repair_signs(lines) == (lines, [], [])
    keys = make_lines(["1.  A   B   C", "2.  A   D   C", "3.  B   B   A"])
    assert repair_signs(keys) == (keys, [], [])
