"""The files that papers come in: text in its encodings, Word, PDF, and what cannot be read."""

import json
import re

import pytest
from exam import (
    ARTICLE,
    BREAD,
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
    understood,
)  # fmt: skip
from pdfs import objects_of, page_of, pdf_of

from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import to_json
from albert_rc.papers.formats import read_split
from albert_rc.printed.build.write import write_papers
from albert_rc.printed.extract import read_printed
from albert_rc.printed.run import import_papers


def test_characters_that_a_pdf_does_not_name_are_said(tmp_path):
    """Fonts of some programs have no table from glyphs to letters."""
    lines = [line.replace("Friday", "\x01iday") for line in (STORY + LISTS + KEY).split("\n")]
    lines[0] = f"\x7f {lines[0]}"
    (tmp_path / "exam.pdf").write_bytes(pdf_of(objects_of([page_of(lines)])))
    (found,) = import_papers([tmp_path / "exam.pdf"])
    (paper,) = found.papers
    assert paper.article.startswith("•")
    odd = "\n".join(lines).count("\x01")
    assert odd
    assert any(
        note.startswith(f"page 1: {odd} word{'s' * (odd > 1)} with characters that the file does")
        for note in found.notes
    ), found.notes


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
        bring(tmp_path, text, encoding="mac_roman")
    _, refused, imports = bring(tmp_path, text + KEY, encoding="cp1252")
    assert refused == []
    assert imports[0].notes == ["read as Windows-1252"]


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


KEY_TABLES = {
    "a number and a letter a row, A first": [["36", "A"], ["37", "D"], ["38", "B"]],
    "under a header": [["Number", "Answer"], ["36", "A"], ["37", "D"], ["38", "B"]],
    "a range before letters in their order": [["36-37", "A", "D"], ["38", "B"]],
    "rows": [["No.", "36", "37", "38"], ["Key", "A", "D", "B"]],
}


@pytest.mark.parametrize("name", KEY_TABLES)
def test_key_tables_in_word(tmp_path, document, name):
    rows = KEY_TABLES[name]
    for line in (STORY + LISTS).splitlines():
        document.add_paragraph(line)
    for heading in ("", "Answers"):
        if heading:
            document.add_paragraph(heading)
        table = document.add_table(rows=len(rows), cols=max(map(len, rows)))
        for row, texts in zip(table.rows, rows, strict=True):
            for cell, text in zip(row.cells, texts, strict=False):
                cell.text = text
        document.save(tmp_path / "exam.docx")
        papers, refused, _ = understood(import_papers([tmp_path / "exam.docx"]))
        assert refused == []
        assert [paper["answers"] for paper in papers] == [["A", "D", "B"]]


