"""Answer keys of printed papers: whose they are, in which forms, and what is refused."""

import pytest
from exam import LISTS as EXAM_LISTS
from exam import QUESTIONS, RACE, STORY, TEXT, answers_of, bring, understood

from albert_rc.printed.run import import_papers

CAT, BIRD = (f"The {name} __1__ on the mat. It __2__ milk. The dog __3__ loudly."
             for name in ("cat", "bird"))  # fmt: skip
LISTS = (
    "1. A. sat B. eat C. hat D. fat\n2. A. drank B. wrote C. sang D. hid\n"
    "3. A. barked B. read C. drew D. sewed\n"
)


def two(first="", second="", between=""):
    """Two passages whose numbers both begin at 1, under headings."""
    return f"{first}\n{CAT}\n{LISTS}{between}\n{second}\n{BIRD}\n{LISTS}\n"


LABELLED = {
    "before the answers": ("Passage 1", "Passage 2", "Passage 2: 1-3 BBB\nPassage 1: 1-3 AAA"),
    "on their own lines": ("Passage 1", "Passage 2", "Passage 2\n1-3 BBB\nPassage 1\n1-3 AAA"),
    "letters": ("A", "B", "B 1-3 BBB\nA 1-3 AAA"),
    "words with letters": ("Passage A", "Passage B", "Passage B\n1-3 BBB\nPassage A\n1-3 AAA"),
    "another word": ("Test 1", "Test 2", "Test 2: 1-3 BBB\nTest 1: 1-3 AAA"),
    "Roman against plain": ("Text I", "Text II", "Text 2: 1-3 BBB\nText 1: 1-3 AAA"),
    "Chinese": ("完形填空（一）", "完形填空（二）", "完形填空二：1-3 BBB\n完形填空一：1-3 AAA"),
    "passages without labels": ("", "", "Passage 2: 1. B 2. B 3. B\nPassage 1: 1. A 2. A 3. A"),
    "passages in another order": ("Text 2", "Text 1", "Text 1: 1-3 BBB\nText 2: 1-3 AAA"),
    "points": ("", "", "(2 points each)\n1-3 AAA\n(1 point each)\n1-3 BBB"),
    "sections": ("", "", "Vocabulary\n1-3 AAA\nGrammar\n1-3 BBB"),
    "in their order": ("Passage 1", "Passage 2", "Passage 1: 1-3 AAA\nPassage 2: 1-3 BBB"),
    "going up from another number": ("", "", "Test 3: 1-3 AAA\nTest 4: 1-3 BBB"),
    "titles": ("The Cat", "The Bird", "The Bird: 1-3 BBB\nThe Cat: 1-3 AAA"),
    "kinds and numbers": ("I. Cloze", "II. Reading", "II. Reading\n1-3 BBB\nI. Cloze\n1-3 AAA"),
    "ordinals": ("Passage 1", "Passage 2", "Second passage: 1-3 BBB\nFirst passage: 1-3 AAA"),
    "in short": ("Passage 1", "Passage 2", "P2: 1-3 BBB\nP1: 1-3 AAA"),
    "points behind": ("Cloze", "Reading", "Cloze: 1-3 AAA（每题2分）\nReading: 1-3 BBB  共6分"),
    "points in English": ("Cloze", "Reading", "Cloze: 1-3 AAA (each 2 points)\nReading: 1-3 BBB"),
    "on one line": ("Cloze", "Reading", "Cloze: 1-3 AAA   Reading: 1-3 BBB"),
    "on one line, numbered": ("Passage 1", "Passage 2", "Passage 1: 1-3 AAA; Passage 2: 1-3 BBB"),
    "letters alone": ("一、完形填空", "二、阅读理解", "参考答案\n一、AAA\n二、BBB"),
    "small letters and strokes": ("", "", "1a/2a/3a\n1b / 2b / 3b"),
    "none": ("Passage 1", "Passage 2", "1-3 AAA\n1-3 BBB"),
    "a heading of all": ("Passage 1", "Passage 2", "Keys to Unit 3\n1-3 AAA\n1-3 BBB"),
}  # fmt: skip


