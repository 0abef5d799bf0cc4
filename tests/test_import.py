"""Printed papers, one layout after the other: each is placed whole, or refused by number."""

import json
import random
from collections import Counter

import pytest
from conftest import SAMPLE
from printed import draw, expected, print_papers

from albert_rc.data.readers import read_split
from albert_rc.errors import DataError, UsageError
from albert_rc.importing.run import import_papers

ARTICLE = (
    "Last Friday Tom was on the bus home when he _ a brown bag under his seat. Nobody around him "
    'seemed to _ it.\nHe opened it and saw a purse, some keys and a letter. "The owner must be '
    'very _," he thought.'
)
OPTIONS = [
    ["made", "lost", "sold", "found"],
    ["hear", "cook", "hate", "own"],
    ["worried", "proud", "lazy", "hungry"],
]
CLOZE = {"article": ARTICLE, "options": OPTIONS, "answers": ["D", "D", "A"]}
BREAD = (
    "It is widely believed that bread goes stale because it dries out. A simple test shows that "
    "this cannot be the whole story: a loaf in a bag still turns hard within days."
)
RACE = {
    "answers": ["B", "A"],
    "options": [
        ["bread keeps fresh", "water is not the only cause", "bags are useless", "bread is dry"],
        ["In a freezer.", "In a warm oven.", "In a bag.", "On a table."],
    ],
    "questions": ["The test shows that _.", "Where should a loaf be kept?"],
    "article": BREAD,
}
STORY = """\
    Last Friday Tom was on the bus home when he __36__ a brown bag
under his seat. Nobody around him seemed to __37__ it.
    He opened it and saw a purse, some keys and a letter. "The owner
must be very __38__," he thought.
"""
LISTS = """\
36. A. made     B. lost   C. sold  D. found
37. A. hear     B. cook   C. hate  D. own
38. A. worried  B. proud  C. lazy  D. hungry
"""
QUESTIONS = """\
39. The test shows that ______.
A. bread keeps fresh    B. water is not the only cause
C. bags are useless     D. bread is dry
40. Where should a loaf be kept?
A. In a freezer.
B. In a warm oven.
C. In a bag.
D. On a table.
"""
TEXT = """\
    It is widely believed that bread goes stale because it dries out.
A simple test shows that this cannot be the whole story: a loaf in a
bag still turns hard within days.
"""


def without_answers(paper):
    return {name: value for name, value in paper.items() if name != "answers"}


def styled(style):
    """The story with its blanks marked in another way."""
    text = STORY
    for number in (36, 37, 38):
        text = text.replace(f"__{number}__", style.format(number))
    return text


def bring(folder, text, key=None, name="exam.txt", encoding="utf-8"):
    """Import a text; its papers' JSON without ids, and the numbers that were refused."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    key_path = None
    if key is not None:
        key_path = folder / "key.txt"
        key_path.write_text(key)
    return understood(import_papers([path], key_path))


def understood(imports):
    papers = []
    for found in imports:
        for paper in found.papers:
            if paper.whole:
                content = paper.content()
                content.pop("id", None)
                papers.append(content)
    troubles = [trouble for found in imports for trouble in found.all_troubles()]
    return papers, sorted({number for trouble in troubles for number in trouble.numbers}), imports


WIDE = str.maketrans("0123456789ABCD.()", "０１２３４５６７８９ＡＢＣＤ．（）")
KEY = "\nAnswers\n36-38 DDA\n"
CHINESE = (
    "第二节 完形填空（共3小题；每小题1.5分，满分4.5分）\n"
    "阅读下面短文，从短文后各题所给的A、B、C和D四个选项中，选出可以填入空白处的最佳选项。\n\n"
)
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
A. It is when the body mends itself.
B. Some, however, need more.
C. Read a book instead.
D. Dreams are strange.
E. Coffee is popular.

36-38 ABC
"""
    papers, refused, imports = bring(tmp_path, text)
    shared = ["It is when the body mends itself.", "Some, however, need more."]
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


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8-sig", "read as UTF-8 with a byte order mark"),
        ("gb18030", "read as GB18030"),
        ("utf-16", "read as UTF-16"),
        ("utf-16-le", "read as UTF-16 without a byte order mark"),
    ],
)
def test_encodings(tmp_path, encoding, said):
    text = (CHINESE + STORY + LISTS + KEY).replace("\n", "\r\n")
    papers, refused, imports = bring(tmp_path, text, encoding=encoding)
    assert refused == []
    assert papers == [CLOZE]
    assert imports[0].notes == [said]