@pytest.mark.parametrize(
    ("first", "key"), [("No.", False), ("", False), ("36-39", True), ("Answers", True)]
)
def test_a_table_with_letters_above_is_one_of_options(tmp_path, document, first, key):
    table = document.add_table(rows=2, cols=5)
    texts = [[first, *"ABCD"], ["36", *OPTIONS[0]]]
    for row, cells in zip(table.rows, texts, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.save(tmp_path / "exam.docx")
    lines = read_printed(tmp_path / "exam.docx").lines
    assert (len(lines) == 2) == key
    assert ("A. made" in lines[-1].text) != key


@pytest.mark.parametrize("kind", ["PAGE", "COLUMN", "LINE"])
def test_breaks_in_a_paragraph_of_word_are_not_dropped(tmp_path, document, kind):
    from docx.enum.text import WD_BREAK

    paragraph = document.add_paragraph("36. A. made")
    paragraph.add_run().add_break(getattr(WD_BREAK, kind))
    paragraph.add_run("37. A. hear")
    document.save(tmp_path / "exam.docx")
    lines = [line.text for line in read_printed(tmp_path / "exam.docx").lines]
    assert lines == ["36. A. made", "37. A. hear"]


def test_rows_without_cells(tmp_path, document):
    from docx.oxml import OxmlElement

    table = document.add_table(rows=2, cols=5)
    for row, texts in zip(table.rows, [["36", *OPTIONS[0]], ["37", *OPTIONS[1]]], strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    for at in (0, 1):
        table.rows[at]._tr.addprevious(OxmlElement("w:tr"))
    empty = document.add_table(rows=1, cols=1)
    empty._tbl.remove(empty.rows[0]._tr)
    document.save(tmp_path / "exam.docx")
    lines = [line.text.split("\t") for line in read_printed(tmp_path / "exam.docx").lines]
    assert lines == [["36", *OPTIONS[0]], ["37", *OPTIONS[1]]]


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


def test_text_inside_tags_insertions_and_controls_of_word(tmp_path, document):
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn

    for part in STORY.replace("\n    ", "\0").split("\0"):
        document.add_paragraph(" ".join(part.split()))
    first, second = document.paragraphs[:2]
    run = first.runs[0]._r
    for kind in ("w:ins", "w:smartTag", "w:sdt"):  # each around the one before
        holder = OxmlElement(kind)
        run.addprevious(holder)
        (OxmlElement("w:sdtContent") if kind == "w:sdt" else holder).append(run)
        if kind == "w:sdt":
            content = run.getparent()
            holder.append(content)
        run = holder
    gone = OxmlElement("w:del")
    text = OxmlElement("w:r")
    text.append(OxmlElement("w:t"))
    text[0].text = "deleted"
    gone.append(text)
    first._p.append(gone)
    control, content = OxmlElement("w:sdt"), OxmlElement("w:sdtContent")
    second._p.addprevious(control)
    control.append(content)
    content.append(second._p)
    box = document.add_paragraph().add_run()._r
    for kind in ("w:pict", "w:txbxContent", "w:p", "w:r", "w:t"):
        box.append(OxmlElement(kind))
        box = box[-1]
    box.text = "36-38 DDA"
    for line in LISTS.splitlines():
        document.add_paragraph(line)
    document.save(tmp_path / "exam.docx")
    assert qn("w:smartTag") in {element.tag for element in document.element.iter()}
    papers, refused, (found,) = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert papers == [{key: CLOZE[key] for key in ("article", "options")}]
    assert "the text box '36-38 DDA' was not read" in found.notes


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


def test_a_header_in_the_middle_of_a_sentence_is_no_break(tmp_path):
    above = "    It is widely believed that bread goes stale because the water in it, as"
    below = ["Professor Brown says, dries out. A simple test shows that this cannot", "be all."]
    pages = [["Hilltop School", "", "", above], ["Hilltop School", "", "", *below]]
    pages[1] += ["", *in_columns(QUESTIONS), "", "39-40 BA"]
    draw_pdf(tmp_path / "exam.pdf", [[(60, 60, lines)] for lines in pages])
    papers, refused, (found,) = understood(import_papers([tmp_path / "exam.pdf"]))
    assert refused == []
    assert papers == [RACE | {"article": " ".join([above.strip(), *below])}]
    assert "'Hilltop School', at the top of 2 pages, was left out" in found.notes


def test_a_pdf_in_two_columns(tmp_path):
    left = ["Section A", "", *STORY.splitlines(), "", *in_columns(LISTS)]
    right = ["Section B", "", *TEXT.splitlines(), *in_columns(QUESTIONS)]
    draw_pdf(tmp_path / "exam.pdf", [[(40, 60, left), (310, 60, right)]], size=8)
    key = tmp_path / "key.txt"
    key.write_text("36-40 DDABA")
    papers, refused, _ = understood(import_papers([tmp_path / "exam.pdf"], key))
    assert refused == []
    assert papers == [CLOZE, RACE]


def test_a_pdf_whose_right_column_is_short(tmp_path):
    lists = LISTS.splitlines()
    title = (
        40,
        30,
        ["A test of spring, with a title that is wider than one of the two columns is"],
    )
    left = ["Section A", "", *STORY.splitlines(), "", *lists[:2]]
    draw_pdf(
        tmp_path / "one.pdf",
        [[title, (40, 60, left), (310, 60, [lists[2], "", "Key: 36-38", "DDA"])]],
        size=8,
    )
    papers, refused, _ = understood(import_papers([tmp_path / "one.pdf"]))
    assert (papers, refused) == ([CLOZE], [])
    # The last page, which alone could not tell, is as the first.
    right = ["Section B", "", *TEXT.splitlines(), *in_columns(QUESTIONS)]
    last = [
        title,
        (40, 60, ["41. Who ate it?", "A. Tom. B. Ann.", "C. Sue. D. Bob."]),
        (310, 60, ["36-41 DDABAC"]),
    ]
    draw_pdf(
        tmp_path / "two.pdf",
        [[title, (40, 60, [*left, lists[2]]), (310, 60, right)], last],
        size=8,
    )
    papers, refused, _ = understood(import_papers([tmp_path / "two.pdf"]))
    assert refused == []
    assert [paper["answers"] for paper in papers] == [list("DDA"), list("BAC")]


def test_a_page_of_a_pdf_that_is_a_picture_is_named(tmp_path):
    image = pytest.importorskip("PIL.Image").new("L", (60, 80), 200)
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(tmp_path / "exam.pdf"))
    canvas.drawString(60, 700, "It is said that bread goes stale because it dries out.")
    canvas.showPage()
    canvas.drawInlineImage(image, 0, 0, 595, 842)
    canvas.showPage()
    canvas.showPage()  # an empty one
    canvas.save()
    printed = read_printed(tmp_path / "exam.pdf")
    assert printed.notes == ["page 2 is a picture without text, and was not read"]
    assert len(printed.lines) == 1


def test_a_locked_pdf(tmp_path):
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    path = tmp_path / "exam.pdf"
    canvas.Canvas(str(path), encrypt="secret").save()
    with pytest.raises(DataError, match="protected by a password"):
        import_papers([path])


def test_another_exam_of_the_same_name_replaces_nothing_for_good(tmp_path, cli):
    for day, word in (("mon", "hard"), ("tue", "dry")):
        (tmp_path / day).mkdir()
        (tmp_path / day / "exam.txt").write_text(
            f"{TEXT}\n{QUESTIONS}".replace("hard", word) + "\nAnswers\n39-40 BA\n"
        )
        done = cli("import", tmp_path / day / "exam.txt", "--out", tmp_path / "papers")
        assert done.returncode == 0, done.stderr
    (now,) = (tmp_path / "papers" / "race").glob("*.txt")
    before = now.with_name(now.name + ".replaced")
    assert "existed with different content, which is now in" in " ".join(done.stderr.split())
    assert json.loads(before.read_bytes()) != json.loads(now.read_bytes())
    assert [passage.id for passage in read_split(now.parent).passages] == [now.name]


def test_corrections_by_hand_outlive_several_imports(tmp_path):
    (paper,) = import_papers([written(tmp_path, "hard")])[0].papers
    write_papers([paper], tmp_path, None)
    ((path,), _) = write_papers([paper], tmp_path, None)
    path.write_text("corrected by hand")
    _, (first,) = write_papers([paper], tmp_path, None)
    (other,) = import_papers([written(tmp_path, "dry")])[0].papers
    _, (second,) = write_papers([other], tmp_path, None)
    assert first.read_text() == "corrected by hand"
    assert second.name == path.name + ".replaced-2"
    assert second.read_bytes() == to_json(paper.content())


def written(folder, word):
    path = folder / "exam.txt"
    path.write_text(f"{TEXT}\n{QUESTIONS}".replace("hard", word) + "\nAnswers\n39-40 BA\n")
    return path


def test_files_that_cannot_be_read(tmp_path):
    for name, error, said in (
        ("exam.doc", UsageError, "save it as .docx"),
        ("exam.rtf", UsageError, "of a paper must end in"),
        ("exam.docx", DataError, "not a complete Word document"),
        ("exam.pdf", DataError, "not a readable PDF"),
        ("exam.txt", DataError, "not a text file; save it"),
    ):
        path = tmp_path / name
        path.write_bytes(b"\0\1\2\0\0\xff")
        with pytest.raises(error, match=said):
            import_papers([path])
    path = tmp_path / "paper.txt"
    path.write_text(STORY + LISTS)
    with pytest.raises(UsageError, match=r"exam\.rtf: the file name of a key must end in"):
        import_papers([path], tmp_path / "exam.rtf")
    for key in (None, "none", "none.json"):
        with pytest.raises(DataError, match=r"none[.a-z]*: no such file"):
            import_papers([path] if key else [tmp_path / "none.txt"], key and tmp_path / key)


def test_without_the_extra_the_way_out_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "docx", None)
    monkeypatch.setitem(__import__("sys").modules, "pdfplumber", None)
    for name in ("exam.docx", "exam.pdf"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(UsageError, match=r'pip install "albert-rc\[import\]"'):
            import_papers([tmp_path / name])


def draw_blanks(path, rows, extra=()):
    """A PDF of rows of words and blanks; a blank is a drawn line, with its number or without."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(path), pagesize=(595, 842))
    canvas.setFont("Times-Roman", 11)
    for number, row in enumerate(rows):
        left, base = 60.0, 780 - 16 * number
        for part in row:
            width = 44 if isinstance(part, int) else canvas.stringWidth(part, "Times-Roman", 11)
            if isinstance(part, int):
                canvas.line(
                    left, base - 2, left + width / 2, base - 2
                )  # in two parts, as Word does
                canvas.rect(left + width / 2, base - 2.3, width / 2, 0.6, stroke=0, fill=1)
                if part:
                    canvas.drawString(left + 16, base, str(part))
            else:
                canvas.drawString(left, base, part)
            left += width + 4
    for line in extra:
        canvas.line(*line)
    canvas.save()


ROWS = [
    ["Last Friday Tom was on the bus home when he", 36, "a brown bag under his seat."],
    ["Nobody around him seemed to", 37, "it. In 38 years he had never been so"],
    [38, ", he thought, and that was a good day for him and for his old mother."],
    *([line] for line in LISTS.splitlines()),
]


def test_blanks_that_are_drawn_in_a_pdf(tmp_path):
    """As Word exports underlined numbers and spaces."""
    path = tmp_path / "exam.pdf"
    draw_blanks(path, ROWS)
    papers, refused, _ = understood(import_papers([path]))
    assert (refused, [paper["options"] for paper in papers]) == ([], [OPTIONS])
    assert "he _ a brown bag" in papers[0]["article"]
    assert "to _ it. In 38 years he had never been so _ , he" in papers[0]["article"]
    without = [[0 if isinstance(part, int) else part for part in row] for row in ROWS]
    draw_blanks(path, without)
    again, refused, (found,) = understood(import_papers([path]))
    assert (refused, again) == ([], papers)
    assert "blanks without numbers were read as 36-38, in order" in found.papers[0].notes


def test_drawn_lines_that_are_no_blanks(tmp_path):
    """Underlined words, lines across the page, and those of tables and frames."""
    path = tmp_path / "exam.pdf"
    width = 34
    words = (60, 746, 60 + width, 746)  # below a word of the third row
    page, box = (40, 764, 560, 764), [(400, 745, 440, 745), (400, 745, 400, 760)]
    rows = [*ROWS[:2], ["thought that", 38, "was a good day for him."], *ROWS[3:]]
    draw_blanks(path, rows, [words, page, *box])
    papers, refused, _ = understood(import_papers([path]))
    assert refused == []
    assert papers[0]["article"].count("_") == 3


def test_symbols_and_pictures_of_word(tmp_path, document):
    from docx.oxml import parse_xml
    from docx.oxml.ns import nsdecls

    def run(content):
        spaces = nsdecls("w", "a")
        document.paragraphs[-1]._p.append(parse_xml(f"<w:r {spaces}>{content}</w:r>"))

    for part in STORY.replace("\n    ", "\0").split("\0"):
        before, *rest = re.split("__3([678])__", " ".join(part.split()))
        document.add_paragraph(before)
        for number, after in zip(rest[::2], rest[1::2], strict=True):
            circle = rf"EQ \o\ac(○,{int(number) - 5})"  # as a field draws it
            run(f'<w:instrText xml:space="preserve"> {circle} </w:instrText>')
            document.paragraphs[-1].add_run(after)
    for row, right in zip(LISTS.splitlines(), "DDA", strict=True):
        line = f"{int(row[1]) - 5}{row[2:]}"
        start, *options = line.replace("A.", "\0A.").replace("B.", "\0B.").split("\0")
        document.add_paragraph(f"{start}{options[0].rstrip()}")
        ticks = '<w:sym w:font="Wingdings" w:char="F0FC"/>'
        if right == "A":
            run(ticks)
        document.paragraphs[-1].add_run("\t" + options[1])
        if right == "D":
            run(ticks)
    document.add_paragraph()
    run("<w:drawing><a:blip/></w:drawing>")
    document.save(tmp_path / "exam.docx")
    papers, refused, (found,) = understood(import_papers([tmp_path / "exam.docx"]))
    assert refused == []
    assert papers == [CLOZE]
    assert any(note.startswith("1 picture in it was not read") for note in found.notes)
