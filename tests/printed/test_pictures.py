"""Pictures of pages: rules, spaces, slanted lines, numbers that were overlooked."""

import numpy as np
import pytest

from albert_rc.errors import DataError, UsageError
from albert_rc.printed.build.doubts import report_doubts
from albert_rc.printed.lines import Doubt, Line, PrintedText, make_line
from albert_rc.printed.papers import Import, Paper
from albert_rc.printed.read.layout import Word, lines_of
from albert_rc.printed.run import import_papers
from albert_rc.printed.scan.blanks import apart, joined
from albert_rc.printed.scan.doubts import is_doubtful
from albert_rc.printed.scan.engine import Char
from albert_rc.printed.scan.glued import (
    STRETCHED,
    advance,
    as_blank,
    cuts,
    is_space,
    may_be_two,
    widest_white,
)
from albert_rc.printed.scan.leftover import with_leftover
from albert_rc.printed.scan.repair import repair
from albert_rc.printed.scan.second import agreed, is_unclear, with_usual_case
from albert_rc.printed.scan.straighten import fit

cv2 = pytest.importorskip("cv2")


def page(width=1200, height=800):
    return np.full((height, width), 235, np.uint8)


# Rules


@pytest.mark.parametrize("turn", [-2.0, 0.0, 2.0])
def test_rules_of_blanks_are_found_and_letters_are_not(turn):
    from albert_rc.printed.scan.rules import find_rules

    gray_HW = page()
    font = cv2.FONT_HERSHEY_COMPLEX
    cv2.putText(gray_HW, "He stood up mmmm EEEE and", (60, 200), font, 1.2, 20, 2)
    places = [(100, 260), (500, 540), (700, 900)]
    for left, right in places:
        cv2.line(gray_HW, (left, 400), (right, 400), 20, 2)
    cv2.line(gray_HW, (20, 600), (1180, 600), 20, 2)  # a frame's
    view_23 = cv2.getRotationMatrix2D((600, 400), turn, 1.0)
    turned_HW = cv2.warpAffine(gray_HW, view_23, (1200, 800), borderValue=235)
    found = sorted((rule.left, rule.right) for rule in find_rules(turned_HW, 40.0))
    assert len(found) == len(places)
    for (left, right), (l_, r_) in zip(places, found, strict=True):
        assert abs((r_ - l_) - (right - left)) < 8


def test_erased_rules_leave_paper():
    from albert_rc.printed.scan.rules import erase, find_rules

    gray_HW = page()
    cv2.line(gray_HW, (100, 400), (260, 400), 20, 2)
    page_HW3 = np.repeat(gray_HW[..., None], 3, 2)
    assert erase(page_HW3, find_rules(gray_HW, 40.0), 40.0).min() == 235
    assert page_HW3.min() == 20, "the picture itself must stay"


# Spaces


def test_words_are_cut_where_white_is_as_wide_as_a_space():
    assert cuts("soon.One", [0, 0, 1, 2, 12, 1, 1], 12) == [5]
    assert cuts("wordsvery", [1, 1, 0, 1, 13, 0, 1, 0], 12) == [5]
    assert cuts("stomachache", [1] * 10, 12) == []
    assert cuts("all", [1, 13], 12) == [], "it is a word"
    # No word, but both parts are: less white is enough.
    assert cuts("himto", [1, 1, 6, 1], 12) == [3]
    assert cuts("daycare", [1, 1, 4, 1, 1, 1], 12) == []
    assert cuts("11.", [9, 9], 12) == []


def test_white_like_a_space_inside_a_word_is_doubtful():
    assert may_be_two("days", [1, 1, 11], 12)
    assert not may_be_two("days", [1, 1, 3], 12)
    assert not may_be_two("all", [1, 10], 12), "slim letters have white beside them"
    assert not may_be_two("soon.One", [0, 0, 1, 2, 12, 1, 1], 12), "that is cut"


def test_spaces_that_are_none():
    assert not is_space("al", "l", 0.5)
    assert is_space("al", "l", 0.6)
    assert is_space("will", "end", 0.2)
    assert is_space("day", "s", 0.5)
    assert is_space("hasn't", "rained", 0.5)
    assert not is_space("gar", "den.", 0.2)
    assert is_space("al", "l", 1.2)
    assert is_space("so", "me", 0.6), "two words, and perhaps one"
    assert is_space(",", "and", 0.2)
    assert is_space("xq", "den", 0.6)