def test_an_encoding_that_is_not_certain_is_refused(tmp_path):
    text = STORY.replace("letter", "letter that “she” hadn’t sent") + LISTS
    with pytest.raises(DataError, match="save it as UTF-8"):
        bring(tmp_path, text, encoding="cp1252")


@pytest.fixture
def document():
    docx = pytest.importorskip("docx")
    return docx.Document()


def test_a_word_document(tmp_path, document):
    document.add_heading("2024 Examination", 1)
    document.add_paragraph("阅读下面短文，从A、B、C和D四个选项中选出最佳选项。")
    for part in STORY.replace("\n    ", "\0").split("\0"):
        paragraph = document.add_paragraph()
        for number, piece in enumerate(" ".join(part.split()).split("__")):
            # Blanks as Word's users draw them: underlined spaces around the number.
            paragraph.add_run(f"  {piece}  " if number % 2 else piece).underline = bool(number % 2)
    table = document.add_table(rows=3, cols=5)
    for row, options, number in zip(table.rows, OPTIONS, (36, 37, 38), strict=True):
        texts = [f"{number}.", *(f"{m}. {o}" for m, o in zip("ABCD", options, strict=True))]
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.add_paragraph("参考答案")
    table = document.add_table(rows=2, cols=4)
    for row, texts in zip(
        table.rows, (["题号", "36", "37", "38"], ["答案", "D", "D", "A"]), strict=True
    ):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    document.save(tmp_path / "exam.docx")
    papers, refused, _ = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert [p["options"] for p in papers] == [OPTIONS]
    assert papers[0]["answers"] == CLOZE["answers"]
    assert papers[0]["article"].replace(" ,", ",").replace(" _ ,", " _,") == ARTICLE


def test_the_numbers_that_word_writes(tmp_path, document):
    document.add_paragraph(BREAD)
    for question, options in zip(RACE["questions"], RACE["options"], strict=True):
        document.add_paragraph(question.replace("_", "____"), style="List Number")
        for mark, option in zip("ABCD", options, strict=True):
            document.add_paragraph(f"{mark}. {option}")
    document.save(tmp_path / "exam.docx")
    papers, refused, imports = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert imports[0].papers[0].numbers == [1, 2]
    assert papers == [RACE | {"answers": []}]