@pytest.mark.parametrize("name", LABELLED)
def test_parts_of_a_key_go_by_their_labels(tmp_path, name):
    first, second, key = LABELLED[name]
    beside = bring(tmp_path, two(first, second), key=key)
    inside = bring(tmp_path, f"{two(first, second)}Answers\n{key}\n")
    bare = bring(tmp_path, two(first, second) + key)
    for papers, refused, _ in (beside, inside, bare):
        assert refused == []
        assert answers_of(papers) == ["AAA", "BBB"]


def test_parts_numbered_by_word_in_chinese_are_found_by_the_key(tmp_path):
    document = pytest.importorskip("docx").Document()
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    numbering = document.part.numbering_part.element
    levels = (
        '<w:lvl w:ilvl="0"><w:start w:val="2"/><w:numFmt w:val="chineseCounting"/>'
        '<w:lvlText w:val="%1、"/></w:lvl>'
    )
    base = parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="77">{levels}</w:abstractNum>')
    numbering.insert(0, base)
    numbering.append(
        parse_xml(f'<w:num {nsdecls("w")} w:numId="77"><w:abstractNumId w:val="77"/></w:num>')
    )
    for heading, passage in (("完形填空", CAT), ("阅读理解", BIRD)):
        properties = document.add_paragraph(heading)._p.get_or_add_pPr().get_or_add_numPr()
        properties.get_or_add_numId().val = 77
        for line in f"{passage}\n{LISTS}".splitlines():
            document.add_paragraph(line)
    for line in ("参考答案", "三、BBB", "二、AAA"):
        document.add_paragraph(line)
    document.save(tmp_path / "exam.docx")
    papers, refused, _ = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert answers_of(papers) == ["AAA", "BBB"]


@pytest.mark.parametrize(
    "key",
    ["36. D 37. D 38. A/B 39. B 40. A", "1-3 D/D/A 36-40 DDABA", "完形：DDA 阅读：BA",
     "36. found 37. own 38. worried 39. B 40. A"],
)  # fmt: skip
def test_what_cannot_be_read_in_a_key_is_no_label(tmp_path, key):
    """Its answers would be lost in silence, and the rest taken for another passage."""
    papers, refused, imports = bring(
        tmp_path, f"{STORY}{EXAM_LISTS}\n{TEXT}{QUESTIONS}\nAnswers\n{key}\n"
    )
    troubles = [str(trouble) for trouble in imports[0].all_troubles()]
    assert refused or any("cannot be read" in trouble for trouble in troubles)
    assert not any("".join(paper.get("answers", "")) == "DDABA" for paper in papers)


@pytest.mark.parametrize(
    "form",
    ["{}. Answer: {}", "{}. The answer is {}.", "{}/{}", "{} → {}", "第{}题 {}", "{}. 选{}。",
     "{}. found {}", "| {} | {} |"],
)  # fmt: skip
def test_a_key_in_a_form_that_is_not_read_is_reported(tmp_path, form):
    """Or the paper would seem to have none."""
    lines = [
        form.format(number, letter) for number, letter in zip((36, 37, 38), "DDA", strict=True)
    ]
    for heading in ("Answer Key\n", ""):
        _, _, imports = bring(tmp_path, f"{STORY}{EXAM_LISTS}\n{heading}" + "\n".join(lines) + "\n")
        troubles = [str(trouble) for trouble in imports[0].all_troubles()]
        assert any("looks like a key 36-38 cannot be read" in each for each in troubles), troubles