def test_a_word_that_is_too_wide_for_its_letters_lacks_some():
    even = advance("sounds", [0, 10, 20, 30, 40, 50])
    assert even == 10
    assert advance("Illtry", [0, 6, 12, 26, 40, 50]) > STRETCHED * even
    assert advance("little", [0, 6, 11, 16, 24, 32]) < STRETCHED * even
    assert advance("a", [7]) == 0


def test_blanks_and_numbers_are_cut_from_words():
    assert cuts("and_6about", [1] * 9, 12) == [3, 5]
    assert cuts("a__20__.", [1] * 7, 12) == [1, 7]
    assert cuts("16happened", [1, 6] + [1] * 7, 12) == [2]
    assert cuts("Games1", [1] * 5, 12) == []
    assert cuts("21st", [1, 6, 1], 12) == []
    assert [as_blank(text) for text in ("_6", "__20__", "___", "20", "a_")] == [
        "__6__", "__20__", "__", None, None
    ]  # fmt: skip


def test_the_widest_white_of_a_strip():
    ink = [bool(int(c)) for c in "110001100000110"]
    assert widest_white(ink, 0, 15) == 5
    assert widest_white(ink, 0, 6) == 3
    assert widest_white(ink, 5, 7) == 0


# Blanks


def pieces(*given):
    """Words of a line of height 10, each given with its left and right edge."""
    return [Word(text, left, right, 0, 10) for text, left, right in given]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("___", 0, 10), ("36", 11, 16), ("____", 17, 30)], ["__36__"]),
        ([("36", 11, 16), ("____", 17, 30)], ["36__"]),
        ([("__36__", 0, 12), ("__", 14, 20)], ["__36__"]),
        ([("__1", 0, 12), ("__2__", 13, 20)], ["__12__"]),
        ([("__", 0, 10), ("__", 15, 25)], ["__"]),
        ([("________", 0, 40), (".", 42, 43)], ["________", "."]),
        ([("__36__", 0, 12), ("__37__", 14, 26)], ["__36__", "__37__"]),
        ([("was", 0, 10), ("__36__", 11, 20)], ["was", "__36__"]),
    ],
)  # fmt: skip
def test_the_parts_of_a_blank_become_one(given, expected):
    assert [word.text for word in joined(pieces(*given), 10.0)] == expected


def test_there_is_white_around_blanks():
    before, blank, after, sign = apart(
        pieces(("was", 0, 10), ("__1__", 10, 20), ("and", 20, 30), (".", 31, 32)), 10.0
    )
    assert (before.right, blank.left, blank.right, after.left) == (8, 10, 20, 22)
    assert sign.left == 31


# Slanted lines


def corners(x, y, length, slope, height=30):
    rise = slope * length
    return [[x, y], [x + length, y + rise], [x + length, y + rise + height], [x, y + height]]


def test_lines_of_a_page_seen_from_the_side_become_level_and_its_margin_upright():
    slopes = np.linspace(-0.04, 0.03, 20)
    lines = [corners(100 + 4 * i, 100 + 60 * i, 900, s) for i, s in enumerate(slopes)]
    corner_B42 = np.array(lines, np.float32)
    straight = fit(corner_B42, 1200, 1400)
    start_B2, end_B2 = corner_B42[:, 0], corner_B42[:, 1]
    x_B, y_B = straight.straighten(start_B2[:, 0], start_B2[:, 1])
    _, end_B = straight.straighten(end_B2[:, 0], end_B2[:, 1])
    assert np.abs(start_B2[:, 1] - end_B2[:, 1]).max() > 30
    assert np.abs(y_B - end_B).max() < 4
    assert np.ptp(start_B2[:, 0]) > 70
    assert np.ptp(x_B) < 8


def test_one_line_alone_is_levelled():
    straight = fit(np.array([corners(100, 100, 900, 0.02)], np.float32), 1200, 1400)
    _, (start, end) = straight.straighten(np.array([100.0, 1000.0]), np.array([100.0, 118.0]))
    assert abs(start - end) < 0.5
    none = fit(np.zeros((0, 4, 2), np.float32), 1200, 1400)
    assert none.straighten(np.array([7.0]), np.array([9.0])) == (7.0, 9.0)


# A second look


def chars(text, *certainties):
    places = [(i + 0.5) / len(text) for i in range(len(text))]
    given = certainties or (1.0,) * len(text)
    return [Char(*each) for each in zip(text, places, given, strict=True)]


