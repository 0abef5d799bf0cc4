"""Pictures of pages through the real text recognition: prints, scans, phones."""

import json

import numpy as np
import pytest
from PIL import Image

from albert_rc.errors import DataError
from albert_rc.papers.formats import read_split
from albert_rc.printed.render.pdf import pdf_bytes
from albert_rc.printed.render.sheet import make_sheet
from albert_rc.printed.run import import_papers

pytest.importorskip("rapidocr", reason="no rapidocr; pip install 'albert-rc[ocr]'")
pypdfium2 = pytest.importorskip("pypdfium2")
pytest.importorskip("reportlab")

TEXT = (
    "When Mom pulled in the driveway , Grandpa was weeding his garden . He stood up and _ us with "
    "open arms . In his muddy gloves he looked _ like the man I remembered . He let his hair _ and "
    "smiled . I was glad to see him ."
)
OPTIONS = [
    ["charge", "greet", "treat", "reward"],
    ["nothing", "everything", "anything", "something"],
    ["grow", "stay", "turned to", "wild"],
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A printed paper as a picture at 200 dots an inch."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "one.json").write_text(json.dumps({"article": TEXT, "options": OPTIONS}))
    document = pypdfium2.PdfDocument(pdf_bytes(make_sheet(read_split(folder))))
    drawn = document[0].render(scale=200 / 72).to_pil().convert("RGB")
    return drawn.crop((0, 0, drawn.width, drawn.height // 2))


def content(path):
    (found,) = import_papers([path])
    assert not found.all_troubles()
    (paper,) = found.papers
    assert any(note.startswith("text recognised in") for note in found.notes)
    return paper.article.replace(" .", ".").replace(" ,", ","), paper.options


def expected():
    return TEXT.replace(" .", ".").replace(" ,", ","), OPTIONS


def test_a_picture_is_read_as_it_was_printed(page, tmp_path):
    page.save(tmp_path / "exam.png")
    assert content(tmp_path / "exam.png") == expected()


@pytest.mark.slow
@pytest.mark.parametrize("turn", [90, 180, 270, 2, -3])
def test_a_turned_picture_too(page, tmp_path, turn):
    turned = page.rotate(turn, Image.Resampling.BICUBIC, expand=True, fillcolor="white")
    turned.save(tmp_path / "exam.jpg", quality=80)
    assert content(tmp_path / "exam.jpg") == expected()


@pytest.mark.slow
def test_a_pdf_without_text_is_read_from_its_pages(page, tmp_path):
    page.save(tmp_path / "scan.pdf", resolution=200)
    assert content(tmp_path / "scan.pdf") == expected()


@pytest.mark.slow
def test_pages_of_one_paper_lie_in_a_folder(page, tmp_path):
    folder = tmp_path / "exam"
    folder.mkdir()
    array = np.asarray(page)
    # Between the passage and its options.
    white = (array.min((1, 2)) > 200).nonzero()[0]
    cut = int(white[np.abs(white - int(0.62 * len(array))).argmin()])
    page.crop((0, 0, page.width, cut)).save(folder / "page1.png")
    page.crop((0, cut, page.width, page.height)).save(folder / "page2.png")
    assert content(folder) == expected()


@pytest.mark.slow
def test_what_cannot_be_read_is_not_taken_for_a_paper(page, tmp_path):
    from PIL import ImageFilter

    page.resize((page.width // 5, page.height // 5)).filter(ImageFilter.GaussianBlur(1.5)).save(
        tmp_path / "exam.jpg", quality=20
    )
    try:
        (found,) = import_papers([tmp_path / "exam.jpg"])
    except DataError:  # no text at all
        return
    assert not any(paper.whole for paper in found.papers)