FORBIDDEN = {
    "a number that no passage has": ("Text 1", "Text 2", "Text 3: 1-3 BBB\nText 1: 1-3 AAA"),
    "one without": ("Passage 1", "Passage 2", "1-3 BBB\nPassage 1: 1-3 AAA"),
    "one without, no headings": ("", "", "1-3 BBB\nPassage 1: 1-3 AAA"),
    "the same twice": ("Passage 1", "Passage 2", "Passage 1: 1-3 BBB\nPassage 1: 1-3 AAA"),
    "words that differ": ("Text 2", "Text 1", "Passage 2: 1-3 BBB\nPassage 1: 1-3 AAA"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_labels_that_fit_no_passage_are_refused(tmp_path, name):
    first, second, key = FORBIDDEN[name]
    for text, given in ((two(first, second), key), (f"{two(first, second)}Answers\n{key}\n", None)):
        papers, refused, imports = bring(tmp_path, text, key=given)
        assert papers == []
        assert refused == [1, 2, 3]
        assert "the key's parts are labelled" in str(imports[0].papers[0].troubles[0])


def test_labels_within_labels(tmp_path):
    first, second = two("Passage 1", "Passage 2"), two("Passage 1", "Passage 2")
    parts = [
        "Section A\nPassage 1: 1-3 AAA\nPassage 2: 1-3 BBB\n",
        "Section B\nPassage 1: 1-3 CCC\nPassage 2: 1-3 DDD\n",
    ]
    for key in (parts[0] + parts[1], parts[1] + parts[0]):
        papers, refused, _ = bring(tmp_path, f"Section A\n{first}Section B\n{second}", key=key)
        assert refused == []
        assert answers_of(papers) == ["AAA", "BBB", "CCC", "DDD"]


def test_labels_of_kinds(tmp_path):
    asked = f"{TEXT}{QUESTIONS}41. Why?\nA. Yes.\nB. No.\nC. So.\nD. All.\n"
    text = f"{CAT}\n{LISTS}\n{asked}".replace("39.", "1.").replace("40.", "2.").replace("41.", "3.")
    papers, refused, _ = bring(tmp_path, text, key="Reading: 1-3 BBB\nCloze: 1-3 AAA")
    assert refused == []
    assert answers_of(papers) == ["AAA", "BBB"]


def test_labels_choose_among_parts_of_other_lengths(tmp_path):
    longer = f"{BIRD} They __4__.\n{LISTS}4. A. ate B. ran C. hid D. lay\n"
    text = f"Passage 1\n{CAT}\n{LISTS}\nPassage 2\n{longer}"
    papers, refused, _ = bring(tmp_path, text, key="Passage 2: 1-4 BBBB\nPassage 1: 1-3 AAA")
    assert refused == []
    assert answers_of(papers) == ["AAA", "BBBB"]


def test_a_key_behind_its_passage_is_not_another_passages(tmp_path):
    text = two("Passage 1", "Passage 2", between="Passage 2: 1-3 BBB\n") + "Passage 1: 1-3 AAA\n"
    papers, refused, _ = bring(tmp_path, text)
    assert papers == []
    assert refused == [1, 2, 3]


FILLED = LISTS.replace("1.", "( A ) 1.").replace("2.", "( B )2.").replace("3.", "（C） 3.")
TICKED = (
    LISTS.replace("A. sat", "A. sat √").replace("B. wrote", "B. wrote ✓").replace("drew", "drew(✔)")
)


@pytest.mark.parametrize("lists", [FILLED, TICKED, FILLED.replace("A. sat", "A. sat √")])
def test_answers_marked_on_the_paper(tmp_path, lists):
    papers, refused, imports = bring(tmp_path, f"{CAT}\n{lists}")
    assert refused == []
    assert answers_of(papers) == ["ABC"]
    assert papers[0]["options"] == bring(tmp_path, f"{CAT}\n{LISTS}")[0][0]["options"]
    assert any(
        note.startswith("its answers were taken from the") for note in imports[0].papers[0].notes
    )
    papers, refused, _ = bring(tmp_path, f"{CAT}\n{lists}\nAnswers\n1-3 ABC\n")
    assert refused == []
    assert answers_of(papers) == ["ABC"]
    for key, text in (("1-3 ABD", f"{CAT}\n{lists}"), (None, f"{CAT}\n{lists}\n1-3 ABD\n")):
        papers, refused, _ = bring(tmp_path, text, key=key)
        assert papers == []
        assert refused == [3]


@pytest.mark.parametrize(
    ("lists", "named"),
    [
        (FILLED.replace("( B )", "(  )"), "2"),
        (TICKED.replace(" ✓", ""), "2"),
        (TICKED.replace("C. sang", "C. sang √"), "2"),
        (LISTS.replace("A. sat", "A. sat  √"), "2-3"),
    ],
)
def test_marks_that_are_no_whole_key_are_named(tmp_path, lists, named):
    papers, refused, imports = bring(tmp_path, f"{CAT}\n{lists}")
    assert refused == []
    assert answers_of(papers) == [""]
    assert "√" not in str(papers)
    (note,) = imports[0].papers[0].notes
    assert f"were not read as answers: not exactly one at {named}; " in note


def test_brackets_before_questions(tmp_path):
    text = TEXT + QUESTIONS.replace("39.", "(B) 39.").replace("40.", "( A )40.")
    papers, refused, _ = bring(tmp_path, text)
    assert refused == []
    assert papers == [RACE]


def ticked(*options):
    """The lists with each of these options as it is given."""
    lists = LISTS
    for option in options:
        lists = lists.replace(option.replace("√", "").strip(" *\n"), option)
    return lists


@pytest.mark.parametrize(
    ("lists", "letters"),
    [
        (ticked("√ A. sat", "√ B. wrote", "√C. drew"), "ABC"),
        (ticked("√ A. sat", "√ B. wrote", "√ C. drew").replace("√", "☑"), "ABC"),
        (ticked("*A. sat", "*B. wrote", "*C. drew"), "ABC"),
        (ticked("√ A. sat", "  √ B. wrote", "\n√ C. drew"), "ABC"),
        (ticked("A. sat√  ", "√  C. sang", "√  D. sewed"), "ABC"),
        (ticked("√B. eat", "√C. sang", "√D. sewed"), "BCD"),
        # The first option is never the one: nothing tells whose the ticks are.
        (ticked("√ B. eat", "√ C. sang", "√ D. sewed"), ""),
    ],
)
def test_ticks_before_options(tmp_path, lists, letters):
    """A tick before B must not be read as one behind A: every answer would be one letter off."""
    papers, refused, imports = bring(tmp_path, f"{CAT}\n{lists}")
    assert refused == []
    assert answers_of(papers) == [letters]
    assert papers[0]["options"] == bring(tmp_path, f"{CAT}\n{LISTS}")[0][0]["options"]
    doubt = "the ticks at 1-3 may belong to the option before or after them"
    assert (doubt in imports[0].papers[0].notes) == (not letters)


@pytest.mark.parametrize("style", [" ({})", "（ {} ）", " [{}]"])
def test_brackets_behind_questions(tmp_path, style):
    questions = QUESTIONS.split("\n")
    heads = [at for at, line in enumerate(questions) if line.startswith(("39", "40"))]
    for at, letter in zip(heads, "BA", strict=True):
        questions[at] += style.format(letter)
    papers, refused, _ = bring(tmp_path, TEXT + "\n".join(questions))
    assert (refused, papers) == ([], [RACE])
    # One alone may be the question's own.
    questions[heads[1]] = questions[heads[1]].removesuffix(style.format("A"))
    papers, refused, _ = bring(tmp_path, TEXT + "\n".join(questions))
    assert refused == []
    assert "B" in papers[0]["questions"][0][-5:]
    assert not papers[0].get("answers")


def test_signs_that_are_options_stay(tmp_path):
    lists = LISTS.replace("A. sat B. eat", "A. √ B. √2")
    papers, _, _ = bring(tmp_path, f"{CAT}\n{lists}", key="1-3 ABC")
    assert papers[0]["options"][0] == ["√", "√2", "hat", "fat"]


def test_ticks_in_a_list_for_all_blanks_are_taken_off(tmp_path):
    papers, _, imports = bring(tmp_path, f"{CAT}\nA. sat\nB. drank √\nC. barked\n\n1-3 ABC\n")
    assert papers[0]["options"] == [["sat", "drank", "barked"]] * 3
    assert "ticks at B of its list were removed" in imports[0].papers[0].notes


EXPLAINED = {
    "Chinese": "1.A【解析】考查动词。A. sat 坐;B. eat 吃。\n2. B【解析】略\n3.A【详解】略",
    "Chinese, said": "1. 答案：A  解析：句意：猫。\n\n2. 答案：B  解析：略\n\n3. 答案：A",
    "behind, with a heading": (
        "Answer Key\n1. A. The verb 'sat' fits, because a cat\nsits and does not fly.\n"
        "2. B. She was there before, and so she left.\n3. A. The third is the right one here."
    ),
    "below": "Answers and explanations\n1. A\nExplanation: the first is the verb that fits "
    "what is said.\n2. B\nExplanation: see above.\n3. A\nExplanation: likewise.",
    "a number above each letter": "Key\n1\nA\n2\nB\n3\nA",
    "equal signs": "Answers: 1=A; 2=B; 3=A",
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_explained_answers_are_read(tmp_path, name):
    text = f"{CAT}\n{LISTS}\n"
    for papers, refused, _ in (
        bring(tmp_path, f"{text}\n{EXPLAINED[name]}\n"),
        bring(tmp_path, f"Passage 1\n{text}{EXPLAINED[name]}\n\nPassage 2\n{TEXT}{QUESTIONS}"),
        bring(tmp_path, text, key=EXPLAINED[name]),
    ):
        assert refused == []
        assert answers_of(papers)[0] == "ABA"
        assert papers[0]["article"] == bring(tmp_path, text)[0][0]["article"]


@pytest.mark.parametrize("gap", ["", "\n"])
@pytest.mark.parametrize(
    "said", ["Answer: {}", "答案：{}  解析：由第一段可知。", "【答案】{}", "Key: ({})"]
)
def test_answers_under_their_questions(tmp_path, said, gap):
    lines = QUESTIONS.split("\n")
    at = next(at for at, line in enumerate(lines) if line.startswith("40"))
    under = ["\n".join(lines[:at]), "\n".join(lines[at:]).rstrip("\n")]
    text = TEXT + "".join(
        f"{each}\n{gap}{said.format(letter)}\n{gap}"
        for each, letter in zip(under, "BA", strict=True)
    )
    papers, refused, _ = bring(tmp_path, text)
    assert (refused, papers) == ([], [RACE])


@pytest.mark.parametrize("said", ["Answer: {}", "(Answer: {})", "【答案】{}", "答案：{} 解析：略"])
def test_answers_behind_their_last_options(tmp_path, said):
    lists = "\n".join(
        f"{line} {said.format(letter)}"
        for line, letter in zip(LISTS.splitlines(), "ABC", strict=True)
    )
    papers, refused, imports = bring(tmp_path, f"{CAT}\n{lists}")
    assert refused == []
    assert answers_of(papers) == ["ABC"]
    assert papers[0]["options"] == bring(tmp_path, f"{CAT}\n{LISTS}")[0][0]["options"]
    assert "its answers were taken from the answers next to its questions" in str(imports[0])
    # One alone is named, and does not stay in its option.
    alone = LISTS.replace("D. fat", f"D. fat {said.format('A')}")
    papers, refused, imports = bring(tmp_path, f"{CAT}\n{alone}")
    assert (refused, answers_of(papers)) == ([], [""])
    assert papers[0]["options"] == bring(tmp_path, f"{CAT}\n{LISTS}")[0][0]["options"]
    assert "not exactly one at 2-3" in str(imports[0])


@pytest.mark.parametrize(
    "option", ["in the key B", "Answer: maybe", "the answer is B, too", "Answer: B"]
)
def test_options_that_speak_of_answers_stay(tmp_path, option):
    papers, refused, _ = bring(tmp_path, f"{CAT}\n{LISTS.replace('D. fat', f'D. {option}')}")
    assert refused == []
    assert papers[0]["options"][0][3] == option


@pytest.mark.parametrize("place", ["____ ", "_____  ", "__{}__ ", "_{}_", "__ {} __ "])
def test_lines_for_the_answers_before_questions(tmp_path, place):
    questions = QUESTIONS
    for number, letter in ((39, "B"), (40, "A")):
        questions = questions.replace(f"{number}.", f"{place.format(letter)}{number}.")
    papers, refused, _ = bring(tmp_path, TEXT + questions)
    assert refused == []
    answered = RACE if "{}" in place else {k: v for k, v in RACE.items() if k != "answers"}
    assert [{k: paper.get(k) for k in answered} for paper in papers] == [answered]
    assert bool(papers[0].get("answers")) == ("{}" in place)


@pytest.mark.parametrize("word", ["Question {}:", "question {}.", "Q{}.", "Q. {})"])
def test_numbers_with_a_word(tmp_path, word):
    questions, said = QUESTIONS, ""
    for number, letter in ((39, "B"), (40, "A")):
        questions = questions.replace(f"{number}.", word.format(number))
        said += f"{word.format(number)} {letter}\n"
    papers, refused, _ = bring(tmp_path, f"{TEXT}{questions}\nAnswers\n{said}")
    assert (refused, papers) == ([], [RACE])
    # In running text the words stay.
    asked = f"{TEXT}Question 1: is this the end? {STORY}"
    (paper,), refused, _ = bring(tmp_path, f"{asked}\n{EXAM_LISTS}", key="36-38 DDA")
    assert refused == []
    assert "Question 1: is this the end?" in paper["article"]


UNREAD = {
    "two letters for one": ("Answers\n1-3 A/C B A", [1, 2, 3]),
    "two letters, no heading": ("1-3 A/C B A", [1, 2, 3]),
    "letters without numbers": ("Answers:\nABA", []),
    "one a line": ("Answers\nA\nB\nA", []),
    "behind their heading": ("答案：ABA", []),
    "letters with commas": ("Answer key: A, B, A", []),
    "words": ("1-3: sat, drank, barked", [1, 2, 3]),
    "numbers and words": ("1. sat 2. wrote 3. barked", [1, 2, 3]),
    "explained": ("Explanation: 1. A sat is right. 2. B she wrote it. 3. A is a sound.", [1, 2, 3]),
    "counting down": ("3-1 ABA", [1, 2, 3]),
    "twice, one a line": ("1. A\n2. B\n2. C\n3. A", [2]),
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_key_that_cannot_be_read_is_refused_wherever_it_stands(tmp_path, name):
    key, numbers = UNREAD[name]
    text = f"{CAT}\n{LISTS}\n"
    for papers, refused, imports in (
        bring(tmp_path, f"{text}{key}\n"),
        bring(tmp_path, f"Passage 1\n{text}{key}\n\nPassage 2\n{TEXT}{QUESTIONS}"),
        bring(tmp_path, text, key=key),
    ):
        assert set(refused) == set(numbers)
        assert [t for found in imports for t in found.all_troubles()]
        assert all(paper.get("answers", "") in ("", []) for paper in papers)
        assert "ABA" not in str(papers)


def test_the_way_out_of_a_key_that_cannot_be_read(tmp_path):
    text = f"{CAT}\n{LISTS}\nAnswers\n1-3 A/C B A\n"
    _, _, imports = bring(tmp_path, text)
    assert str(imports[0].all_troubles()[0]) == (
        "what looks like a key 1-3 cannot be read (line 7); "
        "write it as 36-40 ABCDA, or give it with --key"
    )
    papers, refused, imports = bring(tmp_path, text, key="1-3 ABA")
    assert refused == []
    assert answers_of(papers) == ["ABA"]
    assert "its own key cannot be read (line 7)" in imports[0].notes[0]


def test_two_keys_must_say_the_same(tmp_path):
    text = f"{CAT}\n{LISTS}\nAnswers\n1-3 ABC\n"
    papers, refused, _ = bring(tmp_path, text, key="1-3 ABC")
    assert (refused, answers_of(papers)) == ([], ["ABC"])
    _, refused, imports = bring(tmp_path, text, key="1-3 ACC")
    assert refused == [2]
    said = str(imports[0].all_troubles()[0])
    assert said.startswith("2 is B in the paper's own key, but C in ")
    assert said.endswith(" (line 7; key.txt, line 1); keep only one of them")


@pytest.mark.parametrize(
    "line",
    [
        "Answer sheet\n1.  2.  3.",
        "1-3 题，从A、B、C、D四个选项中选出最佳选项",
        "Questions and answers",
        "Total: 10 points. A: 9-10, B: 7-8",
        "They won 25-21. A better game nobody had seen in Boston from 1939-45.",
    ],
)
def test_what_is_no_key(tmp_path, line):
    _, refused, imports = bring(tmp_path, f"{CAT}\n{LISTS}\n{line}\n")
    assert refused == []
    assert imports[0].all_troubles() == []


SINGLE = {
    "no heading": "1. A\n2. B\n3. C",
    "a heading in the first line": "Answers: 1. A\n2. B\n3. C",
    "commas": "1,A\n2,B\n3,C",
    "the last by itself": "1-2 AB\n3. C",
    "no signs": "1 A\n2 B\n3 C",
}


@pytest.mark.parametrize("name", SINGLE)
def test_keys_of_one_answer_a_line(tmp_path, name):
    papers, refused, _ = bring(tmp_path, f"{CAT}\n{LISTS}\n{SINGLE[name]}\n")
    assert refused == []
    assert answers_of(papers) == ["ABC"]