def test_two_readings_that_agree_are_surer():
    first, second = chars("a cat", 1, 1, 0.4, 0.8, 1), chars("acat", 1, 0.7, 0.6, 1)
    assert is_unclear(first)
    assert not is_unclear(chars("a b", 1, 0.2, 1)), "spaces do not count"
    assert agreed(first, second) == chars("a cat", 1, 1, 0.7, 0.8, 1)


def test_where_two_readings_differ_the_surer_one_is_taken_and_marked():
    found = agreed(chars("arms , I", 1, 1, 1, 1, 1, 0.5, 1, 1), chars("arms . I"))
    assert "".join(c.text for c in found) == "arms . I"
    assert [c.text for c in found if c.certainty == 0] == ["."]
    # A letter more or less puts the word in doubt.
    assert min(c.certainty for c in agreed(chars("hit"), chars("hint"))) == 0
    assert min(c.certainty for c in agreed(chars("hint"), chars("hit"))) == 0
    assert agreed([], chars("x")) == []


def test_letters_that_look_alike_large_and_small_are_no_dispute():
    assert min(c.certainty for c in agreed(chars("so"), chars("sO"))) == 1
    assert min(c.certainty for c in agreed(chars("sa"), chars("sA"))) == 0
    words = ["sO", "So", "SO", "mcDonald", "iPhone", "A", "eBay"]
    assert [with_usual_case(word) for word in words] == ["so", *words[1:]]


# Ink that is left over


def test_a_full_stop_that_was_overlooked_is_told_by_its_shape():
    ink_HW = np.zeros((48, 200), np.uint8)
    ink_HW[12:36, 20:34] = 255  # a letter
    ink_HW[31:36, 120:125] = 255
    found = with_leftover([Char("a", 27 / 200, 1.0)], ink_HW)
    assert [(c.text, c.certainty > 0.8) for c in found if c.text != " "] == [
        ("a", True), (".", True)
    ]  # fmt: skip
    ink_HW[14:36, 120:132] = 255  # something else
    (char,) = with_leftover([Char("a", 27 / 200, 1.0)], ink_HW)
    assert char.certainty == 0
    ink_HW[:, 100:] = 0
    ink_HW[20, 100] = 255  # dirt
    assert with_leftover([Char("a", 27 / 200, 1.0)], ink_HW)[0].certainty == 1
    assert with_leftover([], ink_HW) == []


def test_a_sign_where_only_the_end_of_a_rule_is_left_was_not_there():
    ink_HW = np.zeros((48, 200), np.uint8)
    ink_HW[12:36, 20:34] = 255
    ink_HW[38:40, 95:105] = 255
    read = [Char("a", 27 / 200, 1.0), Char("?", 0.5, 1.0), Char(".", 0.5, 1.0)]
    assert [char.text for char in with_leftover(read, ink_HW)] == ["a", "."]


# What was overlooked


def texts(*rows):
    return [make_line(row, f"line {i}") for i, row in enumerate(rows, 1)]


def test_a_blanks_number_follows_from_those_around():
    lines, notes = repair(texts("He __1__ and __ it , but", "__3__ was __ __ then __5__ or __"))
    assert [line.text for line in lines] == [
        "He __1__ and __2__ it , but", "__3__ was __4__ then __5__ or __"
    ]  # fmt: skip
    assert lines[0].shadow == lines[0].text
    assert notes == [
        "the blank after 1 was read as 2 (line 1)", "the blank after 3 was read as 4 (line 2)"
    ]  # fmt: skip


def test_a_number_of_which_a_digit_was_lost_is_mended():
    lines, _ = repair(texts("__11__ or __1__ and __13__"))
    assert lines[0].text == "__11__ or __12__ and __13__"
    lines, _ = repair(texts("__19__ was", "on __2__ 0__ by"))
    assert lines[1].text == "on __20__ by"
    unclear = "__11__ or __ and __ or __14__"
    assert repair(texts(unclear))[0][0].text == unclear


def test_dirt_before_a_paragraph_goes():
    lines = [Line(", You can", ", You can", "line 1", indent=5), *texts(", You can")]
    assert [line.text for line in repair(lines)[0]] == ["You can", ", You can"]


# Doubts


def word(text, certainty):
    return Word(text, 0, 10, 0, 10, certainty)