def draw_pdf(path, columns, size=10):
    """A PDF with columns of lines, each column at its place: (left, top, lines)."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(path), pagesize=(595, 842))
    for page in columns:
        for left, top, lines in page:
            canvas.setFont("Times-Roman", size)
            for number, line in enumerate(lines):
                indent = len(line) - len(line.lstrip())
                canvas.drawString(left + 4 * indent, 842 - top - 13 * number, line.strip())
        canvas.showPage()
    canvas.save()


def in_columns(lists):
    return [line for line in lists.splitlines() if line]


def test_a_pdf(tmp_path):
    first = ["Section A", "", *STORY.splitlines(), "", *in_columns(LISTS)]
    second = [
        "Section B",
        "",
        *TEXT.splitlines(),
        *in_columns(QUESTIONS),
        "",
        "Answers",
        "36-40 DDABA",
    ]
    draw_pdf(
        tmp_path / "exam.pdf",
        [[(60, 60, first), (290, 810, ["- 1 -"])], [(60, 60, second), (290, 810, ["- 2 -"])]],
    )
    papers, refused, _ = understood(import_papers([tmp_path / "exam.pdf"]))
    assert refused == []
    assert papers == [CLOZE, RACE]


def test_a_pdf_in_two_columns(tmp_path):
    left = ["Section A", "", *STORY.splitlines(), "", *in_columns(LISTS)]
    right = ["Section B", "", *TEXT.splitlines(), *in_columns(QUESTIONS)]
    draw_pdf(tmp_path / "exam.pdf", [[(40, 60, left), (310, 60, right)]], size=8)
    key = tmp_path / "key.txt"
    key.write_text("36-40 DDABA")
    papers, refused, _ = understood(import_papers([tmp_path / "exam.pdf"], key))
    assert refused == []
    assert papers == [CLOZE, RACE]


def test_files_that_cannot_be_read(tmp_path):
    for name, error, said in (
        ("exam.doc", UsageError, "save it as .docx"),
        ("exam.rtf", UsageError, "papers end in"),
        ("exam.docx", DataError, "no whole Word document"),
        ("exam.pdf", DataError, "no PDF that can be read"),
        ("exam.txt", DataError, "bytes that are no text"),
    ):
        path = tmp_path / name
        path.write_bytes(b"\0\1\2\0\0\xff")
        with pytest.raises(error, match=said):
            import_papers([path])
    with pytest.raises(DataError, match="no such file"):
        import_papers([tmp_path / "none.txt"])


def test_without_the_extra_the_way_out_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "docx", None)
    monkeypatch.setitem(__import__("sys").modules, "pdfplumber", None)
    for name in ("exam.docx", "exam.pdf"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(UsageError, match=r'pip install "albert-rc\[import\]"'):
            import_papers([tmp_path / name])


def test_the_command(tmp_path, cli):
    good, bad = tmp_path / "exam 1 (A).txt", tmp_path / "bad.txt"
    good.write_text(f"{STORY}{LISTS}\n{TEXT}{QUESTIONS}\nAnswers\n36-40 DDABA\n")
    bad.write_text(STORY.replace("__37__", "want") + LISTS)
    out = tmp_path / "papers"
    done = cli("import", good, bad, "--out", out, "--split", "dev")
    assert done.returncode == 3
    assert "options 37 have no blank" in done.stdout
    assert "nothing was written" in done.stderr
    assert not out.exists()
    done = cli("import", good, bad, "--out", out, "--split", "dev", "--on-error", "skip", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["files"][1]["unplaced"][0]["numbers"] == [37]
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*")) == [
        "cloze/dev/exam_1_A-1.json",
        "race/dev/exam_1_A-2.txt",
    ]
    assert [p.filled()[:50] for p in read_split(out / "cloze" / "dev").passages] == [
        "Last Friday Tom was on the bus home when he found "
    ]
    assert [len(p.questions) for p in read_split(out / "race" / "dev").passages] == [2]
    done = cli("import", good, "--out", out, "--split", "../../x")
    assert done.returncode == 2
    assert "choose from" in done.stderr


def test_two_files_of_one_name(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "exam.txt").write_text(STORY + LISTS)
    with pytest.raises(UsageError, match="same names"):
        import_papers([tmp_path / "a" / "exam.txt", tmp_path / "b" / "exam.txt"])


def round_trip(folder, pool, draws):
    """Print papers in layouts drawn at random and import them: how many came back, and how."""
    tally = Counter()
    for number in range(draws):
        rng = random.Random(number)
        layout = draw(rng)
        papers = rng.sample(pool, rng.choice((1, 1, 2, 3)))
        sheet, key = print_papers(papers, layout, rng)
        path = folder / f"{number}.txt"
        path.write_text(f"{sheet}\n\n{key}\n" if layout.answers else sheet)
        (found,) = import_papers([path])
        wanted = [expected(paper, layout.answers) for paper in papers]
        whole = [paper for paper in found.papers if paper.whole]
        for paper in whole:
            content = {"answers": [], **paper.content()}
            content.pop("id", None)
            said = found.all_troubles() or any("end of a line" in note for note in paper.notes)
            tally["exact" if content in wanted else "told" if said else "wrong"] += 1
        tally["papers"] += len(papers)
        tally["lost"] += len(whole) < len(papers) and not found.all_troubles()
    return tally


def test_the_sample_comes_back(tmp_path):
    cloze = sorted((SAMPLE / "cloze").glob("*/*.json"))
    pool = [json.loads(path.read_text()) for path in (*cloze, *(SAMPLE / "race").rglob("*.txt"))]
    tally = round_trip(tmp_path, sorted(pool, key=str), 120)
    assert tally["wrong"] == tally["lost"] == 0, tally
    assert tally["exact"] >= 0.97 * tally["papers"], tally


def test_real_papers_come_back(tmp_path, real_data):
    paths = sorted((real_data / "ele").rglob("*.json"))[:260]
    read = [json.loads(path.read_text()) for path in paths]
    # Some have the instruction of their sheet inside, which import rightly leaves out.
    pool = [
        paper
        for paper in read
        if isinstance(paper, dict) and not paper["article"].startswith(("For each", "(A", "Direct"))
    ][:200]
    tally = round_trip(tmp_path, pool, 120)
    assert tally["wrong"] == tally["lost"] == 0, tally
    assert tally["exact"] >= 0.95 * tally["papers"], tally
