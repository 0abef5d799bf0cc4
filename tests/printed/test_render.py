"""Papers that are printed come back as they were when they are imported."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib
import pytest
from conftest import SAMPLE

from albert_rc.errors import DataError, UsageError
from albert_rc.io.json import read_json
from albert_rc.papers.formats import read_split
from albert_rc.papers.schema import Passage, Question, gold_letters
from albert_rc.printed.render.docx import docx_bytes
from albert_rc.printed.render.pdf import pdf_bytes
from albert_rc.printed.render.sheet import make_sheet
from albert_rc.printed.run import import_papers

pytest.importorskip("docx")
pytest.importorskip("reportlab")
pytest.importorskip("pdfplumber")
PRINTERS = {"docx": docx_bytes, "pdf": pdf_bytes}


def plain(text):
    return " ".join(text.split())


def returned(papers, folder, kind, **how):
    """What an import makes of printed papers."""
    path = folder / f"exam.{kind}"
    path.write_bytes(PRINTERS[kind](make_sheet(papers, **how)))
    (found,) = import_papers([path])
    assert not found.all_troubles(), [str(trouble) for trouble in found.all_troubles()]
    return found.papers


def same(papers, found):
    """Whether texts, options and questions are those of the papers, but for white space."""
    assert len(found) == len(papers.passages)
    for passage, paper in zip(papers.passages, found, strict=True):
        content = paper.content()
        assert plain(content["article"]) == plain(passage.text)
        assert [[plain(o) for o in options] for options in content["options"]] == [
            [plain(o) for o in question.options] for question in passage.questions
        ]
        asked = [question.text for question in passage.questions]
        assert [plain(text) for text in content.get("questions", asked)] == list(map(plain, asked))


@pytest.mark.parametrize("kind", PRINTERS)
@pytest.mark.parametrize("place", ["cloze/dev", "cloze/test", "race/dev"])
def test_papers_come_back(tmp_path, kind, place):
    papers = read_split(SAMPLE / place)
    known = place.endswith("dev")
    found = returned(papers, tmp_path, kind, key=known, title="English test", first=21)
    same(papers, found)
    answers = [answer for paper in found for answer in paper.answers or []]
    assert answers == (gold_letters(papers.passages) if known else [])
    assert found[0].numbers[0] == 21


@pytest.mark.parametrize("kind", PRINTERS)
@pytest.mark.parametrize("words", [True, False])
def test_one_list_for_all_blanks_is_printed_once(tmp_path, kind, words):
    options = tuple("time home world river bread stone night glass".split())
    if not words:
        options = tuple(f"The {option} was nowhere to be seen that day." for option in options[:6])
    text = "It was late . _ But the boy went on . _ In the end he came to a house . _ He knocked ."
    blanks = tuple((i, i + 1) for i, sign in enumerate(text) if sign == "_")
    questions = tuple(Question(options, answer) for answer in (3, 0, 5))
    first = read_split(SAMPLE / "cloze/dev")
    papers = replace(first, passages=[Passage("b.json", text, questions, "cloze", blanks)])
    sheet = make_sheet(papers, key=True)
    assert [choice.options[0] for choice in sheet.parts[0].choices] == [f"A. {options[0]}"]
    found = returned(papers, tmp_path, kind, key=True)
    same(papers, found)
    assert found[0].answers == ["D", "A", "F"]
    # Other papers after it keep their own lists and numbers.
    found = returned(replace(papers, passages=[*papers.passages, *first.passages]), tmp_path, kind)
    assert [paper.numbers[0] for paper in found[:2]] == [1, 4]


@pytest.mark.parametrize("kind", PRINTERS)
def test_numbers_next_to_blanks_are_the_texts_own(tmp_path, kind):
    text = "It was in 1890 _ that 5 men came, and _ 3 of them sat at no. 12_ . He had $50 _ left."
    options = [["here", "there"]] * 4
    (tmp_path / "a.json").write_text(
        f'{{"article": "{text}", "options": {options}}}'.replace("'", '"')
    )
    papers = read_split(tmp_path / "a.json")
    (paper,) = returned(papers, tmp_path, kind)
    assert paper.article.replace("12 _", "12_") == text


@pytest.mark.parametrize("kind", PRINTERS)
def test_long_options_stand_below_each_other(tmp_path, kind):
    papers = read_split(SAMPLE / "cloze" / "dev")
    long = ("in spite of all that he had been told before", "as soon as possible", "at & <b>", "a")
    passages = [
        replace(
            p,
            questions=tuple(
                replace(
                    q,
                    options=tuple(
                        f"{option} {chr(97 + 10 * place + number) * 3}" for option in long
                    ),
                )
                for number, q in enumerate(p.questions)
            ),
        )
        for place, p in enumerate(papers.passages[:2])
    ]
    papers = replace(papers, passages=passages)
    same(papers, returned(papers, tmp_path, kind))


def test_the_command(tmp_path, cli):
    gold = SAMPLE / "cloze" / "dev"
    done = cli("render", gold, "--key", "--out", tmp_path / "exam.pdf", "--set", "first=31")
    assert done.returncode == 0, done.stderr
    assert "8 papers, numbers 31 to 109" in done.stdout
    again = cli("import", tmp_path / "exam.pdf", "--out", tmp_path / "papers")
    assert again.returncode == 0, again.stdout
    paths = sorted((tmp_path / "papers" / "cloze").glob("*.json"))
    assert len(paths) == 8
    first = read_json(paths[0])
    assert first["answers"] == gold_letters(read_split(gold).passages[:1])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("cloze/dev", "--out", "exam.txt"), 2, "must end in .docx or .pdf"),
        (("cloze/test", "--key", "--out", "exam.pdf"), 2, "questions without a right answer"),
        (("cloze/dev", "--font", "none.ttf", "--out", "e.pdf"), 3, "cannot be read as TrueType"),
        (("none", "--out", "exam.pdf"), 3, "no such file"),
        (("cloze/dev", "--first", 9950, "--out", "e.pdf"), 2, "9,950 to 10,028 go beyond 9,999"),
    ],
)
def test_what_cannot_be_printed_is_refused(tmp_path, cli, arguments, code, said):
    place, *rest = arguments
    done = cli("render", SAMPLE / place, *rest, cwd=tmp_path)
    assert (done.returncode, said in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert not list(tmp_path.iterdir())


def test_characters_that_no_document_can_hold_are_spaces(tmp_path, cli):
    paper = {"article": "It\f_ \u0007late.", "options": [["is\ufffe", "are"]], "answers": ["A"]}
    (tmp_path / "a.json").write_text(json.dumps(paper))
    for name in ("exam.docx", "exam.pdf"):
        done = cli(
            "render", tmp_path / "a.json", "--title", "One\x07", "--key", "--out", tmp_path / name
        )
        assert done.returncode == 0, done.stderr
        again = cli("import", tmp_path / name, "--out", tmp_path / name[:4] / name[-4:])
        assert again.returncode == 0, again.stdout
    refused = cli("render", tmp_path / "a.json", "--font", "x", "--out", tmp_path / "b.docx")
    assert "--font is only for .pdf" in refused.stderr


def test_signs_that_the_font_lacks_have_similar_ones(tmp_path):
    papers = read_split(SAMPLE / "cloze" / "dev")
    text = papers.passages[0].text + " ● He said it was a well‐known man's 5′ watch."
    passages = [replace(papers.passages[0], text=text)]
    (tmp_path / "a.pdf").write_bytes(pdf_bytes(make_sheet(replace(papers, passages=passages))))
    (found,) = import_papers([tmp_path / "a.pdf"])
    (again,) = found.papers
    assert again.article.endswith("• He said it was a well-known man's 5’ watch.")


def test_letters_that_the_font_lacks_are_named():
    papers = read_split(SAMPLE / "cloze" / "dev")
    passages = [replace(papers.passages[0], text=papers.passages[0].text + " 约会")]
    with pytest.raises(UsageError, match="the font lacks 会 约; give a TrueType font"):
        pdf_bytes(make_sheet(replace(papers, passages=passages)))
    with pytest.raises(DataError, match="cannot be read as TrueType"):
        pdf_bytes(make_sheet(papers), SAMPLE / "vocabulary" / "spiece.model")


def test_an_option_longer_than_a_page_is_named():
    question = Question(("went " * 900, "go"))
    papers = read_split(SAMPLE / "cloze" / "dev")
    passage = Passage("a", "He _ home .", (question,), "cloze", ((3, 4),))
    with pytest.raises(DataError, match=r"number 1 has an option .* print it as \.docx"):
        pdf_bytes(make_sheet(replace(papers, passages=[passage])))

    passage = Passage("a", "He _ and _ .", (question, question), "cloze", ((3, 4), (9, 10)))
    said = r"Cloze 1's list of options for all blanks has an option"
    with pytest.raises(DataError, match=said):
        pdf_bytes(make_sheet(replace(papers, passages=[passage])))


def test_a_damaged_font_is_refused(tmp_path):
    """reportlab ends with errors of many types."""
    whole = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    sheet = make_sheet(read_split(SAMPLE / "cloze" / "dev"))
    for size in (0, 3000, 50_000, 300_000):
        (tmp_path / "bad.ttf").write_bytes(whole.read_bytes()[:size])
        with pytest.raises(DataError, match=r"bad\.ttf: cannot be read as TrueType .*another font"):
            pdf_bytes(sheet, tmp_path / "bad.ttf")


def test_line_ends_of_windows_are_printed_with_a_font_of_ones_own():
    font = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    papers = read_split(SAMPLE / "cloze" / "dev")
    text = papers.passages[0].text + "\r\nThe end.\rReally."
    sheet = make_sheet(replace(papers, passages=[replace(papers.passages[0], text=text)]))
    assert sheet.parts[0].paragraphs[-2:] == ["The end.", "Really."]
    assert pdf_bytes(sheet, font).startswith(b"%PDF")


def test_papers_that_are_left_out_are_named(tmp_path, works):
    (tmp_path / "papers").mkdir()
    one = SAMPLE / "cloze" / "dev" / "dev0001.json"
    shutil.copyfile(one, tmp_path / "papers" / one.name)
    race = next((SAMPLE / "race" / "dev").rglob("*.txt"))
    papers = tmp_path / "papers"
    shutil.copyfile(race, papers / "z7.txt")
    done = works("render", papers, "--out", tmp_path / "exam.docx")
    assert "1 file skipped (z7.txt)" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("docx", 1000), ("pdf", 100)])
def test_real_papers_come_back(real_data, tmp_path, kind, count):
    papers = read_split(real_data / "ele" / "dev")
    for passage in papers.passages[:count]:
        one = replace(papers, passages=[passage])
        same(one, returned(one, tmp_path, kind, key=True))


@pytest.mark.parametrize(
    ("options", "answers", "once"),
    [
        (["a", "an", "the"], [0, 1, 1, 0, 2], False),
        (["a", "an", "the"], [None] * 3, False),
        (["in", "on", "at", "by", "to"], [0, 1, 0], False),
        (["in", "on", "at", "by", "to"], [None] * 6, False),
        (["in", "on", "at", "by", "to"], [0, 1, 2], True),
        (["in", "on", "at", "by", "to"], [None] * 5, True),
    ],
)
def test_a_shared_list_is_a_word_bank_only_where_each_option_may_be_used_once(
    sample, options, answers, once
):
    text = " and ".join("_" for _ in answers)
    blanks = tuple((match.start(), match.end()) for match in re.finditer("_", text))
    asked = tuple(Question(tuple(options), answer) for answer in answers)
    passage = Passage("p", text, asked, "cloze", blanks)
    (part,) = make_sheet(replace(read_split(sample / "cloze/dev"), passages=[passage])).parts
    assert len(part.choices) == 1
    assert ("at most once" in part.instruction) == once