def test_what_may_be_wrong_is_marked():
    said = [("garden", 0.5), ("garden", 0.2), ("Kowalczyk", 0.7), ("Kowalczyk", 0.95),
            ("1985", 0.6), ("A.", 0.1), ("__12__", 0.1), (",", 0.8), (",", 0.1),
            ("hadn't", 0.5)]  # fmt: skip
    found = [text for text, certainty in said if is_doubtful(word(text, certainty))]
    assert found == ["garden", "Kowalczyk", "1985", ","]


def test_lines_name_their_doubtful_words():
    words = [word("He", 1.0), Word("gardcn", 12, 40, 0, 10, 0.3, b"jpeg")]
    (line,), _ = lines_of([(words, 595)])
    assert line.text == "He gardcn"
    assert line.doubts == (Doubt("gardcn", b"jpeg", "page 1, line 1"),)


def paper(article):
    return Paper("cloze", [1], article, [""], [["a", "b"]], "line 1")


@pytest.mark.parametrize("keep", [False, True])
def test_a_paper_with_a_doubtful_word_is_not_whole(keep):
    found = Import("x.jpg", [paper("a gardcn _"), paper("a house _")], [], [], [])
    doubt = Doubt("gardcn", b"jpeg", "page 1, line 3")
    line = Line("a gardcn _", "a gardcn _", doubt.place, doubts=(doubt,))
    report_doubts(found, PrintedText([line], []), keep)
    assert [one.whole for one in found.papers] == [keep, True]
    said = found.doubt_notes if keep else [str(t) for t in found.papers[0].troubles]
    assert said[0].startswith("'gardcn' in 'a gardcn _' may have been misread")
    assert "page 1, line 3" in said[0]


def test_a_line_that_could_not_be_read_leaves_no_paper_whole():
    found = Import("x.jpg", [paper("a _"), paper("b _")], [], [], [])
    report_doubts(found, PrintedText([], [], [Doubt("", b"jpeg", "page 1, 30% down")]), True)
    assert not any(one.whole for one in found.papers)


# Files


def test_files_that_are_no_pictures_say_so(tmp_path):
    bad = tmp_path / "exam.jpg"
    bad.write_bytes(b"\xff\xd8\xff\xe0 not a picture")
    with pytest.raises(DataError, match=r"exam\.jpg: .*save it as PNG or JPEG"):
        import_papers([bad])
    (tmp_path / "exam.heic").write_bytes(b"x")
    with pytest.raises(UsageError, match="save it as JPEG"):
        import_papers([tmp_path / "exam.heic"])
    folder = tmp_path / "pages"
    folder.mkdir()
    with pytest.raises(DataError, match="no pictures in this folder"):
        import_papers([folder])
    (folder / "page1.jpg").write_bytes(b"x")
    (folder / "page2.HEIC").write_bytes(b"x")
    with pytest.raises(
        UsageError, match=r"page2\.HEIC: a folder of pictures must hold nothing but"
    ):
        import_papers([folder])


def test_pictures_of_too_many_pixels_are_refused(tmp_path, monkeypatch):
    from PIL import Image

    from albert_rc.printed.scan import pictures

    Image.new("L", (60, 50), "white").save(tmp_path / "page.png")
    monkeypatch.setattr(pictures, "LARGEST", 2000)
    with pytest.raises(DataError, match="60 x 50 pixels are too many"):
        list(pictures.read_pictures(tmp_path / "page.png"))


def test_pictures_are_turned_as_the_phone_says_and_transparent_ones_are_on_paper(tmp_path):
    from PIL import Image

    from albert_rc.printed.scan.pictures import read_pictures

    turned = Image.new("RGB", (60, 40), "white")
    exif = turned.getexif()
    exif[0x0112] = 6  # a quarter to the right
    turned.save(tmp_path / "turned.jpg", exif=exif)
    assert [p.shape for p in read_pictures(tmp_path / "turned.jpg")] == [(60, 40, 3)]
    Image.new("RGBA", (60, 40), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert next(iter(read_pictures(tmp_path / "clear.png"))).min() == 255
    pages = [Image.new("L", (20, 30), shade) for shade in (10, 200)]
    pages[0].save(tmp_path / "fax.tif", save_all=True, append_images=pages[1:])
    assert [int(p[0, 0, 0]) for p in read_pictures(tmp_path / "fax.tif")] == [10, 200]
